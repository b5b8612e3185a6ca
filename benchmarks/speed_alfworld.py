"""ALFWorld: time of a step and of a reset against TextWorld's own environment, and 128 environments in memory.

    python benchmarks/speed_alfworld.py [--games 12] [--environments 128] [--processes 2]

Both engines play the same games with the same commands (those of the scripted expert). The environments are spread over
forked processes, as agentrl's servers are, each on a game of its own; ready means reset and stepped five times.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "alfworld"))


def timed(what, *arguments) -> tuple[float, object]:
    """Seconds, and what came out."""
    start = time.perf_counter()
    result = what(*arguments)
    return time.perf_counter() - start, result


def compare(games: int) -> None:
    from alfworld_env.engine import Engine
    from alfworld_env.expert import Expert
    from alfworld_env.generate import game_of
    from alfworld_stock import Stock

    ours, stock = Engine(), Stock()
    seconds: dict[str, list[float]] = {name: [] for name in ("new", "seen", "step", "stock load", "stock step")}
    for number in range(games):
        found = game_of("validation", number, "full")
        seconds["new"].append(timed(ours.load, found.data)[0])
        taken, text = timed(ours.load, found.data)
        seconds["seen"].append(taken)
        seconds["stock load"].append(timed(stock.load, found.data)[0])
        expert, steps = Expert(found.goal), 0
        while not ours.won and steps < 50:
            command = expert.act(str(text), sorted(ours.operators))
            taken, (text, _) = timed(ours.step, command)
            seconds["step"].append(taken)
            seconds["stock step"].append(timed(stock.step, command)[0])
            steps += 1
    print(f"{games} full games, {len(seconds['step'])} steps; medians")
    for name, found in seconds.items():
        print(f"  {name:10s} {statistics.median(found) * 1e3:8.2f} ms, slowest {max(found) * 1e3:8.2f} ms")
    print(f"  stock step / step {statistics.median(seconds['stock step']) / statistics.median(seconds['step']):.0f}")


def crowd(environments: int, processes: int, when: str) -> None:
    import alfworld_env.engine
    import alfworld_env.prove  # noqa: F401  (loaded before the fork, as the servers do)
    from alfworld_env import plugin
    from alfworld_env.generate import game_of

    game_of("train", 0, "full")
    ids = plugin.tasks("train", data_dir="generated").ids
    start = time.perf_counter()
    pipes, children = [], []
    for process in range(processes):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            kept = []
            for number in range(process, environments, processes):
                env = plugin.make(data_dir="generated")
                _, info = env.reset(options={"task_id": ids[number]})
                for _ in range(5):
                    _, _, ended, _, info = env.step(info["admissible_actions"][0])
                    if ended:
                        break
                kept.append(env)
            os.write(writer, b"x")
            time.sleep(600)
        pipes.append(reader)
        children.append(child)
    for reader in pipes:
        os.read(reader, 1)
    ready = time.perf_counter() - start
    pss = sum(
        int(line.split()[1])
        for child in (*children, os.getpid())
        for line in Path(f"/proc/{child}/smaps_rollup").read_text().splitlines()
        if line.startswith("Pss:")
    )
    print(
        f"{environments} environments in {processes} processes, {when}: ready in {ready:.1f} s, PSS {pss / 1024:.0f} MiB"
    )
    for child in children:
        os.kill(child, 9)
        os.waitpid(child, 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=12)
    parser.add_argument("--environments", type=int, default=128)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        os.environ["ALFWORLD_DATA"] = folder  # `import alfworld` makes this folder
        for when in ("games never seen", "games seen before"):
            crowd(given.environments, given.processes, when)
        compare(given.games)


if __name__ == "__main__":
    main()
