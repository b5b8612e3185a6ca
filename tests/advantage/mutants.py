"""Breaks the estimators on purpose, one line at a time, and expects the fast tests to notice every time.

    python tests/advantage/mutants.py              # about half an hour; exit status 1 if a mutant survives
    python tests/advantage/mutants.py planpo.py    # only those in one file

Works on a copy in a temporary folder; the checkout is not touched.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

MUTANTS = [  # file, text, replacement
    ("normalise.py", "np.maximum(size - s.norm_ddof, 1)", "np.maximum(size - 1 + s.norm_ddof, 1)"),
    ("normalise.py", "(spread == 0) | ", ""),
    ("normalise.py", "| (spread < floor)", ""),
    ("normalise.py", "spread + s.norm_eps if", "spread if"),
    ("normalise.py", "- self.shift[groups]", ""),
    ("normalise.py", 'if singleton == "raw":', "if False:"),
    ("returns.py", "gamma * value[before", "value[before"),
    ("returns.py", "s.gamma) - penalty(table, s)", "s.gamma)"),
    ("returns.py", "np.where(table.valid, 0.0,", "np.where(~table.valid, 0.0,"),
    (
        "returns.py",
        "table.order[table.trajectory_end]",
        "table.order[table.trajectory_end - table.trajectory_length + 1]",
    ),
    ("table.py", 'read["group"] * width + read["state"], return', 'read["state"], return'),
    ("table.py", "np.lexsort((turn, trajectory))", "np.lexsort((-turn, trajectory))"),
    ("grpo.py", "outcome - episode_sum(table, loss)", "outcome"),
    ("grpo.py", "outcome[table.trajectory] - loss", "outcome[table.trajectory]"),
    ("grpo.py", 'if s.stat_unit == "step"', 'if s.stat_unit == "trajectory"'),
    ("gigpo.py", "advantage += s.omega *", "advantage +="),
    ("gigpo.py", "step_returns(table, s), groups", "table.reward, groups"),
    ("gigpo.py", "0.95, 0.0, 1.0", "0.9, 0.0, 1.0"),
    ("anchors.py", "if invalid_key ==", "if invalid_key !="),
    ("anchors.py", "matcher.ratio() >= similarity", "matcher.ratio() > similarity - 0.2"),
    ("anchors.py", "autojunk=False", "autojunk=True"),
    ("ptgpo.py", "(mean - parent_mean)", "(parent_mean - mean)"),
    ("ptgpo.py", "size[roots] >= s.tau_expand", "size[roots] > s.tau_expand"),
    ("ptgpo.py", "rows >= s.tau_expand", "rows > s.tau_expand"),
    ("ptgpo.py", "left[start] > level", "left[start] > level + 1"),
    ("ptgpo.py", "level < s.max_depth", "level <= s.max_depth"),
    ("ptgpo.py", "stats.scale[root]", "1.0"),
    ("ptgpo.py", "edges[target] == 0", "edges[target] >= 0"),
    ("ptgpo.py", "node * kinds + actions", "actions"),
    ("ptgpo.py", "if s.tree_penalty else", "if not s.tree_penalty else"),
    ("ptgpo.py", 'if s.episode_reward == "terminal"', 'if s.episode_reward == "sum"'),
    ("ptgpo.py", "np.maximum(trees.edges, 1)", "np.maximum(trees.edges + 1, 1)"),
    ("ptgpo.py", "norm_eps: float = number(0.0)", "norm_eps: float = number(1e-6)"),
    ("rloo.py", "np.maximum(size - 1, 1)", "np.maximum(size, 1)"),
    ("rloo.py", "advantage * size", "advantage"),
    ("rloo.py", "episode_sum(table, table.reward)", "table.reward[table.order[table.trajectory_end]]"),
    ("rloo.py", '= "mean"  #', '= "mean_std"  #'),
    (
        "rloo.py",
        "table.trajectory_group, minlength=table.groups)[table.group]",
        "table.group, minlength=table.groups)[table.group]",
    ),
    ("drgrpo.py", '= "mean"  #', '= "mean_std"  #'),
    (
        "grpo.py",
        "table.trajectory_group, table.groups, s, s.singleton",
        "0 * table.trajectory_group, table.groups, s, s.singleton",
    ),
    ("grpo.py", "stats.apply(score, table.group)", "stats.apply(score, 0 * table.group)"),
    ("gigpo.py", "episode_sum(table, table.reward), s)", "table.reward[table.order[table.trajectory_end]], s)"),
    ("gigpo.py", "s.episode_weight * episode", "episode"),
    ("ppo.py", "s.gamma * following", "following"),
    ("ppo.py", "s.gamma * s.lam)", "s.lam)"),
    ("ppo.py", "table.position_left[:-1] > 1", "table.position_left[:-1] > 0"),
    ("ppo.py", "table.order[1:][goes_on]", "table.order[:-1][goes_on]"),
    ("ppo.py", " - value, s.gamma", ", s.gamma"),
    ("ppo.py", "reward = reward - loss", "reward = reward + loss"),
    ("ppo.py", 'return advantage - loss if s.penalty_mode == "local" else advantage', "return advantage"),
    ("ppo.py", 'anyway = s.shaping == "unconditional"', "anyway = True"),
    ("ppo.py", "reward[last] += length_reward", "reward[last] = length_reward"),
    ("ppo.py", '+ table.extra["value"]', "+ 0.0"),
    ("ppo.py", "1.0 - left / variance", "left / variance"),
    ("planpo.py", "s.success_reward * success", "s.success_reward"),
    ("planpo.py", "s.success_reward * success / np.maximum(turns, 1)", "s.success_reward * success"),
    (
        "planpo.py",
        "normalise(reward[success], groups[success], count, s)",
        "normalise(reward, groups, count, s)[success]",
    ),
    (
        "planpo.py",
        "episode_advantage(table, length_reward(table, s), s)",
        "episode_advantage(table, np.where(length_reward(table, s) > 0, length_reward(table, s), 5.0), s)",
    ),
    ("planpo.py", "s.alpha / 2", "s.alpha"),
    ("planpo.py", 'if s.members == "all"', 'if s.members != "all"'),
    ("planpo.py", "(final - s.alpha) * done", "(s.alpha - final) * done"),
    ("planpo.py", 'if s.turn_group == "per_turn"', 'if s.turn_group == "flat"'),
    ("first_step_grpo.py", "table.trajectory_length - 1", "table.trajectory_length - 2"),
    ("first_step_grpo.py", "s.step < s.stage1_steps", "s.step <= s.stage1_steps"),
    ("anchor_grpo.py", "scored = outcome != UNSCORED", "scored = outcome > 0"),
    ("first_step_grpo.py", "1 + drawn %", "drawn %"),
    ("first_step_grpo.py", "np.where(updated_rows(table, s), grpo(table, s), 0.0)", "grpo(table, s)"),
    ("first_step_grpo.py", "- table.turn[begin]", "- 0 * table.turn[begin]"),
    ("anchor_grpo.py", "chosen & (_judged(table, s) >= 0)[table.trajectory]", "chosen"),
    (
        "anchor_grpo.py",
        "table.trajectory_group[scored], table.groups, s)",
        "0 * table.trajectory_group[scored], table.groups, s)",
    ),
    ("anchor_grpo.py", "return s.stage == 1", "return s.stage == 2"),
    ("anchor_grpo.py", "np.where(anchor_rows(table, s), advantage, 0.0)", "advantage"),
    ("anchor_grpo.py", '"naive": "plan_score"', '"naive": "rubric"'),
    ("pta_grpo.py", "accuracy / s.temperature", "accuracy * s.temperature"),
    ("pta_grpo.py", "np.minimum.at(shortest, group[right], length[right])", "np.minimum.at(shortest, group, length)"),
    ("pta_grpo.py", "s.beta * outcome", "outcome"),
    ("pta_grpo.py", "norm_ddof: int = number(0, 0, 1)", "norm_ddof: int = number(1, 0, 1)"),
    ("pta_grpo.py", "table.trajectory_group * kinds + table.plan[last]", "table.plan[last]"),
    ("pta_grpo.py", "np.maximum(size, 1)\n    analytic", "np.maximum(size - 1, 1)\n    analytic"),
    ("pta_grpo.py", "result[flat] = 1.0", "result[flat] = 0.0"),
    ("empg.py", "table.position_left[:-1] > 1", "table.position_left[:-1] > 0"),
    ("empg.py", "weight / weight.mean()", "weight"),
    ("empg.py", "(entropy - low) / (high - low + 1e-8)", "entropy - low"),
    ("empg.py", "np.exp(-s.k * entropy)", "np.exp(s.k * entropy)"),
    ("empg.py", "s.zeta * bonus", "bonus"),
    ("empg.py", "table.order[1:][goes_on]", "table.order[:-1][goes_on]"),
    ("dapo.py", "table.reward + s.overlong_factor", "table.reward - s.overlong_factor"),
    ("dapo.py", "-1.0, 0.0)", "-2.0, 0.0)"),
    ("dapo.py", "s.overlong_limit - s.overlong_buffer - length", "s.overlong_limit - length"),
    ("dapo.py", "/ s.overlong_buffer", "/ s.overlong_limit"),
    ("dapo.py", "episode_sum(table, shaped)", "shaped[table.order[table.trajectory_end]]"),
    ("terms.py", "total += weight * term", "total += term"),
    ("terms.py", '"prefix_tree": tree_advantage', '"prefix_tree": state_advantage'),
    ("terms.py", '"response": response_advantage', '"response": state_advantage'),
    ("terms.py", "terminal(table, table.reward)", "episode_sum(table, table.reward)"),
    (
        "terms.py",
        '"episode": lambda table, s: episode_advantage(table, episode_sum(table, table.reward), s)',
        '"episode": lambda table, s: episode_advantage(table, terminal(table, table.reward), s)',
    ),
    ("stats.py", "states[table.state_group] > 1", "states[table.state_group] > 2"),
]


def main() -> int:
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for part in ("agentrl/advantage", "tests/advantage", "tests/cases"):
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__", ".hypothesis"))
        (copy / "agentrl" / "__init__.py").touch()
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider"]
        command += [
            "tests/advantage/test_advantage_vectors.py",
            "tests/advantage/test_advantage_naive.py",
            "tests/advantage",
        ]
        if subprocess.run(command, cwd=copy, env=environment, capture_output=True, check=False).returncode:
            raise SystemExit("The tests fail without any mutant; mend that first.")
        chosen = [mutant for mutant in MUTANTS if not sys.argv[1:] or mutant[0] in sys.argv[1:]]
        for name, old, new in chosen:
            file = copy / "agentrl" / "advantage" / name
            text = file.read_text(encoding="utf-8")
            if old not in text:
                raise SystemExit(f"{name} no longer holds {old!r}; change this mutant with it.")
            file.write_text(text.replace(old, new, 1), encoding="utf-8")
            killed = subprocess.run(command, cwd=copy, env=environment, capture_output=True, check=False).returncode
            file.write_text(text, encoding="utf-8")
            print(f"{'killed  ' if killed else 'SURVIVED'}  {name}: {old}  ->  {new or '(nothing)'}", flush=True)
            if not killed:
                survivors.append(name)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants killed")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
