"""The last lines that a process and its children wrote, so that an engine that died can say why."""

from __future__ import annotations

import os
import re
import threading
from collections import deque

_REASON = re.compile(r"\b(?:\w+\.)*(\w*(?:Error|Exception|Interrupt|Killed)): (.+)")
_UNTELLING = ("Engine core initialization failed", "EngineCore encountered", "Engine core proc")


class OutputTail:
    """Copies what is written to the process's stdout and stderr on to where it went, and keeps the end of it."""

    def __init__(self, lines: int = 200) -> None:
        self._lines: deque[str] = deque(maxlen=lines)
        for descriptor in (1, 2):
            self._tee(descriptor)

    def _tee(self, descriptor: int) -> None:
        target = os.dup(descriptor)
        reader, writer = os.pipe()
        os.dup2(writer, descriptor)
        os.close(writer)

        def copy() -> None:
            rest = b""
            while data := os.read(reader, 65536):
                os.write(target, data)
                *whole, rest = (rest + data).split(b"\n")
                self._lines.extend(line.decode(errors="replace") for line in whole)

        threading.Thread(target=copy, name=f"tee-{descriptor}", daemon=True).start()

    def reason(self) -> str:
        """The message of the last error that was printed and tells something; empty when there is none."""
        for line in reversed(self._lines):
            found = _REASON.search(line)
            if found and not any(text in line for text in _UNTELLING):
                return f"{found[1]}: {found[2].strip()}"
        return ""
