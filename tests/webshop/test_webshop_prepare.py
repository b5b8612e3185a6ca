"""Prepared stores: the same shop as in memory, made in parts that can be gone on with, and checked for belonging."""

from __future__ import annotations

import itertools
import json
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from webshop_env import generate, plugin, prepare_parts
from webshop_env.agents import Expert, play
from webshop_env.catalogue import Catalogue
from webshop_env.generate_large import extras
from webshop_env.instructions import PUBLISHED
from webshop_env.mapped import StoreError
from webshop_env.prepare import generated_source, main, prepare, public_source
from webshop_env.store import open_store, read_meta
from webshop_files import write_files

PRODUCTS, SEED = 330, 9


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare_parts, "PART", 100)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store") / "made"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepare_parts, "PART", 100)
        prepare(generated_source(PRODUCTS, SEED), folder, published=False, quiet=True, jobs=2)
    return folder


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_it_is_the_shop_that_memory_holds(store: Path) -> None:
    stored, _ = open_store(store)
    made = Catalogue(*extras(PRODUCTS, SEED))
    assert list(stored.products) == list(made.products) and len(stored) == PRODUCTS
    for asin, product in made.products.items():
        assert stored.products[asin] == product and stored.prices[asin] == made.prices[asin]
    rng = random.Random(0)
    words = sorted({word for product in made.products.values() for word in product["Title"].lower().split()})
    queries = [" ".join(rng.sample(words, rng.randint(1, 6))) for _ in range(200)]
    for query in [*queries, "size", "with color black and size small", "", "nothingthere"]:
        for k in (1, 10, 50):
            assert stored.index.search(query, k) == made.index.search(query, k), (query, k)


def test_an_asin_that_is_not_there(store: Path) -> None:
    products = open_store(store)[0].products
    for asin in ("B0", "", "ZZZZZZZZZZ", "søren", "B0000000000000"):
        assert asin not in products
        with pytest.raises(KeyError):
            products[asin]


def test_goals_are_split_by_identity_and_can_be_reached(store: Path) -> None:
    meta = read_meta(store)
    env = plugin.make(data_dir=str(store), observation_mode="compact", results_per_page=10)
    seen: dict[str, set[str]] = {}
    for split in ("train", "validation", "test"):
        tasks = plugin.tasks(split, data_dir=str(store))
        assert len(tasks.ids) == meta["goals_by_split"][split] > 50
        infos = [env.reset(options={"task_id": task})[1] for task in tasks.ids]
        seen[split] = {info["task"] for info in infos}
        by_level = [set(plugin.tasks(split, data_dir=str(store), difficulty=d).ids) for d in ("easy", "medium", "hard")]
        assert all(by_level) and set().union(*by_level) == set(tasks.ids)
        rewards = [play(env, Expert(), task, 30)[0] for task in tasks.ids[:40]]
        assert sum(reward == 1.0 for reward in rewards) >= 36
    assert not (seen["train"] & seen["validation"] or seen["train"] & seen["test"] or seen["validation"] & seen["test"])


def test_another_process_sees_the_same(store: Path) -> None:
    code = (
        f"from webshop_env import plugin; t = plugin.tasks('train', data_dir={str(store)!r}); "
        f"e = plugin.make(data_dir={str(store)!r}); o, i = e.reset(options={{'task_id': t.ids[3]}}); "
        "print(t.fingerprint, o, e.step('search[' + i['task'] + ']')[0])"
    )
    said = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)]
    assert said[0].stdout == said[1].stdout and plugin.tasks("train", data_dir=str(store)).fingerprint in said[0].stdout


# --- stopped and gone on with


class Stopped(Exception):
    pass


