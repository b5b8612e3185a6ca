"""The contract test suite: one call that tells whether an environment package does what agentrl relies on.

    from agentrl.environments.contract_suite import check_environment
    check_environment("webshop", options={"observation_mode": "text"})

Every check raises AssertionError with a plain sentence; the functions `check_*` can be called one by one as well.
"""

from __future__ import annotations

import gc
import random
from typing import Any

import psutil

from agentrl.environments.contract import Observed, check_tasks
from agentrl.environments.contract_play import Suite, plainly, same
from agentrl.environments.contract_process import left_after_close, play_in_another_process


def check_environment(name: str, split: str = "train", **settings: Any) -> None:
    """Run every check over the environment `name`.

    Args:
        name: registry name, or `package.module:object`.
        split: the split that is played.
        settings: the other fields of Suite (options, splits, policy, invalid_actions, turns, resets, ...).
    Raises AssertionError with a plain sentence at the first thing that is wrong.
    """
    suite = Suite(name, split=split, **settings)
    for check in CHECKS:
        check(suite)


def check_splits(suite: Suite) -> None:
    """Task ids come in a fixed order, with a fingerprint, and no two splits share one."""
    owner: dict[str, str] = {}
    for split in suite.splits:
        lists = [plainly(check_tasks, suite.plugin.tasks(split, **suite.options), suite.name, split) for _ in range(2)]
        assert list(lists[0].ids) == list(lists[1].ids), (
            f"{suite.name}: tasks({split!r}) gave two different orders; sort the ids."
        )
        assert lists[0].fingerprint == lists[1].fingerprint, (
            f"{suite.name}: the fingerprint of tasks({split!r}) changes from call to call."
        )
        for task_id in lists[0].ids:
            assert task_id not in owner, (
                f"{suite.name}: task {task_id!r} is in the splits {owner[task_id]!r} and {split!r}; "
                "splits must be disjoint."
            )
            owner[task_id] = split


def check_pages(suite: Suite) -> None:
    """Every reset and step shows what the contract asks for, and the end is told once."""
    environment = suite.plugin.make(**suite.options)
    try:
        for task_id in suite.tasks:
            walk = suite.play(environment, task_id)
            goals = {seen.info["task"] for _, seen in walk}
            assert len(goals) == 1, (
                f"{suite.name}: info['task'] of {task_id} changes within an episode: {sorted(goals)}."
            )
            assert not walk[0][1].info["success"], f"{suite.name}: task {task_id} is a success before the first action."
    finally:
        environment.close()


def check_repeatable(suite: Suite) -> None:
    """Same task and seed: the same pages, rewards and state keys, in this environment again and in another one."""
    first, second = suite.plugin.make(**suite.options), suite.plugin.make(**suite.options)
    try:
        for task_id in suite.tasks:
            walk = suite.play(first, task_id)
            actions = [action for action, _ in walk[1:]]
            same(suite, walk, suite.play(first, task_id, actions), "in the same environment, reset again")
            same(suite, walk, suite.play(second, task_id, actions), "in a second environment of the same process")
    finally:
        first.close()
        second.close()


def check_independent(suite: Suite) -> None:
    """Two environments of one process, played in turns, do not disturb each other."""
    pair = [suite.plugin.make(**suite.options) for _ in range(2)]
    tasks = [suite.tasks[0], suite.tasks[-1]]
    try:
        alone = [suite.play(environment, task_id) for environment, task_id in zip(pair, tasks, strict=True)]
        walks = [[("", suite.reset(pair[i], tasks[i]))] for i in range(2)]
        for turn in range(1, max(map(len, alone))):
            for i in range(2):
                if turn < len(alone[i]):
                    action = alone[i][turn][0]
                    walks[i].append((action, suite.step(pair[i], action)))
        for i in range(2):
            same(suite, alone[i], walks[i], "while another environment of the process was played in turns with it")
    finally:
        for environment in pair:
            environment.close()


def check_other_process(suite: Suite) -> None:
    """The same in a fresh process with another hash seed, and the same task lists there."""
    environment = suite.plugin.make(**suite.options)
    try:
        walks = {task_id: suite.play(environment, task_id) for task_id in suite.tasks}
    finally:
        environment.close()
    actions = [(task_id, [action for action, _ in walk[1:]]) for task_id, walk in walks.items()]
    answer = play_in_another_process(suite, actions)
    for task_id, pages in answer["walks"]:
        there = [(action, Observed(**page)) for action, page in pages]
        same(suite, walks[task_id], there, "in another process")
    for split, (ids, fingerprint) in answer["splits"].items():
        here = suite.plugin.tasks(split, **suite.options)
        assert list(here.ids) == ids, f"{suite.name}: tasks({split!r}) lists other ids in another process."
        assert here.fingerprint == fingerprint, (
            f"{suite.name}: the fingerprint of tasks({split!r}) is another one in another process."
        )


