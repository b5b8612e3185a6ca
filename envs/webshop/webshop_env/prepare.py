"""Prepares a catalogue for WebShop-v0: a mapped store of products, goals and search index that all processes share.

python -m webshop_env.prepare --data-dir FOLDER            WebShop's own files (items_shuffle*.json, items_ins_v2*.json, ...)
python -m webshop_env.prepare --generate 1100000 --out FOLDER      a generated catalogue of any size
python -m webshop_env.prepare --check FOLDER               compare a store's files with their checksums

The store lies in FOLDER/prepared unless --out says otherwise; give the environment data_dir=FOLDER. A preparation that
was stopped goes on when the same command is given again.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from hashlib import file_digest
from pathlib import Path
from typing import Any

from webshop_env import store
from webshop_env.mapped import StoreError
from webshop_env.prepare_merge import check_files, make_store
from webshop_env.prepare_parts import Source, make_parts
from webshop_env.sources import SIZES, SourceError, find_files

PREPARED = "prepared"
MAX_GENERATED = 1_200_000


def main(words: list[str] | None = None) -> int:
    """Returns the exit status: 0 done, 2 refused."""
    parser = argparse.ArgumentParser(
        prog="python -m webshop_env.prepare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--data-dir", type=Path, help="folder with WebShop's JSON files")
    what.add_argument("--generate", type=int, metavar="N", help="N generated products instead")
    what.add_argument("--check", type=Path, metavar="FOLDER", help="a prepared store")
    parser.add_argument("--out", type=Path, help="where the store goes")
    parser.add_argument("--size", choices=["auto", *SIZES], default="auto", help="of the data: full if it is there")
    parser.add_argument("--goals", choices=["auto", "human", "synthetic"], default="auto", help="auto: human if there")
    parser.add_argument("--jobs", type=int, default=0, help="processes (0: one for each core)")
    parser.add_argument("--seed", type=int, default=2022, help="of the generator")
    arguments = parser.parse_args(words)
    try:
        if arguments.check is not None:
            return _check(arguments.check)
        if arguments.generate is not None:
            if not 1 <= arguments.generate <= MAX_GENERATED:
                raise SourceError(f"--generate {arguments.generate}: give a number from 1 to {MAX_GENERATED}.")
            if arguments.out is None:
                raise SourceError(f"--generate {arguments.generate}: say where the store goes by --out FOLDER.")
            out, source, published = arguments.out, generated_source(arguments.generate, arguments.seed), False
        else:
            source, published = public_source(arguments.data_dir, arguments.size, arguments.goals)
            out = arguments.out or arguments.data_dir / PREPARED
        prepare(source, out, published, jobs=arguments.jobs or os.cpu_count() or 1)
    except (SourceError, StoreError) as error:
        print(f"webshop_env: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"webshop_env: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


def prepare(source: Source, out: Path, published: bool, quiet: bool = False, jobs: int = 1) -> dict[str, Any]:
    """Make the store `out`, or leave it as it is when it holds these data already. Returns its meta.json."""
    started = time.perf_counter()
    bar = _Bar(quiet)
    try:
        meta = store.read_meta(out)
        if meta.get("source") == source.identity:
            bar.end(f"{out} holds these data already: {meta['products']:,} products, {meta['goals']:,} goals")
            return meta
    except StoreError:
        pass
    progress = make_parts(source, out / "parts", bar.records, jobs)
    if not progress.products:
        first = f" The first: {progress.listed[0]}." if progress.listed else ""
        raise SourceError(f"{out}: the data hold no usable product ({progress.malformed} malformed).{first}")
    make_store(progress, out, {"source": source.identity, **source.facts(progress.seen)}, published, bar.stage)
    shutil.rmtree(out / "parts")
    store.open_store.cache_clear()
    meta = store.read_meta(out)
    bar.end(
        f"{out}: {meta['products']:,} products, {meta['terms']:,} terms, {meta['goals']:,} goals "
        f"({', '.join(f'{name} {number:,}' for name, number in meta['goals_by_split'].items())}; split {meta['split']}) "
        f"in {time.perf_counter() - started:.0f} s"
    )
    if meta["malformed"]:
        bar.end(
            f"{meta['malformed']} malformed products were skipped; meta.json lists them. {meta['malformed_listed'][0]}"
        )
    if meta.get("instructions_without_product"):
        bar.end(
            f"{meta['instructions_without_product']} instructions are for products that are not there: no goals of them"
        )
    if meta.get("goals_unsolvable"):
        bar.end(
            f"{meta['goals_unsolvable']} goals cannot be fulfilled with their own product; the published splits keep them"
        )
    return meta


def generated_source(products: int, seed: int) -> Source:
    from webshop_env.generate_large import goal_maker, records

    return Source(
        identity={"generated": products, "seed": seed, "generator": 1},
        records=lambda skip: records(products, seed, skip),
        attributes=lambda record: record["extra"],
        goals=goal_maker(products),
        total=products,
    )


def public_source(folder: Path, size: str, goals: str) -> tuple[Source, bool]:
    """The source, and whether the published split applies to its goals (full data, human goals)."""
    from webshop_env.public import load_attributes, load_human, make_goals
    from webshop_env.sources import stream_list

    files = find_files(folder, size)
    kind = goals if goals != "auto" else "human" if files.human else "synthetic"
    if kind == "human" and files.human is None:
        raise SourceError(
            f"{folder / 'items_human_ins.json'}: there is no such file; add it, or choose --goals synthetic."
        )
    human = load_human(files.human) if files.human and kind == "human" else {}
    attributes = load_attributes(files.attributes)
    identity = {"size": files.size, "goals": kind, "files": {path.name: _identify(path) for path in files.all()}}
    source = Source(
        identity=identity,
        records=lambda skip: stream_list(files.products, skip),
        attributes=lambda record: attributes.get(record["asin"], {}),
        goals=make_goals(kind, human, attributes),
        total=1_181_436 if files.size == "full" else 1_000,
        facts=lambda seen: {
            "instructions_without_product": sum(len(human[asin]) for asin in human if asin not in seen)
        },
    )
    return source, files.size == "full" and kind == "human"


def _identify(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": file_digest(file, "sha256").hexdigest()}


def _check(folder: Path) -> int:
    folder = folder / PREPARED if not (folder / store.META).is_file() and (folder / PREPARED).is_dir() else folder
    wrong = check_files(folder)
    for line in wrong:
        print(f"webshop_env: {line}", file=sys.stderr)
    if not wrong:
        catalogue, _ = store.open_store(folder.resolve())
        print(
            f"{folder}: all files are as they were written; {len(catalogue):,} products, fingerprint {catalogue.fingerprint}"
        )
    return 2 if wrong else 0


class _Bar:
    """A line that moves on a terminal, some lines elsewhere."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.terminal = sys.stderr.isatty()
        self.began = time.monotonic()
        self.said = 0.0

    def records(self, done: int, total: int) -> None:
        share = min(1.0, done / max(1, total))
        seconds = time.monotonic() - self.began
        left = f", about {seconds / share * (1 - share):.0f} s left" if 0 < share < 1 else ""
        self._show(f"[{'#' * int(30 * share):<30}] {done:,} products{left}", last=share >= 1)

    def stage(self, name: str) -> None:
        self._show(f"writing: {name}", last=True)

    def end(self, text: str) -> None:
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)

    def _show(self, text: str, last: bool) -> None:
        if self.quiet:
            return
        if self.terminal:
            print(f"\r{text:<78}", end="\n" if last else "", file=sys.stderr, flush=True)
        elif last or time.monotonic() - self.said > 20:
            self.said = time.monotonic()
            print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
