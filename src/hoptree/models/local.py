"""GGUF models inside this process, through xllamacpp (llama.cpp)."""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import importlib.util
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hoptree.core.errors import ConfigError, EndpointError, MissingExtra, ModelError
from hoptree.models import llama_cpp
from hoptree.models.adapters import NO_ADAPTER, PACKAGED, Adapter, default_adapter, packaged_adapter, read_adapter
from hoptree.models.catalogue import file_digest, find_entry, locate_weights
from hoptree.models.model import (
    FOLLOW_UP,
    Capability,
    Message,
    Progress,
    Reply,
    Request,
    SharedEngine,
    first_line,
    on_progress,
)


def _read_system(path: Path) -> str:
    """Read a file in which Linux describes the machine; other systems have none."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def cpu_flags(path: Path = Path("/proc/cpuinfo")) -> frozenset[str] | None:
    """Return the processor's features as Linux names them; None if unknown."""
    for line in _read_system(path).splitlines():
        key, _, value = line.partition(":")
        if key.strip().lower() in ("flags", "features"):
            return frozenset(value.split())
    return None


def physical_cores() -> int:
    """Return the usable cores without hyper-threads, which llama.cpp cannot use well."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cores = set()
    for block in _read_system(Path("/proc/cpuinfo")).split("\n\n"):
        facts = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in block.splitlines())}
        if "core id" in facts:
            cores.add((facts.get("physical id", "0"), facts["core id"]))
    return min(usable, len(cores)) if cores else usable


def available_memory() -> int | None:
    """Return the bytes of memory that are available without swapping; None if unknown."""
    lines = _read_system(Path("/proc/meminfo")).splitlines()
    kilobytes = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(kilobytes[0]) * 1024 if kilobytes else None


LIBRARY = "xllamacpp"
_GGUF_MAGIC, _CPU = b"GGUF", "GGML_BACKEND_DEVICE_TYPE_CPU"
_READ_AHEAD_BYTES = 2**23
_PROMPT_BATCH_TOKENS = 256
_MEASURED_TOKENS = 16  # fewer tell no speed
_IDLE_LANES = 5  # KV slots beyond those of the calls that run at once
_PROGRESS_SENT_S = 0.05  # until progress is sent: the library stops all threads of Python while it loads a file


@dataclass(frozen=True, slots=True)
class _Settings:
    """The file and how it is loaded; models with equal settings share one server."""

    path: Path
    n_ctx: int
    slots: int
    lanes: int
    threads: int
    adapter: Path | None = None
    states: Path | None = None


class LocalModel:
    """A GGUF file as a model: `local/NAME` of the catalogue, or `local/PATH.gguf`.

    The first call loads the file. `slots` calls run at once; there are more `lanes` (KV slots), each holding the prompt
    it read last, so that the prefix that the prompts of one step share is read once. `n_ctx` is the context of one call
    in tokens; memory grows with `n_ctx * lanes`. `adapter` is a LoRA in a GGUF file, as `hoptree align gguf` writes it;
    the default is that of hoptree-weights if it is installed and fits the model, and `none` is not an adapter. Prompts
    that an adapter was not trained on are answered without it. With `states`, the fixed beginning of a prompt's
    template is read once and its state kept on disk.

    Rounding depends on how a prompt is split and on parallel calls, so a greedy reply can depend on other calls if two
    tokens are almost equally likely. `exact` rules that out: one call at a time, every prompt read from its start.
    """

    capabilities: frozenset[Capability] = frozenset(
        ("logprobs", "prefix", "n_samples", "json_schema", "top_p", "top_k")
    )

    def __init__(
        self,
        model: str,
        *,
        n_ctx: int = 4096,
        slots: int = 1,
        threads: int | None = None,
        exact: bool = False,
        states: bool = True,
        adapter: str = "",
        folder: Path | None = None,
    ) -> None:
        slots, lanes = (1, 1) if exact else (slots, slots + _IDLE_LANES)
        threads = physical_cores() if threads is None else threads
        if min(n_ctx, slots, threads) < 1:
            raise ConfigError("n_ctx, slots and threads must be at least 1.")
        if importlib.util.find_spec(LIBRARY) is None:
            raise MissingExtra("An embedded model", "local")
        short = model.removeprefix("local/")
        path = locate_weights(short, folder).resolve()
        lora = _choose_adapter(short, adapter)
        if lora is not None and lora.bases:
            lora.check_base(_digest(path), f"local/{short}")
        self.name = f"local/{short}{f'+{lora.label}@{lora.digest[:8]}' if lora else ''}"
        self.trained_on = lora.templates if lora else frozenset[str]()
        kept = llama_cpp.states_folder() if states and not exact else None
        self._settings = _Settings(path, n_ctx, slots, lanes, threads, lora.path if lora else None, kept)
        self.slots, self._exact = slots, exact
        self.endpoint = f"local:{path}{f'+{lora.path}' if lora else ''}"
        self._adapter_digest = lora.digest if lora else ""
        self._engine: _Engine | None = _Engine.shared(self._settings)
        self._identity = ""

    @property
    def identity(self) -> str:
        """Weights, adapter, context and library; slots and threads change only rounding."""
        if not self._identity:
            digest = _digest(self._settings.path)
            adapter = f";adapter={self._adapter_digest}" if self._adapter_digest else ""
            exact = ";exact" if self._exact else ""
            built = f"{LIBRARY}={library_version()}:{','.join(sorted(library_features()))}"
            self._identity = f"local:{digest}{adapter};n_ctx={self._settings.n_ctx};{built}{exact}"
        return self._identity

    async def load(self) -> None:
        if self._engine is None:
            return
        if not self._engine.is_loaded and (listener := on_progress.get()) is not None:
            listener(Progress(0, 0))
            await asyncio.sleep(_PROGRESS_SENT_S)
        await asyncio.get_running_loop().run_in_executor(self._engine.pool, self._engine.loaded)

    async def generate(self, request: Request, *, step: str) -> Reply:
        """Answer one request; samples are separate completions with consecutive seeds."""
        engine = self._engine
        if engine is None:
            raise EndpointError(f"{self.name} was closed.", "Open the model again before calling it.")
        loop = asyncio.get_running_loop()
        stop = threading.Event()
        listener = on_progress.get()

        def tell(now: Progress) -> None:
            if listener is not None:
                loop.call_soon_threadsafe(listener, now)

        depends = f"{self.identity};{_PROMPT_BATCH_TOKENS};{self._adapted(request)}"
        opening = llama_cpp.find_opening(request, depends) if self._settings.states else None
        extra = {"cache_prompt": not self._exact, **self._adapted(request)}
        bodies = [{**llama_cpp.request_body(request, request.seed + sample), **extra} for sample in range(request.n)]
        calls = (loop.run_in_executor(engine.pool, engine.complete, body, step, stop, opening, tell) for body in bodies)
        try:
            completions = await asyncio.gather(*calls)
        finally:
            # Cancelled or failed: what still runs stops at its next token.
            stop.set()
        return llama_cpp.build_reply(completions, request.prefix)

    def _adapted(self, request: Request) -> dict[str, Any]:
        """Use the adapter for its training prompts, or for all if it names none."""
        if self._settings.adapter is None:
            return {}
        template = request.template.removesuffix(FOLLOW_UP)
        return {"lora": [{"id": 0, "scale": float(not self.trained_on or template in self.trained_on)}]}

    async def aclose(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.release()


class _Engine(SharedEngine):
    """One loaded file with its threads."""

    _settings: _Settings

    def __init__(self, settings: _Settings) -> None:
        super().__init__(settings)
        self._server: Any = None
        self._rate = 0.0  # of reading, in tokens a second
        self._loading = threading.Lock()
        self._lanes = llama_cpp.SlotPool(settings.lanes)
        self._api_key = secrets.token_urlsafe(32)
        self._states = llama_cpp.PromptStates(settings.states, self._api_key) if settings.states else None
        # No more workers than lanes: a call that starts always finds an idle one.
        self.pool = ThreadPoolExecutor(settings.slots, thread_name_prefix="hoptree-local")

    def close(self) -> None:
        # Not waited for: a slow machine may still read a prompt whose reply is not needed.
        self.pool.shutdown(wait=False, cancel_futures=True)
        self._server = None

    def complete(
        self,
        body: dict[str, Any],
        step: str,
        stop: threading.Event,
        opening: llama_cpp.Opening | None,
        tell: Callable[[Progress], None],
    ) -> llama_cpp.Completion:
        """Run one completion in the calling thread until it ends or `stop` is set."""
        if stop.is_set():
            return llama_cpp.Completion()

        def tell_rate(now: Progress) -> None:
            if now.seconds and now.read - now.cached >= _MEASURED_TOKENS:
                self._rate = (now.read - now.cached) / now.seconds
            tell(now._replace(rate=self._rate))

        server = self.loaded()
        lane = self._lanes.take(step, "\0".join(message["content"] for message in body["messages"]))
        try:
            read = self._prepare(server, lane, opening, body, stop, tell_rate)
            completion = _stream(server, {**body, "id_slot": lane.number}, stop, tell_rate)
        finally:
            self._lanes.give_back(lane)
        usage = completion.usage
        # The tokens of the opening that were read just now do not count as cached.
        completion.usage = replace(usage, cached=max(0, usage.cached - read))
        return completion

    def _prepare(
        self,
        server: Any,
        lane: llama_cpp.Slot,
        opening: llama_cpp.Opening | None,
        asked: Mapping[str, Any],
        stop: threading.Event,
        tell: Callable[[Progress], None],
    ) -> int:
        """Load a prompt's opening into a slot, or read it; return the tokens read.

        Without a file it is read by itself too, so that the reply does not depend on whether there was one.
        """
        held, lane.opening = lane.opening, opening.key if opening else ""
        lora = {"lora": asked["lora"]} if "lora" in asked else {}
        scale = lora["lora"][0]["scale"] if lora else None
        changed, lane.adapted = lane.adapted != scale, scale
        if self._states is None or opening is None or opening.key == held:
            return 0
        slot = {"id_slot": lane.number, **lora}
        if changed and self._states.has(opening.key):
            # A slot forgets its content when the adapter changes: that must happen before its state is restored.
            _stream(server, {**llama_cpp.request_body(Request((Message("user", "."),), max_tokens=1), 0), **slot}, stop)
        if self._states.restore(server, lane.number, opening.key):
            return 0
        body = {**llama_cpp.request_body(Request(opening.messages, max_tokens=1), 0), **slot}
        try:
            usage = _stream(server, body, stop, tell).usage
        except ModelError:
            return 0  # chat templates may refuse a part of a conversation
        if not stop.is_set():
            self._states.save(server, lane.number, opening.key)
        return usage.prompt - usage.cached

    @property
    def is_loaded(self) -> bool:
        return self._server is not None

    def loaded(self) -> Any:
        with self._loading:
            if self._server is None:
                self._server = _load(self._settings, self._api_key)
            return self._server


def _choose_adapter(model: str, setting: str) -> Adapter | None:
    if setting == NO_ADAPTER:
        return None
    if not setting:
        return default_adapter(find_entry(model))
    return packaged_adapter() if setting == PACKAGED else read_adapter(Path(setting).expanduser().resolve())


def _stream(
    server: Any, body: dict[str, Any], stop: threading.Event, tell: Callable[[Progress], None] = lambda now: None
) -> llama_cpp.Completion:
    chunks: list[dict[str, Any]] = []
    follow = llama_cpp.progress_of_chunks()

    def on_chunk(chunk: dict[str, Any]) -> bool:
        chunks.append(chunk)
        if now := follow(chunk):
            tell(now)
        return stop.is_set()

    try:
        server.handle_chat_completions(body, on_chunk)
    except (ValueError, RuntimeError) as error:
        raise EndpointError(f"llama.cpp refused the request: {first_line(error)}.") from error
    return llama_cpp.Completion() if stop.is_set() else llama_cpp.assemble(chunks)


def _load(settings: _Settings, api_key: str) -> Any:
    with _reading(settings.path), settings.path.open("rb") as file:
        if file.read(len(_GGUF_MAGIC)) != _GGUF_MAGIC:
            raise EndpointError(f"{settings.path.name} is not a GGUF file.", "Give a file in llama.cpp's GGUF format.")
        while file.read(_READ_AHEAD_BYTES):  # into the system's cache, while other threads can go on
            pass
    library = _library()
    try:
        return library.Server(_parameters(library, settings, api_key))
    except (ValueError, RuntimeError, MemoryError) as error:
        raise _load_error(settings, error) from error


def _digest(path: Path) -> str:
    with _reading(path):
        return file_digest(path)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        cause = f"{path} cannot be read: {error.strerror}."
        raise EndpointError(cause, "Check the file and its permissions.", exit_code=2) from error


def _library() -> Any:
    # OpenMP threads wait for each other by spinning, which is slow if another program uses the cores too; a short spin
    # costs nothing otherwise. Read once, when the library is loaded.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    try:
        return importlib.import_module(LIBRARY)
    except ImportError as error:
        raise MissingExtra("An embedded model", "local") from error


def _parameters(library: Any, settings: _Settings, api_key: str) -> Any:
    parameters = library.CommonParams()
    parameters.model.path = str(settings.path)
    if settings.adapter is not None:
        parameters.lora_adapters = [library.CommonAdapterLoraInfo(str(settings.adapter), 1.0)]
    parameters.n_parallel = settings.lanes
    # llama.cpp divides the context by the number of sequences.
    parameters.n_ctx = settings.n_ctx * settings.lanes
    parameters.n_batch = parameters.n_ubatch = _PROMPT_BATCH_TOKENS
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = settings.threads
    # Lanes replace the second cache, which copies every prompt, grows to 8 GB, and uses each copy once.
    parameters.cache_ram_mib = 0
    # The library always listens on a local port: the key keeps others out.
    parameters.api_keys = [api_key]
    parameters.cors_origins = ""
    parameters.cors_credentials = False
    if settings.states is not None:
        parameters.slot_save_path = f"{settings.states}{os.sep}"
    parameters.ui = False
    parameters.endpoint_slots = False
    parameters.warmup = False
    # Fitting reads the file's layout once more, and only decides what goes on a GPU.
    parameters.fit_params = any(device["type"].name != _CPU for device in library.get_device_info())
    parameters.verbosity = -1
    return parameters


def _load_error(settings: _Settings, error: Exception) -> ModelError:
    # llama.cpp writes its reason to stderr only; what can be checked here is the free memory.
    name, size, room = settings.path.name, settings.path.stat().st_size, available_memory()
    cause = f"llama.cpp could not load {name}: {first_line(error)}."
    remedy = "The file may be damaged or of a kind this version does not know; pull it again or update xllamacpp."
    if room is not None and room < size:
        cause = f"{name} takes {size / 1e9:.1f} GB and only {room / 1e9:.1f} GB of memory are free."
        remedy = "Close other programs, choose a smaller model, or a shorter context (local/NAME?n_ctx=2048)."
    elif settings.adapter is not None:
        cause = f"llama.cpp could not load {name} with {settings.adapter.name}: {first_line(error)}."
        remedy = "An adapter fits only the model it was trained for; ask without it: local/NAME?adapter=none"
    return EndpointError(cause, remedy)


def library_version() -> str:
    """Return the installed version of the embedded runtime, or ""."""
    try:
        return importlib.metadata.version(LIBRARY)
    except importlib.metadata.PackageNotFoundError:
        return ""


def library_features() -> frozenset[str]:
    """Return the processor features the runtime was built for (NEON, AVX2, …)."""
    info = str(_library().get_system_info())
    pairs = (part.rpartition(":")[2].split("=") for part in info.split("|"))
    return frozenset(pair[0].strip() for pair in pairs if len(pair) == 2 and pair[1].strip() not in ("0", ""))


def measure_speed(path: Path) -> tuple[float, float]:
    """Measure the tokens per second of reading and of writing, in one call alone."""
    server = _load(_Settings(path, 1024, 1, 1, physical_cores()), secrets.token_urlsafe(32))
    # The first call touches every page of the weights; the second one, which shares no beginning, is the measure.
    _timings(server, "Hello", 1)
    timings = _timings(server, "count " * 120, 24)
    return float(timings["prompt_per_second"]), float(timings["predicted_per_second"])


def _timings(server: Any, text: str, max_tokens: int) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    body = {"messages": messages, "max_tokens": max_tokens, "ignore_eos": True, **llama_cpp.sampling(0.0)}
    answer: dict[str, Any] = server.handle_chat_completions(body)
    if "timings" not in answer:
        raise llama_cpp.refusal_error(answer)
    timings: dict[str, Any] = answer["timings"]
    return timings
