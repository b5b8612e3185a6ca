"""Recompute the advantages of a run's saved rollouts under another method, and show how the credit moves.

python -m agentrl.replay RUN_DIR advantage=ptgpo advantage.tau_expand=4
python -m agentrl.replay RUN_DIR advantage.gamma=0.9              the run's own method with another setting
python -m agentrl.replay RUN_DIR                                  the run's own: checks that the advantages come out equal
python -m agentrl.replay RUN_DIR advantage=gigpo steps=1-10 examples=20 out=FOLDER

Needs no GPU, no Ray and no model. Prints a table by training step and writes steps.csv, replay.json and replay.png
into `out` (RUN_DIR/replay/NAME unless given).
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from agentrl.config import ConfigError
from agentrl.config.preflight import check_writable

OWN_WORDS = ("steps", "out", "examples")


@dataclass
class Request:
    """The command line, read."""

    run_dir: Path
    advantage_words: list[str] = field(default_factory=list)
    steps: str | None = None
    out: Path | None = None
    examples: int = 5


def main(words: list[str] | None = None) -> int:
    """Returns the exit status: 0 done, 2 refused, 1 anything else."""
    words = list(sys.argv[1:] if words is None else words)
    if {"-h", "--help"} & set(words):
        print((__doc__ or "").strip())
        return 0
    try:
        replay(read(words))
    except ConfigError as error:
        print(f"agentrl: {error}", file=sys.stderr)
        return 2
    return 0


def read(words: list[str]) -> Request:
    """Raises ConfigError for a word that it does not know, and without a run directory."""
    from agentrl.config.errors import nearest

    places = [word for word in words if "=" not in word and not word.startswith("-")]
    if len(places) != 1:
        said = "no run directory given" if not places else f"{', '.join(places)}: more than one run directory given"
        raise ConfigError(f"{said}; write python -m agentrl.replay RUN_DIR advantage=NAME (--help says more).")
    request = Request(Path(places[0]).expanduser())
    for word in words:
        key, _, value = word.lstrip("+").partition("=")
        if word == places[0]:
            continue
        if key == "advantage" or key.startswith("advantage."):
            request.advantage_words.append(word.lstrip("+"))
        elif key == "steps":
            request.steps = value
        elif key == "out":
            if not value:
                raise ConfigError("out= has no value; name a folder, or leave it out (RUN_DIR/replay/...).")
            request.out = Path(value).expanduser()
        elif key == "examples" and value.isdecimal():
            request.examples = int(value)
        elif key == "examples":
            raise ConfigError(f"examples={value}: give a number of turns, 0 or more.")
        else:
            hint = nearest(key, [*OWN_WORDS, "advantage"])
            raise ConfigError(f"{word}: replay takes RUN_DIR, advantage..., {', '.join(OWN_WORDS)}.{hint}")
    return request


def replay(request: Request) -> Path:
    """Compare, print and write. Returns the folder of the results."""
    from agentrl.advantage import NEEDS, StepTable, compute_with_stats, settings_fields
    from agentrl.config.advantage_words import chosen_method, run_method
    from agentrl.report.credit import compare
    from agentrl.report.credit_report import write_report
    from agentrl.report.rollouts import read_rollouts, rollout_files

    started = time.perf_counter()
    run = run_method(request.run_dir)
    method, settings, made = chosen_method(run, request.advantage_words)
    files = rollout_files(request.run_dir)
    if not files:
        raise ConfigError(
            f"{request.run_dir}: no saved rollouts in it (rollouts/step_*.json.gz); they are kept unless "
            "logging.rollouts=false."
        )
    chosen = _steps(request.steps, list(files))
    folder = request.out or request.run_dir / "replay" / _name(request.advantage_words, run.name)
    check_writable("out", folder)
    comparisons, signals, tasks = [], [], {}
    for step in chosen:
        try:
            rollouts = read_rollouts(files[step])
            lacking = [c for c in (NEEDS[method](made) if method in NEEDS else ()) if c not in rollouts.columns]
            if lacking:
                raise ConfigError(
                    f"advantage={method}: it needs {' and '.join(lacking)}, which step {step} of {request.run_dir} does "
                    f"not have (the run was made with {rollouts.method}); choose another method."
                )
            table = StepTable.from_columns(rollouts.columns)
            progress = {"step": step - 1, "total_steps": run.total_steps}
            given = progress | settings if "total_steps" in settings_fields(method) else settings
            advantages, signal = compute_with_stats(table, method, **given)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        comparisons.append(compare(step, table, rollouts.advantages, advantages))
        signals.append(signal)
        tasks[step] = rollouts.trajectories
    return write_report(
        folder,
        comparisons,
        signals,
        tasks,
        old=(run.name, run.settings),
        new=(method, settings),
        examples=request.examples,
        started=started,
    )


def _steps(text: str | None, known: list[int]) -> list[int]:
    """`3`, `1-10`, `1,4,9-12`, or all."""
    if text is None:
        return known
    wanted: list[range] = []
    try:
        for part in text.strip("[]").split(","):
            first, _, last = part.partition("-")
            wanted.append(range(int(first), int(last or first) + 1))
    except ValueError:
        raise ConfigError(f"steps={text}: write a step, a range or a list, such as 3, 1-10 or 1,4,9-12.") from None
    found = [step for step in known if any(step in part for part in wanted)]
    if not found:
        raise ConfigError(f"steps={text}: the run has rollouts of the steps {known[0]} to {known[-1]}.")
    return found


def _name(words: list[str], method: str) -> str:
    """A folder name that says what was asked for."""
    import re

    short = [word.removeprefix("advantage").lstrip(".=") for word in words] or [method]
    return re.sub(r"[^A-Za-z0-9_.=-]+", "_", ",".join(short))[:100]


if __name__ == "__main__":
    sys.exit(main())
