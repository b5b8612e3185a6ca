"""The arrays of one micro-batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentrl.engine.training_spec import TrainingBatch

PADDING_ROW = -1
PADDING_SEGMENT = -1


@dataclass
class MicroBatch:
    """S sequences of T tokens at most, padded on the right, and the B rows in them, of R response tokens at most.

    ids: int64[S, T]; lengths: int64[S]
    segments, positions: int64[S, T], or None when no sequence has more than one row. Segment 0 is the prompt, k > 0
        the k-th response, PADDING_SEGMENT what follows; a response attends to the prompt and to itself, and its
        positions go on from the prompt's.
    rows: int64[B], the row's index in the training batch, or PADDING_ROW
    response_lengths: int64[B]
    sources, targets: int64[N], flat indices into [S, T]: the token at `targets` is predicted from `sources`. N counts
        the response tokens of all rows, in the order of the rows
    loss_mask, advantages, rollout_log_probs, reference_log_probs: float32[B, R]
    """

    ids: np.ndarray
    lengths: np.ndarray
    segments: np.ndarray | None
    positions: np.ndarray | None
    rows: np.ndarray
    response_lengths: np.ndarray
    sources: np.ndarray
    targets: np.ndarray
    loss_mask: np.ndarray
    advantages: np.ndarray
    rollout_log_probs: np.ndarray | None
    reference_log_probs: np.ndarray | None


def micro_batch(batch: TrainingBatch, sequences: Sequence[Sequence[int]]) -> MicroBatch:
    """The arrays of these sequences of rows. An empty sequence is a padding row: two tokens, none of which counts."""
    prompts = [list(batch.prompt_ids[rows[0]]) if rows else [0] for rows in sequences]
    responses = [[list(batch.response_ids[row]) for row in rows] or [[0]] for rows in sequences]
    lengths = np.array([len(p) + sum(map(len, r)) for p, r in zip(prompts, responses, strict=True)], dtype=np.int64)
    width = int(lengths.max())
    ids = np.zeros((len(sequences), width), dtype=np.int64)
    segments = np.full_like(ids, PADDING_SEGMENT)
    positions = np.zeros_like(ids)
    sources, targets = [], []
    for s, (prompt, replies) in enumerate(zip(prompts, responses, strict=True)):
        end = len(prompt)
        ids[s, :end], segments[s, :end], positions[s, :end] = prompt, 0, np.arange(end)
        for k, reply in enumerate(replies, start=1):
            at = slice(end, end + len(reply))
            ids[s, at], segments[s, at] = reply, k
            positions[s, at] = np.arange(len(prompt), len(prompt) + len(reply))
            here = s * width + np.arange(at.start, at.stop)
            targets.append(here)
            sources.append(np.concatenate([[s * width + len(prompt) - 1], here[:-1]]))
            end = at.stop
    rows = [row for found in sequences for row in (found or [PADDING_ROW])]
    shared = any(len(found) > 1 for found in sequences)
    return MicroBatch(
        ids=ids,
        lengths=lengths,
        segments=segments if shared else None,
        positions=positions if shared else None,
        rows=np.array(rows, dtype=np.int64),
        response_lengths=np.array([len(reply) for replies in responses for reply in replies], dtype=np.int64),
        sources=np.concatenate(sources),
        targets=np.concatenate(targets),
        **_columns(batch, rows),
    )


def _columns(batch: TrainingBatch, rows: Sequence[int]) -> dict[str, Any]:
    """The per-token columns, float32[B, R], zero beyond a row's response and in padding rows."""
    sizes = [0 if row == PADDING_ROW else len(batch.response_ids[row]) for row in rows]
    columns: dict[str, Any] = {}
    for name in ("loss_mask", "advantages", "rollout_log_probs", "reference_log_probs"):
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
