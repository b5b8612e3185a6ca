"""The contract suite passes on what keeps the contract and names what does not."""

from __future__ import annotations

import pytest

from agentrl.environments.contract_suite import check_environment

# plugin -> words of the sentence that it must be refused with
BROKEN = {
    "unseeded": "same task and seed",
    "hash_seeded": "in another process",
    "shared_state": "while another environment of the process was played",
    "lacks_key": "lacks 'state_key'",
    "score_out_of_range": "must lie in 0..1",
    "success_is_text": "info['success'] of reset must be a bool",
    "counts_in_key": "action_effective is False, but the state_key changed",
    "one_key": "action_effective is True, but the state_key is the same",
    "raises_on_invalid": "raised KeyError",
    "all_valid": "info['action_valid'] is True",
    "invalid_ends": "the episode ended",
    "lists_too_much": "'jump' is in admissible_actions, but was told invalid",
    "keeps_thread": "5 threads are left after 5 environments were closed",
    "keeps_file": "5 open files are left",
    "grows": "resident memory grew by",
    "takes_any_option": "an unknown option must be refused by name",
    "overlapping": "is in the splits 'train' and 'validation'",
    "shuffled": "gave two different orders",
    "doubled": "more than once",
}


def test_good_environment_passes() -> None:
    check_environment("corridor_plugin:", turns=20)


def test_every_broken_plugin_is_tried() -> None:
    import broken_plugins

    objects = {name for name, value in vars(broken_plugins).items() if isinstance(value, broken_plugins.Broken)}
    assert objects == set(BROKEN)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_environment_is_named(name: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check_environment(f"broken_plugins:{name}", turns=20)
    assert BROKEN[name] in str(caught.value)
    assert f"broken_plugins:{name}" in str(caught.value)


def test_policy_is_asked_for_where_nothing_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    import corridor_plugin

    original = corridor_plugin.CorridorEnv.info
    monkeypatch.setattr(
        corridor_plugin.CorridorEnv,
        "info",
        lambda self, *flags: {**original(self, *flags), "admissible_actions": None},
    )
    with pytest.raises(AssertionError, match="give check_environment\\(policy="):
        check_environment("corridor_plugin:")


@pytest.mark.parametrize("observation_mode", ["text", "text_rich", "compact"])
def test_webshop(observation_mode: str) -> None:
    pytest.importorskip("webshop_env.plugin")
    options = {"observation_mode": observation_mode}
    check_environment("webshop_env.plugin:", options=options, turns=15, resets=200, page_tells_state=True)
