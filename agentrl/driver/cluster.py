"""Ray: join the cluster that RAY_ADDRESS (or `ray job submit`) names, else start one of our own on this machine."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from agentrl.config.errors import ConfigError
from agentrl.config.preflight import check_workers
from agentrl.config.schema import RunConfig

# One BLAS thread per process unless a worker asks for more: processes that fight for cores are 10 times slower.
WORKER_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "VLLM_NO_USAGE_STATS": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


def connect(config: RunConfig, check: Callable[[RunConfig, int, str], None] = check_workers) -> None:
    """Connect, and refuse more workers than the cluster has room for (ConfigError), as `check` says."""
    import ray

    address = config.cluster.address or os.environ.get("RAY_ADDRESS")
    # A worker must find agentrl (a checkout that was not installed, too); paths of this machine help only here.
    runtime = {"env_vars": dict(WORKER_ENVIRONMENT)}
    if address:
        try:
            ray.init(
                address=address,
                namespace=f"agentrl-{os.getpid()}",
                runtime_env=runtime,
                log_to_driver=config.logging.worker_output,
            )
        except (ConnectionError, RuntimeError) as error:
            raise ConfigError(f"RAY_ADDRESS={address}: cannot join the cluster ({error}).{_token_hint()}") from None
    else:
        os.environ.setdefault("PYTHONPATH", "")
        package_parent = str(Path(__file__).resolve().parents[2])
        runtime["env_vars"]["PYTHONPATH"] = os.pathsep.join(p for p in (package_parent, os.environ["PYTHONPATH"]) if p)
        ray.init(
            address="local",
            include_dashboard=False,
            namespace="agentrl",
            object_store_memory=config.cluster.object_store_mib << 20,
            logging_level=logging.ERROR,
            log_to_driver=config.logging.worker_output,
            runtime_env=runtime,
        )
    machines = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) > 0]
    if config.scale == "cpu" and len(machines) > 1:
        raise ConfigError(
            f"scale=cpu: works on one machine (weights travel by its shared memory), and the cluster at {address} has "
            f"{len(machines)}; use scale=gpu there, or leave RAY_ADDRESS unset."
        )
    resources = ray.cluster_resources()
    unit = "GPU" if config.scale == "gpu" else "CPU"
    check(config, int(resources.get(unit, 0)), "GPUs" if unit == "GPU" else "cores")


def _token_hint() -> str:
    """`ray start` asks for a token where it finds one; `ray.init` with an address sends it only when told to."""
    if os.environ.get("RAY_AUTH_MODE", "").lower() == "token":
        return ""
    return (
        " Should it ask for a token (clusters do that were started where ~/.ray/auth_token or RAY_AUTH_TOKEN was there), "
        "set RAY_AUTH_MODE=token and give the same token."
    )
