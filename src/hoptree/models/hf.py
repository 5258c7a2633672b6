"""Models of transformers inside this process, with batched requests."""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import importlib.util
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hoptree.core.errors import ConfigError, EndpointError, HoptreeError, InputError, MissingExtra
from hoptree.models.model import Capability, Reply, Request, SharedEngine

if TYPE_CHECKING:  # importing these imports torch
    from hoptree.models.batching import Batcher
    from hoptree.models.hf_text import Text
    from hoptree.models.hf_weights import Loaded, Source


LIBRARIES = ("torch", "transformers")
_DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
_MAX_ROWS = 512
_DECODER_CAPABILITIES: tuple[Capability, ...] = ("attention", "hidden_states")
# Default tokens of the batch: on a CPU, what two cores can serve; on an accelerator, what fits into half of its free
# memory, up to what all rows can use.
_CPU_BATCH_TOKENS = 16384
_MAX_DEVICE_BATCH_TOKENS = 1 << 20


@dataclass(frozen=True, slots=True)
class _Settings:
    """The weights and how they are run; models with equal settings share one batch."""

    source: Source
    dtype: str
    device: str
    adapter: Path | None
    max_batch_tokens: int | None


class HFModel:
    """A model of transformers or GGUF: `hf/FOLDER`, `hf/NAME`, `hf/FILE.gguf`.

    Decoder-only models and encoder-decoders (T5, BART) are supported; the first call loads the weights. Simultaneous
    requests run as one batch, whose rows times the longest of them stay within `max_batch_tokens`. Only the request
    decides how tokens are chosen (temperature, top_k, top_p), not the model's generation config.

    Requests with and without `signals` run in the same batch. In fp32 a greedy reply does not depend on what else runs;
    with shorter number types it can differ if two tokens are almost equally likely.
    """

    def __init__(
        self,
        model: str,
        *,
        dtype: str = "",
        device: str = "",
        max_batch_tokens: int | None = None,
        adapter: str = "",
        folder: Path | None = None,
    ) -> None:
        if any(importlib.util.find_spec(library) is None for library in LIBRARIES):
            raise MissingExtra("A model of transformers", "whitebox")
        if dtype and dtype not in _DTYPES:
            raise ConfigError(f"There is no dtype {dtype}.", f"Choose one of {', '.join(_DTYPES)}.")
        if max_batch_tokens is not None and max_batch_tokens < 1:
            raise ConfigError("max_batch_tokens must be at least 1.")
        from hoptree.models.hf_weights import find_adapter, resolve_source

        device, lora = _device(device), find_adapter(adapter)
        dtype = dtype or ("bf16" if device.startswith("cuda") else "fp32")
        path = lora.path if lora else None
        self._settings = _Settings(resolve_source(model, folder), dtype, device, path, max_batch_tokens)
        self._adapter_digest = lora.digest if lora else ""
        label = f"+{Path(adapter).name.removesuffix('.gguf')}@{self._adapter_digest[:8]}" if lora else ""
        self.name = f"hf/{model}{label}"
        self.trained_on = lora.templates if lora else frozenset[str]()
        self.endpoint = f"hf:{model}:{device}:{path or ''}"
        self.slots = _MAX_ROWS
        self._engine: _Engine | None = _Engine.shared(self._settings)
        self._identity = ""
        self._capabilities: frozenset[Capability] = frozenset()

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities; encoder-decoders give no attention and hidden states here."""
        if not self._capabilities:
            self._capabilities = self._read_capabilities()
        return self._capabilities

    def capabilities_here(self) -> frozenset[Capability]:
        """Return the capabilities without asking a hub; raise if no file is here."""
        return self._capabilities or self._read_capabilities(here=True)

    def _read_capabilities(self, *, here: bool = False) -> frozenset[Capability]:
        from hoptree.models.hf_weights import has_encoder

        inside = () if has_encoder(self._settings.source, here=here) else _DECODER_CAPABILITIES
        return frozenset(("logprobs", "prefix", "n_samples", "top_p", "top_k", "entropy", *inside))

    @property
    def identity(self) -> str:
        """Weights, adapter, dtype, device and libraries; batching changes only rounding."""
        if not self._identity:
            from hoptree.models.hf_weights import weights_digest

            chosen = self._settings
            parts = [f"hf:{weights_digest(chosen.source)}", f"dtype={chosen.dtype}"]
            parts.append(f"device={chosen.device.partition(':')[0]}")
            if self._adapter_digest:
                parts.append(f"adapter={self._adapter_digest}")
            parts += [f"{library}={importlib.metadata.version(library)}" for library in LIBRARIES]
            self._identity = ";".join(parts)
        return self._identity

    def loaded(self) -> Loaded:
        """Return the tokenizer and the model, loading them if needed."""
        return self._open().ready().loaded

    async def load(self) -> None:
        engine = self._open()
        await asyncio.get_running_loop().run_in_executor(engine.pool, engine.ready)

    async def generate(self, request: Request, *, step: str) -> Reply:
        """Answer one request; samples are separate rows with consecutive seeds."""
        engine = self._open()
        if request.json_schema:
            cause = f"{self.name} cannot be held to a JSON schema."
            raise EndpointError(cause, "Use a local/… or openai/… model.", exit_code=2)
        loop = asyncio.get_running_loop()
        ready = await loop.run_in_executor(engine.pool, engine.ready)
        if ready.loaded.model.config.is_encoder_decoder and (request.attention_of or request.signals - {"entropy"}):
            cause = f"{self.name} has an encoder: its attention and hidden states are not available."
            raise EndpointError(cause, "Choose a decoder-only model.", exit_code=2)
        rows = await loop.run_in_executor(engine.pool, ready.text.rows, request)
        try:
            ready.batcher.submit(rows)
            await asyncio.gather(*(asyncio.wrap_future(row.future) for row in rows))
        finally:
            # Cancelled or failed: rows that still run leave the batch at their next token.
            for row in rows:
                row.future.cancel()
        return await loop.run_in_executor(engine.pool, ready.text.reply, request, rows)

    async def aclose(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.release()

    def _open(self) -> _Engine:
        if self._engine is None:
            raise EndpointError(f"{self.name} was closed.", "Open the model again before calling it.")
        return self._engine


@dataclass(frozen=True, slots=True)
class _Ready:
    loaded: Loaded
    text: Text
    batcher: Batcher


class _Engine(SharedEngine):
    """Loaded weights with their batch."""

    _settings: _Settings

    def __init__(self, settings: _Settings) -> None:
        super().__init__(settings)
        self._ready: _Ready | None = None
        self._failure: HoptreeError | None = None
        self._loading = threading.Lock()
        # One thread for all text: prompts and replies are made outside the event loop and the batch.
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="hoptree-hf")

    def close(self) -> None:
        with self._loading:
            if self._ready is not None:
                self._ready.batcher.close()
            self._ready = None
        self.pool.shutdown(wait=False, cancel_futures=True)

    def ready(self) -> _Ready:
        with self._loading:
            if self._failure is not None:
                raise self._failure
            if self._ready is None:
                try:
                    self._ready = self._load()
                except HoptreeError as error:
                    # Other callers need not wait for the same failure again.
                    self._failure = error if error.exit_code == InputError.exit_code else None
                    raise
            return self._ready

    def _load(self) -> _Ready:
        from hoptree.models.batching import Batcher
        from hoptree.models.batching.decoder import DecoderOnly
        from hoptree.models.batching.encoder_decoder import EncoderDecoder
        from hoptree.models.hf_text import DecoderPrompts, EncoderDecoderPrompts, Text
        from hoptree.models.hf_weights import end_tokens, load, start_tokens

        chosen = self._settings
        loaded = load(chosen.source, dtype=_DTYPES[chosen.dtype], device=chosen.device, adapter=chosen.adapter)
        if loaded.model.config.is_encoder_decoder:
            start = start_tokens(loaded.model)
            prompts: DecoderPrompts | EncoderDecoderPrompts = EncoderDecoderPrompts(
                loaded.tokenizer, loaded.context, start
            )
            passes: DecoderOnly | EncoderDecoder = EncoderDecoder(loaded.model, chosen.device)
        else:
            prompts = DecoderPrompts(loaded.tokenizer, loaded.context)
            passes = DecoderOnly(loaded.model, chosen.device, _MAX_ROWS)
        known = int(loaded.model.get_input_embeddings().weight.shape[0])
        tokens = chosen.max_batch_tokens or _tokens_that_fit(loaded.model, chosen.device)
        batcher = Batcher(passes, end_tokens=end_tokens(loaded), max_batch_tokens=tokens, max_rows=_MAX_ROWS)
        return _Ready(loaded, Text(loaded.tokenizer, prompts, known), batcher)


def _device(name: str) -> str:
    torch: Any = importlib.import_module("torch")
    if not name:
        return "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, number = name.partition(":")
    if kind not in ("cpu", "cuda", "mps") or (number and not number.isdigit()):
        raise ConfigError(f"There is no device {name}.", "Choose cpu, cuda, cuda:0 or mps.")
    there = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}[kind]
    if int(number or 0) >= there:
        raise ConfigError(f"This machine has no device {name} that torch can use.", "Leave device away, or use cpu.")
    return name


def _tokens_that_fit(model: Any, device: str) -> int:
    if not device.startswith("cuda"):
        return _CPU_BATCH_TOKENS
    torch: Any = importlib.import_module("torch")
    free, _ = torch.cuda.mem_get_info(device)
    return int(max(1, min(_MAX_DEVICE_BATCH_TOKENS, free // 2 // _bytes_per_token(model))))


def _bytes_per_token(model: Any) -> int:
    """Return the bytes of the keys and values of one token in all decoder layers."""
    config = model.config.get_text_config(decoder=True)
    layers = getattr(config, "num_decoder_layers", None) or config.num_hidden_layers
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return int(2 * layers * heads * size * model.dtype.itemsize)
