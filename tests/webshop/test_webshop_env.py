"""The environment: the page flow, the formats, the tasks, odd input, and that the expert gets through."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from typing import Any

import gymnasium
import psutil
import pytest
from webshop_env import WebShopEnv, plugin
from webshop_env.agents import Expert, NoisyAgent, RandomAgent, play
from webshop_env.catalogue import Catalogue, mini
from webshop_env.goalbook import LEVELS, SPLITS
from webshop_env.goals import fulfilling_options, mini_goals
from webshop_env.pages import Page, Renderer
from webshop_env.reward import attribute_hits, option_hits
from webshop_env.vocabulary import CATEGORIES, GROUPS

COMPACT = {"catalogue": "mini", "observation_mode": "compact", "results_per_page": 5}


@pytest.fixture
def env() -> Any:
    made = gymnasium.make("WebShop-v0", **COMPACT).unwrapped
    yield made
    made.close()


# --- the data


def test_the_catalogue_is_large_and_full_of_distractors() -> None:
    products = mini().products
    assert len(products) >= 1000 and len({p["category"] for p in products.values()}) >= 12
    kinds: dict[str, list[dict[str, Any]]] = {}
    for product in products.values():
        kinds.setdefault(product["query"], []).append(product)
    for alike in kinds.values():
        assert len(alike) >= 10 and len({tuple(p["Attributes"]) for p in alike}) > 5
    assert all(len(asin) == 10 and asin.startswith("B0") for asin in products)


def test_no_word_passes_for_another() -> None:
    """Values that differ in words. Those that differ in a number ("12 inch", "18 inch") may pass, as in the original."""
    for values in GROUPS.values():
        for want in values:
            if not any(letter.isdigit() for letter in want):
                assert [v for v in values if option_hits([want], [v])] == [want]
    for category in CATEGORIES:
        for want in category.attributes:
            blank = {"Title": "", "BulletPoints": [], "Description": ""}
            assert [a for a in category.attributes if attribute_hits({**blank, "Attributes": [a]}, [want])] == [want]


def test_splits_share_no_goal_and_no_text() -> None:
    book = mini_goals()
    texts = {split: {goal["instruction_text"] for goal in book.splits[split]} for split in SPLITS}
    identities = {split: {goal["identity"] for goal in book.splits[split]} for split in SPLITS}
    for one, other in (("train", "validation"), ("train", "test"), ("validation", "test")):
        assert not texts[one] & texts[other] and not identities[one] & identities[other]
    assert sum(len(book.splits[split]) for split in SPLITS) >= 2000
    for split in SPLITS:
        for level in LEVELS:
            assert len(plugin.tasks(split, difficulty=level, catalogue="mini").ids) >= 200


def test_every_goal_can_be_reached_with_its_own_product() -> None:
    catalogue = mini()
    for split in SPLITS:
        for goal in mini_goals().splits[split]:
            product = catalogue.products[goal["asin"]]
            assert fulfilling_options(product, catalogue.prices[goal["asin"]], goal) == goal["goal_options"]


def test_another_process_sees_the_same() -> None:
    code = (
        "import json; from webshop_env import plugin; e = plugin.make(catalogue='mini', observation_mode='text_rich');"
        "t = plugin.tasks('test', catalogue='mini'); o, i = e.reset(seed=3, options={'task_id': t.ids[5]});"
        "o2, *_ = e.step('search[' + i['task'] + ']'); print(json.dumps([t.fingerprint, o, o2]))"
    )
    said = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                       env={**os.environ, "PYTHONHASHSEED": seed}).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert said[0] == said[1] and json.loads(said[0])[0] == plugin.tasks("test", catalogue="mini").fingerprint


# --- the formats of the original


def almonds() -> Catalogue:
    def record(asin: str, name: str, pricing: str, options: dict[str, list[str]]) -> dict[str, Any]:
        return {
            "asin": asin, "name": name, "category": "grocery", "query": "roasted almonds",
            "product_category": "Grocery \u203a Nuts", "full_description": f"The {name.split()[0]} roasted almonds is elegant.",
            "small_description": ["low carb: a bullet"], "pricing": pricing, "images": [""],
            "customization_options": {k: [{"value": v, "image": None} for v in vs] for k, vs in options.items()},
        }  # fmt: skip

    elden = record(
        "B0000534FW", "Elden Organic Roasted Almonds for Home, Low Carb Elegant Almonds with Keto Friendly",
        "$28.19$39.47", {"size": ["pack of 12"], "Flavor Name": ["lemon", "Vanilla", "original"]},
    )  # fmt: skip
    tormar = record("B00003U579", "Tormar Gentle Roasted Almonds for Gift", "$5.5", {})
    return Catalogue([elden, tormar], {})


WISH = "i am looking for roasted almonds, and price lower than 40.00 dollars"


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (Page("search"), f"WebShop [SEP] Instruction: [SEP] {WISH} [SEP] Search"),
        (
            Page("results", query="elden"),
            f"Instruction: [SEP] {WISH} [SEP] Back to Search [SEP] Page 1 (Total results: 1) [SEP] Next > [SEP] B0000534FW "
            "[SEP] Elden Organic Roasted Almonds for Home, Low Carb Elegant Almonds with Keto Friendly [SEP] "
            "$28.19 to $39.47",
        ),
        (
            Page("item", query="elden", asin="B0000534FW", choices=(("flavor name", "original"),)),
            f"Instruction: [SEP] {WISH} [SEP] Back to Search [SEP] < Prev [SEP] size [SEP] pack of 12 [SEP] flavor name "
            "[SEP] lemon [SEP] vanilla [SEP] original [SEP] Elden Organic Roasted Almonds for Home, Low Carb Elegant "
            "Almonds with Keto Friendly [SEP] Price: $28.19 to $39.47 [SEP] Rating: N.A. [SEP] Description [SEP] "
            "Features [SEP] Reviews [SEP] Buy Now",
        ),
        (
            Page("description", query="elden", asin="B0000534FW"),
            f"Instruction: [SEP] {WISH} [SEP] Back to Search [SEP] < Prev [SEP] The Elden roasted almonds is elegant.",
        ),
        (Page("reviews", query="elden", asin="B0000534FW"),
         f"Instruction: [SEP] {WISH} [SEP] Back to Search [SEP] < Prev"),
        (Page("results", query="nothere"),
         f"Instruction: [SEP] {WISH} [SEP] Back to Search [SEP] Page 1 (Total results: 0) [SEP] Next >"),
    ],
    ids=lambda value: value.kind if isinstance(value, Page) else None,
)  # fmt: skip
def test_text_is_the_originals(page: Page, expected: str) -> None:
    assert Renderer(almonds(), "text", 10, 50, False).text(page, WISH) == expected


def test_text_rich_is_the_originals() -> None:
    renderer = Renderer(almonds(), "text_rich", 10, 50, False)
    item = Page("item", query="elden", asin="B0000534FW", choices=(("flavor name", "original"),))
    assert renderer.text(item, WISH).splitlines() == [
        "You have clicked original.", "Instruction:", WISH, "[button] Back to Search [button_]", "[button] < Prev [button_]",
        "size", "  [button] pack of 12 [button_]", "flavor name", "  [button] lemon [button_]", "  [button] vanilla [button_]",
        "  [clicked button] original [clicked button_]",
        "Elden Organic Roasted Almonds for Home, Low Carb Elegant Almonds with Keto Friendly",
        "Price: $28.19 to $39.47", "Rating: N.A.", "[button] Description [button_]", "[button] Features [button_]",
        "[button] Reviews [button_]", "[button] Buy Now [button_]",
    ]  # fmt: skip
    results = renderer.text(Page("results", query="tormar"), WISH).splitlines()
    assert results[-4:] == ["", "[button] B00003U579 [button_]", "Tormar Gentle Roasted Almonds for Gift", "$5.5"]


def test_clickables_are_the_originals() -> None:
    renderer = Renderer(almonds(), "text", 10, 50, False)
    item = Page("item", query="elden", asin="B0000534FW")
    assert set(renderer.clickables(item)) == {
        "back to search", "< prev", "description", "features", "reviews", "buy now", "pack of 12", "lemon", "vanilla",
        "original",
    }  # fmt: skip
    assert list(renderer.clickables(Page("results", query="elden"))) == ["back to search", "next >", "b0000534fw"]


# --- the flow


def start(env: WebShopEnv, number: int = 0) -> dict[str, Any]:
    return env.reset(options={"task_id": plugin.tasks("validation", difficulty="easy", catalogue="mini").ids[number]})[
        1
    ]


def test_searching_again_clears_the_choices(env: WebShopEnv) -> None:
    start(env)
    env.step(Expert().act(env))
    env.step(Expert().act(env))
    option = next(iter(mini().products[env.page.asin]["options"].values()))[0]
    _, _, _, _, info = env.step(f"click[{option}]")
    assert option in info["state_key"] and info["action_effective"]
    again = env.step(f"click[{option}]")[4]
    assert again["action_valid"] and not again["action_effective"]
    assert env.step("search[red hoodie]")[4]["state_key"].startswith("results|red hoodie|1")
    assert not env.page.choices


@pytest.mark.parametrize(
    "action",
    ["", "buy", "search", "search[]", "click[]", "click[nothing here]", "click[search]", "hover[buy now]", "click buy now",
     "[x]", "click[\x00]", "\u200b", "click[b0zzzzzzzz]"],
)  # fmt: skip
def test_what_is_no_action_here_changes_nothing(env: WebShopEnv, action: str) -> None:
    start(env)
    before = env.render()
    observation, reward, terminated, truncated, info = env.step(action)
    assert (observation, reward, terminated, truncated) == (before, 0.0, False, False)
    assert not info["action_valid"] and not info["action_effective"] and not info["success"]


@pytest.mark.parametrize("words", ["a" * 10_000, "red " * 2_500, "\x01\x02", "\u4e2d\u6587", "'; drop table"])
def test_odd_searches_have_a_result_page(env: WebShopEnv, words: str) -> None:
    start(env)
    observation, _, _, _, info = env.step(f"search[{words}]")
    assert info["action_valid"] and len(observation) < 3000 and len(info["state_key"]) < 1000


def test_the_end_is_the_end(env: WebShopEnv) -> None:
    start(env)
    while True:
        _, reward, done, _, info = env.step(Expert().act(env))
        if done:
            break
    assert reward == info["score"] == 1.0 and info["success"] and info["reward_parts"]["r_type"] == 1.0
    with pytest.raises(RuntimeError, match="call reset"):
        env.step("search[x]")


def test_unknown_options_and_tasks_are_named() -> None:
    with pytest.raises(ValueError, match=r"observation_mod.*observation_mode"):
        plugin.make(observation_mod="text")
    with pytest.raises(ValueError, match="results_per_page is 0"):
        plugin.make(results_per_page=0)
    with pytest.raises(ValueError, match="difficulty is 'impossible'"):
        plugin.tasks("train", difficulty="impossible")
    with pytest.raises(ValueError, match="split 'dev'"):
        plugin.tasks("dev")
    with pytest.raises(ValueError, match="task_id 'train/999999'"):
        plugin.make().reset(options={"task_id": "train/999999"})


# --- the agents, and memory


@pytest.mark.parametrize("level", LEVELS)
def test_agents_rank_as_they_should(level: str) -> None:
    env = plugin.make(**COMPACT)
    tasks = plugin.tasks("validation", difficulty=level, catalogue="mini").ids[:80]
    rate = lambda make: sum(play(env, make(i), t, 12)[0] == 1.0 for i, t in enumerate(tasks)) / len(tasks)  # noqa: E731
    expert, noisy = rate(lambda i: Expert()), rate(lambda i: NoisyAgent(random.Random(i)))
    assert expert >= 0.95 and rate(lambda i: RandomAgent(random.Random(i))) < 0.1 < noisy < expert


def test_memory_stays_flat_over_resets() -> None:
    env = plugin.make(**COMPACT)
    tasks = plugin.tasks("train", catalogue="mini").ids
    process = psutil.Process()
    for task in tasks[:300]:
        play(env, Expert(), task, 8)
    before = process.memory_info().rss
    for round_ in range(3):
        for task in tasks[300 * round_ : 300 * round_ + 300]:
            play(env, Expert(), task, 8)
    assert process.memory_info().rss - before < 40 << 20
