"""The embedded catalogue: made once in the user's cache, worth training on, and the clean pages."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
from pathlib import Path
from typing import Any

import pytest
from webshop_env import data, plugin
from webshop_env.agents import Expert, NoisyAgent, RandomAgent, play
from webshop_env.data import EMBEDDED_PRODUCTS, embedded_folder
from webshop_env.generate_large import FAMILY, KINDS, asin_of, record
from webshop_env.goalbook import LEVELS, SPLITS
from webshop_env.pages import Page, Renderer
from webshop_env.reward import attribute_hits
from webshop_env.store import open_store
from webshop_env.vocabulary_large import ALL_CATEGORIES, BULLETS, SENTENCES, STYLES, USES


@pytest.fixture(scope="module")
def shop() -> Any:
    return open_store(embedded_folder())


def test_size_and_categories(shop: Any) -> None:
    catalogue, _ = shop
    assert len(catalogue) == EMBEDDED_PRODUCTS >= 5000
    assert len({product["category"] for product in catalogue.products.values()}) == len(ALL_CATEGORIES) >= 20
    assert len({product["query"] for product in catalogue.products.values()}) == len(KINDS) >= 120
    assert any(len(product["pricing"]) == 2 for product in catalogue.products.values())
    titles = [product["Title"] for product in catalogue.products.values()]
    assert len(set(titles)) < len(titles)  # some differ in what the title does not tell


def test_near_duplicates_differ_in_one_thing() -> None:
    for family in range(0, 400, 7):
        first, *others = (record(family * FAMILY + member) for member in range(FAMILY))
        attributes, options, price = (
            [set(a["extra"]["attributes"]) for a in (first, *others)],
            [a["customization_options"] for a in (first, *others)],
            [a["pricing"].split("$")[1] for a in (first, *others)],
        )
        assert len(attributes[0] ^ attributes[1]) == 2 and options[0] == options[1] and price[0] == price[1]
        assert attributes[0] == attributes[2] and price[0] == price[2]
        assert sum(options[0][group] != options[2][group] for group in options[0]) <= 1
        assert attributes[0] == attributes[3] and options[0] == options[3] and float(price[3]) >= float(price[0])
        assert len({other["query"] for other in (first, *others)}) == 1


def test_a_larger_catalogue_begins_with_the_smaller_and_asins_are_unique() -> None:
    assert len({asin_of(number) for number in range(200_000)}) == 200_000
    assert all(len(asin_of(number)) == 10 for number in (0, 1, 1_100_000))


def test_no_word_passes_for_another_and_no_filler_for_an_attribute() -> None:
    fillers = " ".join([*BULLETS, *SENTENCES, *STYLES, *USES]).lower()
    for category in ALL_CATEGORIES:
        for want in category.attributes:
            blank = {"Title": "", "BulletPoints": [], "Description": ""}
            assert [a for a in category.attributes if attribute_hits({**blank, "Attributes": [a]}, [want])] == [want]
            assert want not in fillers
            assert not any(want in kind for kind, *_ in category.types)


def test_splits_are_disjoint_and_large(shop: Any) -> None:
    env = plugin.make()
    wishes = {}
    for split in SPLITS:
        for level in LEVELS:
            assert len(plugin.tasks(split, difficulty=level).ids) >= 300
        wishes[split] = {env.reset(options={"task_id": task})[1]["task"] for task in plugin.tasks(split).ids}
    assert len(wishes["train"]) > 10_000
    for one, other in itertools.combinations(wishes.values(), 2):
        assert not one & other


@pytest.mark.parametrize("level", LEVELS)
def test_agents_rank_as_they_should(level: str) -> None:
    env = plugin.make(observation_mode="text_rich")
    tasks = plugin.tasks("validation", difficulty=level).ids[:60]
    rate = lambda make: sum(play(env, make(i), t, 15)[0] == 1.0 for i, t in enumerate(tasks)) / len(tasks)  # noqa: E731
    expert, noisy = rate(lambda i: Expert()), rate(lambda i: NoisyAgent(random.Random(i)))
    assert expert >= 0.9 and rate(lambda i: RandomAgent(random.Random(i))) < 0.1 < noisy < expert


# --- the cache


def _open(root: str, queue: Any) -> None:
    os.environ["WEBSHOP_ENV_CACHE"] = root
    embedded_folder.cache_clear()
    data.EMBEDDED_PRODUCTS = 200
    queue.put(open_store(embedded_folder())[0].fingerprint)


def test_processes_that_come_together_make_it_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    workers = [context.Process(target=_open, args=(str(tmp_path), queue)) for _ in range(3)]
    for worker in workers:
        worker.start()
    found = {queue.get(timeout=120) for _ in workers}
    for worker in workers:
        worker.join()
    assert len(found) == 1
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["embedded-200-2022-1"]


def test_a_half_made_cache_is_made_anew_and_an_unwritable_one_is_gone_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "EMBEDDED_PRODUCTS", 50)
    monkeypatch.setenv("WEBSHOP_ENV_CACHE", str(tmp_path))
    half = tmp_path / "embedded-50-2022-1"
    half.mkdir()
    (half / "products.bin").write_bytes(b"half")
    embedded_folder.cache_clear()
    assert embedded_folder() == half and len(open_store(half)[0]) == 50
    monkeypatch.setenv("WEBSHOP_ENV_CACHE", "/proc/nowhere")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "other"))
    embedded_folder.cache_clear()
    assert str(embedded_folder()).startswith(str(tmp_path / "other"))
    embedded_folder.cache_clear()


# --- pages="clean"


def test_clean_pages(shop: Any) -> None:
    catalogue, _ = shop
    asin, product = next(iter(catalogue.products.items()))
    group, value = next((g, values[0]) for g, values in product["options"].items())
    faithful, clean = (Renderer(catalogue, "text", 10, 50, False, style) for style in ("faithful", "clean"))
    item = Page("item", query=f'x "{value}"', asin=asin)
    chosen = Page("item", query="x", asin=asin, choices=((group, value),))
    assert f"{value} (chosen)" in clean.text(chosen, "wish") and "(chosen)" not in faithful.text(chosen, "wish")
    assert "(chosen)" not in clean.text(item, "wish")
    rich = [Renderer(catalogue, "text_rich", 10, 50, False, style) for style in ("faithful", "clean")]
    assert ["[clicked button]" in renderer.text(item, "wish") for renderer in rich] == [True, False]
    query = f"{product['query']} {product['Title']}"
    last = Page("results", query=query, number=-(-len(catalogue.search(query, 50)) // 10))
    assert "next >" in faithful.clickables(last) and "next >" not in clean.clickables(last)
    assert "Next >" in faithful.text(last, "") and "Next >" not in clean.text(last, "")
    assert "[next >]" not in Renderer(catalogue, "compact", 10, 50, False, "clean").text(last, "")


def test_clean_pages_search_on_the_search_page_only() -> None:
    for style, accepted in (("faithful", True), ("clean", False)):
        env = plugin.make(pages=style)
        env.reset(seed=0)
        assert env.step("search[red shirt]")[4]["action_valid"]
        assert env.step("search[blue shirt]")[4]["action_valid"] is accepted
    with pytest.raises(ValueError, match="pages is 'dirty'"):
        plugin.make(pages="dirty")


def test_the_readmes_sample_runs() -> None:
    import re

    readme = Path(__file__).resolve().parents[2] / "envs" / "webshop" / "README.md"
    (block,) = re.findall(r"```python\n(.*?)```", readme.read_text(encoding="utf-8"), re.S)
    names: dict[str, Any] = {}
    exec(block, names)
    assert names["info"]["state_key"].startswith("results|red wool scarf|1") and names["reward"] == 0.0
    assert plugin.make(catalogue=None).catalogue is open_store(embedded_folder())[0]
