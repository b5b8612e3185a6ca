"""The shop for people: do a goal by hand and see what the reward is made of.

python -m webshop_env.play                       in the browser, served on this machine only
python -m webshop_env.play --terminal            here, as text: search[red scarf], click[buy now]; an empty line leaves
python -m webshop_env.play --task train/000012 --data-dir FOLDER
"""

from __future__ import annotations

import argparse
import random
import secrets
import sys
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlparse

from webshop_env import play_page, plugin
from webshop_env.env import WebShopEnv

LONGEST_FORM = 4096  # bytes
SESSIONS = 200  # older ones are forgotten
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass
class Session:
    """One shopper at one goal."""

    env: WebShopEnv
    task: str
    actions: list[str] = field(default_factory=list)
    outcome: dict[str, Any] | None = None
    note: str = ""

    def act(self, action: str) -> None:
        if self.outcome is not None:
            return
        _, _, terminated, _, info = self.env.step(action)
        self.actions.append(action)
        self.note = "" if info["action_valid"] else "that does nothing here"
        if terminated:
            self.outcome = info


class Shop:
    """All sessions of a server; one lock, as a shopper's step takes a millisecond."""

    def __init__(self, options: dict[str, Any], split: str, task: str | None, seed: int | None = None) -> None:
        self.options, self.split, self.task = options, split, task
        self.tasks = plugin.tasks(split, **options).ids
        self.random = random.Random(seed)
        self.sessions: OrderedDict[str, Session] = OrderedDict()
        self.lock = threading.Lock()
        if task is not None:
            self.start(task)  # an unknown task is refused now

    def start(self, task: str | None = None) -> str:
        """A new session; its name cannot be guessed."""
        env = plugin.make(**self.options)
        task = task or self.task or self.random.choice(self.tasks)
        env.reset(options={"task_id": task})
        name = secrets.token_urlsafe(16)
        self.sessions[name] = Session(env, task)
        while len(self.sessions) > SESSIONS:
            self.sessions.popitem(last=False)
        return name


class Handler(BaseHTTPRequestHandler):
    """/new and /again begin; /s/NAME is the page; what is sent there acts."""

    shop: Shop
    hosts: tuple[str, ...]

    def do_GET(self) -> None:
        if not self._welcome():
            return
        path = urlparse(self.path).path
        if path in ("/", "/new"):
            with self.shop.lock:
                name = self.shop.start()
            return self._go(f"/s/{name}", cookie=name)
        session, name = self._session()
        if path == "/again" and session is not None:
            with self.shop.lock:
                name = self.shop.start(session.task)
            return self._go(f"/s/{name}", cookie=name)
        if session is None or path != f"/s/{name}":
            return self._lost()
        with self.shop.lock:
            return self._html(play_page.page(session.env, session.actions, session.outcome, session.note))

    def do_POST(self) -> None:
        if not self._welcome():
            return
        session, name = self._session()
        if session is None:
            return self._lost()
        try:
            size = int(self.headers.get("Content-Length") or 0)
        except ValueError:
            size = -1
        if not 0 <= size <= LONGEST_FORM:
            return self._html(play_page.document("<p>That is too long.</p>"), HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        form = parse_qs(self.rfile.read(size).decode("utf-8", "replace"), keep_blank_values=True)
        action = form.get("action", [f"search[{form.get('query', [''])[0]}]"])[0]
        with self.shop.lock:
            session.act(action)
        return self._go(f"/s/{name}")

    def _session(self) -> tuple[Session | None, str]:
        parts = urlparse(self.path).path.split("/")
        name = parts[2] if len(parts) == 3 and parts[1] == "s" else ""
        if not name:  # /again: the last one, by its cookie
            cookies = dict(part.strip().partition("=")[::2] for part in (self.headers.get("Cookie") or "").split(";"))
            name = cookies.get("webshop", "")
        with self.shop.lock:
            return self.shop.sessions.get(name), name

    def _welcome(self) -> bool:
        """Only who asks for this server by its name: a page elsewhere could have its name point here."""
        host = (self.headers.get("Host") or "").rsplit(":", 1)[0].strip("[]")
        if self.hosts and host not in self.hosts:
            self._html(play_page.document("<p>This server answers by its own name only.</p>"), HTTPStatus.FORBIDDEN)
            return False
        return True

    def _lost(self) -> None:
        body = '<main><p>There is no such page. <a href="/new">A new goal</a></p></main>'
        self._html(play_page.document(body), HTTPStatus.NOT_FOUND)

    def _go(self, place: str, cookie: str | None = None) -> None:
        self.send_response(HTTPStatus.SEE_OTHER)
        self.send_header("Location", place)
        if cookie is not None:
            self.send_header("Set-Cookie", f"webshop={cookie}; HttpOnly; SameSite=Strict; Path=/")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _html(self, text: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        content = text.encode("utf-8", "replace")
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a person plays here."""


def make_server(shop: Shop, host: str = "127.0.0.1", port: int = 0) -> ThreadingHTTPServer:
    """A server that is not yet running; port 0 takes a free one."""
    hosts = LOOPBACK if host in LOOPBACK else ()
    handler = type("ShopHandler", (Handler,), {"shop": shop, "hosts": hosts})
    return ThreadingHTTPServer((host, port), handler)


def in_terminal(shop: Shop) -> float | None:
    """One goal as text. The reward, or None when the shopper leaves."""
    session = shop.sessions[shop.start()]
    env = session.env
    while session.outcome is None:
        print(f"\n{env.render()}")
        print("actions: " + "  ".join(env.admissible_actions()))
        if session.note:
            print(session.note)
        try:
            action = input("> ").strip()
        except EOFError:
            action = ""
        if not action:
            return None
        session.act(action)
    print(f"\nreward {session.outcome['score']:.3f}")
    for name, value, why in play_page.reward_rows(env.goal or {}, session.outcome["reward_parts"]):
        print(f"  {name:<11}{value:<6}{why}")
    return float(session.outcome["score"])


def main(words: list[str] | None = None) -> int:
    """Returns the exit status: 0 done, 2 refused."""
    parser = argparse.ArgumentParser(
        prog="python -m webshop_env.play", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--terminal", action="store_true")
    parser.add_argument("--task", help="such as train/000012; a random one of the split unless given")
    parser.add_argument("--split", default="train")
    parser.add_argument("--difficulty", default="all")
    parser.add_argument("--data-dir", help="a folder that webshop_env.prepare has made")
    parser.add_argument("--catalogue", help="embedded (default) or mini")
    parser.add_argument("--pages", default="clean", help="clean or faithful, as the original's")
    parser.add_argument(
        "--host", default="127.0.0.1", help="other than loopback: everybody who reaches this machine can play"
    )
    parser.add_argument("--port", type=int, default=3000, help="0: any that is free")
    given = parser.parse_args(words)
    options = {"difficulty": given.difficulty, "pages": given.pages, "observation_mode": "text_rich"}
    options |= {k: v for k, v in (("data_dir", given.data_dir), ("catalogue", given.catalogue)) if v is not None}
    try:
        shop = Shop(options, given.split, given.task)
        if given.terminal:
            in_terminal(shop)
            return 0
        server = make_server(shop, given.host, given.port)
    except (ValueError, OverflowError) as error:
        print(f"webshop_env: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"webshop_env: --port {given.port}: {error.strerror or error}; choose another, or 0.", file=sys.stderr)
        return 2
    print(f"the shop is open at http://{given.host}:{server.server_address[1]}/  (Ctrl-C closes it)", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
