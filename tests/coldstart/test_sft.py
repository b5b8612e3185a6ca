"""The trainer: it lowers the loss, learns what it is shown, and takes the loss on responses only."""

import random

import pytest
import torch

from agentrl.coldstart.play import generate
from agentrl.coldstart.sft import (
    Example,
    Record,
    SftSettings,
    batches,
    encode,
    rate,
    read_records,
    response_loss,
    train,
)
from agentrl.coldstart.tokenizer import build_tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer(["red blue green say it"] * 2, size=400, merges=5)


def small_model(size: int, seed: int = 0):
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=size, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=128, tie_word_embeddings=True, initializer_range=0.08,
    )  # fmt: skip
    return Qwen2ForCausalLM(config)


def records():
    return [Record([{"role": "user", "content": f"say {word}"}], f"{word}") for word in ("red", "blue", "green")]


def test_a_short_training_lowers_the_loss_and_teaches_the_answers(tokenizer):
    model = small_model(len(tokenizer))
    examples = encode(records(), tokenizer)
    losses = train(
        model,
        examples,
        SftSettings(steps=60, batch_size=3, learning_rate=1e-2, warmup_steps=5),
        pad_id=tokenizer.pad_token_id,
    )
    assert len(losses) == 60
    assert losses[-1] < 0.1 * losses[0]
    for example in examples:
        made, _ = generate(
            model,
            [example.prompt_ids],
            max_tokens=10,
            temperature=0,
            end_id=tokenizer.eos_token_id,
            pad_id=tokenizer.pad_token_id,
        )
        assert made == [example.response_ids]


def test_loss_is_over_response_tokens_only_whatever_the_padding(tokenizer):
    model = small_model(len(tokenizer)).eval()
    short, long = Example([5, 6], [7, 8]), Example([9, 10, 11, 12, 13], [14])
    both, count = response_loss(model, [short, long], tokenizer.pad_token_id)
    assert count == 3
    expected = 0.0
    for example in (short, long):
        ids = torch.tensor([example.prompt_ids + example.response_ids])
        log_probs = torch.log_softmax(model(ids).logits[0], dim=-1)
        for position, token in enumerate(example.response_ids, start=len(example.prompt_ids)):
            expected -= float(log_probs[position - 1, token].detach())
    assert float(both.detach()) == pytest.approx(expected / 3, abs=1e-5)


def test_a_sequence_is_gone_through_wholly_and_an_iterator_is_asked_on():
    examples = [Example([1] * n, [2]) for n in range(1, 11)]
    stream = batches(examples, 5, random.Random(0), pool=2)
    seen = sorted(len(example.prompt_ids) for _ in range(2) for example in next(stream))
    assert seen == list(range(1, 11))
    ends = list(batches(iter(examples), 4, random.Random(0), pool=1))
    assert sum(map(len, ends)) == 10


def test_the_rate_rises_then_falls():
    settings = SftSettings(steps=100, warmup_steps=10, final_fraction=0.1)
    assert rate(0, settings) == pytest.approx(0.1)
    assert rate(10, settings) == pytest.approx(1.0)
    assert rate(100, settings) == pytest.approx(0.1)


def test_bad_input_is_named(tokenizer, tmp_path):
    with pytest.raises(ValueError, match="max_tokens is 4"):
        encode(records(), tokenizer, max_tokens=4)
    with pytest.raises(ValueError, match="no demonstrations"):
        next(batches([], 4, random.Random(0)))
    path = tmp_path / "records.jsonl"
    path.write_text('{"messages": [{"role": "user", "content": "x"}], "response": "y"}\n{"messages": 3}\n')
    with pytest.raises(ValueError, match="line 2"):
        read_records(path)
    path.write_text('{"messages": [{"role": "user", "content": null}], "response": "y"}\n')
    with pytest.raises(ValueError, match=r"line 1 is no demonstration.*None is no text"):
        read_records(path)
