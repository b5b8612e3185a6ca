"""The closed vocabulary of the embedded catalogue: categories, product types, attributes, options and brands.

Attributes of one category, and option values that differ in words, never match each other in the reward's fuzzy
comparison (a test checks it), so that a wrong choice is wrong. Values that differ in a number only ("10 pound" and
"20 pound") may: the original's comparison is that lenient.
"""

from __future__ import annotations

from dataclasses import dataclass

BRANDS = [
    "norvik",
    "elmora",
    "tavish",
    "brisko",
    "calder",
    "dovani",
    "ferrow",
    "glenova",
    "harlow",
    "istara",
    "jovelle",
    "kestrel",
    "lumara",
    "merrick",
    "nolana",
    "orvella",
    "pelham",
    "quenby",
    "rosvik",
    "solara",
    "tolven",
    "ulrika",
    "vantis",
    "wexley",
    "yarrow",
    "zephyra",
    "amberly",
    "bexter",
    "corvane",
    "delmar",
]

COLORS = ["black", "white", "blue", "red", "green", "pink", "purple", "yellow", "orange", "brown"]
SIZES = ["small", "medium", "large"]
SHOE_SIZES = ["6", "7", "8", "9", "10"]
BED_SIZES = ["twin", "full", "queen", "king"]
LENGTHS = ["12 inch", "18 inch", "24 inch", "36 inch"]
PACKS = ["1 pack", "3 pack", "6 pack", "12 pack"]
FLAVORS = ["vanilla", "lemon", "honey", "caramel", "cinnamon", "strawberry", "mint", "original"]
SCENTS = ["lavender", "rose", "lemon", "mint", "coconut", "vanilla", "unscented"]
STORAGE = ["32gb", "64gb", "128gb", "256gb"]
WEIGHTS = ["5 pound", "10 pound", "20 pound", "30 pound"]
MATERIALS = ["bamboo", "metal", "glass", "walnut", "ceramic"]

GROUPS = {
    "color": COLORS, "size": SIZES, "shoe size": SHOE_SIZES, "bed size": BED_SIZES, "length": LENGTHS,
    "pack": PACKS, "flavor name": FLAVORS, "scent": SCENTS, "storage": STORAGE, "weight": WEIGHTS,
    "material": MATERIALS,
}  # fmt: skip


@dataclass(frozen=True)
class Category:
    """One category: its path, the attributes its products may have, and its types (name, usual price, groups)."""

    name: str
    path: str
    attributes: tuple[str, ...]
    types: tuple[tuple[str, int, tuple[str, ...]], ...]


def _category(name: str, path: str, attributes: str, *types: tuple[str, int, str]) -> Category:
    split = lambda text: tuple(part.strip() for part in text.split(","))  # noqa: E731
    return Category(name, path, split(attributes), tuple((kind, price, split(groups)) for kind, price, groups in types))


