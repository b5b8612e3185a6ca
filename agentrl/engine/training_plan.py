"""Rows -> mini-batches -> workers -> micro-batches: pure numpy, so that it can be tested without a cluster.

A mini-batch is one optimiser step. Its rows are dealt to the workers by length, and every worker cuts its own into
the same number of micro-batches (FSDP's collectives need that), each of rows of about the same length. Where rows do
not suffice, padding rows (no token counts) fill up. None of this changes the result: the loss divides by counts of
the whole mini-batch, which are fixed here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from agentrl.engine.training_spec import TrainingBatch

PADDING_ROW = -1


@dataclass
class MicroBatch:
    """Padded arrays of B rows, T tokens at most, R response tokens at most. Rows are padded on the right.

    rows: int[B], the row's index in the training batch, or PADDING_ROW
    ids: int32[B, T]; prompt_lengths, response_lengths: int32[B]
    loss_mask, advantages, rollout_log_probs, reference_log_probs: float32[B, R]
    """

    rows: np.ndarray
    ids: np.ndarray
    prompt_lengths: np.ndarray
    response_lengths: np.ndarray
    loss_mask: np.ndarray
    advantages: np.ndarray
    rollout_log_probs: np.ndarray | None
    reference_log_probs: np.ndarray | None


@dataclass
class MiniBatch:
    """One optimiser step of one worker. `tokens` and `rows` count those with a loss over *all* workers."""

    micro_batches: list[MicroBatch]
    tokens: int
    rows: int


@dataclass
class WorkerPlan:
    mini_batches: list[MiniBatch] = field(default_factory=list)


def plan(
    batch: TrainingBatch, workers: int, mini_batches: int, max_tokens: int, micro_batch_size: int | None = None
) -> list[WorkerPlan]:
    """One plan per worker. Mini-batches are contiguous runs of rows, of sizes that differ by one row at most."""
    n = len(batch)
    if mini_batches > n:
        raise ValueError(f"mini_batches={mini_batches} but the training batch has only {n} rows")
    lengths = np.array([len(p) + len(r) for p, r in zip(batch.prompt_ids, batch.response_ids, strict=True)])
    counted = np.array(
        [len(r) for r in batch.response_ids]
        if batch.loss_mask is None
        else [int(np.count_nonzero(m)) for m in batch.loss_mask]
    )
    plans = [WorkerPlan() for _ in range(workers)]
    for rows in np.array_split(np.arange(n), mini_batches):
        shares = deal(rows, lengths, workers)
        cuts = even([cut(share, lengths, max_tokens, micro_batch_size) for share in shares])
        tokens, used = int(counted[rows].sum()), int(np.count_nonzero(counted[rows]))
        for worker_plan, cut_rows in zip(plans, cuts, strict=True):
            micro = [micro_batch(batch, np.array(r, dtype=np.int64)) for r in cut_rows]
            worker_plan.mini_batches.append(MiniBatch(micro, tokens, used))
    return plans


def deal(rows: np.ndarray, lengths: np.ndarray, workers: int) -> list[list[int]]:
    """Longest first, forth and back over the workers: equal counts and nearly equal tokens."""
    order = rows[np.argsort(-lengths[rows], kind="stable")]
    shares: list[list[int]] = [[] for _ in range(workers)]
    for i, row in enumerate(order):
        turn, position = divmod(i, workers)
        shares[position if turn % 2 == 0 else workers - 1 - position].append(int(row))
    return shares


def cut(rows: list[int], lengths: np.ndarray, max_tokens: int, micro_batch_size: int | None) -> list[list[int]]:
    """Cut rows, ordered by length, into micro-batches; a row longer than `max_tokens` gets one of its own."""
    pieces: list[list[int]] = []
    for row in rows:  # longest first: the first row of a piece is its width
        full = not pieces or (
            len(pieces[-1]) >= micro_batch_size
            if micro_batch_size
            else (len(pieces[-1]) + 1) * lengths[pieces[-1][0]] > max_tokens
        )
        if full:
            pieces.append([])
        pieces[-1].append(row)
    return pieces


def even(cuts: list[list[list[int]]]) -> list[list[list[int]]]:
    """Give all workers the same number of micro-batches: split their largest, then add padding rows."""
    count = max(1, max(len(pieces) for pieces in cuts))
    for pieces in cuts:
        while len(pieces) < count:
            largest = max(range(len(pieces)), key=lambda i: len(pieces[i]), default=-1)
            if largest < 0 or len(pieces[largest]) < 2:
                pieces.append([PADDING_ROW])
                continue
            piece = pieces[largest]
            pieces[largest : largest + 1] = [piece[: len(piece) // 2], piece[len(piece) // 2 :]]
    return cuts


def micro_batch(batch: TrainingBatch, rows: np.ndarray) -> MicroBatch:
    """The padded arrays of these rows. A padding row is one prompt and one response token that does not count."""
    prompts = [[0] if i == PADDING_ROW else list(batch.prompt_ids[i]) for i in rows]
    responses = [[0] if i == PADDING_ROW else list(batch.response_ids[i]) for i in rows]
    prompt_lengths = np.array([len(p) for p in prompts], dtype=np.int32)
    response_lengths = np.array([len(r) for r in responses], dtype=np.int32)
    ids = np.zeros((len(rows), int((prompt_lengths + response_lengths).max())), dtype=np.int32)
    shape = (len(rows), int(response_lengths.max()))
    mask, advantages = np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=np.float32)
    columns = {
        name: None if source is None else (np.zeros(shape, dtype=np.float32), source)
        for name, source in (("rollout", batch.rollout_log_probs), ("reference", batch.reference_log_probs))
    }
    for k, i in enumerate(rows):
        size = int(response_lengths[k])
        ids[k, : prompt_lengths[k]] = prompts[k]
        ids[k, prompt_lengths[k] : prompt_lengths[k] + size] = responses[k]
        if i == PADDING_ROW:
            continue
        mask[k, :size] = 1 if batch.loss_mask is None else np.asarray(batch.loss_mask[i]) != 0
        advantages[k, :size] = batch.advantages[i]
        for column in columns.values():
            if column is not None:
                column[0][k, :size] = column[1][i]
    rollout, reference = (None if c is None else c[0] for c in columns.values())
    return MicroBatch(rows, ids, prompt_lengths, response_lengths, mask, advantages, rollout, reference)