def stops_after(source: Any, number: int) -> Any:
    def records(skip: int) -> Any:
        for item in source.records(skip):
            if item[1] > number:
                raise Stopped
            yield item

    return replace(source, records=records)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_stopped_preparation_goes_on(jobs: int, store: Path, tmp_path: Path) -> None:
    source = generated_source(PRODUCTS, SEED)
    with pytest.raises(Stopped):
        prepare(stops_after(source, 250), tmp_path, published=False, quiet=True, jobs=jobs)
    with pytest.raises(StoreError, match="begun and not finished"):
        plugin.make(data_dir=str(tmp_path))
    kept = sorted((tmp_path / "parts").glob("part_*.json"))
    assert kept
    for path in kept[1:]:  # one complete part is enough to go on from
        path.unlink()
    read: list[int] = []
    watched = replace(source, records=lambda skip: (read.append(skip), source.records(skip))[1])
    prepare(watched, tmp_path, published=False, quiet=True, jobs=jobs)
    assert read == [100]
    assert bytes_of(tmp_path) == bytes_of(store) and not (tmp_path / "parts").exists()


def test_parts_of_other_data_are_made_anew(store: Path, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        prepare(stops_after(generated_source(PRODUCTS, SEED + 1), 250), tmp_path, published=False, quiet=True)
    prepare(generated_source(PRODUCTS, SEED), tmp_path, published=False, quiet=True)
    assert bytes_of(tmp_path) == bytes_of(store)


def test_what_is_there_is_not_made_again(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (store / "meta.json").stat().st_mtime_ns
    assert main(["--generate", str(PRODUCTS), "--seed", str(SEED), "--out", str(store)]) == 0
    assert "holds these data already" in capsys.readouterr().err
    assert (store / "meta.json").stat().st_mtime_ns == before


# --- damaged stores


@pytest.fixture
def copy(store: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(store, tmp_path / "copy"))


def test_files_of_another_catalogue_are_refused(copy: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    prepare(generated_source(PRODUCTS, SEED + 1), other, published=False, quiet=True)
    for name in ("documents.bin", "weights.bin", "products.bin", "goals.bin"):
        kept = (copy / name).read_bytes()
        shutil.copy(other / name, copy / name)
        open_store.cache_clear()
        with pytest.raises(StoreError, match=rf"{name}: it was made from other data"):
            open_store(copy)
        (copy / name).write_bytes(kept)


@pytest.mark.parametrize("name", ["documents.bin", "products.bin", "asins.bin", "terms_starts.bin", "goals_train.bin"])
def test_files_that_are_missing_or_cut_are_named(name: str, copy: Path) -> None:
    whole = (copy / name).read_bytes()
    for content, said in (
        (whole[:-5], "bytes instead of"),
        (whole[:20], "not a file of a prepared store"),
        (None, "missing"),
    ):
        (copy / name).unlink() if content is None else (copy / name).write_bytes(content)
        open_store.cache_clear()
        with pytest.raises(StoreError, match=said) as error:
            open_store(copy)
        assert name in str(error.value) and "prepare the data again" in str(error.value)


def test_check_compares_checksums(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check", str(copy)]) == 0
    path = copy / "weights.bin"
    content = bytearray(path.read_bytes())
    content[-7] ^= 1
    path.write_bytes(content)
    assert main(["--check", str(copy)]) == 2
    assert "weights.bin: it has changed" in capsys.readouterr().err


def test_meta_of_another_version(copy: Path) -> None:
    meta = read_meta(copy)
    (copy / "meta.json").write_text(json.dumps(meta | {"version": 99}))
    with pytest.raises(StoreError, match="another version"):
        read_meta(copy)
    (copy / "meta.json").write_text("{")
    with pytest.raises(StoreError, match="cannot be read"):
        read_meta(copy)


# --- WebShop's own files


def test_human_goals_of_the_full_data_have_the_published_split(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "data", products=300, size="full")
    assert main(["--data-dir", str(folder), "--jobs", "1"]) == 0
    meta = read_meta(folder / "prepared")
    human = json.loads((folder / "items_human_ins.json").read_text())
    expected = [
        one for asin, given in human.items() for one in given if one["instruction_attributes"] and asin != "B000NOWHERE"
    ]
    assert meta["goals"] == len(expected) == 200 and meta["split"] == "published"
    assert meta["instructions_without_product"] == 1
    order = list(range(len(expected)))
    random.Random(233).shuffle(order)
    first, last = PUBLISHED["test"]
    env = plugin.make(data_dir=str(folder))
    ids = plugin.tasks("test", data_dir=str(folder)).ids
    assert len(ids) == len(order[first:last])
    for place, task in zip(order[first:last], ids, strict=True):
        text = env.reset(options={"task_id": task})[1]["task"]
        wish = expected[place]["instruction"].strip(".")
        assert text == wish or text.startswith(f"{wish}, and price lower than ")
        assert env.goal["goal_options"] == expected[place]["instruction_options"] and env.goal["weight"] == 1


def test_the_small_data_are_split_by_product(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "data")
    assert main(["--data-dir", str(folder), "--goals", "synthetic"]) == 0
    meta = read_meta(folder / "prepared")
    assert meta["split"] == "identity" and meta["source"]["size"] == "1k"
    env = plugin.make(data_dir=str(folder))
    owners = {}
    for split in ("train", "validation", "test"):
        owners[split] = set()
        for task in plugin.tasks(split, data_dir=str(folder)).ids:
            env.reset(options={"task_id": task})
            owners[split].add(env.goal["asin"])
    assert all(owners.values())
    assert not (
        owners["train"] & owners["test"]
        or owners["train"] & owners["validation"]
        or owners["test"] & owners["validation"]
    )


def test_synthetic_goals_are_every_combination_with_the_originals_weights(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "data", products=8, human=False)
    source, published = public_source(folder, "auto", "auto")
    meta = prepare(source, folder / "prepared", published, quiet=True)
    catalogue, goals = open_store(folder / "prepared")
    attributes = json.loads((folder / "items_ins_v2_1000.json").read_text())
    found = [goals._goal(number) for number in range(meta["goals"])]
    expected: list[tuple[str, dict[str, str]]] = []
    for asin, product in catalogue.products.items():
        names = sorted(product["options"])
        for values in itertools.product(*(product["options"][name] for name in names)):
            expected.append((asin, dict(zip(names, values, strict=True))))
    assert not published and meta["goals_left_out"] == len(expected) - len(found)
    pairs = [(goal["asin"], goal["goal_options"]) for goal in found]
    assert pairs == [pair for pair in expected if pair in pairs] and len(pairs) > 0.9 * len(expected)
    counts: dict[str, int] = {}
    for asin, _ in expected:
        for attribute in attributes[asin]["instruction_attributes"]:
            counts[attribute] = counts.get(attribute, 0) + 1
    for goal in found:
        named = attributes[goal["asin"]]["instruction_attributes"]
        assert goal["weight"] == pytest.approx(sum(1 / counts[a] for a in named) / len(named))
        wanted = ", and ".join(f"{k}: {v}" for k, v in goal["goal_options"].items())
        assert goal["instruction_text"].startswith(f"{attributes[goal['asin']]['instruction']} with {wanted}")
        assert goal["price_upper"] >= catalogue.prices[goal["asin"]]


def test_price_limits_depend_on_the_goal_alone(tmp_path: Path) -> None:
    few = write_files(tmp_path / "few", products=20)
    more = write_files(tmp_path / "more", products=60)
    limits = []
    for folder in (few, more):
        assert main(["--data-dir", str(folder), "--goals", "human"]) == 0
        _, goals = open_store((folder / "prepared").resolve())
        everything = [goals._goal(number) for number in range(read_meta(folder / "prepared")["goals"])]
        limits.append({goal["instruction_text"].split(",")[0]: goal["price_upper"] for goal in everything})
    assert limits[0].items() <= limits[1].items() and len(set(limits[1].values())) > 3


BROKEN = [
    ({"asin": "B0BROKEN01"}, "name is None"),
    ("no record", "it is a str"),
    ({"asin": 5}, "asin is 5"),
    (dict(customization_options={"color": [{"value": 3}]}), "option 'color' has a value that is not a text"),
    (dict(customization_options=["red"]), "customization_options is ['red']"),
    (dict(pricing="$free"), "holds no price"),
    (dict(small_description=7), "small_description is 7"),
    (dict(asin=""), "its asin is empty"),
]


def test_malformed_products_are_skipped_counted_and_listed(tmp_path: Path) -> None:
    good = extras(3, 5)[0][0] | {"asin": "B0GOODONE1"}
    extra = [record if not isinstance(record, dict) or record.get("asin") else good | record for record, _ in BROKEN]
    extra[-1] = good | {"asin": ""}
    left_out = [good | {"asin": "nan"}, good | {"asin": "TOOLONGFORANASIN"}, good, good]
    folder = write_files(tmp_path / "data", products=20, extra=[*extra, *left_out])
    assert main(["--data-dir", str(folder)]) == 0
    meta = read_meta(folder / "prepared")
    assert meta["products"] == 21 and meta["malformed"] == len(BROKEN) and meta["records"] == 20 + len(extra) + 4
    for number, (_, said) in enumerate(BROKEN):
        assert (
            meta["malformed_listed"][number].startswith(f"record {21 + number}: ")
            and said in meta["malformed_listed"][number]
        )


def change(folder: Path, name: str, content: Any) -> None:
    path = folder / name
    if content is None:
        path.unlink()
    else:
        path.write_text(content(path.read_text()) if callable(content) else content)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("items_shuffle_1000.json", None, ["there is no such file", "setup.sh"]),
        ("items_shuffle_1000.json", "", ["it is empty", "setup.sh"]),
        ("items_shuffle_1000.json", "<!DOCTYPE html><html>", ["web page", "fetch it again"]),
        ("items_shuffle_1000.json", lambda text: text[: len(text) // 2], ["ends in the middle", "fetch it again"]),
        ("items_shuffle_1000.json", lambda text: text.replace('"query":', '"query";', 1), ["no JSON at character"]),
        ("items_shuffle_1000.json", "{}", ["no '[' at character 0"]),
        ("items_shuffle_1000.json", "[]", ["no usable product"]),
        ("items_ins_v2_1000.json", None, ["items_ins_v2_1000.json", "there is no such file"]),
        ("items_ins_v2_1000.json", lambda text: text[:-40], ["ends in the middle"]),
        ("items_ins_v2_1000.json", '{"B0": 3}', ["entry of 'B0' is a int"]),
        ("items_human_ins.json", '{"B0": [{"instruction": 3}]}', ["instructions of 'B0'"]),
    ],
)
def test_missing_and_broken_files(name: str, content: Any, said: list[str], tmp_path: Path, capsys: Any) -> None:
    folder = write_files(tmp_path / "data", products=10)
    change(folder, name, content)
    assert main(["--data-dir", str(folder)]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("webshop_env: ") and all(part in error for part in said), error


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--data-dir", "nowhere"], "there is no such folder"),
        (["--generate", "0", "--out", "x"], "a number from 1 to"),
        (["--generate", "5"], "--out"),
        (["--check", "nowhere"], "no prepared store there"),
    ],
)
def test_wrong_words(words: list[str], said: str, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert said in capsys.readouterr().err


def test_a_data_dir_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no such folder"):
        plugin.tasks("train", data_dir=str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match=r"python -m webshop_env\.prepare"):
        plugin.tasks("train", data_dir=str(tmp_path))
    folder = write_files(tmp_path / "data", products=5)
    with pytest.raises(ValueError, match=r"not prepared yet; run `python -m webshop_env\.prepare --data-dir"):
        plugin.make(data_dir=str(folder))
    with pytest.raises(ValueError, match="give one of the two"):
        plugin.make(data_dir=str(folder), catalogue="mini")
    with pytest.raises(ValueError, match="data_dir is 3"):
        plugin.make(data_dir=3)


def test_generated_files_are_those_of_the_store(store: Path, tmp_path: Path, capsys: Any) -> None:
    assert generate.main(["--products", str(PRODUCTS), "--seed", str(SEED), "--out", str(tmp_path)]) == 0
    assert f"{PRODUCTS:,} products" in capsys.readouterr().out
    assert main(["--data-dir", str(tmp_path)]) == 0
    written, generated = open_store((tmp_path / "prepared").resolve())[0], open_store(store)[0]
    assert list(written.products) == list(generated.products)
    assert all(written.products[asin] == generated.products[asin] for asin in written.products)
    assert read_meta(tmp_path / "prepared")["source"]["goals"] == "synthetic"
    assert generate.main(["--products", "0", "--out", str(tmp_path)]) == 2
    assert generate.main(["--products", "5", "--out", "/proc/nowhere"]) == 2
    errors = capsys.readouterr().err
    assert "--products 0" in errors and "/proc/nowhere" in errors and "Traceback" not in errors
