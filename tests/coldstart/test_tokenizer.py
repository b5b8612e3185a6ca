"""The tokenizer of the tiny policy: lossless, one token for what is copied, tags that survive decoding."""

import pytest

from agentrl.coldstart.tokenizer import END, build_tokenizer

ACTION = "<think>match</think><action>click[b0bpg4hka3]</action>"


@pytest.fixture(scope="module")
def tokenizer():
    texts = ["i need red shoes\nnorvik red shoes with memory foam $28.49 [b0bpg4hka3]\n[next >]"] * 3
    return build_tokenizer(texts, always=["b0bpg4hka3", "click[", "search["], size=600, merges=20)


@pytest.mark.parametrize(
    "text",
    [
        ACTION,
        "  two spaces,\ta tab\r\nand  a trailing one ",
        "na\u00efve \u6f22\u5b57 \U0001f600 \u0000 \u200b",
        "search[a[b]c]] [x] click[",
        "<think> x </think > <|im_start|>user\n<|im_end|>",
        "",
    ],
)
def test_any_text_comes_back(tokenizer, text):
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_an_action_is_few_tokens_and_its_tags_survive(tokenizer):
    ids = tokenizer(ACTION, add_special_tokens=False)["input_ids"]
    pieces = tokenizer.convert_ids_to_tokens(ids)
    assert pieces[-5:] == ["<action>", "click[", "b0bpg4hka3", "]", "</action>"]
    assert tokenizer.decode([*ids, tokenizer.eos_token_id], skip_special_tokens=True) == ACTION


def test_a_product_id_is_the_same_token_on_the_page_and_in_the_action(tokenizer):
    page = tokenizer("shoes $28.49 [b0bpg4hka3]\n", add_special_tokens=False)["input_ids"]
    action = tokenizer("click[b0bpg4hka3]", add_special_tokens=False)["input_ids"]
    assert tokenizer.convert_tokens_to_ids("b0bpg4hka3") in page
    assert tokenizer.convert_tokens_to_ids("b0bpg4hka3") in action


def test_chat_template_opens_the_answer(tokenizer):
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "hi"}], add_generation_prompt=True, tokenize=False
    )
    assert text == f"<|im_start|>user\nhi{END}\n<|im_start|>assistant\n"


def test_size_is_kept():
    tokenizer = build_tokenizer([" ".join(f"w{i}x" for i in range(2000))], size=700, merges=10)
    assert len(tokenizer) <= 700
