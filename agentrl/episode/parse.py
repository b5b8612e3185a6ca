"""From a response to an action, by the rules of the GiGPO, PTGPO and PlanPO papers.

A good response reads <think>...</think><action>...</action>.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

INVALID = "<invalid>"
"""The action of every text that is none: to the advantage stage all such texts are one action."""

_TAGS = {
    tag: (re.compile(f"<{tag}>", re.IGNORECASE), re.compile(f"</{tag}>", re.IGNORECASE)) for tag in ("think", "action")
}
# CJK ideographs, and the punctuation, kana and hangul that come with them
_CJK = re.compile("[\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0002fa1f]")


def between(text: str, tag: str, most: int | None = None) -> tuple[list[str], str]:
    """(what stands between <tag> and the next </tag>, each time or at most `most` times; the text without these).

    Reads the text once: a pattern with `.*?` in it would look through the whole rest again behind every tag that is
    never closed.
    """
    start, end = _TAGS[tag]
    found: list[str] = []
    rest: list[str] = []
    at = 0
    while most is None or len(found) < most:
        opened = start.search(text, at)
        closed = end.search(text, opened.end()) if opened else None
        if opened is None or closed is None:
            break
        found.append(text[opened.end() : closed.start()])
        rest.append(text[at : opened.start()])
        at = closed.end()
    return found, "".join([*rest, text[at:]])


@dataclass(frozen=True)
class Parsed:
    action: str
    thought: str
    valid: bool
    reason: str = ""  # why it is not valid


@dataclass(frozen=True)
class ActionParser:
    """Text -> action.

    The text is lower-cased; the action is what stands between the first <action> and the first </action>, stripped.
    Valid needs both of these tags and (`require_think`) both think tags, each pair in order, a text that is not
    empty between the action tags, and (`allow_cjk` False) no Chinese, Japanese or Korean character anywhere.
    """

    require_think: bool = True
    allow_cjk: bool = False

    def __call__(self, text: str) -> Parsed:
        lower = text.lower()
        found, _ = between(text, "think", most=1)
        thought = found[0].strip() if found else ""
        reason = self._pair(lower, "action") or (self._pair(lower, "think") if self.require_think else "")
        if not reason and not self.allow_cjk and _CJK.search(text):
            reason = "a CJK character"
        if not reason:
            action = lower[lower.index("<action>") + len("<action>") : lower.index("</action>")].strip()
            if action:
                return Parsed(action, thought, True)
            reason = "nothing between the action tags"
        return Parsed(INVALID, thought, False, reason)

    @staticmethod
    def _pair(lower: str, tag: str) -> str:
        start, end = lower.find(f"<{tag}>"), lower.find(f"</{tag}>")
        if start < 0:
            return f"no <{tag}>"
        if end < 0:
            return f"no </{tag}>"
        return f"</{tag}> before <{tag}>" if end < start else ""
