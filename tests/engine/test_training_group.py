"""Training groups of real Ray workers: one and two ranks agree, checkpoints continue bit for bit, weights go out."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_local import LocalTrainer, largest_difference, random_batch, spec_for

from agentrl.engine.training_group import TrainingGroup
from agentrl.engine.training_spec import CriticSpec

pytestmark = pytest.mark.engine
ROOT = Path(__file__).resolve().parents[2]
RATE = 2e-5


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    from tiny import tiny_model

    return tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    import ray

    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    ray.init(
        address="local",
        num_cpus=3,
        include_dashboard=False,
        object_store_memory=100 << 20,
        namespace=f"test-training-{os.getpid()}",
        logging_level="ERROR",
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}},
    )
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def groups(cluster, model) -> Iterator[tuple[TrainingGroup, TrainingGroup]]:
    """One rank and two ranks, started side by side as the driver does it, from other threads."""
    critic = CriticSpec(model, learning_rate=1e-3, total_steps=12)
    spec = spec_for(model, learning_rate=RATE, lr_schedule="cosine", total_steps=12, critic=critic)
    found: dict[int, Any] = {}

    def begin(workers: int) -> None:
        try:
            found[workers] = TrainingGroup.start(replace(spec, workers=workers))
        except BaseException as error:
            found[workers] = error

    threads = [threading.Thread(target=begin, args=(n,)) for n in (1, 2)]
    for thread in threads:
        thread.start()
        time.sleep(0.01)
    for thread in threads:
        thread.join()
    for group in found.values():
        if isinstance(group, BaseException):
            raise group
    yield found[1], found[2]
    for group in found.values():
        group.close()


@pytest.fixture(scope="module")
def batch() -> Any:
    return random_batch(25)  # an odd number: two ranks need a padding row


def test_one_and_two_workers_learn_the_same(groups, batch, model) -> None:
    one, two = groups
    assert len({worker["pid"] for worker in two.describe()}) == 2
    alone = LocalTrainer(one.spec)
    for step in range(2):
        results = [trainer.update(batch, mini_batches=2) for trainer in (alone, one, two)]
        for other in results[1:]:
            for name in ("loss", "policy_loss", "kl", "entropy", "approx_kl", "clip_fraction", "log_prob_gap"):
                assert other[name] == pytest.approx(results[0][name], abs=2e-5), (step, name)
            assert other["grad_norm"] == pytest.approx(results[0]["grad_norm"], rel=1e-4)
            assert other["log_prob_gap_max"] == pytest.approx(results[0]["log_prob_gap_max"], abs=1e-4)
            assert (other["tokens"], other["rows"]) == (sum(map(len, batch.response_ids)), 25)
    weights = alone.weights()
    assert largest_difference(one.weights(), weights) == 0
    assert largest_difference(two.weights(), weights, adamw=True) < 1e-5
    for a, b, c in zip(alone.log_probs(batch), one.log_probs(batch), two.log_probs(batch), strict=True):
        assert np.array_equal(a, b)
        np.testing.assert_allclose(a, c, atol=1e-4)


def test_one_and_two_workers_have_the_same_critic(groups, batch, tmp_path) -> None:
    rng = np.random.default_rng(1)
    returns = [rng.normal(2, 1, len(r)).tolist() for r in batch.response_ids]
    lesson = replace(batch, advantages=None, rollout_log_probs=None, returns=returns)
    learned = []
    for k, group in enumerate(groups):
        before = group.weights()
        assert not any(v.any() for v in group.values(batch))
        metrics = [group.update_critic(lesson, mini_batches=2) for _ in range(3)]
        assert metrics[-1]["squared_error"] < metrics[0]["squared_error"]
        learned.append(group.values(batch))
        group.save(tmp_path / str(k))
        group.update_critic(lesson)
        group.load(tmp_path / str(k))
        assert all((a == b).all() for a, b in zip(learned[-1], group.values(batch), strict=True))
        assert largest_difference(group.weights(), before) == 0
    for a, b in zip(*learned, strict=True):
        assert a.any()
        np.testing.assert_allclose(a, b, atol=2e-3)
    with pytest.raises(ValueError, match="no returns"):
        groups[0].update_critic(batch)
    with pytest.raises(ValueError, match="no advantages"):
        groups[0].update(lesson)


def test_a_rank_without_rows_takes_part(groups) -> None:
    tiny = random_batch(1)
    results = [group.update(tiny) for group in groups]
    assert results[0]["loss"] == pytest.approx(results[1]["loss"], abs=1e-4)
    assert results[0]["grad_norm"] == pytest.approx(results[1]["grad_norm"], rel=1e-3)


@pytest.mark.parametrize("which", [0, 1], ids=["one worker", "two workers"])
def test_a_checkpoint_continues_bit_for_bit(which, groups, batch, tmp_path) -> None:
    group = groups[which]
    group.update(batch)
    group.save(tmp_path)
    saved = group.weights()
    runs = []
    for _ in range(2):
        metrics = [group.update(batch, mini_batches=2) for _ in range(2)]
        runs.append((group.weights(), [(m["loss"], m["grad_norm"], m["learning_rate"]) for m in metrics]))
        group.load(tmp_path)
        assert largest_difference(group.weights(), saved) == 0
    assert runs[0][1] == runs[1][1]
    assert largest_difference(runs[0][0], runs[1][0]) == 0
    assert largest_difference(runs[0][0], saved) > 0
    if which == 0:  # and in a trainer that has just been started
        fresh = LocalTrainer(group.spec)
        fresh.worker.load(str(tmp_path))
        for _ in range(2):
            fresh.update(batch, mini_batches=2)
        assert largest_difference(fresh.weights(), runs[0][0]) == 0


def test_the_saved_model_loads_in_transformers_as_it_lies(groups, batch, model, tmp_path) -> None:
    import torch
    from training_local import plain_log_probs
    from transformers import AutoModelForCausalLM, AutoTokenizer

    group = groups[1]
    group.save(tmp_path)
    folder = tmp_path / "huggingface"
    assert "attn_implementation" not in (folder / "config.json").read_text(), "ours is unknown elsewhere"
    loaded = AutoModelForCausalLM.from_pretrained(folder)
    assert loaded.dtype == torch.float32
    for i, values in enumerate(group.log_probs(batch)):
        with torch.no_grad():
            expected = plain_log_probs(loaded, batch.prompt_ids[i], batch.response_ids[i])[0]
        np.testing.assert_allclose(values, expected.numpy(), atol=1e-5)
    before, after = (AutoTokenizer.from_pretrained(path) for path in (model, folder))
    assert after.get_vocab() == before.get_vocab() and after.chat_template == before.chat_template
    assert after.eos_token_id == before.eos_token_id == loaded.config.eos_token_id


def test_published_weights_have_hugging_face_names(groups, model) -> None:
    from safetensors import safe_open

    from agentrl.engine.weights_shm import read_tensors

    group = groups[1]
    for version in (7, None):
        descriptor = group.publish_weights(version)
        assert descriptor.version == (group.version if version is None else version)
        found = {name: tensor.numpy().copy() for name, tensor in read_tensors(**descriptor.update)}
        assert largest_difference(found, group.weights()) == 0
        with safe_open(Path(model) / "model.safetensors", "np") as file:
            assert sorted(found) == sorted(file.keys())


def test_a_checkpoint_of_another_worker_count_is_refused(groups, tmp_path) -> None:
    groups[0].save(tmp_path)
    with pytest.raises(ValueError, match="written by 1 training workers and this run has 2"):
        groups[1].load(tmp_path)
    with pytest.raises(ValueError, match=r"fsdp_config\.json"):
        groups[1].load(tmp_path / "huggingface")


def test_a_checkpoint_on_another_machines_disk_is_noticed(groups, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(groups[0]._workers, "save", lambda path: [None], raising=False)
    with pytest.raises(RuntimeError, match="on a file system that all of them share"):
        groups[0].save(tmp_path / "elsewhere")


def test_wrong_calls_are_refused(groups, batch, cluster, model, tmp_path) -> None:
    with pytest.raises(ValueError, match="'actor' or 'reference'"):
        groups[0].log_probs(batch, "critic")
    groups[0].save(tmp_path)
    shutil.rmtree(tmp_path / "critic")
    with pytest.raises(ValueError, match="holds no critic"):
        groups[0].load(tmp_path)
    with pytest.raises(RuntimeError, match="needs 9 CPUs and Ray has 3"):
        TrainingGroup.start(spec_for(model, workers=9))


def test_a_killed_worker_is_an_error_not_a_hang(groups, batch) -> None:
    """Last but one: the group of two is gone afterwards."""
    import ray

    group = groups[1]
    ray.kill(group._workers.workers[1])
    start = time.monotonic()
    with pytest.raises(ray.exceptions.RayError):
        group.update(batch)
    assert time.monotonic() - start < 60


def test_closing_gives_the_resources_back(groups) -> None:
    import ray

    descriptor = groups[0].publish_weights()
    for group in groups:
        group.close()
    end = time.monotonic() + 30
    while ray.available_resources().get("CPU", 0) < 3 and time.monotonic() < end:
        time.sleep(0.2)
    assert ray.available_resources()["CPU"] == 3
    assert not Path(descriptor.update["path"]).exists()
