"""Rows -> mini-batches -> workers -> micro-batches: pure numpy, so that it can be tested without a cluster.

A mini-batch is one optimiser step. Its rows are dealt to the workers, and every worker cuts its own into the same
number of micro-batches (FSDP's collectives need that); where rows do not suffice, padding rows (no token counts) fill
up. Rows of about the same length go together, or (`share_prefixes`) rows with the same beginning. None of this changes
the result: the loss divides by counts of the whole mini-batch, which are fixed here.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np

from agentrl.engine.training_batches import PADDING_ROW, MicroBatch, common_prefix, micro_batch
from agentrl.engine.training_spec import TrainingBatch


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
    batch: TrainingBatch,
    workers: int,
    mini_batches: int = 1,
    max_tokens: int = 4096,
    micro_batch_size: int | None = None,
    share_prefixes: bool = False,
) -> list[WorkerPlan]:
    """One plan per worker. Mini-batches are contiguous runs of rows, of sizes that differ by one row at most.

    max_tokens: bound on rows * longest row of a micro-batch; micro_batch_size: bound on its rows instead.
    """
    n = len(batch)
    if not 1 <= mini_batches <= n:
        raise ValueError(f"mini_batches={mini_batches}: must be from 1 to the {n} rows of the training batch")
    lengths = np.array([len(p) + len(r) for p, r in zip(batch.prompt_ids, batch.response_ids, strict=True)])
    counted = np.array(
        [len(r) for r in batch.response_ids]
        if batch.loss_mask is None
        else [int(np.count_nonzero(m)) for m in batch.loss_mask]
    )
    plans = [WorkerPlan() for _ in range(workers)]
    for rows in np.array_split(np.arange(n), mini_batches):
        shares = deal_by_prefix(batch, rows, workers) if share_prefixes else deal_by_length(rows, lengths, workers)
        cuts = even([cut(share, lengths, max_tokens, micro_batch_size) for share in shares])
        tokens, used = int(counted[rows].sum()), int(np.count_nonzero(counted[rows]))
        for worker_plan, pieces in zip(plans, cuts, strict=True):
            micro = [micro_batch(batch, piece, share_prefixes) for piece in pieces]
            worker_plan.mini_batches.append(MiniBatch(micro, tokens, used))
    return plans


def deal_by_length(rows: np.ndarray, lengths: np.ndarray, workers: int) -> list[list[int]]:
    """Longest first, forth and back over the workers: equal counts and nearly equal tokens."""
    shares: list[list[int]] = [[] for _ in range(workers)]
    for i, row in enumerate(rows[np.argsort(-lengths[rows], kind="stable")]):
        turn, position = divmod(i, workers)
        shares[position if turn % 2 == 0 else workers - 1 - position].append(int(row))
    return shares


def deal_by_prefix(batch: TrainingBatch, rows: np.ndarray, workers: int) -> list[list[int]]:
    """In the order of their tokens, so that neighbours share prefixes; runs with nearly equal tokens to compute."""
    tokens = {int(row): [*batch.prompt_ids[row], *batch.response_ids[row]] for row in rows}
    order = sorted(tokens, key=lambda row: (tokens[row], row))
    arrays = [np.array(tokens[row]) for row in order]
    cost = [len(arrays[0])] + [len(b) - common_prefix(a, b) for a, b in itertools.pairwise(arrays)]
    before = np.cumsum(cost) - cost
    owner = np.minimum(before * workers // max(1, sum(cost)), workers - 1)
    return [[row for row, worker in zip(order, owner, strict=True) if worker == w] for w in range(workers)]


def cut(rows: list[int], lengths: np.ndarray, max_tokens: int, micro_batch_size: int | None) -> list[list[int]]:
    """Cut rows, in their order, into micro-batches; a row longer than `max_tokens` gets a micro-batch of its own."""
    pieces: list[list[int]] = []
    width = 0
    for row in rows:
        wider = max(width, int(lengths[row]))
        full = not pieces or (
            len(pieces[-1]) >= micro_batch_size if micro_batch_size else (len(pieces[-1]) + 1) * wider > max_tokens
        )
        if full:
            pieces.append([])
            wider = int(lengths[row])
        width = wider
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
