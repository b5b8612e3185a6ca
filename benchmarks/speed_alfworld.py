"""ALFWorld: time of a step and of a reset against TextWorld's own environment, and 128 environments in memory.

    python benchmarks/speed_alfworld.py [--games 12] [--environments 128] [--processes 2]

Both engines play the same games with the same commands (those of the scripted expert). The environments are spread over
fresh processes, each of which imports everything anew and shares no memory with another, as agentrl's servers do (what Ray
itself takes comes on top). Each environment plays a game of its own; ready means reset and stepped five times, and the
clock runs from before the processes are started.
"""

from __future__ import annotations

import argparse
import multiprocessing
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


def serve(tasks: list[str], report) -> None:
    """A server's work, in a process of its own; reports when all its environments are ready, then waits to be ended."""
    from agentrl.environments.server import EnvironmentHost, Raised

    host = EnvironmentHost("alfworld", {"data_dir": "generated"})
    for slot, task_id in enumerate(tasks):
        seen = host.reset(slot, task_id, seed=0)
        for _ in range(5):
            if isinstance(seen, Raised):
                raise RuntimeError(seen.trace)
            if seen.ended:
                break
            seen = host.step(slot, seen.info["admissible_actions"][0])
    report.send((len(host._environments), time.process_time()))
    report.recv()


def crowd(environments: int, processes: int, when: str) -> None:
    from alfworld_env import plugin

    ids = plugin.tasks("train", data_dir="generated").ids[:environments]
    # spawned, not forked: a fork would share what this process has imported
    fresh = multiprocessing.get_context("spawn")
    start = time.perf_counter()
    servers = []
    for number in range(processes):
        here, there = fresh.Pipe()
        child = fresh.Process(target=serve, args=(ids[number::processes], there), daemon=True)
        child.start()
        there.close()  # so that a server that dies ends the wait for it
        servers.append((child, here))
    made, busy = zip(*(report.recv() for _, report in servers), strict=True)
    ready = time.perf_counter() - start
    pss = sum(
        int(line.split()[1])
        for child, _ in servers
        for line in Path(f"/proc/{child.pid}/smaps_rollup").read_text().splitlines()
        if line.startswith("Pss:")
    )
    print(
        f"{sum(made)} environments in {processes} fresh processes, {when}: ready in {ready:.1f} s "
        f"(the busiest used {max(busy):.1f} s of CPU), PSS {pss / 1024:.0f} MiB"
    )
    for child, _ in servers:
        child.kill()
        child.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=12, help="0: only the environments")
    parser.add_argument("--environments", type=int, default=128)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        os.environ["ALFWORLD_DATA"] = folder  # `import alfworld` makes this folder
        for when in ("games never seen", "games seen before"):
            crowd(given.environments, given.processes, when)
        if given.games:
            compare(given.games)


if __name__ == "__main__":
    main()