CATEGORIES = (
    _category(
        "fashion", "Clothing, Shoes & Jewelry \u203a Clothing",
        "machine washable, long sleeve, slim fit, quick drying, wrinkle resistant, soft cotton, high waist, "
        "stretch fabric",
        ("dress shirt", 30, "color, size"), ("hoodie", 35, "color, size"), ("rain jacket", 60, "color, size"),
        ("yoga pants", 28, "color, size"), ("pajama set", 32, "color, size"),
    ),
    _category(
        "shoes", "Clothing, Shoes & Jewelry \u203a Shoes",
        "non slip, memory foam, rubber sole, arch support, water resistant, open toe, ankle strap, faux leather",
        ("running shoes", 60, "color, shoe size"), ("sandals", 35, "color, shoe size"),
        ("slippers", 20, "color, shoe size"), ("hiking boots", 75, "color, shoe size"),
        ("loafers", 45, "color, shoe size"),
    ),
    _category(
        "bags", "Clothing, Shoes & Jewelry \u203a Luggage & Bags",
        "water resistant, faux leather, shoulder strap, laptop sleeve, anti theft, zipper closure, carry on, foldable",
        ("backpack", 45, "color, size"), ("tote bag", 30, "color, size"), ("suitcase", 80, "color, size"),
        ("gym bag", 35, "color, size"), ("wallet", 20, "color"),
    ),
    _category(
        "beauty", "Beauty & Personal Care \u203a Skin Care",
        "cruelty free, paraben free, sensitive skin, long lasting, hyaluronic acid, tea tree, fine lines, spf 50",
        ("face cream", 22, "scent, pack"), ("body lotion", 16, "scent, pack"), ("lip balm", 9, "scent, pack"),
        ("face mask", 14, "scent, pack"), ("hand soap", 12, "scent, pack"),
    ),
    _category(
        "hair", "Beauty & Personal Care \u203a Hair Care",
        "sulfate free, color safe, dry scalp, argan oil, anti frizz, damaged hair, heat protection, curly hair",
        ("shampoo", 15, "scent, pack"), ("conditioner", 15, "scent, pack"), ("hair mask", 18, "scent, pack"),
        ("hair dryer", 45, "color"), ("hair brush", 14, "color, pack"),
    ),
    _category(
        "snacks", "Grocery & Gourmet Food \u203a Snacks",
        "gluten free, non gmo, low carb, sugar added, high protein, freeze dried, certified organic, resealable bag",
        ("roasted almonds", 18, "flavor name, pack"), ("granola bars", 16, "flavor name, pack"),
        ("potato chips", 14, "flavor name, pack"), ("popcorn", 12, "flavor name, pack"),
        ("oatmeal cookies", 15, "flavor name, pack"),
    ),
    _category(
        "beverages", "Grocery & Gourmet Food \u203a Beverages",
        "caffeine free, plant based, single serve, usda organic, zero calorie, dark roast, fair trade, "
        "kosher certified",
        ("green tea", 14, "flavor name, pack"), ("ground coffee", 20, "flavor name, pack"),
        ("protein shake", 30, "flavor name, pack"), ("hot cocoa", 13, "flavor name, pack"),
        ("sparkling water", 17, "flavor name, pack"),
    ),
    _category(
        "electronics", "Electronics \u203a Audio & Video",
        "noise cancelling, wireless charging, fast bluetooth, water resistant, hands free, high definition, "
        "voice control, long battery",
        ("headphones", 65, "color"), ("portable speaker", 50, "color, size"), ("security camera", 55, "color, storage"),
        ("smart watch", 75, "color, size"), ("digital camera", 85, "color, storage"),
    ),
    _category(
        "computers", "Electronics \u203a Computers & Tablets",
        "quad core, touch screen, light weight, fast charging, backlit keyboard, anti glare, dual band, usb c",
        ("tablet", 85, "color, storage"), ("flash drive", 18, "color, storage"), ("tablet case", 25, "color, size"),
        ("wireless mouse", 22, "color, size"), ("laptop stand", 35, "color, material"),
    ),
    _category(
        "bedding", "Home & Kitchen \u203a Bedding",
        "machine washable, super soft, hypo allergenic, king pillow, deep pocket, egyptian cotton, cooling gel, "
        "fade resistant",
        ("sheet set", 45, "color, bed size"), ("comforter", 60, "color, bed size"), ("blanket", 35, "color, bed size"),
        ("mattress pad", 55, "bed size, pack"), ("duvet cover", 40, "color, bed size"),
    ),
    _category(
        "kitchen", "Home & Kitchen \u203a Kitchen & Dining",
        "dishwasher safe, non stick, bpa free, stainless steel, heat resistant, easy clean, leak proof, heavy duty",
        ("frying pan", 35, "color, size"), ("water bottle", 20, "color, size"), ("lunch box", 22, "color, size"),
        ("cutting board", 24, "material, size"), ("coffee mug", 15, "color, material"),
    ),
    _category(
        "furniture", "Home & Kitchen \u203a Furniture",
        "solid wood, easy assembly, heavy duty, space saving, tempered glass, lumbar support, living room, mid century",
        ("bookshelf", 80, "color, length"), ("desk lamp", 35, "color, length"), ("bar stool", 65, "color, material"),
        ("area rug", 70, "color, length"), ("coffee table", 85, "material, length"),
    ),
    _category(
        "sports", "Sports & Outdoors \u203a Exercise & Fitness",
        "non slip, sweat proof, quick release, carrying strap, extra thick, eco friendly, full body, high density",
        ("yoga mat", 28, "color, size"), ("dumbbell set", 60, "color, weight"), ("kettlebell", 45, "color, weight"),
        ("jump rope", 15, "color, pack"), ("camping tent", 90, "color, size"),
    ),
    _category(
        "pets", "Pet Supplies \u203a Dogs & Cats",
        "grain free, chew resistant, easy clean, washable cover, odor control, real chicken, limited ingredient, "
        "orthopedic foam",
        ("dog bed", 45, "color, size"), ("dog treats", 14, "flavor name, pack"), ("cat litter", 22, "scent, weight"),
        ("dog collar", 16, "color, size"), ("cat tree", 75, "color, length"),
    ),
)  # fmt: skip
