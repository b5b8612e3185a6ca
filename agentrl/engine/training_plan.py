"""Rows -> mini-batches -> workers -> micro-batches: pure numpy, so that it can be tested without a cluster.

A mini-batch is one optimiser step. Its rows form sequences: one row each, or (`share_prompts`) one prompt followed by
all responses to it, so that a prompt which several rows have in common is computed once. Sequences are dealt to the
workers by length, and every worker cuts its own into the same number of micro-batches (FSDP's collectives need that),
each of sequences of about the same length. Where rows do not suffice, padding rows (no token counts) fill up. None
of this changes the result: the loss divides by counts of the whole mini-batch, which are fixed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from agentrl.engine.training_batches import MicroBatch, micro_batch
from agentrl.engine.training_spec import TrainingBatch

Rows = list[int]  # of one sequence; empty: a padding row
# A shared sequence grows no longer than this many times its first row: attention is quadratic in the length.
GROWTH = 2


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
    share_prompts: bool = False,
) -> list[WorkerPlan]:
    """One plan per worker. Mini-batches are contiguous runs of rows, of sizes that differ by one row at most.

    max_tokens: bound on sequences * longest sequence of a micro-batch; micro_batch_size: bound on its rows instead.
    """
    n = len(batch)
    if not 1 <= mini_batches <= n:
        raise ValueError(f"mini_batches={mini_batches}: must be from 1 to the {n} rows of the training batch")
    counted = np.array(
        [len(r) for r in batch.response_ids]
        if batch.loss_mask is None
        else [int(np.count_nonzero(m)) for m in batch.loss_mask]
    )
    plans = [WorkerPlan() for _ in range(workers)]
    for rows in np.array_split(np.arange(n), mini_batches):
        alone, shared = sequences(batch, rows.tolist(), share_prompts, micro_batch_size)
        shares = zip(deal(batch, alone, workers), deal(batch, shared, workers), strict=True)
        cuts = even(
            [[piece for kind in kinds for piece in cut(batch, kind, max_tokens, micro_batch_size)] for kinds in shares]
        )
        tokens, used = int(counted[rows].sum()), int(np.count_nonzero(counted[rows]))
        for worker_plan, pieces in zip(plans, cuts, strict=True):
            micro = [micro_batch(batch, piece) for piece in pieces]
            worker_plan.mini_batches.append(MiniBatch(micro, tokens, used))
    return plans


def sequences(
    batch: TrainingBatch, rows: Iterable[int], share_prompts: bool, most_rows: int | None
) -> tuple[list[Rows], list[Rows]]:
    """(sequences of one row, sequences of several rows with the same prompt)."""
    if not share_prompts:
        return [[row] for row in rows], []
    by_prompt: dict[tuple[int, ...], list[Rows]] = {}
    for row in rows:
        runs = by_prompt.setdefault(tuple(batch.prompt_ids[row]), [[]])
        first = length(batch, runs[-1][:1])
        grown = length(batch, runs[-1]) + len(batch.response_ids[row])
        if runs[-1] and (grown > GROWTH * first or (most_rows is not None and len(runs[-1]) >= most_rows)):
            runs.append([])
        runs[-1].append(row)
    found = [run for runs in by_prompt.values() for run in runs]
    return [run for run in found if len(run) == 1], [run for run in found if len(run) > 1]


def length(batch: TrainingBatch, rows: Sequence[int]) -> int:
    """Tokens of a sequence."""
    return (len(batch.prompt_ids[rows[0]]) if rows else 0) + sum(len(batch.response_ids[row]) for row in rows)


def deal(batch: TrainingBatch, found: list[Rows], workers: int) -> list[list[Rows]]:
    """Longest first, forth and back over the workers: equal counts and nearly equal tokens."""
    shares: list[list[Rows]] = [[] for _ in range(workers)]
    for i, rows in enumerate(sorted(found, key=lambda rows: -length(batch, rows))):
        turn, position = divmod(i, workers)
        shares[position if turn % 2 == 0 else workers - 1 - position].append(rows)
    return shares


def cut(batch: TrainingBatch, found: list[Rows], max_tokens: int, micro_batch_size: int | None) -> list[list[Rows]]:
    """Cut sequences, longest first, into micro-batches; one longer than `max_tokens` gets a micro-batch of its own."""
    pieces: list[list[Rows]] = []
    width = 0
    for rows in found:  # the first sequence of a piece is its width
        full = not pieces or (
            sum(map(len, pieces[-1])) + len(rows) > micro_batch_size
            if micro_batch_size
            else (len(pieces[-1]) + 1) * width > max_tokens
        )
        if full:
            pieces.append([])
            width = length(batch, rows)
        pieces[-1].append(rows)
    return pieces


def even(cuts: list[list[list[Rows]]]) -> list[list[list[Rows]]]:
    """Give all workers the same number of micro-batches: split their largest, then add padding rows."""
    count = max(1, max(len(pieces) for pieces in cuts))
    for pieces in cuts:
        while len(pieces) < count:
            largest = max(range(len(pieces)), key=lambda i: len(pieces[i]), default=-1)
            if largest < 0 or len(pieces[largest]) < 2:
                pieces.append([[]])
                continue
            piece = pieces[largest]
            pieces[largest : largest + 1] = [piece[: len(piece) // 2], piece[len(piece) // 2 :]]
    return cuts
