"""Where records come from: WebShop's own files, read as a stream, or the generator."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

BLOCK = 1 << 20  # characters
LONGEST = 64 * BLOCK  # of one item: more is no JSON
SIZES = {  # name -> (products, attributes and synthetic instructions)
    "full": ("items_shuffle.json", "items_ins_v2.json"),
    "1k": ("items_shuffle_1000.json", "items_ins_v2_1000.json"),
}
HUMAN = "items_human_ins.json"
HOW_TO_GET = (
    "WebShop's setup.sh (github.com/princeton-nlp/WebShop) fetches them from Google Drive: `bash setup.sh -d small` "
    "for the 1,000 products, `-d all` for the full 1.18 million; put its data/ folder here."
)


class SourceError(ValueError):
    """A file is missing, cut off or no JSON; the message names it and says what to do."""


@dataclass(frozen=True)
class Files:
    """WebShop's data files. human: None when there are no human instructions."""

    size: str
    products: Path
    attributes: Path
    human: Path | None

    def all(self) -> list[Path]:
        return [self.products, self.attributes, *([self.human] if self.human else [])]


def find_files(folder: Path, size: str = "auto") -> Files:
    """The files of `folder`, of the full size when they are there and `size` is auto. SourceError if any is missing."""
    if not folder.is_dir():
        raise SourceError(
            f"{folder}: there is no such folder; give the one that holds {SIZES['full'][0]}. {HOW_TO_GET}"
        )
    wanted = list(SIZES) if size == "auto" else [size]
    known = [name for name in wanted if all((folder / file).is_file() for file in SIZES[name])]
    if not known:
        begun = [name for name in wanted if any((folder / file).is_file() for file in SIZES[name])] or wanted
        file = next(file for file in SIZES[begun[0]] if not (folder / file).is_file())
        raise SourceError(f"{folder / file}: there is no such file. {HOW_TO_GET}")
    products, attributes = (folder / file for file in SIZES[known[0]])
    human = folder / HUMAN
    for path in (products, attributes):
        _not_a_web_page(path)
    return Files(known[0], products, attributes, human if human.is_file() else None)


def _not_a_web_page(path: Path) -> None:
    """What a failed download leaves: nothing, or the page that says so."""
    with path.open("rb") as file:
        head = file.read(64).lstrip()
    if not head:
        raise SourceError(f"{path}: it is empty; fetch it again. {HOW_TO_GET}")
    if head[:1] == b"<":
        raise SourceError(
            f"{path}: it is a web page, not JSON, as a refused download leaves it; fetch it again. {HOW_TO_GET}"
        )


def stream_list(path: Path, skip: int = 0) -> Iterator[tuple[Any, int]]:
    """(item, characters read so far) of a file that holds one JSON list, without loading it whole.

    skip: go on where an earlier reading stood, given what it said was read. SourceError where the JSON breaks off.
    """
    decoder = json.JSONDecoder()
    with path.open(encoding="utf-8", errors="surrogateescape") as file:
        reader = _Reader(file, path, skip)
        if not skip:
            reader.expect("[")
        while True:
            sign = reader.peek()
            if sign == "]":
                return
            if sign == ",":
                reader.expect(",")
                continue
            yield reader.value(decoder), reader.read


def stream_object(path: Path) -> Iterator[tuple[str, Any]]:
    """(key, value) of a file that holds one JSON object."""
    decoder = json.JSONDecoder()
    with path.open(encoding="utf-8", errors="surrogateescape") as file:
        reader = _Reader(file, path, 0)
        reader.expect("{")
        while True:
            sign = reader.peek()
            if sign == "}":
                return
            if sign == ",":
                reader.expect(",")
                continue
            key = reader.value(decoder)
            reader.expect(":")
            yield sys.intern(str(key)), reader.value(decoder)


class _Reader:
    """A window that moves over a file. `read`: characters before the window's cursor."""

    def __init__(self, file: TextIO, path: Path, skip: int) -> None:
        self.file, self.path = file, path
        self.text, self.at, self.before, self.ended = "", 0, 0, False
        left = skip
        while left > 0:
            gone = len(file.read(min(left, 64 * BLOCK)))
            if not gone:
                raise SourceError(f"{path}: it is shorter than when it was read before; fetch it again. {HOW_TO_GET}")
            left -= gone
        self.before = skip

    @property
    def read(self) -> int:
        return self.before + self.at

    def _more(self) -> bool:
        block = "" if self.ended else self.file.read(max(BLOCK, len(self.text) - self.at))
        self.before += self.at
        self.text, self.at = self.text[self.at :] + block, 0
        self.ended = self.ended or not block
        return bool(block)

    def peek(self) -> str:
        while True:
            while self.at < len(self.text) and self.text[self.at] in " \t\r\n":
                self.at += 1
            if self.at < len(self.text):
                return self.text[self.at]
            if not self._more():
                raise self._cut()

    def expect(self, sign: str) -> None:
        if self.peek() != sign:
            raise SourceError(
                f"{self.path}: no {sign!r} at character {self.read}, but {self.peek()!r}; fetch it again. {HOW_TO_GET}"
            )
        self.at += 1

    def value(self, decoder: json.JSONDecoder) -> Any:
        self.peek()
        while True:
            try:
                found, end = decoder.raw_decode(self.text, self.at)
            except ValueError as error:
                wrong = self.before + getattr(error, "pos", 0)
                if len(self.text) - self.at < LONGEST and self._more():
                    continue
                at_the_end = wrong >= self.before + len(self.text.rstrip()) - 1
                if self.ended and (at_the_end or "Unterminated string" in str(error)):
                    raise self._cut() from None
                raise SourceError(f"{self.path}: no JSON at character {wrong}; fetch it again. {HOW_TO_GET}") from None
            # a number may go on in the next block
            if end == len(self.text) and not self.ended and self._more():
                continue
            self.at = end
            return found

    def _cut(self) -> SourceError:
        return SourceError(
            f"{self.path}: it ends in the middle, after {self.before + len(self.text)} characters, as a download that broke "
            f"off leaves it; fetch it again. {HOW_TO_GET}"
        )
