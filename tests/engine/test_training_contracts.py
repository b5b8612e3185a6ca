"""The internals of verl 0.9.1 and transformers that the trainer leans on, by name: what an upgrade must look at."""

from __future__ import annotations

import inspect
import os
from importlib.metadata import version

import pytest
from training_local import use_cpu_platform

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module", autouse=True)
def cpu() -> None:
    use_cpu_platform()


def parameters(function) -> list[str]:
    return list(inspect.signature(function).parameters)


def test_verl_version_is_the_one_that_was_read() -> None:
    assert version("verl") == "0.9.1"


def test_platform_plugin_point() -> None:
    from verl.plugin.platform import PlatformBase, PlatformRegistry, get_platform
    from verl.utils.device import get_device_id, get_device_name, get_nccl_backend, get_resource_name

    from agentrl.engine.cpu_platform import CPUPlatform

    assert PlatformRegistry.get("cpu") is CPUPlatform and isinstance(get_platform(), CPUPlatform)
    assert not PlatformBase.__abstractmethods__ - set(dir(CPUPlatform))
    assert (get_device_name(), get_nccl_backend(), get_resource_name(), str(get_device_id())) == (
        "cpu", "gloo", "CPU", "cpu",
    )  # fmt: skip


def test_verl_loads_external_modules_from_the_environment() -> None:
    """VERL_USE_EXTERNAL_MODULES and VERL_PLATFORM: how every worker process gets the platform."""
    import subprocess
    import sys

    from agentrl.engine.training_group import environment_variables
    from agentrl.engine.training_spec import TrainingSpec

    variables = environment_variables(TrainingSpec(model_path="x")) | {"PYTHONPATH": os.pathsep.join(sys.path)}
    code = "import verl; from verl.plugin.platform import get_platform; print(type(get_platform()).__name__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.stdout.split()[-1:] == ["CPUPlatform"], done.stderr


def test_engine_registry_takes_ours_by_vendor(monkeypatch) -> None:
    from verl.workers.engine import EngineRegistry
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

    from agentrl.engine.training_engine import VENDOR, ResponseEngine

    monkeypatch.setenv("VERL_ENGINE_VENDOR", VENDOR)
    for device in ("cpu", "cuda"):
        monkeypatch.setenv("VERL_ENGINE_DEVICE", device)
        assert EngineRegistry.get_engine_cls("language_model", "fsdp2") is ResponseEngine
    assert issubclass(ResponseEngine, FSDPEngineWithLMHead)


def test_engine_methods_that_are_called_or_replaced() -> None:
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead as Engine

    assert parameters(Engine._build_lr_scheduler) == ["self", "optimizer"]
    assert parameters(Engine._gradient_sync_context) == ["self", "is_last_micro_batch"]
    for name in (
        "initialize", "train_mode", "eval_mode", "lr_scheduler_step", "get_per_tensor_param",
        "get_data_parallel_group", "get_data_parallel_size", "save_checkpoint", "load_checkpoint",
    ):  # fmt: skip
        assert callable(getattr(Engine, name)), name
    built = inspect.getsource(Engine._build_fsdp_module) + inspect.getsource(Engine._build_model_optimizer)
    for attribute in ("self._autocast_dtype =", "self.module =", "self.optimizer =", "self.lr_scheduler ="):
        assert attribute in built, attribute
    assert "CPUOffloadPolicy(pin_memory=True)" in built, "why the reference is not forward_only on the CPU"


def test_training_worker_construction_and_dispatch() -> None:
    from verl.single_controller.base.decorator import MAGIC_ATTR, Dispatch
    from verl.workers.engine_workers import TrainingWorker

    assert parameters(TrainingWorker.__init__) == ["self", "config"]
    for name in ("reset", "set_loss_fn", "save_checkpoint", "load_checkpoint"):
        assert getattr(getattr(TrainingWorker, name), MAGIC_ATTR)["dispatch_mode"] == Dispatch.ONE_TO_ALL, name
    source = inspect.getsource(TrainingWorker.__init__)
    assert "use_remove_padding" in source, "verl copies it into the engine settings of its own engine only"
    from verl.utils.distributed import initialize_global_process_group_ray

    assert "is_initialized()" in inspect.getsource(initialize_global_process_group_ray), "ours was made before"


def test_worker_group_and_pool() -> None:
    from verl.single_controller.ray import RayResourcePool, RayWorkerGroup

    assert {"process_on_nodes", "use_gpu", "max_colocate_count"} <= set(parameters(RayResourcePool.__init__))
    source = inspect.getsource(RayWorkerGroup.__init__)
    for keyword in ("master_addr", "master_port", "device_name", "worker_env"):
        assert f'"{keyword}"' in source, keyword
    assert "all(len(arg) == length" in inspect.getsource(RayWorkerGroup.execute_all_async), "one argument per worker"


