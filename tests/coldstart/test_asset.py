"""WebShop's checkpoint (test_assets.py has what all of them must keep): complete, and it reads back what it is asked to copy."""

import json
from pathlib import Path

import pytest

from agentrl.coldstart.__main__ import ASSET
from agentrl.coldstart.tokenizer import END
from agentrl.episode.parse import ActionParser


@pytest.fixture(scope="module")
def loaded():
    from transformers import AutoModelForCausalLM, AutoTokenizer

    return AutoModelForCausalLM.from_pretrained(ASSET).float().eval(), AutoTokenizer.from_pretrained(ASSET)


def test_parameters(loaded):
    model, tokenizer = loaded
    assert 1_000_000 <= sum(p.numel() for p in model.parameters()) <= 4_000_000
    assert model.config.model_type == "qwen2"
    assert model.config.vocab_size == len(tokenizer)


def test_chat_template_and_end_token(loaded):
    model, tokenizer = loaded
    text = tokenizer.apply_chat_template([{"role": "user", "content": "x"}], add_generation_prompt=True, tokenize=False)
    assert text.endswith("<|im_start|>assistant\n")
    assert tokenizer.eos_token == END
    assert model.config.eos_token_id == tokenizer.eos_token_id
    assert "chat_template" in json.loads((Path(ASSET) / "tokenizer_config.json").read_text())


def test_ids_and_tags_are_single_tokens_as_loaded(loaded):
    # transformers rebuilds the tokenizer of a qwen2 model: the words must survive that
    plugin = pytest.importorskip("webshop_env.plugin")
    _, tokenizer = loaded
    env = plugin.make(catalogue="mini", observation_mode="compact")
    for asin in list(env.catalogue.products)[:50]:
        text = f"<think>match</think><action>click[{asin.lower()}]</action>"
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert len(ids) == 8
        assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_its_first_action_is_a_search_with_the_words_of_the_task(loaded):
    from agentrl.coldstart.play import generate
    from agentrl.coldstart.webshop import WebShopWorld

    model, tokenizer = loaded
    shop = WebShopWorld(tokenizer)
    env = shop.make()
    prompts, queries = [], []
    for task in shop.tasks("validation")[:20]:
        observation, info = env.reset(seed=0, options={"task_id": task})
        prompts.append(shop.renderer.start(info["task"]).prompt(observation, info["admissible_actions"]).ids)
        queries.append(env.goal["query"])
    made, _ = generate(
        model, prompts, max_tokens=32, temperature=0, end_id=tokenizer.eos_token_id, pad_id=tokenizer.pad_token_id
    )
    actions = [ActionParser()(shop.renderer.decode(ids)).action for ids in made]
    good = sum(
        action.startswith("search[") and query.split()[0] in action
        for action, query in zip(actions, queries, strict=True)
    )
    assert good >= 15, actions
