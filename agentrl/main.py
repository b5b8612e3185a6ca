"""The entry: compose, validate, connect to Ray, run. Nothing heavy is imported before the configuration has passed.

python -m agentrl.main +recipe=ptgpo_webshop                 train
python -m agentrl.main +recipe=ptgpo_webshop --cfg job       print the configuration and stop
python -m agentrl.main resume=RUN_DIR                        go on with a stopped run
python -m agentrl.main --help
"""

from __future__ import annotations

import sys

from agentrl.config import ConfigError


def main(words: list[str] | None = None) -> int:
    """Run with command-line words. Returns the exit status: 0 done or stopped cleanly, 2 refused, 1 anything else."""
    words = list(sys.argv[1:] if words is None else words)
    try:
        if {"-h", "--help"} & set(words):
            print(_help())
            return 0
        show = _take_flag(words, "--cfg", takes_value=True)
        unknown = [word for word in words if word.startswith("-")]
        if unknown:
            raise ConfigError(f"{unknown[0]}: there is no such flag; known are --help and --cfg job.")
        if not words:
            raise ConfigError("nothing to do: name a recipe, for example +recipe=ptgpo_webshop (--help lists them).")
        from agentrl.config.resume import resolve

        config, overrides = resolve(words)
        if show is not None:
            if show != "job":
                raise ConfigError(f"--cfg {show}: only `--cfg job` is known.")
            import yaml

            print(yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False), end="")
            return 0
        from agentrl.config.preflight import preflight

        preflight(config)
    except ConfigError as error:
        print(f"agentrl: {error}", file=sys.stderr)
        return 2
    from agentrl.driver.run import run

    try:
        return run(config, overrides)
    except ConfigError as error:  # what only the cluster or the data could tell
        print(f"agentrl: {error}", file=sys.stderr)
        return 2


def _take_flag(words: list[str], flag: str, takes_value: bool) -> str | None:
    for index, word in enumerate(words):
        if word == flag and takes_value:
            if index + 1 >= len(words):
                raise ConfigError(f"{flag} wants a value; the only one is `job`.")
            value = words[index + 1]
            del words[index : index + 2]
            return value
        if word.startswith(flag + "="):
            del words[index]
            return word.split("=", 1)[1]
    return None


def _help() -> str:
    from agentrl.config.compose import FOLDER, GROUPS
    from agentrl.config.recipes import recipe_names

    choices = {group: sorted(file.stem for file in (FOLDER / group).glob("*.yaml")) for group in GROUPS}
    choices["scale"].insert(0, "auto")
    groups = "\n".join(f"  {group + '=':<14}{' | '.join(names)}" for group, names in choices.items())
    recipes = "\n".join(f"  +recipe={name}" for name in recipe_names())
    return f"""{(__doc__ or "").strip()}

Recipes (from ./recipes, $AGENTRL_RECIPES and the package; several: +recipe=[a,b])
{recipes}

Groups
{groups}

Keys are key=value, for example
  seed=1  trainer.total_training_steps=50  advantage.tau_expand=4  actor.learning_rate=1e-4  environment.max_turns=10
  model.path=FOLDER  trainer.run_dir=FOLDER  logging.wandb=on
`--cfg job` prints every key with its value. RAY_ADDRESS joins a cluster; without it a Ray of our own is started."""


if __name__ == "__main__":
    sys.exit(main())
