"""A trajectory as text that a person can read."""

from __future__ import annotations

import re
from pathlib import Path

from agentrl.episode.records import Trajectory, Turn


def format_trajectory(trajectory: Trajectory) -> str:
    """Task, then per turn the observation, the response, the action, its validity and reward, then the outcome."""
    outcome = "success" if trajectory.success else "failure"
    lines = [
        f"task      {trajectory.task_id}  {trajectory.task_type}".rstrip(),
        f"goal      {trajectory.task}",
        f"step {trajectory.step}, member {trajectory.member}, run seed {trajectory.run_seed}, "
        f"environment seed {trajectory.env_seed}",
        f"outcome   {outcome}, score {trajectory.score:.3f}, reward {trajectory.total_reward:g}, "
        f"{len(trajectory.turns)} turns, ended: {trajectory.ended}",
    ]
    if trajectory.retries:
        lines.append(f"recovered {trajectory.retries} times")
    lines += [f"{key}: {value}" for key, value in trajectory.details.items()]
    for index, turn in enumerate(trajectory.turns, start=1):
        lines += ["", f"--- turn {index} of {len(trajectory.turns)} " + "-" * 40, *_turn_lines(turn)]
    if trajectory.final_observation:
        lines += ["", "--- the end " + "-" * 40, _indent(trajectory.final_observation)]
    return "\n".join(lines) + "\n"


def write_transcript(trajectory: Trajectory, folder: Path) -> Path:
    """Write it to `folder`, under a name made of its identity; returns the path."""
    folder.mkdir(parents=True, exist_ok=True)
    task = re.sub(r"[^A-Za-z0-9.-]+", "_", trajectory.task_id)
    step = f"step{trajectory.step:05d}" if trajectory.step >= 0 else "evaluation"
    path = folder / f"{step}-{task}-{trajectory.member:02d}.txt"
    path.write_text(format_trajectory(trajectory), encoding="utf-8")
    return path


def _turn_lines(turn: Turn) -> list[str]:
    if not turn.valid:
        verdict = f"invalid ({turn.invalid_reason})" if turn.invalid_reason else "invalid"
    else:
        verdict = "valid" if turn.effective else "valid, changed nothing"
    cut = ", cut at the length limit" if turn.stop_reason == "length" else ""
    return [
        "observation:",
        _indent(turn.observation),
        f"response ({len(turn.prompt_ids)} -> {len(turn.response_ids)} tokens{cut}):",
        _indent(turn.text),
        f"action:  {turn.action}",
        f"verdict: {verdict}; reward {turn.reward:g}; policy version {turn.policy_version}",
    ]


def _indent(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines()) or "    (empty)"
