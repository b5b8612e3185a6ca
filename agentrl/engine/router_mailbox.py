"""Requests to one worker, many to a call: those of one moment go out together, and so do the answers of one step.

A Ray call costs about a millisecond of both processes, as much as a tiny model's whole turn; so there is one call for
what is asked at once, and one open call in which the worker says what is done.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from agentrl.engine.rollout_worker import Request
from agentrl.episode.records import Generation


class Mailbox:
    """Ends with its worker: when a call fails, every request that is open fails with that error."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self._open: dict[str, asyncio.Future[Generation]] = {}
        self._outgoing: list[Request] = []
        self._pump: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._open)

    async def ask(self, request: Request) -> Generation:
        """The answer. Cancelling the caller stops the generation."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Generation] = loop.create_future()
        if not self._outgoing:
            loop.call_soon(self._send)
        self._outgoing.append(request)
        self._open[request.request_id] = answer
        if self._pump is None or self._pump.done():
            self._pump = loop.create_task(self._collect(), name="rollout answers")
        try:
            return await answer
        except asyncio.CancelledError:
            self._forget(request)
            raise
        finally:
            self._open.pop(request.request_id, None)

    def _send(self) -> None:
        requests, self._outgoing = self._outgoing, []
        if requests:
            self.handle.submit.remote(requests)

    def _forget(self, request: Request) -> None:
        if request in self._outgoing:
            self._outgoing.remove(request)
            return
        with contextlib.suppress(Exception):
            self.handle.abort.remote(request.request_id)

    async def _collect(self) -> None:
        try:
            while self._open:
                for request_id, generation, error in await self.handle.collect.remote():
                    future = self._open.get(request_id)
                    if future is None or future.done():
                        continue
                    if error is not None:
                        future.set_exception(error)
                    else:
                        future.set_result(generation)
                # the futures' owners must run before the loop looks again whether there is anything to wait for
                await asyncio.sleep(0)
        except Exception as error:
            for future in self._open.values():
                if not future.done():
                    future.set_exception(error)

    def close(self) -> None:
        if self._pump is not None:
            self._pump.cancel()
        for future in self._open.values():
            future.cancel()
