"""From an observation to prompt token ids, under a limit.

`Renderer` is the seam: `window(k)` re-prompts every turn with the last k pairs; a renderer that appends to one growing
token sequence fits the same two protocols, since a conversation is told the response ids of every turn.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agentrl.episode.history import History
from agentrl.episode.parse import INVALID
from agentrl.episode.templates import find_template

CACHED_PROMPTS = 1024


@dataclass(frozen=True)
class Prompt:
    ids: list[int]
    text: str  # before the chat template
    shown: int  # pairs of history in it


class Conversation(Protocol):
    """One trajectory's prompts."""

    def prompt(self, observation: str, admissible_actions: Sequence[str] | None) -> Prompt | None:
        """The prompt of the next turn; None when it cannot be made to fit the context."""
        ...

    def add(self, observation: str, action: str, response_ids: Sequence[int]) -> None:
        """Tell what was answered to the last prompt."""
        ...


class Renderer(Protocol):
    def start(self, task: str) -> Conversation: ...

    def decode(self, response_ids: Sequence[int]) -> str: ...


class WindowRenderer:
    """Every turn is a fresh single user message with the last `history_length` pairs.

    A prompt longer than `max_prompt_tokens` loses its oldest pairs first; if it is too long without any, the context
    is at its end.

    Args:
        tokenizer: of transformers, with a chat template.
        prompts: the environment's templates by name.
        template: which one ("compact", "paper", or the environment's own).
        show_invalid: whether a turn whose text was no action is part of the history (as the action "<invalid>").
    """

    def __init__(
        self,
        tokenizer: Any,
        prompts: Mapping[str, str] | None = None,
        template: str = "paper",
        *,
        history_length: int = 2,
        max_prompt_tokens: int = 512,
        show_invalid: bool = True,
    ) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise ValueError("the model's tokenizer has no chat template; give it one (tokenizer.chat_template).")
        self.tokenizer = tokenizer
        self.history_length = history_length
        self.max_prompt_tokens = max_prompt_tokens
        self.show_invalid = show_invalid
        self.template, self.first_template = find_template(template, prompts or {})
        self._cache: OrderedDict[str, list[int]] = OrderedDict()
        self._ends = {tokenizer.eos_token_id, tokenizer.pad_token_id} - {None}

    def start(self, task: str) -> WindowConversation:
        return WindowConversation(self, task)

    def decode(self, response_ids: Sequence[int]) -> str:
        ids = list(response_ids)
        while ids and ids[-1] in self._ends:
            ids.pop()
        # a tokenizer may hold <think> or <action> as special tokens: they must not be skipped
        return str(self.tokenizer.decode(ids, skip_special_tokens=False))

    def encode(self, text: str) -> list[int]:
        """Token ids of one user message and the opening of the answer. The members of a group ask for the same ones."""
        known = self._cache.get(text)
        if known is not None:
            self._cache.move_to_end(text)
            return known
        ids = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, tokenize=True, return_dict=False
        )
        self._cache[text] = ids = [int(token) for token in ids]
        if len(self._cache) > CACHED_PROMPTS:
            self._cache.popitem(last=False)
        return ids


class WindowConversation:
    """See WindowRenderer."""

    def __init__(self, renderer: WindowRenderer, task: str) -> None:
        self._renderer = renderer
        self._task = task
        self._history = History()
        self._turns = 0

    def prompt(self, observation: str, admissible_actions: Sequence[str] | None) -> Prompt | None:
        longest = min(self._renderer.history_length, len(self._history))
        for shown in range(longest, -1, -1):
            text = self._text(observation, admissible_actions, shown)
            ids = self._renderer.encode(text)
            if len(ids) <= self._renderer.max_prompt_tokens:
                return Prompt(list(ids), text, shown)
        return None

    def add(self, observation: str, action: str, response_ids: Sequence[int]) -> None:
        self._turns += 1
        if action != INVALID or self._renderer.show_invalid:
            self._history.add(observation, action)

    def _text(self, observation: str, admissible_actions: Sequence[str] | None, shown: int) -> str:
        template = self._renderer.template if self._turns else self._renderer.first_template
        return template.fill(
            {
                "task": self._task,
                "history": self._history.pair_text(shown),
                "action_history": self._history.action_text(shown),
                "history_length": str(shown),
                "step": str(self._turns),
                "current_step": str(self._turns + 1),
                "observation": observation,
                "admissible_actions": "any" if admissible_actions is None else "\n".join(admissible_actions),
            }
        )
