"""The shop's pages as HTML, for people. Every button is a form that sends one action of the environment."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from webshop_env.env import WebShopEnv
from webshop_env.pages import SUB_PAGES

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 0; color: #1b1b1b; background: #fff; }
header { background: #f3f1ea; border-bottom: 1px solid #d8d4c6; padding: .8rem 1.2rem; }
main { max-width: 56rem; margin: 1rem auto; padding: 0 1.2rem; }
form { display: inline; }
button { font: inherit; padding: .25rem .7rem; margin: .1rem; border: 1px solid #8a8674; border-radius: .3rem; background: #fff;
  cursor: pointer; }
button:hover, button:focus { background: #eee9d8; }
button[aria-pressed=true] { background: #24543b; border-color: #24543b; color: #fff; }
button.buy { background: #b4531a; border-color: #b4531a; color: #fff; }
input { font: inherit; padding: .3rem .5rem; width: 28rem; max-width: 70%; }
ol { padding-left: 1.4rem; } li { margin: .4rem 0; } td, th { text-align: left; padding: .1rem 1rem .1rem 0; }
.price { color: #b4531a; } .note { color: #6b6653; } .reward { font-size: 1.6rem; }
"""


def page(env: WebShopEnv, actions: Sequence[str], outcome: dict[str, Any] | None, note: str = "") -> str:
    """The page that the shopper stands on. outcome: info of the purchase, once it is made."""
    assert env.goal is not None
    body = done(env, outcome) if outcome is not None else shop(env)
    said = f'<p class="note" role="status">{escape(note)}</p>' if note else ""
    return document(
        f"<header><strong>WebShop</strong> &middot; <span id=goal>{escape(env.goal['instruction_text'])}</span><br>"
        f'<span class="note">{len(actions)} steps so far; task type: {escape(env.goal["difficulty"])}</span></header>'
        f"<main>{said}{body}</main>"
    )


def document(body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>WebShop</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>{body}</body></html>'
    )


def button(action: str, label: str, pressed: bool | None = None, kind: str = "") -> str:
    state = "" if pressed is None else f' aria-pressed="{str(pressed).lower()}"'
    kind = f' class="{kind}"' if kind else ""
    return (
        f'<form method="post"><button name="action" value="{escape(action, quote=True)}"{state}{kind}>'
        f"{escape(label)}</button></form>"
    )


def click(text: str, **more: Any) -> str:
    return button(f"click[{text.lower()}]", text, **more)


def shop(env: WebShopEnv) -> str:
    at, renderer = env.page, env.renderer
    if at.kind == "search":
        return (
            '<form method="post"><label>Search for <input name="query" autofocus maxlength="400"></label> '
            "<button>Search</button></form>"
        )
    can = renderer.clickables(at)
    parts = [click(name) for name in ("Back to Search", "< Prev", "Next >") if name.lower() in can]
    if at.kind == "results":
        total = len(renderer.results(at))
        first = (at.number - 1) * renderer.results_per_page
        parts.append(f"<h2>Results for {escape(at.query)}</h2><p>page {at.number}, {total} results</p>")
        parts.append(f'<ol start="{first + 1}">')
        for asin in renderer.shown(at):
            product = env.catalogue.products[asin]
            parts.append(
                f'<li>{click(asin)} {escape(product["Title"])} <span class="price">{escape(product["Price"])}</span></li>'
            )
        return "".join([*parts, "</ol>"])
    product = env.catalogue.products[at.asin]
    parts.append(f"<h2>{escape(product['Title'])}</h2>")
    if at.kind in SUB_PAGES:
        words = {
            "description": [product["Description"]],
            "features": product["BulletPoints"],
            "attributes": [*product["Attributes"], product["category"], product["query"], product["product_category"]],
        }.get(at.kind, ["No reviews."])
        return "".join([*parts, f"<h3>{at.kind.capitalize()}</h3>", *(f"<p>{escape(line)}</p>" for line in words)])
    chosen = dict(at.choices)
    for group, values in product["options"].items():
        buttons = (click(value, pressed=chosen.get(group) == value) for value in values)
        parts.append(f"<p><strong>{escape(group)}</strong> {' '.join(buttons)}</p>")
    parts.append(f'<p>Price: <span class="price">{escape(product["Price"])}</span></p>')
    parts += [click(name.capitalize()) for name in renderer.sub_pages]
    return "".join([*parts, "<p>", click("Buy Now", kind="buy"), "</p>"])


def done(env: WebShopEnv, outcome: dict[str, Any]) -> str:
    """The reward and what it is made of."""
    goal, bought = env.goal, outcome["purchased"]
    assert goal is not None
    product = env.catalogue.products[bought["asin"]]
    options = ", ".join(f"{group}: {value}" for group, value in bought["options"].items()) or "none"
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(value)}</td><td>{escape(why)}</td></tr>"
        for name, value, why in reward_rows(goal, outcome["reward_parts"])
    )
    return (
        f"<h2>Bought: {escape(product['Title'])}</h2><p>price ${bought['price']:.2f}; options {escape(options)}</p>"
        f'<p class="reward">reward <strong id=reward>{outcome["score"]:.3f}</strong></p><table>{rows}</table>'
        '<p><a href="/new">another goal</a> &middot; <a href="/again">the same goal again</a></p>'
    )


def reward_rows(goal: dict[str, Any], parts: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(name, value, what it means) of the parts of a reward."""
    limit = "no limit" if goal["price_upper"] >= 1_000_000 else f"at most ${goal['price_upper']:.2f}"
    options = goal["goal_options"]
    wanted = ", ".join(f"{k}: {v}" for k, v in options.items()) if isinstance(options, dict) else ", ".join(options)
    rows = [
        ("type", f"{parts['r_type']:g}", _type_words(parts)),
        ("attributes", f"{parts['r_att']:.0%}", f"wanted: {', '.join(goal['attributes'])}"),
        ("price", "yes" if parts["r_price"] else "no", limit),
    ]
    if "r_option" in parts:
        rows.insert(2, ("options", f"{parts['r_option']:.0%}", f"wanted: {wanted}"))
    return rows


def _type_words(parts: dict[str, Any]) -> str:
    same = [name for name, key in (("query", "query_match"), ("category", "category_match")) if parts[key]]
    return f"same {' and '.join(same) or 'nothing'}; {parts['title_score']:.0%} of the title's nouns"
