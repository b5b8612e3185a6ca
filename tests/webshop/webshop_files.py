"""WebShop's own data files, small and made up, in a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from webshop_env.generate_large import records


def write_files(folder: Path, products: int = 60, size: str = "1k", human: bool = True, **odd: Any) -> Path:
    """items_shuffle*.json, items_ins_v2*.json and items_human_ins.json; `odd["extra"]`: more product records."""
    folder.mkdir(parents=True, exist_ok=True)
    suffix = "_1000" if size == "1k" else ""
    made = [record for record, _ in records(products, seed=5)]
    attributes = {record["asin"]: record.pop("extra") for record in made}
    for record in made:  # what the original has beside what it uses
        record["brand"], record["total_reviews"] = "Some Brand", 12
    (folder / f"items_shuffle{suffix}.json").write_text(json.dumps([*made, *odd.get("extra", [])], indent=1))
    (folder / f"items_ins_v2{suffix}.json").write_text(json.dumps(attributes))
    if human:
        written = {}
        for number, record in enumerate(made):
            options = [contents[0]["value"] for contents in record["customization_options"].values()]
            written[record["asin"]] = [
                {
                    "instruction": f"i would like a {record['query']} number {number}, please.",
                    "instruction_attributes": attributes[record["asin"]]["attributes"][: number % 3],
                    "instruction_options": options[: number % 2 + 1],
                }
            ]
        written["B000NOWHERE"] = [{"instruction": "x", "instruction_attributes": ["y"], "instruction_options": []}]
        (folder / "items_human_ins.json").write_text(json.dumps(written))
    return folder
