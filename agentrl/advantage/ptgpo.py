"""PTGPO: the episode's outcome, plus what each further action of a suffix changed in the mean return.

    A_k     = A_E + sum over starts t <= k of Delta(t, k) / sigma(root_t)                       Eqs. 9, 11
    Delta   = mean R over the child - mean R over the parent                                    Eq. 7
    root_t  = all rows of the task in state s_t; a node at depth d = those of its rows that share the next d actions
    R_t     = sum over u >= t of gamma^(u-t) r_u                                                Eq. 1
    sigma   = std of R over the root                                                            Eq. 8
    A_E     = (r_T - mean r_T) / std r_T over the trajectories of the task                      Eq. 10, terminal reward

Along a path, R_t - mean(root) = sum of Deltas + (R_t - mean(last node))                        Eq. 6

Defaults: gamma 0.95, tau_expand 2 (a node of fewer rows is not expanded; its size-1 children still get credit),
max_depth None (edges from the root), aggregate sum, ddof 1, no eps in either division, equal states are one anchor.
Degenerate: sigma 0 or below norm_floor gives credit 0 (such an edge still counts for aggregate=mean and nearest);
a state met once has no edges. A row whose trajectory has ended stays in its node's mean and gets no edge; the node
is expanded if all its rows, ended ones included, are at least tau_expand. A state met twice in one trajectory
counts twice.
Choices where the paper is silent: the tree's returns leave the invalid-action penalty out (tree_penalty=True puts it
in), so that it does not look like an effect of the environment; A_E takes it off the terminal reward, summed over
the trajectory, so that no invalid action is free. episode_reward=sum: A_E on the sum of rewards instead, as GRPO.
Action identity is the parsed action, all invalid ones being one (action_key=raw, invalid_key=text). norm_mode=mean
divides neither term. preset=verl_agent: the episode term over step rows with the penalty off single rows.
Ablations: tree_weight=0, episode_weight=0, aggregate=mean|nearest, max_depth=2|4|8, tau_expand=4|6|8 (Table 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from .anchors import action_codes, anchor_groups
from .columns import Floats, Ints
from .grpo import episode_advantage
from .normalise import group_stats
from .registry import register
from .returns import discounted_sum, episode_sum, step_returns, terminal
from .settings import Settings, number
from .table import StepTable


@dataclass(frozen=True, kw_only=True)
class PtgpoSettings(Settings):
    """See the module. episode_weight and tree_weight scale the two terms; similarity as in gigpo."""

    gamma: float = number(0.95, 0.0, 1.0)
    norm_eps: float = number(0.0)
    tau_expand: int = number(2, 1)
    max_depth: int | None = number(None, 0)
    aggregate: Literal["sum", "mean", "nearest"] = "sum"
    tree_penalty: bool = False
    episode_reward: Literal["terminal", "sum"] = "terminal"
    action_key: Literal["parsed", "raw"] = "parsed"
    invalid_key: Literal["merge", "text"] = "merge"
    episode_weight: float = number(1.0)
    tree_weight: float = number(1.0)
    similarity: float | None = number(None, 0.0, 1.0, above=True)
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "verl_agent": {"norm_ddof": 1, "singleton": "raw", "stat_unit": "step", "penalty_mode": "local"}
    }


class Trees(NamedTuple):
    """total, edges and nearest follow ``table.order``; depth and size are per root (state group)."""

    total: Floats  # [n] sum of the credits of the edges that end in this row's action
    edges: Ints  # [n] number of those edges
    nearest: Floats  # [n] credit of the edge with the latest start
    depth: Ints  # [roots] edges on the longest path of each tree
    size: Ints  # [roots] rows in each root


def prefix_trees(table: StepTable, s: PtgpoSettings) -> Trees:
    """All trees of the batch at once, level by level: sort the rows by (node, next action), and take means of runs."""
    n = len(table)
    roots, count = anchor_groups(table, s.similarity)
    returns = step_returns(table, s) if s.tree_penalty else discounted_sum(table, table.reward, s.gamma)
    stats = group_stats(returns, roots, count, s)
    # From here on every array is in the order of (trajectory, turn): the action d turns after position p is at p + d.
    returns, roots = stats.centred(returns, roots)[table.order], roots[table.order]
    actions, kinds = action_codes(table, s.action_key, s.invalid_key)
    actions, left = actions[table.order], table.position_left
    total, nearest, edges = np.zeros(n), np.zeros(n), np.zeros(n, dtype=np.int64)
    size, depth = np.bincount(roots, minlength=count), np.zeros(count, dtype=np.int64)
    start = np.flatnonzero(size[roots] >= s.tau_expand)  # first turn of each suffix still in an expanded node
    node, parent_mean = roots[start], np.zeros(len(start))  # returns are centred: every root's mean is 0
    level = 0
    while len(start) and (s.max_depth is None or level < s.max_depth):
        going = left[start] > level  # the others ended: they stay in the parent's mean and get no edge
        start, node, parent_mean = start[going], node[going], parent_mean[going]
        if not len(start):
            break
        key = node * kinds + actions[start + level]
        by_key = np.argsort(key, kind="stable")  # stable: an only child sums in its parent's order, so Delta is 0
        start, parent_mean, key = start[by_key], parent_mean[by_key], key[by_key]
        first = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
        rows = np.diff(np.append(first, len(key)))
        mean = np.repeat(np.add.reduceat(returns[start], first) / rows, rows)
        root = roots[start]
        credit = (mean - parent_mean) / stats.scale[root]
        target = start + level  # distinct, because the starts are
        nearest[target] = np.where(edges[target] == 0, credit, nearest[target])
        total[target] += credit
        edges[target] += 1
        level += 1
        depth[root] = level
        wide = np.repeat(rows >= s.tau_expand, rows)
        start, node, parent_mean = start[wide], np.repeat(np.arange(len(rows)), rows)[wide], mean[wide]
    return Trees(total, edges, nearest, depth, size)


def tree_advantage(table: StepTable, s: PtgpoSettings) -> Floats:
    """[n] A_PT: the credits of all edges that end in a row's action, aggregated over their starts."""
    trees = prefix_trees(table, s)
    credit = trees.nearest if s.aggregate == "nearest" else trees.total
    if s.aggregate == "mean":
        credit = credit / np.maximum(trees.edges, 1)
    result = np.empty(len(table))
    result[table.order] = credit
    return result


def tree_stats(table: StepTable, s: PtgpoSettings) -> dict[str, Any]:
    """Shape of the trees: how many roots reach which depth (index = depth), and the share of rows with an edge."""
    trees = prefix_trees(table, s)
    return {
        "tree_depth_histogram": np.bincount(trees.depth).tolist(),
        "tree_depth_max": float(trees.depth.max(initial=0)),
        "tree_row_share": float(np.mean(trees.edges > 0)) if len(table) else 0.0,
    }


@register("ptgpo", stats=tree_stats)
def ptgpo(table: StepTable, s: PtgpoSettings) -> Floats:
    """float64[n]; constant over the tokens of a turn."""
    outcome = terminal(table, table.reward) if s.episode_reward == "terminal" else episode_sum(table, table.reward)
    advantage = s.episode_weight * episode_advantage(table, outcome, s)
    if s.tree_weight:
        advantage += s.tree_weight * tree_advantage(table, s)
    return advantage
