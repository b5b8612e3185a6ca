"""How the processes of a training group find each other, and how they keep quiet while verl loads a model."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import socket
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

log = logging.getLogger(__name__)
JOIN_TIMEOUT = timedelta(minutes=10)


def meeting_point(workers: int) -> tuple[Any, tuple[str, int] | None]:
    """(store, its address) for `workers` ranks, held by the caller; (None, None) for a rank that is alone.

    The store listens on a socket that is bound here and never given up, so no other process can take its port. It
    is on loopback while Ray has one machine.
    """
    if workers == 1:
        return None, None
    import ray
    from verl.utils.distributed import create_tcp_store

    host = "127.0.0.1" if len(ray.nodes()) == 1 else ray.util.get_node_ip_address()
    listener = socket.create_server((host, 0))
    port = listener.getsockname()[1]
    store = create_tcp_store(
        host, port, listen_socket=listener, world_size=workers, is_master=True, wait_for_workers=False
    )
    return store, (host, port)


def join_process_group(device: str, store_address: tuple[str, int] | None) -> None:
    """torch's default process group of this training group: gloo, and NCCL beside it on GPUs."""
    import torch.distributed as dist

    if dist.is_initialized():
        return
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    # verl asks torch for "cpu:gloo,<device>:<backend>", which torch refuses when the device is the CPU itself.
    backend = "gloo" if device == "cpu" else "cpu:gloo,cuda:nccl"
    if store_address is None:
        store = dist.HashStore()
    else:
        if store_address[0] == "127.0.0.1" and sys.platform == "linux":
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        store = dist.TCPStore(*store_address, world_size=size, is_master=False, timeout=JOIN_TIMEOUT)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep verl's prints and transformers' progress bars out of the driver's console; on an error they are logged."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            yield
    except BaseException:
        log.error("while the training worker started, verl said:\n%s", said.getvalue())
        raise
