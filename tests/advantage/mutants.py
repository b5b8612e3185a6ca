"""Breaks the estimators on purpose, one line at a time, and expects the fast tests to notice every time.

    python tests/advantage/mutants.py              # about ten minutes; exit status 1 if a mutant survives
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
    ("planpo.py", "s.success_reward * success", "s.success_reward"),
    ("planpo.py", 'if s.members == "all"', 'if s.members != "all"'),
    ("planpo.py", "(final - s.alpha) * done", "(s.alpha - final) * done"),
    ("planpo.py", 'if s.turn_group == "per_turn"', 'if s.turn_group == "flat"'),
    ("first_step_grpo.py", "table.trajectory_length - 1", "table.trajectory_length - 2"),
    ("first_step_grpo.py", "s.step < s.stage1_steps", "s.step <= s.stage1_steps"),
    ("anchor_grpo.py", "scored = outcome != UNSCORED", "scored = outcome > 0"),
    ("anchor_grpo.py", "chosen & (_rubric(table) >= 0)[table.trajectory]", "chosen"),
    ("pta_grpo.py", "accuracy / s.temperature", "accuracy * s.temperature"),
    ("pta_grpo.py", "np.minimum.at(shortest, group[right], length[right])", "np.minimum.at(shortest, group, length)"),
    ("pta_grpo.py", "s.beta * outcome", "outcome"),
    ("pta_grpo.py", "result[flat] = 1.0", "result[flat] = 0.0"),
    ("empg.py", "table.position_left[:-1] > 1", "table.position_left[:-1] > 0"),
    ("empg.py", "weight / weight.mean()", "weight"),
    ("dapo.py", "table.reward + s.overlong_factor", "table.reward - s.overlong_factor"),
    ("dapo.py", "-1.0, 0.0)", "-2.0, 0.0)"),
    ("terms.py", "total += weight * term", "total += term"),
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
        command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", "tests/advantage"]
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
