"""The reward of a purchase, as the original WebShop computes it (Yao et al., 2022, section 3.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from rapidfuzz import fuzz
from rapidfuzz.utils import default_process

from webshop_env.nouns import title_nouns

# Names that the original reduces colours to; the first one found as a part of the text wins, so order matters.
COLORS = tuple(
    [
        "alabaster",
        "apricot",
        "aqua",
        "ash",
        "asphalt",
        "azure",
        "banana",
        "beige",
        "black",
        "blue",
        "blush",
        "bordeaux",
        "bronze",
        "brown",
        "burgundy",
        "camel",
        "camo",
        "caramel",
        "champagne",
        "charcoal",
        "cheetah",
        "chestnut",
        "chocolate",
        "christmas",
        "coffee",
        "cognac",
        "copper",
        "coral",
        "cranberry",
        "cream",
        "crystal",
        "dark",
        "denim",
        "eggplant",
        "elephant",
        "espresso",
        "fuchsia",
        "gold",
        "granite",
        "grape",
        "graphite",
        "grass",
        "gray",
        "green",
        "grey",
        "heather",
        "indigo",
        "ivory",
        "ivy",
        "khaki",
        "lavender",
        "lemon",
        "leopard",
        "light",
        "lilac",
        "lime",
        "magenta",
        "maroon",
        "mauve",
        "merlot",
        "midnight",
        "mint",
        "mocha",
        "multicolor",
        "mushroom",
        "mustard",
        "natural",
        "navy",
        "nude",
        "olive",
        "orange",
        "peach",
        "pewter",
        "pink",
        "plum",
        "purple",
        "rainbow",
        "red",
        "rose",
        "royal",
        "rust",
        "sand",
        "sapphire",
        "seashell",
        "silver",
        "skull",
        "slate",
        "steel",
        "stone",
        "stonewash",
        "sunflower",
        "tan",
        "taupe",
        "teal",
        "tiger",
        "turquoise",
        "violet",
        "walnut",
        "wheat",
        "white",
        "wine",
        "yellow",
    ]
)
MATCH_ABOVE = 85  # two texts are one option or attribute when their token set ratio is above this
_LATIN_1 = dict.fromkeys(range(128, 256))


def purchase_reward(
    product: Mapping[str, Any],
    goal: Mapping[str, Any],
    price: float,
    options: Mapping[str, str],
    *,
    goal_nouns: Sequence[str] | None = None,
    purchased_nouns: Sequence[str] | None = None,
) -> tuple[float, dict[str, Any]]:
    """Reward in 0..1 of buying `product` at `price` dollars with the chosen `options` (group -> value), and its parts.

        r = r_type * (attributes found + options found + [price <= limit]) / (attributes + options + 1)

    Args:
        product: a loaded product (keys query, product_category, name, Title, Attributes, BulletPoints, Description).
        goal: keys query, product_category, name, attributes, price_upper and goal_options (a list of values or a
            mapping group -> value; the two differ a little, as in the original).
        goal_nouns, purchased_nouns: lower-case nouns of the two names; found by `title_nouns` unless given.

    Returns:
        (reward, parts): parts holds r_type, r_att, r_option, r_price, their weights w_*, and query_match,
        category_match and title_score, which explain r_type. Without options in the goal, r_option is absent.

    Raises:
        TypeError: price_upper is not above 0. ZeroDivisionError: the goal has no attributes. (As in the original.)
    """
    if goal["price_upper"] <= 0:
        raise TypeError(f"price_upper is {goal['price_upper']}: a goal needs a price limit above 0 (1000000 for none).")
    if goal_nouns is None:
        goal_nouns = title_nouns(goal["name"])
    if purchased_nouns is None:
        purchased_nouns = title_nouns(product["name"])
    parts: dict[str, Any] = type_reward(product, goal, goal_nouns, purchased_nouns)
    wanted = len(goal["attributes"]) + len(goal["goal_options"]) + 1
    attributes = attribute_hits(product, goal["attributes"])
    chosen = option_hits(goal["goal_options"], options.values())
    cheap_enough = price <= goal["price_upper"]

    parts["r_att"] = attributes / len(goal["attributes"])
    parts["w_att"] = len(goal["attributes"]) / wanted
    if goal["goal_options"]:
        parts["r_option"] = chosen / len(goal["goal_options"])
        parts["w_option"] = len(goal["goal_options"]) / wanted
    parts["r_price"] = cheap_enough
    parts["w_price"] = 1 / wanted
    return (attributes + chosen + cheap_enough) / wanted * parts["r_type"], parts


def type_reward(
    product: Mapping[str, Any], goal: Mapping[str, Any], goal_nouns: Sequence[str], purchased_nouns: Sequence[str]
) -> dict[str, Any]:
    """Whether the product is of the wanted kind: r_type is 1, 0.5, 0.1 or 0.

    Nothing in common (query, two category levels, a fifth of the title's nouns) gives 0.5; a title with fewer than a
    tenth of the nouns gives 0.1, and one with none gives 0, even where query or category match.
    """
    query_match = product["query"] == goal["query"]
    shared = _levels(product["product_category"]) & _levels(goal["product_category"])
    category_match = len(shared) >= 2
    title_score = len(set(purchased_nouns) & set(goal_nouns)) / len(goal_nouns) if goal_nouns else 0.2
    r_type = 1.0 if query_match or category_match or title_score > 0.2 else 0.5
    if title_score < 0.1:
        r_type = 0.1
    if title_score == 0.0:
        r_type = 0.0
    return dict(r_type=r_type, query_match=query_match, category_match=category_match, title_score=title_score)


def attribute_hits(product: Mapping[str, Any], attributes: Iterable[str]) -> int:
    """How many wanted attributes the product has, in its list or as they stand in its texts."""
    hits = 0
    for wanted in attributes:
        if any(alike(own, wanted) for own in product["Attributes"]) or (
            wanted in product["Title"].lower()
            or wanted in " ".join(product["BulletPoints"]).lower()
            or wanted in product["Description"].lower()
        ):
            hits += 1
    return hits


def option_hits(wanted: Mapping[str, str] | Sequence[str], chosen: Iterable[str]) -> int:
    """How many wanted option values are among the chosen ones, whatever their group.

    With a mapping, the original compares the pair (group, value) as a text and takes its colour only if the whole
    group or value is a colour's name; that is kept.
    """
    pairs = wanted.items() if isinstance(wanted, Mapping) else wanted
    have = [normalize_color(value) for value in chosen]
    return sum(any(alike(value, target) for value in have) for target in map(normalize_color, pairs))


def normalize_color(value: Any) -> Any:
    """The first of COLORS that is in `value` (a part of a text, an element of a pair), else `value` itself."""
    return _color_of(value)


@lru_cache(maxsize=16384)
def _color_of(value: Any) -> Any:
    return next((color for color in COLORS if color in value), value)


@lru_cache(maxsize=16384)
def alike(one: Any, other: Any) -> bool:
    """Whether the token set ratio (0..100, rounded) of two texts is above MATCH_ABOVE."""
    return round(fuzz.token_set_ratio(_plain(one), _plain(other))) > MATCH_ABOVE


def _plain(value: Any) -> str:
    """Lower case, letters and digits only, without Latin-1 signs: what the original's fuzzy matcher compares."""
    return default_process(str(value).translate(_LATIN_1))


def _levels(product_category: str) -> set[str]:
    return {level.strip() for level in product_category.split("\u203a")}
