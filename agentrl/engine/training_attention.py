"""Attention over rows whose common prefixes were computed once, as an attention function of transformers.

Rows of one task begin with the same tokens: the instructions, the task, often whole prompts. Under causal attention
the same token after the same tokens has the same hidden state, so the model's layers run over the nodes of the rows'
prefix tree (`MicroBatch.nodes`), each once; only here, where a token looks back, are the rows laid out again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface

NAME = "agentrl_prefix_tree"


@dataclass
class PrefixTree:
    """nodes: int64[B, T], the node of each token of the rows; first: int64[nodes], a flat place where each stands."""

    nodes: torch.Tensor
    first: torch.Tensor


def attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    scaling: float | None = None,
    dropout: float = 0.0,
    prefix_tree: PrefixTree | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """transformers' contract: query, key, value [1, heads, nodes, d] -> [1, nodes, heads, d].

    Padding is on the right, where causal attention never looks: no mask is needed, the fast kernel applies.
    """
    if prefix_tree is None or query.shape[0] != 1 or attention_mask is not None:
        raise ValueError(f"attention {NAME!r} takes one sequence of nodes with its prefix_tree, and no mask")
    nodes = prefix_tree.nodes
    flat = nodes.flatten()

    def laid_out(states: torch.Tensor) -> torch.Tensor:  # -> [B, heads, T, d]
        _, heads, count, size = states.shape
        table = states[0].transpose(0, 1).reshape(count, heads * size)
        return table.index_select(0, flat).view(*nodes.shape, heads, size).transpose(1, 2)

    out = F.scaled_dot_product_attention(
        laid_out(query), laid_out(key), laid_out(value),
        dropout_p=dropout, is_causal=True, scale=scaling, enable_gqa=query.shape[1] != key.shape[1],
    )  # fmt: skip
    rows = out.transpose(1, 2).reshape(nodes.numel(), -1)
    return rows.index_select(0, prefix_tree.first).view(1, -1, *out.shape[1::2]), None


def no_mask(*_: Any, **__: Any) -> None:
    return None


AttentionInterface.register(NAME, attention)
AttentionMaskInterface.register(NAME, no_mask)
