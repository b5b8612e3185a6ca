"""More categories for the large generated catalogue, and the words that make its titles and descriptions noisy.

As in `vocabulary`: attributes of one category never match each other in the reward's fuzzy comparison (a test checks
it). No filler holds an attribute's words, or a product would fulfil by accident what it does not offer.
"""

from __future__ import annotations

from webshop_env.vocabulary import CATEGORIES, _category

MORE_CATEGORIES = (
    _category(
        "office", "Office Products \u203a Office & School Supplies",
        "acid free, quick dry ink, refillable, spiral bound, non toxic, magnetic back, letter size, ergonomic grip",
        ("notebook", 12, "color, pack"), ("gel pens", 14, "color, pack"), ("desk organizer", 26, "color, material"),
        ("whiteboard", 45, "color, length"), ("file folders", 16, "color, pack"), ("paper shredder", 70, "color, size"),
    ),
    _category(
        "garden", "Patio, Lawn & Garden \u203a Gardening",
        "rust resistant, self watering, uv protected, frost proof, drainage holes, kink free, solar powered, weed barrier",
        ("flower pot", 22, "color, material"), ("garden hose", 38, "color, length"), ("bird feeder", 28, "color, size"),
        ("pruning shears", 20, "color, size"), ("patio umbrella", 75, "color, size"), ("raised bed", 80, "material, length"),
    ),
    _category(
        "baby", "Baby Products \u203a Nursery & Feeding",
        "bpa free, machine washable, fragrance free, anti colic, one hand fold, soft bristles, teething safe, spill proof",
        ("baby bottle", 15, "color, pack"), ("swaddle blanket", 26, "color, size"), ("sippy cup", 13, "color, pack"),
        ("baby wipes", 12, "scent, pack"), ("diaper bag", 48, "color, size"), ("play mat", 40, "color, size"),
    ),
    _category(
        "automotive", "Automotive \u203a Accessories",
        "universal fit, leak proof, all weather, scratch resistant, tool free, temperature resistant, streak free, odor free",
        ("floor mats", 45, "color, pack"), ("seat cover", 50, "color, size"), ("car charger", 18, "color, pack"),
        ("windshield wipers", 24, "length, pack"), ("trunk organizer", 32, "color, size"), ("tire inflator", 60, "color"),
    ),
    _category(
        "tools", "Tools & Home Improvement \u203a Hand & Power Tools",
        "magnetic tip, chrome vanadium, brushless motor, shock absorbing, quick change, rust proof, soft grip, led light",
        ("screwdriver set", 28, "color, size"), ("cordless drill", 85, "color, size"), ("tape measure", 14, "color, length"),
        ("wrench set", 42, "color, pack"), ("tool box", 50, "color, size"), ("work gloves", 16, "color, size"),
    ),
    _category(
        "toys", "Toys & Games \u203a Learning & Education",
        "non toxic paint, battery operated, remote control, glow in the dark, easy store, rounded edges, award winning, "
        "two players",
        ("building blocks", 35, "color, pack"), ("puzzle", 18, "size, pack"), ("plush bear", 22, "color, size"),
        ("board game", 30, "size, pack"), ("toy car", 25, "color, size"), ("art set", 27, "color, pack"),
    ),
    _category(
        "health", "Health & Household \u203a Vitamins & Wellness",
        "sugar free, third party tested, easy swallow, vegan capsule, dairy free, soy free, fast dissolving, high potency",
        ("multivitamin", 24, "flavor name, pack"), ("protein powder", 45, "flavor name, weight"),
        ("cough drops", 9, "flavor name, pack"), ("heating pad", 36, "color, size"), ("massage ball", 15, "color, pack"),
        ("sleep mask", 14, "color, material"),
    ),
    _category(
        "lighting", "Tools & Home Improvement \u203a Lighting & Ceiling Fans",
        "energy efficient, motion sensor, dimmable, flicker free, remote controlled, warm glow, plug in, shatter proof",
        ("floor lamp", 65, "color, material"), ("string lights", 22, "color, length"), ("night light", 13, "color, pack"),
        ("ceiling light", 70, "color, size"), ("table lamp", 40, "color, material"), ("light bulbs", 18, "color, pack"),
    ),
    _category(
        "music", "Musical Instruments \u203a Accessories",
        "low noise, gold plated, hand crafted, tuning stable, padded bag, height adjustable, solid spruce, beginner friendly",
        ("guitar strings", 12, "material, pack"), ("ukulele", 60, "color, size"), ("microphone stand", 38, "color, length"),
        ("drum sticks", 14, "material, pack"), ("music stand", 32, "color, size"), ("guitar strap", 20, "color, material"),
    ),
    _category(
        "party", "Home & Kitchen \u203a Event & Party Supplies",
        "reusable, double sided, pre assembled, food grade, tear resistant, photo ready, biodegradable, gold trim",
        ("balloon garland", 16, "color, pack"), ("paper plates", 13, "color, pack"), ("tablecloth", 19, "color, length"),
        ("gift bags", 15, "color, pack"), ("birthday banner", 11, "color, length"), ("serving tray", 26, "color, material"),
    ),
)  # fmt: skip

ALL_CATEGORIES = (*CATEGORIES, *MORE_CATEGORIES)

USES = (
    "home", "travel", "work", "gifts", "school", "summer", "winter", "parties", "men", "women", "kids", "beginners",
    "daily use", "small spaces", "families", "weekends",
)  # fmt: skip
STYLES = (
    "classic",
    "modern",
    "premium",
    "everyday",
    "essential",
    "deluxe",
    "original",
    "signature",
    "compact",
    "elegant",
)
SYLLABLES = (
    ("bel", "cor", "dan", "el", "far", "gil", "hal", "ker", "lor", "mar", "nor", "or", "pel", "quin", "ros", "sol", "tar",
     "ul", "ven", "wil"),
    ("a", "e", "i", "o", "u", "an", "en", "in", "on", "ar", "er", "or", "al", "el", "il", "ay", "ow", "eth", "ith", "oth"),
    ("bi", "co", "da", "fi", "go", "ka", "la", "mi", "na", "po", "ra", "si", "ta", "vo", "wa", "xa", "ya", "za", "dor",
     "mont"),
)  # fmt: skip
SENTENCES = (
    "Thousands of customers have written to us about it.",
    "It comes in a gift box with a card.",
    "Please read the measurements before you order.",
    "Our team answers every question within a day.",
    "Colors may look different on your screen.",
    "It was designed in our own studio.",
    "We send it from the nearest warehouse.",
    "A small company makes it in small batches.",
    "You can return it within thirty days.",
    "It is the newest member of the family.",
)
BULLETS = (
    "What you get: one set with instructions.",
    "Satisfaction: write to us if anything is wrong.",
    "Size: see the last picture.",
    "A gift that people remember.",
)
