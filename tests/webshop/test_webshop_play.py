"""The shop for people: over HTTP, in a real browser, and in the terminal."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import threading
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest
from webshop_env import play
from webshop_env.agents import Expert
from webshop_env.play import SESSIONS, Shop, in_terminal, make_server

OPTIONS = {"catalogue": "mini", "pages": "clean", "observation_mode": "text_rich"}
TASK = "train/000007"


@pytest.fixture
def server() -> Iterator[Any]:
    made = make_server(Shop(OPTIONS, "train", TASK, seed=0))
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()


class Browser:
    """Follows redirects and keeps the cookie; `text` is the page."""

    def __init__(self, server: Any) -> None:
        self.port = server.server_address[1]
        self.path, self.text, self.status, self.cookie = "/", "", 0, ""
        self.headers: dict[str, str] = {}

    def ask(self, method: str, path: str, form: dict[str, str] | None = None, host: str | None = None) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        headers = {"Cookie": self.cookie} | ({"Host": host} if host else {})
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        connection.request(method, path, urlencode(form) if form is not None else None, headers)
        answer = connection.getresponse()
        self.text, self.status, self.headers = answer.read().decode(), answer.status, dict(answer.getheaders())
        connection.close()
        if "Set-Cookie" in self.headers:
            self.cookie = self.headers["Set-Cookie"].split(";")[0]
        if self.status == 303:
            self.path = self.headers["Location"]
            return self.ask("GET", self.path)
        return self.status

    def act(self, **form: str) -> int:
        return self.ask("POST", self.path, form)


def session_of(server: Any) -> Any:
    return next(reversed(server.RequestHandlerClass.shop.sessions.values()))


def test_a_goal_by_hand(server: Any) -> None:
    browser = Browser(server)
    assert browser.ask("GET", "/") == 200
    session = session_of(server)
    goal = session.env.goal
    assert unescape(re.search(r"<span id=goal>(.*?)</span>", browser.text)[1]) == goal["instruction_text"]
    assert browser.act(action="click[buy now]") == 200 and "that does nothing here" in browser.text
    while session.outcome is None:
        action = Expert().act(session.env)
        form = {"query": action[7:-1]} if action.startswith("search[") else {"action": action}
        if "action" in form:  # it is a button of the page that a person sees
            assert f'value="{action}"' in unescape(browser.text)
        assert browser.act(**form) == 200
    assert session.outcome["success"]
    assert "reward <strong id=reward>1.000</strong>" in browser.text
    for word in ("type", "attributes", "options", "price", goal["attributes"][0]):
        assert word in browser.text
    steps = len(session.actions)
    browser.act(action="click[buy now]")
    assert len(session.actions) == steps  # what is bought is bought
    assert browser.ask("GET", "/again") == 200 and session_of(server).task == TASK and not session_of(server).actions


def test_what_is_typed_is_never_markup(server: Any) -> None:
    browser = Browser(server)
    browser.ask("GET", "/new")
    browser.act(query='<script>alert("x")</script> & "quotes"')
    assert "<script" not in browser.text and "&lt;script&gt;" in browser.text
    assert "script-src" not in browser.headers["Content-Security-Policy"]
    assert browser.headers["Content-Security-Policy"].startswith("default-src 'none'")


@pytest.mark.parametrize("query", ["", "]", "x" * 4000, "\x00\x07", "ünïcödé 東京", "a]b[c"])
def test_odd_searches(server: Any, query: str) -> None:
    browser = Browser(server)
    browser.ask("GET", "/new")
    assert browser.act(query=query) in (200, 413)
    assert browser.ask("GET", browser.path) == 200


def test_who_is_not_welcome(server: Any) -> None:
    browser = Browser(server)
    assert browser.ask("GET", "/", host="evil.example") == 403
    assert browser.ask("POST", "/s/x", {"action": "click[x]"}, host="evil.example:3000") == 403
    assert browser.ask("GET", "/s/not-a-session") == 404 and "/new" in browser.text
    assert browser.ask("GET", "/etc/passwd") == 404 and browser.ask("GET", "/again") == 404
    assert browser.ask("POST", "/s/not-a-session", {"action": "click[x]"}) == 404
    browser.ask("GET", "/new")
    assert browser.act(query="x" * 10_000) == 413
    assert server.server_address[0] == "127.0.0.1"
    other = Browser(server)
    other.ask("GET", "/new")
    assert other.path != browser.path and len(other.path) > 20


def test_old_sessions_are_forgotten() -> None:
    shop = Shop(OPTIONS, "train", None, seed=0)
    names = [shop.start() for _ in range(SESSIONS + 5)]
    assert list(shop.sessions) == names[5:]


def test_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    shop = Shop(OPTIONS, "train", TASK)
    said: list[str] = []

    def answer(prompt: str) -> str:
        session = next(reversed(shop.sessions.values()))
        said.append("nonsense" if not said else Expert().act(session.env))
        return said[-1]

    monkeypatch.setattr("builtins.input", answer)
    assert in_terminal(shop) == 1.0
    text = capsys.readouterr().out
    assert (
        "that does nothing here" in text and "reward 1.000" in text and "search[<query>]" in text and "wanted:" in text
    )
    monkeypatch.setattr("builtins.input", lambda prompt: "")
    assert in_terminal(shop) is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--task", "train/999999"], "task_id 'train/999999'"),
        (["--split", "dev"], "split"),
        (["--catalogue", "minni"], "did you mean 'mini'"),
        (["--data-dir", "/nowhere/at/all"], "there is no such folder"),
        (["--port", "99999", "--catalogue", "mini"], "port"),
    ],
)
def test_wrong_words(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert play.main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith("webshop_env: ") and said in error


# --- in Chromium


def chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return os.environ.get("CHROMIUM") or next((path for name in names if (path := shutil.which(name))), None)


@pytest.fixture
def tab(server: Any) -> Iterator[Any]:
    if chromium() is None:
        pytest.skip("no Chromium on this machine: install one, or name it by CHROMIUM=/path")
    sync_api = pytest.importorskip("playwright.sync_api")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=flags)
        page = browser.new_page()
        page.set_default_timeout(20_000)
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/")
        yield page
        browser.close()


def test_a_goal_in_the_browser(server: Any, tab: Any) -> None:
    errors: list[str] = []
    tab.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    session = session_of(server)
    assert tab.inner_text("#goal") == session.env.goal["instruction_text"]
    pressed = 0
    while session.outcome is None:
        action = Expert().act(session.env)
        if action.startswith("search["):
            tab.get_by_label("Search for").fill(action[7:-1])
            tab.get_by_role("button", name="Search").click()
            continue
        tab.locator(f'button[value="{action}"]').first.click()
        pressed += tab.locator('button[aria-pressed="true"]').count() > 0
    assert pressed  # a chosen option is marked
    assert tab.inner_text("#reward") == "1.000"
    tab.get_by_role("link", name="the same goal again").click()
    assert tab.inner_text("#goal") == session.env.goal["instruction_text"] and session_of(server) is not session
    assert not errors
