"""Product records in WebShop's file schema: what makes one usable, and the product that the environment works with."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Any

from webshop_env.nouns import title_nouns

NO_PRICE = 100.0  # the original's price of a product without one
MAX_ASIN = 10
TEXTS = ("asin", "name", "category", "query", "product_category", "full_description")


def unusable(record: Any) -> str | None:
    """Why a record cannot be loaded, in a few words; None for one that can. It is never an exception."""
    if not isinstance(record, Mapping):
        return f"it is a {type(record).__name__}, not an object"
    for name in TEXTS:
        if not isinstance(record.get(name), str):
            return f"{name} is {record.get(name)!r:.40}, not a text"
    if not record["asin"]:
        return "its asin is empty"
    bullets = record.get("small_description")
    if not isinstance(bullets, str) and not (isinstance(bullets, list) and all(isinstance(b, str) for b in bullets)):
        return f"small_description is {bullets!r:.40}, neither a text nor a list of texts"
    pricing = record.get("pricing")
    if pricing is not None and not isinstance(pricing, str):
        return f"pricing is {pricing!r:.40}, not a text"
    try:
        _prices(pricing)
    except ValueError:
        return f"pricing is {pricing!r:.40}, which holds no price"
    options = record.get("customization_options")
    if options is None or options == "":
        return None
    if not isinstance(options, Mapping):
        return f"customization_options is {options!r:.40}, not an object"
    for name, contents in options.items():
        if contents is None:
            continue
        if not isinstance(contents, list):
            return f"option {name!r} is {contents!r:.40}, not a list"
        if not all(isinstance(c, Mapping) and isinstance(c.get("value"), str) for c in contents):
            return f"option {name!r} has a value that is not a text"
    return None


def left_out(asin: str) -> bool:
    """Records that the original leaves out without a word."""
    return asin == "nan" or len(asin) > MAX_ASIN


def load_product(record: Mapping[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """A record of the product file, cleaned as the original does, with the nouns of its title stored."""
    bullets = record["small_description"]
    prices = _prices(record.get("pricing"))
    options = {
        name.lower(): [content["value"].strip().replace("/", " | ").lower() for content in contents]
        for name, contents in (record["customization_options"] or {}).items()
        if contents is not None
    }
    return {
        "asin": record["asin"],
        "name": record["name"],
        "Title": record["name"],
        "category": record["category"],
        "query": record["query"].lower().strip(),
        "product_category": record["product_category"],
        "Description": record["full_description"],
        "BulletPoints": bullets if isinstance(bullets, list) else [bullets],
        "pricing": prices,
        "Price": " to ".join(f"${price}" for price in prices),
        "options": options,
        "Attributes": attributes.get("attributes", ["DUMMY_ATTR"]),
        "Rating": "N.A.",
        "Reviews": [],
        "nouns": title_nouns(record["name"]),
    }


def search_text(product: Mapping[str, Any]) -> str:
    """What is indexed of a product: title, description, first feature and options, in lower case."""
    options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in product["options"].items())
    feature = product["BulletPoints"][0] if product["BulletPoints"] else ""
    return " ".join([product["Title"], product["Description"], feature, options]).lower()


def price_of(product: Mapping[str, Any]) -> float:
    """The price paid. Of a range the original draws one at random in each process; here the asin seeds the draw."""
    prices: list[float] = product["pricing"]
    return prices[0] if len(prices) == 1 else random.Random(product["asin"]).uniform(*prices)


def _prices(pricing: str | None) -> list[float]:
    """One price, or the two of a range."""
    return [float(re.sub(r"[^\d.]", "", part)) for part in (pricing or "").split("$")[1:]][:2] or [NO_PRICE]
