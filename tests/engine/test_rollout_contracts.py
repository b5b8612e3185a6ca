"""What we lean on inside vLLM. A test here that fails names what a new release moved."""

from __future__ import annotations

import dataclasses
import inspect

import pytest

from agentrl.engine.rollout_spec import EXTENSION, SEED_BOOK, RolloutSpec, engine_arguments, environment_variables

pytestmark = pytest.mark.engine
CPU = RolloutSpec(model_path="m")
GPU = RolloutSpec(model_path="m", device="cuda", weight_transfer="nccl", sleep=True, block_size=16)


def parameters(function: object) -> set[str]:
    return set(inspect.signature(function).parameters)  # type: ignore[arg-type]


@pytest.mark.parametrize("spec", [CPU, GPU], ids=["cpu", "gpu"])
def test_engine_arguments_exist(spec: RolloutSpec) -> None:
    from vllm.engine.arg_utils import AsyncEngineArgs

    assert set(engine_arguments(spec)) <= {field.name for field in dataclasses.fields(AsyncEngineArgs)}


def test_environment_variables_are_read() -> None:
    import vllm.envs

    ours = {name for name in environment_variables(CPU) if name.startswith("VLLM_")}
    assert ours <= set(vllm.envs.environment_variables)


def test_async_engine_has_the_calls_of_the_worker() -> None:
    from vllm.v1.engine.async_llm import AsyncLLM

    assert {"mode", "clear_cache"} <= parameters(AsyncLLM.pause_generation)
    assert {"level", "mode"} <= parameters(AsyncLLM.sleep)
    assert {"reset_running_requests"} <= parameters(AsyncLLM.reset_prefix_cache)
    for name in (
        "generate", "collective_rpc", "init_weight_transfer_engine", "start_weight_update", "update_weights",
        "finish_weight_update", "resume_generation", "is_paused", "wake_up", "shutdown", "from_engine_args",
    ):  # fmt: skip
        assert callable(getattr(AsyncLLM, name)), name


def test_errors_and_request_types() -> None:
    from vllm.distributed.weight_transfer.base import WeightTransferInitRequest, WeightTransferUpdateRequest
    from vllm.sampling_params import RequestOutputKind, SamplingParams
    from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

    assert issubclass(EngineDeadError, Exception) and issubclass(EngineGenerateError, Exception)
    assert WeightTransferInitRequest(init_info={}).init_info == {}
    assert WeightTransferUpdateRequest(update_info={"a": 1}).update_info == {"a": 1}
    made = SamplingParams(
        max_tokens=1, logprobs=0, detokenize=False, output_kind=RequestOutputKind.FINAL_ONLY,
        extra_args={"agentrl_seed": 2**63 + 5},
    )  # fmt: skip
    assert made.extra_args == {"agentrl_seed": 2**63 + 5}


def test_the_shared_memory_engine_is_registered_and_complete() -> None:
    from vllm.distributed.weight_transfer.base import WeightTransferEngine
    from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
    from vllm.utils.import_utils import resolve_obj_by_qualname

    from agentrl.engine.vllm_extension import SharedMemoryTransferEngine

    assert "shm" in WeightTransferEngineFactory._registry
    assert not SharedMemoryTransferEngine.__abstractmethods__
    assert issubclass(SharedMemoryTransferEngine, WeightTransferEngine)
    assert callable(resolve_obj_by_qualname(EXTENSION).use_seeded_sampler)


def test_layerwise_reload_takes_what_we_give_it() -> None:
    from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead
    from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload

    assert len(parameters(initialize_layerwise_reload)) >= 1
    assert len(parameters(finalize_layerwise_reload)) >= 2
    assert ParallelLMHead.__name__ == "ParallelLMHead"  # `refresh_tied_head` finds it by this name


def test_the_sampler_is_called_as_we_override_it() -> None:
    from vllm.v1.sample.logits_processor import LogitsProcessor
    from vllm.v1.sample.logits_processor.interface import BatchUpdate, MoveDirectionality
    from vllm.v1.sample.metadata import SamplingMetadata
    from vllm.v1.sample.sampler import Sampler

    from agentrl.engine.vllm_sampling import SeedBook, SeededSampler

    assert parameters(Sampler.forward) == parameters(SeededSampler.forward)
    assert {"added", "moved", "removed"} <= {field.name for field in dataclasses.fields(BatchUpdate)}
    assert {"SWAP", "UNIDIRECTIONAL"} == {direction.name for direction in MoveDirectionality}
    needed = {"temperature", "top_p", "max_num_logprobs", "logitsprocs"}
    assert needed <= {field.name for field in dataclasses.fields(SamplingMetadata)}
    assert issubclass(SeedBook, LogitsProcessor) and not SeedBook.__abstractmethods__
    assert f"{SeedBook.__module__}:{SeedBook.__name__}" == SEED_BOOK


def test_trainer_side_of_the_gpu_transfers() -> None:
    from vllm.distributed.weight_transfer.base import ParamMeta, WeightSource
    from vllm.distributed.weight_transfer.factory import WeightTransferTrainerFactory
    from vllm.distributed.weight_transfer.ipc_engine import IPCTrainerInitInfo
    from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo

    from agentrl.engine.weights_gpu import RayWorkers

    assert {"client", "source"} <= parameters(WeightTransferTrainerFactory.trainer_init)
    nccl = {field.name for field in dataclasses.fields(NCCLTrainerInitInfo)}
    assert {"master_address", "master_port", "world_size", "rank"} <= nccl
    assert {"packed", "rank"} <= {field.name for field in dataclasses.fields(IPCTrainerInitInfo)}
    assert len(parameters(ParamMeta)) == 3
    assert {"metadata", "__iter__"} <= WeightSource.__abstractmethods__ | set(vars(WeightSource))
    from vllm.distributed.weight_transfer import base

    client = getattr(base, "VLLMWeightSyncClient", None)
    if client is not None:
        wanted = {name for name, value in vars(client).items() if callable(value) and not name.startswith("_")}
        assert wanted <= set(dir(RayWorkers)), wanted