def test_loss_pieces() -> None:
    from verl.trainer.ppo.core_algos import agg_loss, kl_penalty

    assert parameters(agg_loss) == [
        "loss_mat", "loss_mask", "loss_agg_mode", "dp_size", "batch_num_tokens", "global_batch_size",
        "loss_scale_factor",
    ]  # fmt: skip
    assert parameters(kl_penalty) == ["logprob", "ref_logprob", "kl_penalty"]


def test_settings_classes_have_our_fields() -> None:
    from agentrl.engine import verl_configs
    from agentrl.engine.training_spec import TrainingSpec

    spec = TrainingSpec(model_path="x", device="cuda", offload=True, reference=True, dtype="bfloat16")
    actor, reference = verl_configs.engine_config(spec), verl_configs.engine_config(spec, reference=True)
    assert actor.param_offload and actor.optimizer_offload and not actor.forward_only
    assert reference.forward_only and not reference.param_offload
    assert actor.mixed_precision["param_dtype"] == "bf16" and actor.model_dtype == "fp32"
    optimizer = verl_configs.optimizer_config(TrainingSpec(model_path="x", learning_rate=0.5, grad_clip=0.25))
    assert (optimizer.lr, optimizer.clip_grad, optimizer.optimizer) == (0.5, 0.25, "AdamW")


def test_checkpoint_files_that_we_read() -> None:
    from verl.utils.checkpoint.fsdp_checkpoint_manager import FSDPCheckpointManager, FSDPConfig

    assert {"FSDP_version", "world_size"} == set(FSDPConfig.__dataclass_fields__)
    source = inspect.getsource(FSDPCheckpointManager.save_checkpoint)
    assert '"fsdp_config.json"' in source and '"huggingface"' in source
    state = inspect.getsource(FSDPCheckpointManager.get_rng_state)
    assert '"cpu": torch.get_rng_state()' in state and '"numpy"' in state


def test_store_and_clipping() -> None:
    from verl.utils.distributed import create_tcp_store
    from verl.utils.fsdp_utils import fsdp2_clip_grad_norm_
    from verl.utils.torch_functional import entropy_from_logits, entropy_from_logits_with_chunking

    assert parameters(create_tcp_store)[:3] == ["host", "port", "listen_socket"]
    assert parameters(fsdp2_clip_grad_norm_)[:2] == ["parameters", "max_norm"]
    assert parameters(entropy_from_logits) == ["logits"]
    assert parameters(entropy_from_logits_with_chunking) == ["logits", "chunk_size"]


def test_transformers_hands_all_hidden_states_to_the_head(tmp_path) -> None:
    import torch
    from tiny import tiny_model
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(tiny_model(tmp_path))
    seen = []
    head = model.get_output_embeddings()
    head.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].shape) or (inputs[0][:, 2:3],))
    logits = model(input_ids=torch.arange(10).view(2, 5), attention_mask=None, use_cache=False).logits
    assert seen == [(2, 5, model.config.hidden_size)] and logits.shape == (2, 1, model.config.vocab_size)


def test_transformers_attention_functions_get_our_arguments(tmp_path) -> None:
    """A registered function is found by name, gets what the model was called with, and no mask is made for it."""
    import torch
    from tiny import tiny_model
    from transformers import AutoModelForCausalLM, Qwen2Config
    from transformers.masking_utils import create_causal_mask

    from agentrl.engine import training_attention

    model = AutoModelForCausalLM.from_pretrained(tiny_model(tmp_path), attn_implementation=training_attention.NAME)
    ids, positions = torch.tensor([[3, 4, 5, 6]]), torch.tensor([[0, 1, 2, 1]])
    tree = training_attention.PrefixTree(torch.tensor([[0, 1, 2], [0, 3, 0]]), torch.tensor([0, 1, 2, 4]))
    model(input_ids=ids, position_ids=positions, attention_mask=None, use_cache=False, prefix_tree=tree)
    with pytest.raises(ValueError, match="prefix_tree"):
        model(input_ids=ids, use_cache=False)
    assert create_causal_mask(Qwen2Config(attn_implementation="sdpa"), torch.zeros(2, 5, 8), None, None) is None
    model.save_pretrained(tmp_path / "saved")
    assert training_attention.NAME not in (tmp_path / "saved" / "config.json").read_text()
