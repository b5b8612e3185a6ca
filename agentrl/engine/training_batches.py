"""The arrays of one micro-batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentrl.engine.training_spec import TrainingBatch

PADDING_ROW = -1


@dataclass
class MicroBatch:
    """B rows of T tokens at most, padded on the right, with R response tokens at most.

    rows: int64[B], the row's index in the training batch, or PADDING_ROW
    ids: int64[B, T]; lengths, response_lengths: int64[B]
    sources, targets: int64[N], flat indices into [B, T]: the token at `targets` is predicted from `sources`. N counts
        the response tokens of all rows, in the order of the rows
    nodes: int64[B, T], or None: the tree of the rows' prefixes. Tokens that stand at the same place after the same
        tokens are one node. first: int64[nodes], the flat index of a node's first token
    loss_mask, advantages, returns, rollout_log_probs, reference_log_probs: float32[B, R], or None but for loss_mask
    """

    rows: np.ndarray
    ids: np.ndarray
    lengths: np.ndarray
    response_lengths: np.ndarray
    sources: np.ndarray
    targets: np.ndarray
    nodes: np.ndarray | None
    first: np.ndarray | None
    loss_mask: np.ndarray
    advantages: np.ndarray | None
    returns: np.ndarray | None
    rollout_log_probs: np.ndarray | None
    reference_log_probs: np.ndarray | None

    @property
    def computed_tokens(self) -> int:
        """Positions that go through the model's layers."""
        return int(self.ids.size if self.first is None else self.first.size)


def micro_batch(batch: TrainingBatch, rows: Sequence[int], share_prefixes: bool = False) -> MicroBatch:
    """The arrays of these rows. A padding row is two tokens, none of which counts.

    share_prefixes: prefixes are found between neighbours, so the rows should be in the order of their tokens.
    """
    prompts = [[0] if i == PADDING_ROW else list(batch.prompt_ids[i]) for i in rows]
    responses = [[0] if i == PADDING_ROW else list(batch.response_ids[i]) for i in rows]
    starts = np.array([len(p) for p in prompts], dtype=np.int64)
    sizes = np.array([len(r) for r in responses], dtype=np.int64)
    lengths = starts + sizes
    width = int(lengths.max())
    ids = np.zeros((len(rows), width), dtype=np.int64)
    for k, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
        ids[k, : lengths[k]] = prompt + response
    targets = np.concatenate([k * width + np.arange(starts[k], lengths[k]) for k in range(len(rows))])
    nodes, first = prefix_tree(ids, lengths) if share_prefixes else (None, None)
    return MicroBatch(
        rows=np.array(rows, dtype=np.int64),
        ids=ids,
        lengths=lengths,
        response_lengths=sizes,
        sources=targets - 1,
        targets=targets,
        nodes=nodes,
        first=first,
        **_columns(batch, rows),
    )


def prefix_tree(ids: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(nodes, first) of a MicroBatch; padding is node 0, which nothing reads."""
    nodes = np.zeros_like(ids)
    first: list[np.ndarray] = []
    count = 0
    for k, length in enumerate(lengths):
        shared = common_prefix(ids[k - 1, : lengths[k - 1]], ids[k, :length]) if k else 0
        nodes[k, :shared] = nodes[k - 1, :shared]
        nodes[k, shared:length] = np.arange(count, count + length - shared)
        first.append(k * ids.shape[1] + np.arange(shared, length))
        count += length - shared
    return nodes, np.concatenate(first)


def common_prefix(a: np.ndarray, b: np.ndarray) -> int:
    """Number of leading tokens that two rows have in common."""
    size = min(len(a), len(b))
    differs = np.flatnonzero(a[:size] != b[:size])
    return int(differs[0]) if differs.size else size


def _columns(batch: TrainingBatch, rows: Sequence[int]) -> dict[str, Any]:
    """The per-token columns, float32[B, R], zero beyond a row's response and in padding rows."""
    sizes = [0 if row == PADDING_ROW else len(batch.response_ids[row]) for row in rows]
    columns: dict[str, Any] = {}
    for name in ("loss_mask", "advantages", "returns", "rollout_log_probs", "reference_log_probs"):
        source = getattr(batch, name)
        if source is None and name != "loss_mask":
            columns[name] = None
            continue
        column = np.zeros((len(rows), max(1, *sizes)), dtype=np.float32)
        for k, (row, size) in enumerate(zip(rows, sizes, strict=True)):
            if size:
                value = 1 if source is None else source[row]
                column[k, :size] = np.asarray(value) != 0 if name == "loss_mask" else value
        columns[name] = column
    return columns