def check_state_keys(suite: Suite) -> None:
    """A state key stands for a state: it changes just when an action was effective, and (`page_tells_state`) one key
    has one page."""
    environment = suite.plugin.make(**suite.options)
    try:
        for task_id in suite.tasks:
            pages: dict[str, str] = {}
            before: Observed | None = None
            for action, seen in suite.play(environment, task_id):
                key, where = seen.info["state_key"], f"{suite.name}: in task {task_id}, after {action!r},"
                if before is not None and not seen.ended:
                    effective, moved = seen.info["action_effective"], key != before.info["state_key"]
                    assert effective or not moved, f"{where} action_effective is False, but the state_key changed."
                    assert moved or not effective, f"{where} action_effective is True, but the state_key is the same."
                page = pages.setdefault(key, seen.observation)
                assert page == seen.observation or not suite.page_tells_state, (
                    f"{where} the state_key {key[:80]!r} stands for two pages: {page[:80]!r} and "
                    f"{seen.observation[:80]!r}."
                )
                before = seen
    finally:
        environment.close()


def check_invalid_actions(suite: Suite) -> None:
    """An action that is none raises nothing, is told invalid and not effective, pays nothing and changes nothing."""
    environment = suite.plugin.make(**suite.options)
    try:
        for task_id in suite.tasks[:2]:
            walk = suite.play(environment, task_id)
            plain = [(action, seen) for action, seen in walk if not seen.ended]
            for action in suite.invalid_actions:
                seen = suite.play(environment, task_id, [action for action, _ in plain[1:]])[-1][1]
                try:
                    after = suite.step(environment, action)
                except AssertionError:
                    raise
                except Exception as error:
                    raise AssertionError(
                        f"{suite.name}: the invalid action {action[:40]!r} raised {type(error).__name__}: {error}; "
                        "it must be answered with action_valid False."
                    ) from error
                where = f"{suite.name}: after the invalid action {action[:40]!r}"
                assert not after.info["action_valid"], f"{where} info['action_valid'] is True."
                assert not after.info["action_effective"], f"{where} info['action_effective'] is True."
                assert after.info["state_key"] == seen.info["state_key"], f"{where} the state_key changed."
                assert not after.ended, f"{where} the episode ended."
                assert after.reward <= 0, f"{where} the reward is {after.reward}."
    finally:
        environment.close()


def check_admissible_actions(suite: Suite) -> None:
    """What is listed as admissible is valid when it is tried: all of it, or `admissible_share`."""
    tried, refused = 0, []
    environment = suite.plugin.make(**suite.options)
    try:
        for task_id in suite.tasks[:2]:
            rng = random.Random(task_id)
            walk = suite.play(environment, task_id)
            for turn, (_, seen) in enumerate(walk):
                listed = seen.info["admissible_actions"] or []
                if seen.ended or not listed:
                    continue
                suite.play(environment, task_id, [action for action, _ in walk[1 : turn + 1]])
                action = rng.choice(listed)
                after = suite.step(environment, action)
                tried += 1
                if not after.info["action_valid"]:
                    refused.append(action)
    finally:
        environment.close()
    assert len(refused) <= (1 - suite.admissible_share) * tried, (
        f"{suite.name}: {refused[0]!r} is in admissible_actions, but was told invalid when it was tried "
        f"({len(refused)} of {tried} were)."
    )


def check_close(suite: Suite) -> None:
    """`close` ends what an environment started: threads, child processes, open files; and may be called twice."""
    environment = suite.plugin.make(**suite.options)
    try:
        walks = [(task_id, [action for action, _ in suite.play(environment, task_id)[1:]]) for task_id in suite.tasks]
    finally:
        environment.close()
    environment.close()
    for what, count in left_after_close(suite, walks).items():
        assert not count, f"{suite.name}: {count} {what} are left after {len(walks)} environments were closed."


def check_memory(suite: Suite) -> None:
    """Resident memory stays bounded over many resets of one environment."""
    environment = suite.plugin.make(**suite.options)
    rng = random.Random(suite.seed)
    try:

        def some_resets(count: int) -> int:
            for index in range(count):
                seen = suite.reset(environment, suite.tasks[index % len(suite.tasks)])
                for _ in range(3):
                    if not seen.ended:
                        seen = suite.step(environment, suite.policy(seen, rng))
            gc.collect()
            return _rss_bytes()

        before = some_resets(max(1, suite.resets // 4))
        grown = some_resets(suite.resets) - before
        assert grown <= suite.growth_limit_bytes, (
            f"{suite.name}: resident memory grew by {grown / 2**20:.1f} MiB over {suite.resets} resets "
            f"(at most {suite.growth_limit_bytes / 2**20:.0f} MiB); something is kept from one reset to the next."
        )
    finally:
        environment.close()


def check_options(suite: Suite) -> None:
    """An unknown option is refused by name."""
    unknown = "no_such_option_7f3a"
    try:
        suite.plugin.make(**suite.options, **{unknown: 1}).close()
    except Exception as error:
        assert unknown in str(error), (
            f"{suite.name}: make({unknown}=1) raised {type(error).__name__} without naming the option: {error}"
        )
    else:
        raise AssertionError(
            f"{suite.name}: make({unknown}=1) was accepted; an unknown option must be refused by name."
        )


CHECKS = (
    check_splits,
    check_options,
    check_pages,
    check_repeatable,
    check_independent,
    check_other_process,
    check_state_keys,
    check_invalid_actions,
    check_admissible_actions,
    check_close,
    check_memory,
)


def _rss_bytes() -> int:
    """Of this process and of those that it has started: an engine may live in one of its own (ScienceWorld's Java)."""
    own = psutil.Process()
    return sum(process.memory_info().rss for process in (own, *own.children(recursive=True)))
