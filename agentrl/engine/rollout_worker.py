"""One rollout engine: vLLM's AsyncLLM in a Ray actor. The same class on CPU and on GPU."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from agentrl.engine.rollout_log import OutputTail
from agentrl.engine.rollout_spec import RolloutSpec, engine_arguments, environment_variables
from agentrl.engine.weights import WeightDescriptor
from agentrl.episode.records import Generation


class RolloutEngineDied(RuntimeError):
    """vLLM's engine process is gone or broken; the worker must be replaced."""


class RolloutRefused(ValueError):
    """vLLM does not accept the request (too long a prompt, say); trying again cannot help."""


class RolloutWorker:
    """Token ids in, token ids and log-probs out. All methods are coroutines of one asyncio loop.

    vLLM is imported in `start`, after the environment variables of the spec are set.
    """

    def __init__(self, spec: RolloutSpec, index: int = 0) -> None:
        os.environ.update(environment_variables(spec))
        self.spec = spec
        self.index = index
        self.version = 0
        self._engine: Any = None
        self._parameters: dict[tuple[int, float, float], Any] = {}
        self._update = asyncio.Lock()
        self._transfer_ready = False
        self._counts = {"requests": 0, "prompt_tokens": 0, "cached_tokens": 0, "tokens": 0, "updates": 0}
        self._busy_since = 0.0
        self._running = 0
        self._busy_seconds = 0.0

    async def start(self) -> dict[str, Any]:
        """Load the model. Returns facts for the run record. RuntimeError with vLLM's own reason when it cannot."""
        began = time.perf_counter()
        self._tail = OutputTail()
        try:
            from vllm.engine.arg_utils import AsyncEngineArgs
            from vllm.v1.engine.async_llm import AsyncLLM

            from agentrl.engine import vllm_extension  # registers "shm" here too, where the config is checked

            del vllm_extension
            imported = time.perf_counter()
            arguments = engine_arguments(self.spec)
            self._engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))
            if self.spec.device == "cpu":
                await self._engine.collective_rpc("use_seeded_sampler")
            facts = (await self._engine.collective_rpc("engine_facts"))[0]
        except Exception as error:
            raise RuntimeError(
                f"the rollout engine could not start with model_path={self.spec.model_path}: "
                f"{self._tail.reason() or f'{type(error).__name__}: {error}'}"
            ) from error
        return facts | {
            "pid": os.getpid(),
            "import_seconds": imported - began,
            "load_seconds": time.perf_counter() - imported,
        }

    async def generate(
        self,
        prompt_ids: list[int],
        *,
        max_tokens: int,
        temperature: float = 1.0,
        top_p: float = 1.0,
        seed: int,
        request_id: str,
    ) -> Generation:
        """One answer. `log_probs` are those of the distribution that was sampled from (after temperature and top-p).

        temperature=0 is greedy. The policy version is the one at the start of the generation.
        """
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        version = self.version
        self._begin()
        try:
            output = None
            async for output in self._engine.generate(
                {"prompt_token_ids": prompt_ids},
                self._sampling_parameters(max_tokens, temperature, top_p, seed),
                request_id,
            ):
                pass
        except (EngineDeadError, EngineGenerateError) as error:
            raise RolloutEngineDied(self._death_reason(error)) from None
        except ValueError as error:
            raise RolloutRefused(f"vLLM refuses a prompt of {len(prompt_ids)} tokens: {error}") from None
        finally:
            self._end()
        if output is None or not output.outputs:
            raise RolloutEngineDied("vLLM ended a request without an answer")
        answer = output.outputs[0]
        token_ids = list(answer.token_ids)
        cached = output.num_cached_tokens or 0
        counts = self._counts
        counts["requests"] += 1
        counts["prompt_tokens"] += len(prompt_ids)
        counts["cached_tokens"] += cached
        counts["tokens"] += len(token_ids)
        return Generation(
            token_ids=token_ids,
            log_probs=[entry[token].logprob for entry, token in zip(answer.logprobs, token_ids, strict=True)],
            stop_reason=answer.finish_reason or "unknown",
            policy_version=version,
            cached_tokens=cached,
        )

    async def update_weights(self, version: int, descriptor: WeightDescriptor) -> float:
        """Load published weights, then empty the prefix cache. Returns the seconds it took.

        Requests in flight are held, and go on under the new weights from the tokens they have. After an error the
        engine's weights are undefined: replace the worker.
        """
        from vllm.distributed.weight_transfer.base import WeightTransferInitRequest, WeightTransferUpdateRequest

        began = time.perf_counter()
        async with self._update:
            if descriptor.backend == "shm":
                if not self._transfer_ready:
                    await self._engine.init_weight_transfer_engine(WeightTransferInitRequest(init_info={}))
                    self._transfer_ready = True
                await self._engine.pause_generation(mode="keep", clear_cache=False)
                await self._engine.start_weight_update()
                await self._engine.update_weights(WeightTransferUpdateRequest(update_info=descriptor.update))
                await self._engine.finish_weight_update()
            # "nccl" and "ipc": the trainer has driven the transfer through the methods below
            self.version = version
            await self.reset_prefix_cache()
            await self._engine.resume_generation()
            self._counts["updates"] += 1
        return time.perf_counter() - began

    # The control plane of vLLM's own trainer-side engines (VLLMWeightSyncClient), called by `weights_gpu`.
    async def transfer_init(self, init_info: dict[str, Any]) -> None:
        from vllm.distributed.weight_transfer.base import WeightTransferInitRequest

        await self._engine.init_weight_transfer_engine(WeightTransferInitRequest(init_info=init_info))

    async def transfer_start(self) -> None:
        await self._engine.pause_generation(mode="keep", clear_cache=False)
        await self._engine.start_weight_update()

    async def transfer_update(self, update_info: dict[str, Any]) -> None:
        from vllm.distributed.weight_transfer.base import WeightTransferUpdateRequest

        await self._engine.update_weights(WeightTransferUpdateRequest(update_info=update_info))

    async def transfer_finish(self, version: int) -> None:
        """Generation stays paused until the router's `update_weights` names the same version."""
        await self._engine.finish_weight_update()
        self.version = version

    async def reset_prefix_cache(self) -> None:
        """Forget cached prefixes; requests in flight compute theirs again."""
        await self._engine.reset_prefix_cache(reset_running_requests=True)

    async def abort(self, request_id: str) -> None:
        await self._engine.abort(request_id)

    async def ping(self) -> bool:
        """True when the engine process answers."""
        await self._engine.is_paused()
        return True

    async def sleep(self, level: int = 1) -> None:
        """Free the GPU memory of the weights (level 1: kept on the host; 2: dropped) and of the cache; none on CPU."""
        await self._engine.sleep(level=level, mode="wait")

    async def wake(self) -> None:
        await self._engine.wake_up()

    async def stats(self) -> dict[str, float]:
        """Totals since the start; `busy_seconds` counts the time with at least one request in flight."""
        busy = self._busy_seconds + (time.perf_counter() - self._busy_since if self._running else 0.0)
        return {**{k: float(v) for k, v in self._counts.items()}, "busy_seconds": busy}

    async def facts(self) -> dict[str, Any]:
        return (await self._engine.collective_rpc("engine_facts"))[0]

    async def shutdown(self) -> None:
        """Stop the engine process and its files."""
        if self._engine is not None:
            await asyncio.to_thread(self._engine.shutdown)
            self._engine = None

    def _sampling_parameters(self, max_tokens: int, temperature: float, top_p: float, seed: int) -> Any:
        from vllm.sampling_params import RequestOutputKind, SamplingParams

        return SamplingParams(
            max_tokens=max_tokens,
            temperature=temperature,
            top_p=top_p,
            **({"extra_args": {"agentrl_seed": seed}} if self.spec.device == "cpu" else {"seed": seed}),
            logprobs=0,  # of the sampled token only
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )

    def _begin(self) -> None:
        if not self._running:
            self._busy_since = time.perf_counter()
        self._running += 1

    def _end(self) -> None:
        self._running -= 1
        if not self._running:
            self._busy_seconds += time.perf_counter() - self._busy_since

    def _death_reason(self, error: BaseException) -> str:
        return self._tail.reason() or f"{type(error).__name__}: {error}"
