"""Evaluate a model: every task of a split once, with the same seeds each time, by task type.

python -m agentrl.evaluate RUN_DIR                                     the newest checkpoint of a run, as it was trained
python -m agentrl.evaluate RUN_DIR step=20 evaluation.split=test       an older one, on another split
python -m agentrl.evaluate +recipe=ptgpo_webshop model.path=FOLDER     any model, with the words of agentrl.main
python -m agentrl.evaluate +recipe=ptgpo_webshop agent=react           a prompting baseline: direct, react, reflexion
python -m agentrl.evaluate +recipe=ptgpo_webshop environment=sokoban agent=reflexion \\
    backend=openai endpoint.url=http://127.0.0.1:8000/v1 endpoint.model=NAME

Writes episodes.jsonl (as episodes end), evaluation.json and transcripts into `out`; the same command goes on where a
stopped one was. See docs/evaluation.md.
"""

from __future__ import annotations

import sys

from agentrl.config import ConfigError


def main(words: list[str] | None = None) -> int:
    """Returns the exit status: 0 done or stopped cleanly, 2 refused, 1 anything else."""
    words = list(sys.argv[1:] if words is None else words)
    if {"-h", "--help"} & set(words):
        print(_help())
        return 0
    show = _take_cfg(words)
    try:
        from agentrl.baselines.request import resolve
        from agentrl.baselines.words import read_words

        request = resolve(read_words(words))
        if show:
            import yaml

            tree = {"evaluate": request.own.model_dump(mode="json"), **request.config.model_dump(mode="json")}
            print(yaml.safe_dump(tree, sort_keys=False), end="")
            return 0
        from agentrl.baselines.check import check

        ready = check(request)
        from agentrl.baselines.run import evaluate

        return evaluate(ready)
    except ConfigError as error:
        print(f"agentrl: {error}", file=sys.stderr)
        return 2


def _take_cfg(words: list[str]) -> bool:
    """Whether `--cfg job` is among the words; it is taken out."""
    for flag in (["--cfg", "job"], ["--cfg=job"]):
        for at in range(len(words) - len(flag) + 1):
            if words[at : at + len(flag)] == flag:
                del words[at : at + len(flag)]
                return True
    return False


def _help() -> str:
    from agentrl.baselines.words import EvaluateWords
    from agentrl.config.compose import known_keys

    keys = "\n".join(f"  {key}" for key in known_keys(EvaluateWords))
    return f"""{(__doc__ or "").strip()}

Words of its own (agentrl/baselines/words.py has their defaults)
{keys}

All keys of a run are known, too; those that matter here are
  evaluation.split=NAME  evaluation.tasks=N (the first N; all unless given)  evaluation.temperature=0 (greedy)
  evaluation.transcripts=N  seed=N  model.path=FOLDER  rollout.workers=N
`--cfg job` prints every key with its value."""


if __name__ == "__main__":
    sys.exit(main())
