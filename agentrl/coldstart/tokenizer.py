"""The tokenizer of a tiny policy: whole words of a small corpus as single tokens, any other text as bytes.

A model of a million parameters spends its capacity on reading, not on spelling: a product id, a word or a command that
is one token costs one step to copy. Underneath is a small byte-level BPE, put together exactly as transformers builds
the tokenizer of a Qwen2 model (it rebuilds it from vocabulary and merges, whatever tokenizer.json says of
pre-tokenisation). The words are added tokens on top of it, which every loader keeps. Decoding gives back any text in
Unicode normal form C.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
TAGS = ("<think>", "</think>", "<action>", "</action>")  # ordinary tokens: decoding must keep them
# A command's opening, the end of a bracket with what often follows it, a word or number with the space and the dollar
# sign before it, the cents, any other single character with the space before it, white space.
PIECES = Regex(r" ?(?:search|click)\[|\](?: \[|\n)?| ?\$?[A-Za-z0-9]+|\.\d+| ?[^\sA-Za-z0-9]|\s")
QWEN2_SPLIT = Regex(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def pieces(text: str) -> list[str]:
    """The pieces of a text that may become tokens of their own."""
    split = pre_tokenizers.Split(PIECES, behavior="isolated")
    return [piece for piece, _ in split.pre_tokenize_str(text)]


def build_tokenizer(
    texts: Sequence[str],
    *,
    always: Iterable[str] = (),
    size: int = 4096,
    merges: int = 200,
    model_max_length: int = 1024,
) -> Any:
    """A tokenizer (transformers) with at most `size` tokens: bytes, `merges` merges, `always`, then frequent pieces.

    `always` are texts whose pieces become single tokens whatever their frequency (product ids, numbers, commands).
    """
    from transformers import Qwen2Tokenizer

    base, pairs = _merges(texts, merges)
    vocabulary = {token: index for index, token in enumerate([PAD, START, END, *base])}
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(pieces(text))
    wanted = dict.fromkeys(piece for text in always for piece in pieces(text))
    words = [*wanted, *sorted(counts, key=lambda word: (-counts[word], word))]
    # Other signs stay with the BPE: an added " <" would take the start of " <think>" away.
    extra = [
        word
        for word in dict.fromkeys(words)
        if word.isascii() and (word.strip(" $.").isalnum() or word[-1] == "[" or (len(word) > 1 and word[0] == "]"))
    ]
    extra = extra[: size - len(vocabulary) - len(TAGS)]
    tokenizer = Qwen2Tokenizer(
        vocab=vocabulary,
        merges=pairs,
        unk_token=None,
        eos_token=END,
        pad_token=PAD,
        model_max_length=model_max_length,
    )
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in (*TAGS, *extra)])
    tokenizer.add_special_tokens({"extra_special_tokens": [START]})
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def _merges(texts: Sequence[str], count: int) -> tuple[list[str], list[tuple[str, str]]]:
    """The byte alphabet and the first `count` BPE merges of the texts, as (vocabulary, merges)."""
    import json

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bpe = Tokenizer(models.BPE())
    bpe.normalizer = normalizers.NFC()
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(QWEN2_SPLIT, behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator(
        texts,
        trainers.BpeTrainer(vocab_size=len(alphabet) + count, initial_alphabet=alphabet, show_progress=False),
    )
    model = json.loads(bpe.to_str())["model"]
    vocabulary = sorted(model["vocab"], key=model["vocab"].__getitem__)
    return vocabulary, [tuple(pair) for pair in model["merges"]]
