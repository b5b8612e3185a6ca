"""A `cpu` platform for verl: gloo, torch.cpu, no accelerator. Importing this module registers it with verl.

verl 0.9.1 knows CUDA, ROCm and NPU platforms and takes others by registration. Every process that imports verl on a
machine without an accelerator needs two variables set before that import (`environment_variables`): verl then loads
this module at the end of `import verl`, and picks the platform by name.
"""

from __future__ import annotations

import contextlib
import os
import types
from collections.abc import Iterator
from typing import Any

import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry

NAME = "cpu"


def _device_module() -> types.ModuleType:
    """`torch.cpu` and the memory and RNG calls that verl makes of `torch.cuda`; there is no device memory: zeros."""
    module = types.ModuleType("agentrl_cpu_device")
    for name in dir(torch.cpu):
        if not name.startswith("__"):
            setattr(module, name, getattr(torch.cpu, name))
    zero = ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved")
    nothing = ("empty_cache", "ipc_collect", "reset_peak_memory_stats", "synchronize", "set_device")
    extra: dict[str, Any] = {name: (lambda *a, **k: 0) for name in zero}
    extra |= {name: (lambda *a, **k: None) for name in nothing}
    extra |= {
        "mem_get_info": lambda *a, **k: (0, 0),
        "current_device": lambda: torch.device("cpu"),
        "device_count": lambda: 1,
        "is_available": lambda: True,
        "manual_seed": torch.manual_seed,
        "manual_seed_all": torch.manual_seed,
        "get_rng_state": lambda *a, **k: torch.get_rng_state(),
        "set_rng_state": lambda state, *a, **k: torch.set_rng_state(state),
        "get_device_name": lambda *a, **k: "CPU",
    }
    for name, value in extra.items():
        setattr(module, name, value)
    return module


@PlatformRegistry.register(platform=NAME)
class CPUPlatform(PlatformBase):
    """What verl asks of a platform, answered for a machine without an accelerator."""

    device_name = NAME
    vendor_name = NAME
    device_module = _device_module()

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return False  # never by detection, only by VERL_PLATFORM: a GPU machine must not fall to it

    def current_device(self) -> torch.device:
        return torch.device("cpu")

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None: ...

    def synchronize(self, device_index: int | None = None) -> None: ...

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None: ...

    def empty_cache(self) -> None: ...

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextlib.contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None: ...

    def profiler_stop(self) -> None: ...

    def ray_resource_name(self) -> str:
        return "CPU"

    def ray_resource_options(self, num_gpus: float) -> dict[str, Any]:
        return {}

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None:
        return None


def activate() -> None:
    """Make `cpu` the platform of this process. Raises RuntimeError when verl has already settled on another one."""
    from verl.plugin.platform import get_platform

    os.environ["VERL_PLATFORM"] = NAME
    if get_platform().device_name != NAME:
        raise RuntimeError(
            f"verl was imported for the platform {get_platform().device_name!r} before agentrl chose 'cpu'; "
            "set VERL_PLATFORM=cpu and VERL_USE_EXTERNAL_MODULES=agentrl.engine.cpu_platform before importing verl"
        )
