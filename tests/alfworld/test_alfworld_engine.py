"""Our stepping shows what TextWorld's own environment shows, over whole episodes of all six types."""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from pathlib import Path

import pytest
from alfworld_env.engine import NOTHING, Engine
from alfworld_env.expert import Expert
from alfworld_env.generate import TASK_TYPES, game_of
from alfworld_env.grammar import GrammarError, grammar_of, split_goal
from alfworld_env.shipped import grammar
from alfworld_env.translate import PddlError, entity_names, translated
from alfworld_stock import Stock, unordered


@pytest.fixture
def stock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stock:
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))  # `import alfworld` makes this folder
    return Stock()


def compare(stock: Stock, number: int, size: str, most: int = 60) -> None:
    ours = Engine()
    found = game_of("train", number, size)
    text, theirs = ours.load(found.data), stock.load(found.data)
    expert, rng, steps = Expert(found.goal), random.Random(number), 0

    def same() -> None:
        assert unordered(text) == unordered(theirs)
        assert sorted(ours.operators) == stock.commands
        assert ours.won == stock.won

    same()
    while not ours.won and steps < most:
        wanted = expert.act(text, stock.commands)
        if rng.random() < 0.3:  # a step aside that leaves the expert where it is
            aside = rng.choice(["no such command", "inventory", "look", *(c for c in stock.commands if "examine" in c)])
            assert unordered(ours.step(aside)[0]) == unordered(stock.step(aside))
        text, theirs = ours.step(wanted)[0], stock.step(wanted)
        steps += 1
        same()  # after the winning command as well
    assert ours.won
    ours.close()


@pytest.mark.parametrize("number", range(6))
def test_every_text_and_command_is_the_stock_engines(number: int, stock: Stock) -> None:
    compare(stock, number, "small")


@pytest.mark.slow
@pytest.mark.parametrize("number", range(12))
def test_full_rooms_too(number: int, stock: Stock) -> None:
    compare(stock, number, "full")


def test_six_games_are_the_six_types() -> None:
    assert {game_of("train", number, "small").goal.task_type for number in range(6)} == set(TASK_TYPES)


def test_random_commands_agree_where_the_expert_never_goes(stock: Stock) -> None:
    """Slicing, closing, putting things into one another's places."""
    ours = Engine()
    data = game_of("train", 3, "small").data
    ours.load(data)
    stock.load(data)
    rng = random.Random(0)
    for _ in range(40):
        commands = stock.commands
        assert sorted(ours.operators) == commands
        command = rng.choice([c for c in commands if not c.startswith("go to")] if rng.random() < 0.7 else commands)
        assert unordered(ours.step(command)[0]) == unordered(stock.step(command))
    ours.close()


def test_steps_and_resets_are_fast() -> None:
    """Medians, on a full kitchen: 4 ms a step and 40 ms a reset to a game that was seen.

    Processor time: nothing here waits, so that it is the same as on the clock, but for what else the machine does.
    """
    engine = Engine()
    data = game_of("train", 3, "full").data
    engine.load(data)
    rng = random.Random(0)

    def median(what: object, times: int) -> float:
        found = []
        for _ in range(times):
            start = time.process_time()
            what()  # type: ignore[operator]
            found.append(time.process_time() - start)
        return sorted(found)[times // 2]

    assert median(lambda: engine.step(rng.choice(sorted(engine.operators))), 200) <= 0.004
    assert median(lambda: engine.load(data), 15) <= 0.040
    engine.close()


def test_argv_and_stdout_are_left_alone(tmp_path: Path) -> None:
    argv, out = list(sys.argv), sys.stdout
    found = game_of("validation", 5, "small").data
    translated(found["pddl_domain"], found["pddl_problem"], str(tmp_path))
    assert sys.argv == argv and sys.stdout is out


def test_a_library_is_handed_on() -> None:
    import alfworld_env.engine as module

    first = Engine()
    library = first._lib
    first.close()
    first.close()
    assert library in module._free
    second = Engine()
    assert second._lib is library
    second.close()


def test_translations_are_kept_on_disk_and_half_written_ones_made_anew(tmp_path: Path) -> None:
    import alfworld_env.translate as module

    data = game_of("validation", 6, "small").data
    first = translated(data["pddl_domain"], data["pddl_problem"], str(tmp_path))
    (path,) = tmp_path.glob("*.json.gz")
    module._memory.clear()
    assert translated(data["pddl_domain"], data["pddl_problem"], str(tmp_path)) == first
    path.write_bytes(path.read_bytes()[:100])
    module._memory.clear()
    assert translated(data["pddl_domain"], data["pddl_problem"], str(tmp_path)) == first
    module._memory.clear()
    assert translated(data["pddl_domain"], data["pddl_problem"], os.devnull + "/no") == first


def test_memory_holds_a_bounded_number_of_translations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import alfworld_env.translate as module

    monkeypatch.setattr(module, "IN_MEMORY", 3)
    for number in range(5):
        data = game_of("validation", number, "small").data
        translated(data["pddl_domain"], data["pddl_problem"], str(tmp_path))
    assert len(module._memory) == 3


def test_two_threads_play_without_disturbing_each_other() -> None:
    """TextWorld's own environment gives wrong texts or crashes here; ours keeps its parsers behind a lock."""
    alone = {number: _episode(number) for number in range(6)}
    found: dict[int, list[str]] = {}
    threads = [threading.Thread(target=lambda n=n: found.update({n: _episode(n)})) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == alone


def _episode(number: int) -> list[str]:
    engine, found = Engine(), game_of("train", number, "small")
    texts = [engine.load(found.data)]
    expert = Expert(found.goal)
    while not engine.won and len(texts) < 60:
        texts.append(engine.step(expert.act(texts[-1], sorted(engine.operators)))[0])
    engine.close()
    return texts


def test_numbers_count_down_over_the_sorted_ids() -> None:
    names = entity_names({"mug_bar_a", "mug_bar_b", "sink_bar_a_bar_sinkbasin", "agent1"})
    assert names == {
        "mug_bar_a": "mug 2",
        "mug_bar_b": "mug 1",
        "sink_bar_a_bar_sinkbasin": "sinkbasin 1",
        "agent1": "agent1 ",
    }


def test_what_is_not_a_command_does_nothing() -> None:
    engine = Engine()
    engine.load(game_of("train", 0, "small").data)
    before = sorted(engine.operators)
    assert engine.step("dance") == (NOTHING, False)
    assert sorted(engine.operators) == before
    engine.close()


def test_a_grammar_runs_no_code() -> None:
    source, _ = split_goal(grammar())
    assert grammar_of(source).put_word == "move"
    with pytest.raises(GrammarError, match="only names of entities"):
        grammar_of(source.replace("{r.name} is open", "{r.__class__.__name__} is open", 1))


def test_broken_games_are_named() -> None:
    engine, data = Engine(), game_of("train", 0, "small").data
    with pytest.raises(GrammarError, match="Your task is to"):
        engine.load({**data, "grammar": "nothing"})
    with pytest.raises(GrammarError, match="cannot be read"):
        engine.load({**data, "grammar": data["grammar"].replace("action GotoLocation {", "action {")})
    with pytest.raises(PddlError, match="cannot be translated"):
        engine.load({**data, "pddl_problem": "(define (problem"})
    engine.close()
