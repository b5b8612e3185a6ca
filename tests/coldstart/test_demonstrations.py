"""The scripted players: good without slips, imperfect with them, and their answers are what the parser reads."""

import random
from dataclasses import replace

import pytest

from agentrl.coldstart.tokenizer import build_tokenizer
from agentrl.coldstart.world import demonstrate
from agentrl.episode.parse import INVALID, ActionParser

WORLDS = {
    "webshop": ("webshop", "WebShopWorld", "webshop_env.plugin"),
    "alfworld": ("household", "HouseholdWorld", "fast_downward"),
    "scienceworld": ("laboratory", "LaboratoryWorld", "scienceworld"),
    "sokoban": ("warehouse", "WarehouseWorld", "sokoban_env.plugin"),
}


@pytest.fixture(scope="module", params=WORLDS)
def played(request):
    module, name, needed = WORLDS[request.param]
    pytest.importorskip(needed, exc_type=ImportError)
    world = getattr(__import__(f"agentrl.coldstart.{module}", fromlist=[name]), name)
    found = world(build_tokenizer(["x"], size=400))
    found.renderer.max_prompt_tokens = 4000  # this tokenizer spells everything
    env = found.make()
    yield found, env, found.train_tasks()
    env.close()


def success(played, slips):
    world, env, known = played
    tasks = 20 if world.name == "scienceworld" else 60  # half a second each
    rng = random.Random(0)
    return sum(demonstrate(world, env, task, rng, slips, slips)[1] for task in known[:tasks]) / tasks


def test_without_slips_it_nearly_always_succeeds_and_with_them_sometimes(played):
    read, imitate = played[0].stages[0], played[0].stages[-1]
    assert success(played, read.written) > 0.9
    assert 0.1 < success(played, imitate.written) < 0.9  # rooms of Sokoban forgive a wrong step


def test_answers_parse_and_malformed_ones_do_not(played):
    world, env, tasks = played
    parser = ActionParser()
    careful = world.stages[0].written
    for slips, valid in ((careful, True), (replace(careful, malformed=1.0), False)):
        records, _ = demonstrate(world, env, tasks[0], random.Random(1), slips, slips)
        assert records
        assert all((parser(record.response).action != INVALID) == valid for record in records)


def test_what_is_written_can_be_better_than_what_is_played(played):
    world, env, tasks = played
    read = world.stages[0]
    lengths = []
    for slips in (read.written, read.played):
        rng = random.Random(2)
        lengths.append(sum(len(demonstrate(world, env, task, rng, read.written, slips)[0]) for task in tasks[:20]))
    assert lengths[1] > lengths[0]  # a wandering player sees more states, each with a good answer


def test_a_place_in_sokoban_is_a_token_for_the_row_and_one_for_the_column():
    pytest.importorskip("sokoban_env.plugin")
    from agentrl.coldstart.warehouse import WarehouseWorld

    world = WarehouseWorld()
    tokens = world.renderer.tokenizer.tokenize("you r3 c2\nbox r2 c2\ntarget r4 c4")
    assert [t.replace("\u0120", " ") for t in tokens] == ["you", " r3", " c2", "\u010a", "box", " r2", " c2", "\u010a", "target",
                                                        " r4", " c4"]  # fmt: skip
