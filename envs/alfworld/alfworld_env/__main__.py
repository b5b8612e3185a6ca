"""`python -m alfworld_env`: look at games from the command line.

python -m alfworld_env play [TASK_ID] [--size small]     play a game
python -m alfworld_env prove [--size full]               win every generated game with the scripted expert
python -m alfworld_env export FOLDER [--size full]       write the generated games as ALFWorld's own files
python -m alfworld_env check FOLDER                      what of a folder of public games can be played, and what not
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

from alfworld_env.generate import SIZES, SPLITS
from alfworld_env.options import Options, game, games
from alfworld_env.public import FOLDERS, ROOT, public_games


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0; 1 where a game could not be won; 2 for input that cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m alfworld_env", description="ALFWorld's games.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("play", "prove", "export", "check"):
        command = commands.add_parser(name)
        if name in ("export", "check"):
            command.add_argument("folder")
        if name == "play":
            command.add_argument("task_id", nargs="?", default="")
            command.add_argument("--data-dir", default="generated")
        if name != "check":
            command.add_argument("--size", choices=SIZES, default="full")
    given = parser.parse_args(arguments)
    try:
        return {"play": _play, "prove": _prove, "export": _export, "check": _check}[given.command](given)
    except (ValueError, ImportError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _play(given: argparse.Namespace) -> int:
    from alfworld_env.env import AlfworldEnv

    env = AlfworldEnv(size=given.size, data_dir=given.data_dir)
    text, info = env.reset(options={"task_id": given.task_id} if given.task_id else {})
    print(text)
    while not info["success"]:
        try:
            action = input("> ")
        except EOFError:
            return 0
        text, _, _, _, info = env.step(action)
        print(text)
    print(f"[won in {info['steps']} steps]")
    return 0


def _prove(given: argparse.Namespace) -> int:
    from alfworld_env.engine import Engine
    from alfworld_env.prove import UnsolvableGame, walkthrough

    engine, options, lost = Engine(), Options(size=given.size, data_dir="generated"), 0
    for split in SPLITS:
        start = time.monotonic()
        lengths: dict[str, list[int]] = {}
        problems = Counter(game(options, name).data["pddl_problem"] for name in games(options, split).ids)
        for task_id in games(options, split).ids:
            try:
                lengths.setdefault(task_id.split("/")[1], []).append(
                    len(walkthrough(engine, options, game(options, task_id)))
                )
            except UnsolvableGame as error:
                print(error)
                lost += 1
        print(f"{split}: {sum(map(len, lengths.values()))} games won, {len(problems)} of them different, in "
              f"{time.monotonic() - start:.0f} s")  # fmt: skip
        for kind, steps in lengths.items():
            print(f"  {kind}: {len(steps)}, mean {sum(steps) / len(steps):.1f} steps, longest {max(steps)}")
    return 1 if lost else 0


def _export(given: argparse.Namespace) -> int:
    options = Options(size=given.size, data_dir="generated")
    written = 0
    for split, folder in FOLDERS.items():
        for task_id in games(options, split).ids:
            found = game(options, task_id)
            goal, room = found.goal, found.room
            assert room is not None
            name = f"{goal.task_type}-{goal.object}-None-{goal.receptacle or goal.lamp}-{room.floor_plan}"
            target = Path(given.folder) / ROOT / folder / name / f"trial_T{task_id[-6:]}"
            target.mkdir(parents=True, exist_ok=True)
            sentence = found.data["grammar"].partition("Your task is to: ")[2].partition('"')[0]
            trajectory = {
                "task_type": goal.task_type,
                "task_id": target.name,
                "pddl_params": {"object_target": goal.object, "parent_target": goal.receptacle, "mrecep_target": "",
                                "toggle_target": goal.lamp, "object_sliced": False},
                "scene": {"floor_plan": f"FloorPlan{room.floor_plan}", "scene_num": room.floor_plan},
                "turk_annotations": {"anns": [{"task_desc": sentence, "high_descs": []}]},
            }  # fmt: skip
            (target / "traj_data.json").write_text(json.dumps(trajectory))
            (target / "initial_state.pddl").write_text(found.data["pddl_problem"])
            (target / "game.tw-pddl").write_text(json.dumps(found.data))
            written += 1
    print(f"{written} games written to {Path(given.folder) / ROOT}")
    return 0


def _check(given: argparse.Namespace) -> int:
    for split in FOLDERS:
        found = public_games(given.folder, split)
        print(f"{split} ({FOLDERS[split]}): {len(found.ids)} games of ALFWorld {found.version}")
        for reason, count in found.reasons.items():
            print(f"  left out: {count} {reason}")
            for name in (name for name, why in found.faulty if why == reason):
                print(f"    {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
