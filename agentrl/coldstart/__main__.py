"""`python -m agentrl.coldstart`: supervised fine-tuning on demonstrations, and the tiny policies that agentrl carries.

python -m agentrl.coldstart tiny-policy [--world webshop]  make a policy from nothing (`make tiny-policy`)
python -m agentrl.coldstart measure [--world webshop]      success of a checkpoint on held-out tasks
python -m agentrl.coldstart sft MODEL RECORDS.jsonl OUT    fine-tune on {"messages": [...], "response": "..."} lines
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentrl.config.model import ASSETS, TINY

if TYPE_CHECKING:
    from agentrl.coldstart.world import World

ASSET = ASSETS / TINY["tiny"]
WORLDS = ("webshop", "alfworld", "scienceworld", "sokoban")


def parser() -> argparse.ArgumentParser:
    outer = argparse.ArgumentParser(prog="python -m agentrl.coldstart", description="Supervised fine-tuning.")
    outer.add_argument("--threads", type=int, default=2, help="CPU threads (default 2)")
    commands = outer.add_subparsers(dest="command", required=True)
    tiny = commands.add_parser("tiny-policy", help="make a tiny policy from nothing")
    tiny.add_argument("--world", choices=WORLDS, default="webshop", help="environment (default webshop)")
    tiny.add_argument("--out", type=Path, help="folder of the checkpoint (default: the package's own)")
    tiny.add_argument("--seed", type=int, default=0)
    tiny.add_argument("--shrink", type=float, default=1.0, help="fraction of the steps, for a trial")
    ruler = commands.add_parser("measure", help="success of a checkpoint on held-out tasks")
    ruler.add_argument("model", nargs="?", help="folder (default: the policy that agentrl carries)")
    ruler.add_argument("--world", choices=WORLDS, default="webshop", help="environment (default webshop)")
    ruler.add_argument("--goals", type=int, default=300)
    ruler.add_argument("--split", default="validation")
    ruler.add_argument("--level", default="easy", help="of WebShop's goals")
    ruler.add_argument("--temperatures", type=float, nargs="+", default=[1.0, 0.4, 0.0])
    sft = commands.add_parser("sft", help="fine-tune a checkpoint on records")
    sft.add_argument("model")
    sft.add_argument("records", type=Path)
    sft.add_argument("out", type=Path)
    sft.add_argument("--steps", type=int, default=200)
    sft.add_argument("--batch-size", type=int, default=16)
    sft.add_argument("--learning-rate", type=float, default=1e-4)
    sft.add_argument("--max-tokens", type=int, default=1024)
    return outer


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0, or 2 for input that cannot be used."""
    given = parser().parse_args(arguments)
    import torch

    torch.set_num_threads(given.threads)
    try:
        return {"tiny-policy": _tiny, "measure": _measure, "sft": _sft}[given.command](given)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def open_world(name: str, tokenizer: Any = None, level: str = "easy") -> World:
    """The world called `name`, with a new tokenizer unless one is given."""
    if name == "webshop":
        from agentrl.coldstart.webshop import WebShopWorld

        return WebShopWorld(tokenizer, level)
    if name == "alfworld":
        from agentrl.coldstart.household import HouseholdWorld

        return HouseholdWorld(tokenizer)
    if name == "scienceworld":
        from agentrl.coldstart.laboratory import LaboratoryWorld

        return LaboratoryWorld(tokenizer)
    from agentrl.coldstart.warehouse import WarehouseWorld

    return WarehouseWorld(tokenizer)


def _tiny(given: argparse.Namespace) -> int:
    from agentrl.coldstart.tiny_policy import make_tiny_policy

    world = open_world(given.world)
    out = given.out or ASSETS / world.asset
    make_tiny_policy(world, out, seed=given.seed, shrink=given.shrink, say=lambda line: print(line, flush=True))
    return 0


def _measure(given: argparse.Namespace) -> int:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from agentrl.coldstart.tiny_policy import measure

    folder = given.model or str(ASSETS / TINY["tiny" if given.world == "webshop" else f"tiny_{given.world}"])
    model = AutoModelForCausalLM.from_pretrained(folder).float().eval()
    world = open_world(given.world, AutoTokenizer.from_pretrained(folder), given.level)
    for temperature in given.temperatures:
        found = measure(model, world, split=given.split, goals=given.goals, temperature=temperature)
        print(f"{given.world} {given.split} temperature {temperature:g}: " + json.dumps(found), flush=True)
    return 0


def _sft(given: argparse.Namespace) -> int:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from agentrl.coldstart.sft import SftSettings, encode, read_records, train

    tokenizer = AutoTokenizer.from_pretrained(given.model)
    model = AutoModelForCausalLM.from_pretrained(given.model).float()
    examples = encode(read_records(given.records), tokenizer, given.max_tokens)
    settings = SftSettings(steps=given.steps, batch_size=given.batch_size, learning_rate=given.learning_rate)

    def on_step(step: int, loss: float, seconds: float) -> None:
        if step % 10 == 0 or step == given.steps:
            print(f"step {step}/{given.steps} loss {loss:.4f} {seconds:.0f} s", flush=True)

    train(model, examples, settings, pad_id=tokenizer.pad_token_id or tokenizer.eos_token_id, on_step=on_step)
    model.save_pretrained(given.out)
    tokenizer.save_pretrained(given.out)
    print(f"written to {given.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
