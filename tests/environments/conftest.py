"""A real Ray of two CPUs, shared by the tests of a module; its workers can import the plugins that lie here."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


@pytest.fixture(scope="module")
def local_ray() -> Iterator[None]:
    import ray

    paths = [str(HERE), str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=100 << 20,
        namespace=f"test-environments-{os.getpid()}",
        logging_level="ERROR",
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"}},
    )
    yield
    ray.shutdown()
