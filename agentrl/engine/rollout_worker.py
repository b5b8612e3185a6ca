"""One rollout engine: vLLM's AsyncLLM in a Ray actor. The same class on CPU and on GPU."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from typing import Any

from agentrl.engine.rollout_invariance import answers_stand_alone
from agentrl.engine.rollout_log import OutputTail
from agentrl.engine.rollout_spec import RolloutSpec, engine_arguments, environment_variables
from agentrl.engine.weights import WeightDescriptor
from agentrl.episode.records import Generation


class RolloutEngineDied(RuntimeError):
    """vLLM's engine process is gone or broken; the worker must be replaced."""


class RolloutRefused(ValueError):
    """vLLM does not accept the request (too long a prompt, say); trying again cannot help."""


@dataclass(frozen=True)
class Request:
    """One generation. temperature=0 is greedy; `seed` (64 bits) fixes the draws of any other."""

    request_id: str
    prompt_ids: list[int]
    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int = 0


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
        self._tail: OutputTail | None = None
        self._one_at_a_time: asyncio.Semaphore | None = asyncio.Semaphore(1) if spec.one_at_a_time else None
        self._update = asyncio.Lock()
        self._transfer_ready = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._done: list[tuple[str, Generation | None, Exception | None]] = []
        self._any_done = asyncio.Event()
        self._counts = {"requests": 0, "prompt_tokens": 0, "cached_tokens": 0, "tokens": 0, "updates": 0}
        self._running = 0
        self._busy_since = 0.0
        self._busy_seconds = 0.0

    async def placed(self) -> int:
        """Answers as soon as there is a process."""
        return os.getpid()

    async def start(self) -> dict[str, Any]:
        """Load the model. Returns facts for the run record. RuntimeError with vLLM's own reason when it cannot.

        deterministic: try on this processor whether answers depend on the batch, and if so answer one at a time.
        """
        began = time.perf_counter()
        self._tail = OutputTail()
        try:
            from vllm.engine.arg_utils import AsyncEngineArgs
            from vllm.v1.engine.async_llm import AsyncLLM

            from agentrl.engine import vllm_extension  # registers "shm" here too, where the configuration is checked

            del vllm_extension
            imported = time.perf_counter()
            self._engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**engine_arguments(self.spec)))
            if self.spec.device == "cpu":
                await self._engine.collective_rpc("use_seeded_sampler")
            facts = await self.facts()
            loaded = time.perf_counter()
            if self.spec.deterministic and self._one_at_a_time is None and not await self._answers_stand_alone():
                self._one_at_a_time = asyncio.Semaphore(1)
        except Exception as error:
            reason = self._tail.reason() or f"{type(error).__name__}: {error}"
            raise RuntimeError(f"the rollout engine could not start with {self.spec.model_path}: {reason}") from error
        return facts | {
            "pid": os.getpid(),
            "one_at_a_time": self._one_at_a_time is not None,
            "import_seconds": imported - began,
            "load_seconds": loaded - imported,
            "check_seconds": time.perf_counter() - loaded,
        }

    async def generate(self, request: Request) -> Generation:
        """One answer. `log_probs` are those of the distribution that was sampled from (after temperature and top-p).

        The policy version is the one at the start of the generation.
        """
        self._begin()
        try:
            if self._one_at_a_time is None:
                return await self._generate(request)
            async with self._one_at_a_time:
                return await self._generate(request, alone=True)
        finally:
            self._end()

    async def _generate(self, request: Request, alone: bool = False) -> Generation:
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        version = self.version
        prompt: dict[str, Any] = {"prompt_token_ids": request.prompt_ids}
        if alone:
            prompt["cache_salt"] = request.request_id  # shares no cached prefix with any other request
        output: Any = None
        try:
            answers = self._engine.generate(prompt, self._sampling_parameters(request), request.request_id)
            async for answer_so_far in answers:
                output = answer_so_far
        except (EngineDeadError, EngineGenerateError) as error:
            reason = self._tail.reason() if self._tail is not None else ""
            raise RolloutEngineDied(reason or f"{type(error).__name__}: {error}") from None
        except ValueError as error:
            raise RolloutRefused(f"vLLM refuses a prompt of {len(request.prompt_ids)} tokens: {error}") from None
        if output is None or not output.outputs:
            raise RolloutEngineDied("vLLM ended a request without an answer")
        answer = output.outputs[0]
        token_ids = list(answer.token_ids)
        cached = output.num_cached_tokens or 0
        counts = self._counts
        counts["requests"] += 1
        counts["prompt_tokens"] += len(request.prompt_ids)
        counts["cached_tokens"] += cached
        counts["tokens"] += len(token_ids)
        return Generation(
            token_ids=token_ids,
            log_probs=[entry[token].logprob for entry, token in zip(answer.logprobs, token_ids, strict=True)],
            stop_reason=answer.finish_reason or "unknown",
            policy_version=version,
            cached_tokens=cached,
        )

    async def submit(self, requests: list[Request]) -> None:
        """Begin to answer; `collect` has the answers."""
        for request in requests:
            task = asyncio.create_task(self._answer(request), name=request.request_id)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def collect(self) -> list[tuple[str, Generation | None, Exception | None]]:
        """Wait until at least one submitted request is done; all that are: (request id, answer, or else error)."""
        await self._any_done.wait()
        await asyncio.sleep(0)  # the others of the same engine step
        self._any_done.clear()
        done, self._done = self._done, []
        return done

    async def _answer(self, request: Request) -> None:
        generation: Generation | None = None
        failure: Exception | None = None
        try:
            generation = await self.generate(request)
        except Exception as error:
            failure = error
        # looked up only now: `collect` has put new lists in its place while this request was in the engine
        self._done.append((request.request_id, generation, failure))
        self._any_done.set()

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
                await self.transfer_start()
                await self._engine.update_weights(WeightTransferUpdateRequest(update_info=descriptor.update))
                await self._engine.finish_weight_update()
            # over "nccl" and "ipc" the trainer has driven the transfer already, through the methods below
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
        """Stop a submitted request; no answer to it will come."""
        for task in self._tasks:
            if task.get_name() == request_id:
                task.cancel()

    async def ping(self) -> bool:
        """True when the engine process answers."""
        await self._engine.is_paused()
        return True

    async def sleep(self, level: int = 1) -> None:
        """Free the GPU memory of the weights (level 1: kept on the host; 2: dropped) and of the cache; none on CPU.

        Waits for the requests in flight; later ones wait for `wake`.
        """
        await self._engine.sleep(level=level, mode="wait")

    async def wake(self) -> None:
        await self._engine.wake_up()

    async def stats(self) -> dict[str, float]:
        """Totals since the start; `busy_seconds` counts the time with at least one request in flight."""
        busy = self._busy_seconds + (time.perf_counter() - self._busy_since if self._running else 0.0)
        return {**{name: float(value) for name, value in self._counts.items()}, "busy_seconds": busy}

    async def facts(self) -> dict[str, Any]:
        """Engine process, threads, model class, parameters."""
        return dict((await self._engine.collective_rpc("engine_facts"))[0])

    async def shutdown(self) -> None:
        """Stop the engine process and remove its files."""
        if self._engine is not None:
            await asyncio.to_thread(self._engine.shutdown)
            self._engine = None

    async def _answers_stand_alone(self) -> bool:
        same = await answers_stand_alone(
            self._generate, self.reset_prefix_cache, self.spec.max_model_len, self._engine.model_config.get_vocab_size()
        )
        self._counts = dict.fromkeys(self._counts, 0)
        return same

    def _sampling_parameters(self, request: Request) -> Any:
        from vllm.sampling_params import RequestOutputKind, SamplingParams

        if self.spec.device == "cpu":
            seed: dict[str, Any] = {"extra_args": {"agentrl_seed": request.seed}}
        else:
            seed = {"seed": request.seed}
        return SamplingParams(
            max_tokens=request.max_tokens,
            temperature=request.temperature,
            top_p=request.top_p,
            logprobs=0,  # of the sampled token only
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
            **seed,
        )

    def _begin(self) -> None:
        if not self._running:
            self._busy_since = time.perf_counter()
        self._running += 1

    def _end(self) -> None:
        self._running -= 1
        if not self._running:
            self._busy_seconds += time.perf_counter() - self._busy_since
