"""Templates, history, the window renderer and its limit."""

from __future__ import annotations

from typing import Any

import pytest
from words import tokenizer

from agentrl.episode.history import History
from agentrl.episode.parse import INVALID
from agentrl.episode.prompt import CACHED_PROMPTS, WindowRenderer
from agentrl.episode.templates import GENERIC, SLOTS, Template, find_template

TOKENIZER = tokenizer()
ALL = "|".join(f"{{{slot}}}" for slot in SLOTS)


def renderer(text: str = ALL, **settings: Any) -> WindowRenderer:
    return WindowRenderer(TOKENIZER, {"mine": text}, "mine", **{"max_prompt_tokens": 2000, **settings})


def shown(text: str, **settings: Any) -> list[str]:
    """The prompt texts of five turns."""
    conversation = renderer(text, **settings).start("the task")
    texts = []
    for turn in range(5):
        prompt = conversation.prompt(f"page {turn}", ["left", "right"] if turn else None)
        assert prompt is not None
        texts.append(prompt.text)
        conversation.add(f"page {turn}", INVALID if turn == 2 else f"act {turn}", [1])
    return texts


def test_slots_turn_by_turn() -> None:
    texts = shown(ALL)
    assert texts[0] == "the task|none|none|0|0|1|page 0|any"
    assert texts[1] == "the task|Observation 1: page 0\nAction 1: act 0|act 0|1|1|2|page 1|left\nright"
    assert texts[3] == (
        "the task|Observation 2: page 1\nAction 2: act 1\nObservation 3: page 2\nAction 3: <invalid>|act 1\n<invalid>"
        "|2|3|4|page 3|left\nright"
    )


def test_window_length() -> None:
    assert shown("{action_history}", history_length=0) == ["none"] * 5
    assert shown("{action_history}", history_length=9)[4] == "act 0\nact 1\n<invalid>\nact 3"
    assert shown("{history_length}", history_length=2) == ["0", "1", "2", "2", "2"]


def test_invalid_turns_can_be_left_out_of_the_history() -> None:
    texts = shown("{action_history} {step}", show_invalid=False)
    assert texts[3] == "act 0\nact 1 3"  # the turn is counted all the same
    assert texts[4] == "act 1\nact 3 4"


def test_first_turn_template() -> None:
    both = {"mine": "later {observation}", "mine_first": "first {observation}"}
    conversation = WindowRenderer(TOKENIZER, both, "mine").start("t")
    prompts = [conversation.prompt("p", None)]
    conversation.add("p", "a", [])
    prompts.append(conversation.prompt("p", None))
    assert [prompt.text for prompt in prompts if prompt] == ["first p", "later p"]


def test_braces_in_values_are_never_slots() -> None:
    conversation = renderer("{task} / {history} / {observation}").start("{observation} {0} {{x}}")
    page = "{task} {unknown} {} }{ %s {history!r:>10}"
    conversation.add(page, "{step}", [])
    prompt = conversation.prompt(page, None)
    assert prompt is not None
    assert prompt.text == ("{observation} {0} {{x}} / Observation 1: " + page + "\nAction 1: {step} / " + page)


def test_braces_in_templates() -> None:
    assert Template("t", 'say {{task}} or {"a": 1} for {task}').fill({"task": "T"}) == 'say {task} or {"a": 1} for T'


def test_unknown_slot_and_template_are_named() -> None:
    with pytest.raises(
        ValueError, match=r"prompt template mine: there is no slot \{observations\}; did you mean \{observ"
    ):
        renderer("{observations}")
    with pytest.raises(ValueError, match="prompt=papre: the environment has no such template; did you mean paper"):
        find_template("papre", {})
    with pytest.raises(ValueError, match="there are compact, long, paper"):
        find_template("zzz", {"long": ""})


def test_own_templates_come_before_generic_ones() -> None:
    assert find_template("paper", {"paper": "own"})[0].text == "own"
    assert find_template("paper", {})[0].text == GENERIC["paper"]


@pytest.mark.parametrize("name", GENERIC)
def test_generic_templates_show_what_is_needed(name: str) -> None:
    conversation = WindowRenderer(TOKENIZER, None, name, max_prompt_tokens=5000).start("find the key")
    conversation.add("a hall", "go north", [])
    prompt = conversation.prompt("a yard", ["go south"])
    assert prompt is not None
    for part in ("find the key", "go north", "a yard"):
        assert part in prompt.text


def test_token_ids_are_those_of_the_chat_template() -> None:
    prompt = renderer("{observation}").start("t").prompt("go <action> left", None)
    assert prompt is not None
    assert TOKENIZER.decode(prompt.ids) == "<|user|>go <action> left<|end|><|assistant|>"


def test_prompts_of_a_group_are_rendered_once() -> None:
    calls = 0

    class Counting:
        chat_template = TOKENIZER.chat_template
        eos_token_id = pad_token_id = None

        def apply_chat_template(self, *args: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            return TOKENIZER.apply_chat_template(*args, **named)

    made = WindowRenderer(Counting(), {"mine": "{observation}"}, "mine")
    prompts = [made.start("t").prompt("same page", None) for _ in range(8)]
    assert calls == 1
    assert prompts[0] is not None and prompts[1] is not None
    prompts[0].ids.append(99)  # one trajectory's list is not another's
    assert prompts[1].ids[-1] != 99
    for index in range(CACHED_PROMPTS + 5):
        made.start("t").prompt(str(index), None)
    assert len(made._cache) == CACHED_PROMPTS


def test_history_shrinks_before_the_context_ends() -> None:
    # tokens are characters here: 3 for the chat, 2 for the blank and the bar, the rest is text
    made = renderer("{action_history}|{observation}", max_prompt_tokens=40)
    conversation = made.start("t")
    conversation.add("p", "a" * 12, [])
    conversation.add("p", "b" * 12, [])
    for length, pairs in ((11, 2), (12, 1), (24, 1), (25, 0), (32, 0)):
        prompt = conversation.prompt("o" * length, None)
        assert prompt is not None
        assert prompt.shown == pairs, length
        assert len(prompt.ids) <= 40
    assert "b" * 12 in conversation.prompt("o" * 24, None).text  # type: ignore[union-attr]  # the newest stays
    assert conversation.prompt("o" * 33, None) is None


def test_decoding_keeps_tags_that_are_special_tokens() -> None:
    made = renderer()
    ids = TOKENIZER.encode("<think>x</think><action>go</action>", add_special_tokens=False)
    end, pad = TOKENIZER.eos_token_id, TOKENIZER.pad_token_id
    assert made.decode([*ids, end]) == "<think>x</think><action>go</action>"
    assert made.decode([*ids, end, pad, pad]) == "<think>x</think><action>go</action>"
    assert made.decode([]) == ""


def test_a_tokenizer_without_chat_template_is_refused() -> None:
    bare = tokenizer()
    bare.chat_template = None
    with pytest.raises(ValueError, match="has no chat template"):
        WindowRenderer(bare)


def test_history_text() -> None:
    history = History()
    assert (history.pair_text(2), history.action_text(2)) == ("none", "none")
    for turn in range(3):
        history.add(f"o{turn}", f"a{turn}")
    assert history.action_text(2) == "a1\na2"
    assert history.pair_text(1) == "Observation 3: o2\nAction 3: a2"
    assert history.pair_text(0) == "none"
