"""Speed and memory of WebShop-v0 on one core and over processes that share a store.

    python benchmarks/webshop.py                                              # the embedded catalogue
    python -m webshop_env.prepare --generate 1100000 --out /tmp/large         # once
    python benchmarks/webshop.py --data-dir /tmp/large                        # 1.1 million products

agents   held-out success of the scripted shoppers: one that knows how, one with slips, one that knows nothing
steps    a shopper with slips plays first, and its actions are played again: resets and steps of the environment alone
search   every query once, so that no cache answers, 50 results; what `search` takes of a step
env      what one more environment takes once the data are there
shared   8 processes with 16 environments each: PSS, in which a page that n processes share counts 1/n for each
growth   memory of one process of its own (USS: without what it shares, so without the mapped store) after more and
         more episodes; in brackets the resident memory, which counts every page of the store that was ever touched

Steps per second are also given as a ratio to a floor, a loop that only formats the same number of short texts.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import random
import time
import tracemalloc
from typing import Any

import psutil
from webshop_env import plugin
from webshop_env.agents import Expert, NoisyAgent, RandomAgent, full_query, play
from webshop_env.data import open_data
from webshop_env.goalbook import LEVELS

PROCESSES, ENVIRONMENTS = 8, 16


def record(options: dict[str, Any], tasks: list[str], turns: int) -> list[tuple[str, list[str]]]:
    """(task, actions) of episodes that a shopper with slips has played."""
    env, played = plugin.make(**options), []
    for number, task in enumerate(tasks):
        env.reset(options={"task_id": task})
        agent, actions = NoisyAgent(random.Random(number)), []
        for _ in range(turns):
            actions.append(agent.act(env))
            if env.step(actions[-1])[2]:
                break
        played.append((task, actions))
    return played


def replay(env: Any, played: list[tuple[str, list[str]]]) -> int:
    steps = 0
    for task, actions in played:
        env.reset(options={"task_id": task})
        for action in actions:
            env.step(action)
        steps += len(actions)
    return steps


def floor(count: int) -> float:
    """Seconds of formatting `count` texts of about a page's length."""
    start, words = time.perf_counter(), ["word"] * 100
    for number in range(count):
        f"{number} {' '.join(words)}"
    return time.perf_counter() - start


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def worker(options: dict[str, Any], tasks: list[str], ready: Any, go_on: Any) -> None:
    envs = [plugin.make(**options) for _ in range(ENVIRONMENTS)]
    for number, task in enumerate(tasks):
        env = envs[number % ENVIRONMENTS]
        env.reset(options={"task_id": task})
        agent = NoisyAgent(random.Random(number))
        for _ in range(15):
            if env.step(agent.act(env))[2]:
                break
    ready.put(os.getpid())
    go_on.wait()


def shared_memory(options: dict[str, Any], tasks: list[str]) -> tuple[float, float]:
    """(sum of PSS, sum of RSS) of the processes, in MB."""
    context = multiprocessing.get_context("spawn")
    ready, go_on = context.Queue(), context.Event()
    share = len(tasks) // PROCESSES
    workers = [
        context.Process(target=worker, args=(options, tasks[n * share : (n + 1) * share], ready, go_on))
        for n in range(PROCESSES)
    ]
    for process in workers:
        process.start()
    found = [psutil.Process(ready.get()).memory_full_info() for _ in workers]
    total = sum(info.pss for info in found) / 1e6, sum(info.rss for info in found) / 1e6
    go_on.set()
    for process in workers:
        process.join()
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", help="a prepared store; the embedded catalogue without it")
    parser.add_argument("--mode", default="text_rich", choices=["text", "text_rich", "compact"])
    parser.add_argument("--episodes", type=int, default=10_000, help="of the growth test")
    arguments = parser.parse_args()
    options: dict[str, Any] = {"observation_mode": arguments.mode}
    if arguments.data_dir:
        options["data_dir"] = arguments.data_dir
    start = time.perf_counter()
    catalogue, goals = open_data("embedded", arguments.data_dir)
    opened = time.perf_counter() - start
    tasks = plugin.tasks("train", **options).ids
    random.Random(0).shuffle(tasks)
    print(
        f"{len(catalogue.products):,} products, {len(tasks):,} train tasks, opened in {opened:.2f} s, mode {arguments.mode}"
    )

    for level in LEVELS:
        held_out = plugin.tasks("validation", difficulty=level, **options).ids[:200]
        rates = [
            sum(play(env, make(n), task, 15)[0] == 1.0 for n, task in enumerate(held_out)) / len(held_out)
            for env in [plugin.make(**options)]
            for make in (
                lambda n: Expert(),
                lambda n: NoisyAgent(random.Random(n)),
                lambda n: RandomAgent(random.Random(n)),
            )
        ]
        print(f"agents   {level:<7} expert {rates[0]:.1%}, with slips {rates[1]:.1%}, random {rates[2]:.1%}")

    played = record(options, tasks[:600], 15)
    env = plugin.make(**options)
    best = 0.0
    for part in range(3):  # other tasks each time: what has been seen is cached
        chosen = played[part * 200 : part * 200 + 200]
        catalogue.search.cache_clear()  # type: ignore[attr-defined]
        start = time.perf_counter()
        steps = replay(env, chosen)
        seconds = time.perf_counter() - start
        best = max(best, steps / seconds)
    print(
        f"steps    {best:9,.0f} per second   {best * floor(10_000) / 10_000:6.2f} of the floor   (searches not cached)"
    )

    queries = list(dict.fromkeys(full_query(goals.goal(task)) for task in tasks[:400]))
    queries += [goals.goal(task)["instruction_text"] for task in tasks[400:600]]
    times = []
    for query in queries:
        start = time.perf_counter()
        catalogue.index.search(query, 50)  # type: ignore[attr-defined]
        times.append(1e3 * (time.perf_counter() - start))
    late = sorted(times)[int(0.95 * len(times))]
    print(f"search   {median(times):9.2f} ms median, {late:.2f} ms at 95 %, {max(times):.2f} ms at most")

    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    more = [plugin.make(**options) for _ in range(100)]
    for env in more:
        env.reset(options={"task_id": tasks[0]})
    each = (tracemalloc.get_traced_memory()[0] - before) / 100
    tracemalloc.stop()
    print(f"env      {each / 1e3:9.1f} kB each")

    pss, rss = shared_memory(options, tasks[: PROCESSES * ENVIRONMENTS * 2])
    print(
        f"shared   {pss:9,.0f} MB PSS of {PROCESSES} processes with {ENVIRONMENTS} environments each (RSS {rss:,.0f} MB)"
    )

    process, env = psutil.Process(), plugin.make(**options)
    done, marks = 0, []
    for mark in (arguments.episodes // 10, arguments.episodes // 2, arguments.episodes):
        while done < mark:
            replay(env, [played[done % len(played)]])
            env.reset(options={"task_id": tasks[done % len(tasks)]})
            env.step(f"search[{env.goal['instruction_text']}]")
            done += 1
        info = process.memory_full_info()
        marks.append((done, info.uss / 1e6, info.rss / 1e6))
    told = ", ".join(f"{uss:,.0f} MB ({rss:,.0f}) after {done:,}" for done, uss, rss in marks)
    print(f"growth   {told} episodes: {100 * (marks[-1][1] / marks[0][1] - 1):+.1f} %")


if __name__ == "__main__":
    main()
