"""Weights through shared memory: one file per version in /dev/shm, written by the trainer, mapped by every engine.

The file of a living run is locked (flock) by its trainer. The lock goes away with the process, however it ends, so a
file that can be locked is a leftover of a dead run, and the next run removes it.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from agentrl.engine.weights import WeightDescriptor

if TYPE_CHECKING:
    import torch

PREFIX = "agentrl-weights-"
ALIGNMENT = 64
KEPT = 2  # the current version, and the one before it for a worker that is being restarted


def folder() -> Path:
    """Memory, where the system has it as files."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and os.access(memory, os.W_OK) else Path(tempfile.gettempdir())


def remove_leftovers() -> list[str]:
    """Remove weight files of this user whose trainer is gone; returns their names."""
    removed = []
    for path in folder().glob(f"{PREFIX}*"):
        try:
            handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:  # another user's, or gone already
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
            removed.append(path.name)
        except OSError:  # locked: its trainer lives
            pass
        finally:
            os.close(handle)
    return removed


class _Block:
    """One locked file that grows as tensors are appended."""

    def __init__(self) -> None:
        while True:
            self.path = folder() / f"{PREFIX}{uuid.uuid4().hex}"
            self.handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:  # another run's cleaning holds it, and is about to remove it
                os.close(self.handle)
                continue
            if self.path.exists():
                break
            os.close(self.handle)
        self.size = 0

    def append(self, tensor: torch.Tensor) -> int:
        """The offset at which the tensor's bytes now are."""
        import torch

        data = memoryview(tensor.detach().to("cpu").contiguous().reshape(-1).view(torch.uint8).numpy())
        offset = -(-self.size // ALIGNMENT) * ALIGNMENT
        done = 0
        while done < len(data):
            try:
                done += os.pwrite(self.handle, data[done:], offset + done)
            except OSError as error:
                raise RuntimeError(
                    f"no room for the weights in {self.path.parent} after {(offset + done) >> 20} MiB "
                    f"({error.strerror}): enlarge it (docker run --shm-size), or free it"
                ) from error
        self.size = offset + len(data)
        return offset

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        os.close(self.handle)


class SharedMemoryPublisher:
    """Publishes from rank 0; the other ranks only drain their tensors. Leftovers of dead runs are removed at start."""

    def __init__(self, rank: int = 0) -> None:
        self.rank = rank
        self._blocks: list[_Block] = []
        self.removed = remove_leftovers() if rank == 0 else []

    def publish(self, version: int, tensors: Iterable[tuple[str, torch.Tensor]]) -> WeightDescriptor | None:
        """Write all tensors. Afterwards the last two published versions can be read, older ones are gone."""
        if self.rank != 0:
            for _ in tensors:
                pass
            return None
        while len(self._blocks) >= KEPT:
            self._blocks.pop(0).remove()
        block = _Block()
        try:
            layout = [
                (name, str(tensor.dtype).removeprefix("torch."), list(tensor.shape), block.append(tensor))
                for name, tensor in tensors
            ]
        except BaseException:
            block.remove()
            raise
        self._blocks.append(block)
        names, dtypes, shapes, offsets = (list(column) for column in zip(*layout, strict=True))
        update = {
            "path": str(block.path),
            "names": names,
            "dtype_names": dtypes,
            "shapes": shapes,
            "offsets": offsets,
            "size_bytes": block.size,
        }
        return WeightDescriptor(version, "shm", update, block.size)

    def close(self) -> None:
        while self._blocks:
            self._blocks.pop().remove()


def read_tensors(
    path: str, names: list[str], dtype_names: list[str], shapes: list[list[int]], offsets: list[int], size_bytes: int
) -> Iterator[tuple[str, torch.Tensor]]:
    """The published tensors, as views of private pages: nothing is copied, and writing to them reaches nobody else."""
    import torch

    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise RuntimeError(
            f"the weights in {path} are gone: their trainer ended, or published two newer versions since; publish again"
        ) from None
    try:
        found = os.fstat(handle).st_size
        if found < size_bytes:
            raise RuntimeError(f"the weights in {path} are cut off: {found} of {size_bytes} bytes; publish again")
        memory = mmap.mmap(handle, size_bytes, access=mmap.ACCESS_COPY)
    finally:
        os.close(handle)
    for name, dtype_name, shape, offset in zip(names, dtype_names, shapes, offsets, strict=True):
        dtype = getattr(torch, dtype_name)
        count = 1
        for length in shape:
            count *= length
        yield name, torch.frombuffer(memory, dtype=dtype, count=count, offset=offset).view(shape)
