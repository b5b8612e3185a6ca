"""Tiny random Qwen2 models with a tokenizer of their own, for tests of both engines. Nothing is downloaded."""

from __future__ import annotations

from pathlib import Path

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SENTENCES = [
    "search[red wool scarf] click[buy now] click[next page] click[back to search]",
    "the scarf is warm, the price is lower than twenty dollars, the colour is red",
    "open the drawer, take the key, go to the shelf and put the key on the shelf",
    "<think>compare the items first</think><action>click[b07xyz]</action>",
]


def tiny_model(
    folder: Path | str,
    tied: bool = True,
    seed: int = 0,
    hidden: int = 64,
    layers: int = 2,
    vocabulary: int = 512,
    spread: float = 0.08,
) -> str:
    """Write a random float32 Qwen2 model and its tokenizer into `folder`; returns the folder as text.

    Heads have 32 dimensions, the least that vLLM's CPU attention takes. `spread` is the standard deviation of the
    weights: wide enough that greedy decoding does not repeat one token. Same arguments, same weights.
    """
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    folder = Path(folder)
    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    words.train_from_iterator(
        SENTENCES,
        trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token="<|im_end|>", pad_token="<|endoftext|>", model_max_length=2048
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=max(1, hidden // 32),
        num_key_value_heads=max(1, hidden // 64),
        max_position_embeddings=2048,
        tie_word_embeddings=tied,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=spread,
    )
    model = Qwen2ForCausalLM(config).to(torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):  # transformers starts them at zero, where a lost bias would not show
                parameter.normal_(std=spread)
    model.save_pretrained(folder)
    return str(folder)
