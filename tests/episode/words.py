"""A small real tokenizer (transformers, word tokens, a chat template) for the episode tests."""

from __future__ import annotations

from typing import Any

TAGS = ["<think>", "</think>", "<action>", "</action>"]
CHAT = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    control = ["<|pad|>", "<|end|>", "<|user|>", "<|assistant|>"]
    # characters too, so that every text has an encoding that can be turned back
    letters = [chr(code) for code in range(32, 127)] + ["\n"]
    vocabulary = {token: index for index, token in enumerate(dict.fromkeys([*control, *TAGS, *letters]))}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="?"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    inner.decoder = decoders.Fuse()
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        eos_token="<|end|>",
        pad_token="<|pad|>",
        additional_special_tokens=["<|user|>", "<|assistant|>", *TAGS],
    )
    made.chat_template = CHAT
    return made
