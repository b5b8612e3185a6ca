"""The Java process: one for all environments of this process, started when first needed, ended with the last of them.

It never outlives its parent: it ends when its standard input closes, which happens however the parent dies, and it
watches the parent's process itself, because a fork of the parent may still hold that pipe.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import subprocess
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from py4j.java_gateway import GatewayParameters, JavaGateway, find_jar_path
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

from scienceworld_env.java import find_jar, find_java

HEAP_MB = 256
FLAGS = (
    "-Xms32m",
    f"-Xmx{HEAP_MB}m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # the second compiler costs more memory and start time than its code saves
    "-XX:-UsePerfData",
    "-XX:+ExitOnOutOfMemoryError",
    # The engine walks over sets of objects in the order of their identity hashes, which Java draws at random: contents
    # of a room were listed, and picked from, in another order at every load. With one hash for all of them a set keeps
    # the order in which it was filled.
    "-XX:+UnlockExperimentalVMOptions",
    "-XX:hashCode=2",
)

TYPES = "object_type_ids.tsv"  # of the package scienceworld: numbers of the kinds of objects


class EngineGone(RuntimeError):
    """The Java process has ended, or its engine raised. The message says what is known about it."""


class Jvm:
    """A running Java process. `lock` guards calls that belong together: the engine's random source is one for all."""

    def __init__(self) -> None:
        java, jar = find_java(), find_jar()
        self.pid = os.getpid()
        self.lock = threading.RLock()
        self._simplified = ""
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - what it says when it dies; `end` closes it
        self._folder = tempfile.mkdtemp(prefix="scienceworld-")  # the engine writes a table into its working folder
        shutil.copy(Path(jar).with_name(TYPES), self._folder)
        path = os.pathsep.join(filter(None, (find_jar_path(), jar)))
        command = [java, *FLAGS, "-cp", path, "py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0"]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            cwd=self._folder,
            start_new_session=True,  # an interrupt from the keyboard is for Python to handle
        )
        try:
            assert self.process.stdout is not None
            port, token = (self.process.stdout.readline().decode().strip() for _ in range(2))
            if not port.isdigit():
                raise EngineGone(f"Java ({java}) did not start: {self.last_words() or port or 'it said nothing'}.")
            self.gateway = JavaGateway(
                gateway_parameters=GatewayParameters(port=int(port), auth_token=token, enable_memory_management=False)
            )
            self._prepare()
        except BaseException:
            self.end()
            raise

    def _prepare(self) -> None:
        java = self.gateway.jvm.java
        # The engine prints a lot. Nobody reads it, and a full pipe would stop it.
        java.lang.System.setOut(java.io.PrintStream(java.io.OutputStream.nullOutputStream()))
        self.random = self._singleton("scala.util.Random$")
        self.ids = self._singleton("util.UniqueIdentifier$")
        self._simplifier = self._singleton("main.scala.scienceworld.runtime.SimplifierProcessor$")
        for path in (self._folder, os.path.join(self._folder, TYPES)):  # deleted in the opposite order
            java.io.File(path).deleteOnExit()
        self._watch_parent()

    def _singleton(self, name: str) -> Any:
        """A Scala object."""
        return self.gateway.jvm.java.lang.Class.forName(name).getField("MODULE$").get(None)

    def _watch_parent(self) -> None:
        """Java exits when the parent's process has ended (it looks about once a second): `System.exit` as a Runnable."""
        java = self.gateway.jvm.java
        kind, invoke = java.lang.Class.forName, java.lang.invoke
        exit_with = invoke.MethodHandles.publicLookup().findStatic(
            kind("java.lang.System"),
            "exit",
            invoke.MethodType.methodType(java.lang.Void.TYPE, java.lang.Integer.TYPE),
        )
        code = self.gateway.new_array(java.lang.Object, 1)
        code[0] = 1
        exit_now = invoke.MethodHandles.insertArguments(exit_with, 0, code)
        runnable = invoke.MethodHandleProxies.asInterfaceInstance(kind("java.lang.Runnable"), exit_now)
        java.lang.ProcessHandle.of(self.pid).get().onExit().thenRun(runnable)

    def simplifications(self) -> str:
        """Those in force for every world of this process, as `simplify` takes them: what was loaded last decides."""
        self._simplified = str(self._simplifier.getSimplificationsUsed())
        return self._simplified

    def simplify(self, simplifications: str) -> None:
        """Put these in force."""
        if simplifications != self._simplified:
            self.gateway.detach(self._simplifier.parseSimplificationStr(simplifications))
            self._simplified = simplifications

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def new_interface(self) -> Any:
        """The engine's front: one world."""
        return self.gateway.jvm.scienceworld.runtime.pythonapi.PythonInterface()

    def joined(self, texts: Any) -> list[str]:
        """A Java list of texts, in one call instead of one for each text."""
        try:
            text = str(self.gateway.jvm.java.lang.String.join("\n", texts))
        finally:
            self.gateway.detach(texts)
        return text.split("\n") if text else []

    def failed(self, error: Exception) -> NoReturn:
        """Raise what a call's error means. EngineGone."""
        if isinstance(error, Py4JJavaError) and self.alive:
            raise EngineGone(f"the engine failed: {str(error.java_exception)[:500]}.") from error
        with suppress(subprocess.TimeoutExpired):  # the connection breaks a little before the process is gone
            self.process.wait(2)
        code = self.process.poll()
        state = "does not answer" if code is None else f"has ended (exit code {code})"
        words = self.last_words()
        heap = f"; {HEAP_MB} MB of heap were not enough: use more servers" if "OutOfMemory" in words else ""
        raise EngineGone(
            f"the Java process {self.process.pid} of ScienceWorld {state}{heap}: call reset, which starts a new one."
            + (f" It said: {words}" if words and not heap else "")
        ) from error

    def last_words(self) -> str:
        """What it wrote to its standard error, the end of it; nothing once that has been closed."""
        if self._said.closed:
            return ""
        self._said.seek(0)
        return self._said.read()[-500:].decode(errors="replace").strip().replace("\n", " / ")

    def end(self) -> None:
        """Kill it at once: it holds nothing that must be saved."""
        if self.pid != os.getpid():
            return  # a fork of the process that started it
        with suppress(Exception):
            self.gateway.close()
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
        for stream in (self.process.stdin, self.process.stdout, self._said):
            with suppress(OSError):
                if stream is not None:
                    stream.close()


CALL_ERRORS = (Py4JError, Py4JJavaError, Py4JNetworkError, OSError)

_guard = threading.Lock()
_shared: Jvm | None = None
_users: set[int] = set()


def acquire(user: int) -> Jvm:
    """The Java process of this process, for the holder `user`; a new one if there is none or it has died."""
    global _shared
    with _guard:
        if _shared is not None and (_shared.pid != os.getpid() or not _shared.alive):
            _shared.end()
            _shared = None
            _users.clear()
        if _shared is None:
            logging.getLogger("py4j").setLevel(logging.CRITICAL)  # a dead process is told by EngineGone
            _shared = Jvm()
        _users.add(user)
        return _shared


def release(user: int, jvm: Jvm) -> None:
    """`user` needs it no more. The last one ends the process. May be called twice."""
    global _shared
    with _guard:
        if jvm is not _shared:
            jvm.end()  # it had died, or belongs to a parent
            return
        _users.discard(user)
        if not _users:
            _shared.end()
            _shared = None


def running() -> Jvm | None:
    """The Java process, if there is one."""
    return _shared


@atexit.register
def _end_at_exit() -> None:
    global _shared
    if _shared is not None:
        _shared.end()
        _shared = None
