"""ScienceWorld: time of a load and of a step, and memory, beside the package scienceworld used as it comes.

    python benchmarks/speed_scienceworld.py [--tasks 8] [--environments 64]

Both play the same variations with the same commands, those of the engine's own solutions. Memory is the proportional set
size (PSS) of the Java process; the package starts one for every environment, here all of a process share one.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

from scienceworld_env import plugin
from scienceworld_env.catalogue import PLANPO, TASKS, task_id
from scienceworld_env.expert import gold_path
from scienceworld_env.jvm import running

MOST_STEPS = 30


def timed(what: Any, *arguments: Any) -> tuple[float, Any]:
    """Seconds, and what came out."""
    start = time.perf_counter()
    result = what(*arguments)
    return time.perf_counter() - start, result


def pss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/{pid} tells no PSS")


def row(name: str, seconds: list[float]) -> None:
    print(f"  {name:34s} median {statistics.median(seconds) * 1e3:8.2f} ms, slowest {max(seconds) * 1e3:8.1f} ms")


def ours(games: list[tuple[str, list[str]]]) -> float:
    """Prints the times; returns the median of a step in seconds."""
    env = plugin.make(tasks="all")
    loads, steps, lists = [], [], []
    for name, path in games:
        loads.append(timed(lambda t: env.reset(seed=0, options={"task_id": t}), task_id("train", name, 0))[0])
        for number, command in enumerate(path[:MOST_STEPS]):
            taken, (_, _, ended, _, _) = timed(env.step, command)
            steps.append(taken)
            if ended:
                break
            if number % 5 == 0:
                lists.append(timed(env.valid_actions)[0])
    print(f"scienceworld_env, {len(games)} tasks, {len(steps)} steps")
    row("reset", loads)
    row("step", steps)
    row("list of possible actions", lists)
    env.close()
    return statistics.median(steps)


def stock(games: list[tuple[str, list[str]]]) -> float:
    from scienceworld import ScienceWorldEnv

    started, env = timed(lambda: ScienceWorldEnv("", envStepLimit=1000))
    loads, steps = [], []
    for name, path in games:
        loads.append(timed(env.load, name, 0, "easy")[0])
        env.reset()
        for command in path[:MOST_STEPS]:
            taken, (_, _, ended, _) = timed(env.step, command)
            steps.append(taken)
            if ended:
                break
    print(f"scienceworld as it comes (its Java started in {started:.1f} s)")
    row("load", loads)
    row("step", steps)
    print(f"  Java process of one environment     {pss_mib(env._gateway.java_process.pid):8.0f} MiB")
    env.close()
    return statistics.median(steps)


def crowd(environments: int) -> None:
    start = time.perf_counter()
    made = [plugin.make() for _ in range(environments)]
    ids = plugin.tasks("train", max_variations=4).ids
    for number, env in enumerate(made):
        env.reset(seed=0, options={"task_id": ids[number % len(ids)]})
        for _ in range(5):
            env.step("look around")
    jvm = running()
    assert jvm is not None
    print(
        f"{environments} environments in one Java process: ready in {time.perf_counter() - start:.1f} s, "
        f"{pss_mib(jvm.process.pid):.0f} MiB"
    )
    for env in made:
        env.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--environments", type=int, default=64)
    given = parser.parse_args()
    names = PLANPO[:: max(1, len(PLANPO) // given.tasks)][: given.tasks]
    games = [(name, gold_path(task_id("train", name, TASKS[name].variations("train")[0]))) for name in names]
    taken = ours(games)
    print(f"stock step / step {stock(games) / taken:.0f}")
    crowd(given.environments)


if __name__ == "__main__":
    main()
