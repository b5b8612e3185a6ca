"""Pages, what can be clicked on them, and their text.

Observation modes: `text` and `text_rich` are the original's, quirks included; `compact` is ours, for small models: no
instruction (the prompt has it), lower case, product ids and chosen values behind what they belong to, so that a model
that reads from left to right has seen what it needs when it meets them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from webshop_env.catalogue import Products

MODES = ("text", "text_rich", "compact")
STYLES = ("faithful", "clean")
SUB_PAGES = ("description", "features", "reviews", "attributes")
CACHED = 1024  # pages whose texts and buttons are kept
LONG_QUERY = 256  # longer queries are hashed in state keys and their pages are not cached

Choices = tuple[tuple[str, str], ...]  # (group, value), in the order of choosing


@dataclass(frozen=True)
class Page:
    """Where the shopper is.

    kind is search, results, item, one of SUB_PAGES, or done. `opened` holds the products visited since the search page;
    the original marks them on results pages in text_rich.
    """

    kind: str
    query: str = ""
    number: int = 1
    asin: str = ""
    choices: Choices = ()
    opened: frozenset[str] = frozenset()

    @property
    def state_key(self) -> str:
        """Identifies the state, except for `opened`, which changes nothing that can be done or earned."""
        if self.kind == "search":
            return "search"
        query = self.query
        if len(query) > LONG_QUERY:
            query = blake2b(query.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        key = f"{self.kind}|{query}|{self.number}"
        if self.kind == "results":
            return key
        return f"{key}|{self.asin}|" + ";".join(f"{group}={value}" for group, value in sorted(self.choices))


class Renderer:
    """Texts and clickables of a catalogue's pages; without state of its own, so that environments share one."""

    def __init__(
        self,
        catalogue: Products,
        mode: str,
        results_per_page: int,
        max_results: int,
        show_attrs: bool,
        style: str = "faithful",
    ) -> None:
        self.catalogue = catalogue
        self.mode = mode
        self.clean = style == "clean"
        self.results_per_page = results_per_page
        self.max_results = max_results
        self.sub_pages = SUB_PAGES if show_attrs else SUB_PAGES[:3]
        self._cached_clickables = lru_cache(maxsize=CACHED)(self._clickables)
        self._cached_body = lru_cache(maxsize=CACHED)(self._body)

    def results(self, page: Page) -> tuple[str, ...]:
        """All asins that the page's query finds, best first."""
        return self.catalogue.search(page.query, self.max_results)

    def shown(self, page: Page) -> tuple[str, ...]:
        """The asins on a results page."""
        first = (page.number - 1) * self.results_per_page
        return self.results(page)[first : first + self.results_per_page]

    def _goes_on(self, page: Page) -> bool:
        """Whether `Next >` is there. The original's stays on the last page too, and leads to empty ones."""
        return not self.clean or page.number * self.results_per_page < len(self.results(page))

    def clickables(self, page: Page) -> Mapping[str, str]:
        """What can be clicked: its lower-case text -> "button", "product", or "option:" and the group's name."""
        page = replace(page, choices=(), opened=frozenset())
        return self._clickables(page) if len(page.query) > LONG_QUERY else self._cached_clickables(page)

    def _clickables(self, page: Page) -> dict[str, str]:
        if page.kind == "search":
            return {"search": "button"}
        if page.kind == "done":
            return {}
        found = {"back to search": "button"}
        if page.kind == "results":
            if page.number > 1:
                found["< prev"] = "button"
            if self._goes_on(page):
                found["next >"] = "button"
            return found | {asin.lower(): "product" for asin in self.shown(page)}
        found["< prev"] = "button"
        if page.kind in SUB_PAGES:
            return found
        found |= {name: "button" for name in (*self.sub_pages, "buy now")}
        for group, values in self.catalogue.products[page.asin]["options"].items():
            for value in values:
                # buttons win over options of the same text; of two groups with one value, the last gets the click
                if found.get(value) != "button":
                    found[value] = f"option:{group}"
        return found

    def text(self, page: Page, instruction: str) -> str:
        """The observation."""
        if self.mode == "text":
            kept = page.choices if self.clean else ()  # the original shows them nowhere in this mode
            page = replace(page, choices=kept, opened=frozenset())
        elif page.kind != "results":
            page = replace(page, opened=frozenset())
        elif page.opened:
            page = replace(page, opened=page.opened.intersection(self.shown(page)))
        head, body = (self._body if len(page.query) > LONG_QUERY else self._cached_body)(page)
        if self.mode == "compact" or page.kind == "done":
            return body
        if self.mode == "text":
            return f"{head}Instruction: [SEP] {instruction.strip()} [SEP] {body}"
        return f"{head}{'Instruction: ' if page.kind == 'search' else 'Instruction:'}\n{instruction}\n{body}"

    def _body(self, page: Page) -> tuple[str, str]:
        """What comes before the instruction, and what comes after it."""
        if self.mode == "compact":
            return "", self._compact(page)
        parts = self._parts(page)
        if self.mode == "text":
            head = "WebShop [SEP] " if page.kind == "search" else ""
            marked = (f"{words} (chosen)" if self.clean and role == "chosen" else words for role, words in parts)
            return head, " [SEP] ".join(words.strip() for words in marked)
        marks = [words for role, words in reversed(parts) if role == "chosen"]
        head = "".join(f"You have clicked {value}.\n" for value in marks) + (
            "WebShop\n" if page.kind == "search" else ""
        )
        return head, "".join(f"{_rich(role, words)}\n" for role, words in parts)

    def _parts(self, page: Page) -> list[tuple[str, str]]:
        """The page below the instruction as (role, words); roles are text, button, option, chosen, product, opened."""
        if page.kind == "search":
            return [("button", "Search")]
        if page.kind == "done":
            return [("text", "Thank you for shopping with us!"), ("text", f"Purchased: {page.asin}")]
        parts = [("button", "Back to Search")]
        if page.kind == "results":
            parts.append(("text", f"Page {page.number} (Total results: {len(self.results(page))})"))
            if page.number > 1:
                parts.append(("button", "< Prev"))
            if self._goes_on(page):
                parts.append(("button", "Next >"))
            for asin in self.shown(page):
                product = self.catalogue.products[asin]
                parts.append(("opened" if asin in page.opened else "product", asin))
                parts += [("text", product["Title"]), ("text", product["Price"])]
            return parts
        parts.append(("button", "< Prev"))
        product = self.catalogue.products[page.asin]
        if page.kind in SUB_PAGES:
            return parts + [("text", words) for words in _sub_page(page.kind, product)]
        # The original takes a value for chosen if it stands, in quotes, anywhere in the page's address.
        address = f"{page.query}/{json.dumps(dict(page.choices))}"
        chosen = dict(page.choices)
        for group, values in product["options"].items():
            parts.append(("text", group))
            for value in values:
                marked = chosen.get(group) == value if self.clean else f'"{value}"' in address
                parts.append(("chosen" if marked else "option", value))
        parts += [("text", product["Title"]), ("text", f"Price: {product['Price']}")]
        parts.append(("text", f"Rating: {product['Rating']}"))
        parts += [("button", name.capitalize()) for name in self.sub_pages]
        return [*parts, ("button", "Buy Now")]

    def _compact(self, page: Page) -> str:
        if page.kind == "search":
            return "search page"
        if page.kind == "done":
            return f"bought {page.asin.lower()}"
        if page.kind == "results":
            lines = [f"results page {page.number}"]
            for asin in self.shown(page):
                product = self.catalogue.products[asin]
                lines.append(f"{product['Title']} {product['Price']} [{asin}]")
            names = (["< prev"] if page.number > 1 else []) + (["next >"] if self._goes_on(page) else [])
            buttons = " ".join(f"[{name}]" for name in names)
            return "\n".join([*lines, buttons]).lower()
        product = self.catalogue.products[page.asin]
        if page.kind in SUB_PAGES:
            return "\n".join(
                [page.kind, *(words.strip() for words in _sub_page(page.kind, product)), "[< prev]"]
            ).lower()
        lines = [f"{product['Title']} {product['Price']}"]
        chosen = dict(page.choices)
        for group, values in product["options"].items():
            mark = f" chosen {chosen[group]}" if group in chosen else ""
            lines.append(f"{group} : {' '.join(f'[{value}]' for value in values)}{mark}")
        buttons = " ".join(f"[{name}]" for name in ("buy now", "< prev", *self.sub_pages))
        return "\n".join([*lines, buttons]).lower()


@lru_cache(maxsize=32)
def shared_renderer(
    catalogue: Products, mode: str, per_page: int, max_results: int, show_attrs: bool, style: str
) -> Renderer:
    """One renderer, with its caches, for all environments of a process that show pages alike."""
    return Renderer(catalogue, mode, per_page, max_results, show_attrs, style)


def _sub_page(kind: str, product: Mapping[str, Any]) -> list[str]:
    if kind == "description":
        return [product["Description"]]
    if kind == "features":
        return [f" {bullet}" for bullet in product["BulletPoints"]]
    if kind == "attributes":
        own = [f" {attribute}" for attribute in product["Attributes"]]
        return [*own, product["category"], product["query"], product["product_category"]]
    return []  # the public review file is empty


def _rich(role: str, words: str) -> str:
    if role == "text":
        return words
    indent = {"option": "  ", "chosen": "  ", "product": "\n", "opened": "\n"}.get(role, "")
    clicked = "clicked " if role in ("chosen", "opened") else ""
    return f"{indent}[{clicked}button] {words} [{clicked}button_]"
