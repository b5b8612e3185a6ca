"""A local endpoint that speaks like OpenAI's, a model behind it that plays Sokoban, and environments in this process."""

from __future__ import annotations

import json
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from agentrl.environments.server import EnvironmentHost
from agentrl.environments.waits import Waits

Reply = tuple[int, Any, dict[str, str]]
MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


class FakeEndpoint:
    """`model(messages, body)` answers with text; `faults`, as long as there are any, come instead of answers."""

    def __init__(self) -> None:
        self.model: Callable[[list[dict[str, str]], dict[str, Any]], str] = lambda messages, body: "still"
        self.faults: list[Reply] = []
        self.usage = True
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.most_tokens: int | None = None  # of a prompt, counted in words
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._send(200, {"data": [{"id": "solver-1"}, {"id": "solver-2"}]}, {})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.headers.append(dict(self.headers))
                self._send(*outer.reply(self.path, body))

            def _send(self, status: int, content: Any, headers: dict[str, str]) -> None:
                data = content.encode() if isinstance(content, str) else json.dumps(content).encode()
                self.send_response(status)
                for name, value in {"Content-Length": str(len(data)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def reply(self, path: str, body: dict[str, Any]) -> Reply:
        self.asked.append(body)
        if path != "/v1/chat/completions":
            return 404, {"error": {"message": "no such page"}}, {}
        if self.faults:
            return self.faults.pop(0)
        if not body["model"].startswith("solver"):
            return 404, {"error": {"message": f"the model {body['model']} does not exist"}}, {}
        words = sum(len(message["content"].split()) for message in body["messages"])
        if self.most_tokens is not None and words > self.most_tokens:
            return 400, {"error": {"message": f"maximum context length is {self.most_tokens} tokens"}}, {}
        text = self.model(body["messages"], body)
        answer: dict[str, Any] = {
            "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]
        }
        if self.usage:
            answer["usage"] = {"prompt_tokens": words, "completion_tokens": len(text.split())}
        return 200, answer, {}

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def solve(text: str) -> str:
    """The next move of a shortest solution of the last room with one box that stands in a text."""
    room = re.findall(r"(?:^[#_OXP√S]+$\n?)+", text, re.M)[-1].split()
    cells = {(r, c): sign for r, row in enumerate(room) for c, sign in enumerate(row)}
    player = next(place for place, sign in cells.items() if sign in "PS")
    box = next(place for place, sign in cells.items() if sign in "X√")
    goal = next(place for place, sign in cells.items() if sign in "OS√")
    todo, seen = deque([(player, box, "")]), {(player, box)}
    while todo:
        at, box, first = todo.popleft()
        for name, (dr, dc) in MOVES.items():
            to, behind = (at[0] + dr, at[1] + dc), (at[0] + 2 * dr, at[1] + 2 * dc)
            if cells[to] == "#" or (to == box and cells[behind] == "#"):
                continue
            now = behind if to == box else box
            if now == goal:
                return first or name
            if (to, now) not in seen:
                seen.add((to, now))
                todo.append((to, now, first or name))
    return "still"


class LocalPool:
    """Stands where the pool of environment servers stands."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.host, self.waits, self.slots = EnvironmentHost(name, options), Waits(), 0

    async def open(self, task: str, seed: int, who: str | None = None) -> LocalSession:
        self.slots += 1
        return LocalSession(self.host, self.slots, task, seed)


class LocalSession:
    recoveries = 0

    def __init__(self, host: EnvironmentHost, slot: int, task: str, seed: int) -> None:
        self.host, self.slot, self.task, self.seed = host, slot, task, seed

    async def reset(self) -> Any:
        seen: Any = self.host.reset(self.slot, self.task, self.seed)
        return seen.observation, seen.info

    async def step(self, action: str) -> Any:
        seen: Any = self.host.step(self.slot, action)
        return seen.observation, seen.reward, seen.terminated, seen.truncated, seen.info

    async def __aenter__(self) -> LocalSession:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.host._discard(self.slot)


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    made = FakeEndpoint()
    yield made
    made.close()


@pytest.fixture
def solver() -> Callable[[str], str]:
    return solve


@pytest.fixture
def local_pool() -> type[LocalPool]:
    return LocalPool
