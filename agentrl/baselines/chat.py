"""Whole conversations as prompts: what the prompting baselines show a model, turn by turn, under a limit.

`ChatRenderer` fits the episode loop's `Renderer`. It asks a tokenizer for three things only, so that `MessageBytes` can
stand for that of a model behind an endpoint, which nobody here knows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from agentrl.baselines.answers import Style
from agentrl.baselines.prompts import LEFT_OUT, NOTHING, seen
from agentrl.episode.parse import INVALID
from agentrl.episode.prompt import Prompt

Message = dict[str, str]  # {"role": "user" | "assistant", "content": text}


class MessageBytes:
    """A "tokenizer" whose ids are bytes: of the messages' JSON in a prompt, of the text in an answer."""

    chat_template = "json"
    eos_token_id = None
    pad_token_id = None

    def apply_chat_template(self, messages: Sequence[Message], **_: Any) -> list[int]:
        return list(json.dumps(list(messages)).encode())

    def decode(self, ids: Sequence[int], **_: Any) -> str:
        return bytes(ids).decode("utf-8", "surrogatepass")


def messages_of(prompt_ids: Sequence[int]) -> list[Message]:
    """What `MessageBytes` made ids of."""
    return list(json.loads(bytes(prompt_ids)))


def answer_ids(text: str) -> list[int]:
    """What `MessageBytes.decode` makes `text` of."""
    return list(text.encode("utf-8", "surrogatepass"))


class ChatRenderer:
    """One conversation per episode: the rules and the goal, then observation and answer in turn.

    Args:
        tokenizer: of transformers with a chat template, or MessageBytes.
        opening: the goal in words -> the text that opens the conversation.
        style: how answers read.
        limit: tokens of a prompt (None: no limit). A longer one loses its oldest turns for good; if it is too long
            without any, the context is at its end.
        history: most past turns to show (None: all).
    """

    def __init__(
        self,
        tokenizer: Any,
        opening: Callable[[str], str],
        style: Style,
        *,
        limit: int | None = None,
        history: int | None = None,
    ) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise ValueError("the model's tokenizer has no chat template; give it one (tokenizer.chat_template).")
        self.tokenizer, self.opening, self.style = tokenizer, opening, style
        self.limit, self.history = limit, history

    def start(self, task: str) -> ChatConversation:
        self.latest = ChatConversation(self, self.opening(task))
        return self.latest

    def encode(self, messages: Sequence[Message]) -> list[int]:
        return encode(self.tokenizer, messages)

    def decode(self, response_ids: Sequence[int]) -> str:
        return decode(self.tokenizer, response_ids)


class ChatConversation:
    """See ChatRenderer."""

    def __init__(self, renderer: ChatRenderer, opening: str) -> None:
        self._renderer, self._opening = renderer, opening
        self._past: list[tuple[str, str]] = []  # (what the user said, what was answered)
        self._first = 0  # the first turn that is still shown
        self._unreadable = False
        self._now = ""
        self._full = False

    def prompt(self, observation: str, admissible_actions: Sequence[str] | None) -> Prompt | None:
        self._now = seen(observation, admissible_actions, self._unreadable)
        while not self._full:
            messages = self._messages(self._now)
            ids = self._renderer.encode(messages)
            if self._renderer.limit is None or len(ids) <= self._renderer.limit:
                return Prompt(ids, "\n\n".join(m["content"] for m in messages), len(self._past) - self._first)
            if self._first == len(self._past):
                return None
            self._first += 1
        return None

    def shorter(self) -> list[int] | None:
        """The last prompt with half of its turns, for a model that said only when asked that it is too long; None when
        it has no turns left: the context is then at its end."""
        left = len(self._past) - self._first
        self._full = left == 0
        self._first += (left + 1) // 2
        return None if self._full else self._renderer.encode(self._messages(self._now))

    def add(self, observation: str, action: str, response_ids: Sequence[int]) -> None:
        # which actions were possible in the past helps nobody and is most of the text
        said = seen(observation, None, self._unreadable)
        text = self._renderer.decode(response_ids)
        parsed = self._renderer.style.parse(text)
        # what a model invented behind its action is not shown to it again; some endpoints refuse an empty message
        self._past.append((said, self._renderer.style.remember(parsed) if parsed.valid else text.strip() or NOTHING))
        self._unreadable = action == INVALID
        if self._renderer.history is not None:
            self._first = max(self._first, len(self._past) - self._renderer.history)

    def _messages(self, now: str) -> list[Message]:
        said = [user for user, _ in self._past[self._first :]] + [now]
        opening = [self._opening, LEFT_OUT.format(turns=self._first)] if self._first else [self._opening]
        said[0] = "\n\n".join([*opening, said[0]])
        messages = [{"role": "user", "content": said[0]}]
        for (_, answer), user in zip(self._past[self._first :], said[1:], strict=True):
            messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": user}]
        return messages


def encode(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    """Token ids of a conversation and the opening of the next answer."""
    ids = tokenizer.apply_chat_template(list(messages), add_generation_prompt=True, tokenize=True, return_dict=False)
    return [int(token) for token in ids]


def decode(tokenizer: Any, response_ids: Sequence[int]) -> str:
    """The text of an answer, without its end token."""
    ids, ends = list(response_ids), {tokenizer.eos_token_id, tokenizer.pad_token_id} - {None}
    while ids and ids[-1] in ends:
        ids.pop()
    return str(tokenizer.decode(ids, skip_special_tokens=False))
