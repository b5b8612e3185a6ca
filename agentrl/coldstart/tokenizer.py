"""The tokenizer of a tiny policy: whole words of a small corpus as single tokens, any other text as bytes.

A model of a million parameters spends its capacity on reading, not on spelling: a product id, a word or a command that
is one token costs one step to copy. The tokenizer is lossless for every text (byte-level BPE); a word of the corpus is
taken whole (`ignore_merges`), other words are put together from a few merges and single bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
TAGS = ("<think>", "</think>", "<action>", "</action>")  # ordinary tokens: decoding must keep them
# A command's opening, the end of a bracket with what often follows it, a word or number with the space and the dollar
# sign before it, the cents, any other single character with the space before it, white space.
PIECES = r" ?(?:search|click)\[|\](?: \[|\n)?| ?\$?[A-Za-z0-9]+|\.\d+| ?[^\sA-Za-z0-9]|\s"
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def _splitter() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def _merges(texts: Sequence[str], count: int) -> tuple[list[str], list[tuple[str, str]]]:
    """The byte alphabet and the first `count` BPE merges of the texts, as (vocabulary, merges)."""
    import json

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = _splitter()
    bpe.train_from_iterator(
        texts,
        trainers.BpeTrainer(vocab_size=len(alphabet) + count, initial_alphabet=alphabet, show_progress=False),
    )
    model = json.loads(bpe.to_str())["model"]
    vocabulary = sorted(model["vocab"], key=model["vocab"].__getitem__)
    return vocabulary, [tuple(pair) for pair in model["merges"]]


def build_tokenizer(
    texts: Sequence[str],
    *,
    always: Iterable[str] = (),
    size: int = 4096,
    merges: int = 300,
    model_max_length: int = 1024,
) -> PreTrainedTokenizerFast:
    """A tokenizer with at most `size` tokens: special ones, bytes, `merges` merges, `always`, then frequent words.

    `always` are texts whose pieces become single tokens whatever their frequency (product ids, numbers, commands).
    """
    splitter = _splitter()
    base, pairs = _merges(texts, merges)
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(piece for piece, _ in splitter.pre_tokenize_str(text))
    wanted = [piece for text in always for piece, _ in splitter.pre_tokenize_str(text)]
    words = list(dict.fromkeys(wanted)) + sorted(counts, key=lambda word: (-counts[word], word))
    room = size - len(base) - len(TAGS) - 3
    known = set(base)
    extra = [word for word in dict.fromkeys(words) if word not in known][:room]
    vocabulary = {token: index for index, token in enumerate([PAD, START, END, *base, *extra])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs, ignore_merges=True))
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in (PAD, START, END)])
    tokenizer.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in TAGS])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        model_max_length=model_max_length,
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast
