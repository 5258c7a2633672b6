"""Weights for transformers: find, identify and load models and adapters."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hoptree.core.errors import ConfigError, EndpointError, MissingExtra, MissingModel
from hoptree.core.lazy import import_optional
from hoptree.models.adapters import NO_ADAPTER, PACKAGED, Adapter, packaged_adapter, read_adapter
from hoptree.models.batching.kv_cache import ATTENTION, is_out_of_memory, register_attention
from hoptree.models.catalogue import ADAPTER_CARD, ADAPTER_FILES, CATALOGUE, NAMES, file_digest, locate_weights
from hoptree.models.model import first_line

_WEIGHTS_SUFFIX = ".safetensors"
# T5s have relative positions, the others learned ones.
_ENCODER_DECODER_TYPES = ("t5", "mt5", "umt5", "bart", "mbart", "pegasus", "blenderbot")
# The first metadata of a GGUF file: key, type "string", length, value.
_GGUF_KIND = re.compile(rb"general\.architecture\x08\0\0\0.\0{7}([\w-]+)", re.DOTALL)
_HUB_TIMEOUT_S = 5.0
_LORA_NAME = re.compile(r"blk\.(?P<block>\d+)\.(?P<layer>\w+)\.weight\.lora_(?P<side>[ab])")
_SAME_ROWS = ("qwen2",)
"""Kinds of models whose matrices have their rows in the same order in GGUF files and in transformers."""
_LAYERS = {
    **{f"attn_{name}": f"self_attn.{name}_proj" for name in ("q", "k", "v")},
    "attn_output": "self_attn.o_proj",
    **{f"ffn_{name}": f"mlp.{name}_proj" for name in ("gate", "up", "down")},
}
"""Transformers' names of the layers of a GGUF file."""
# Configuration, tokenizer and chat template decide the replies too.
_TEXT_FILES = ("*.json", "*.jinja", "*.txt", "*.model")


@dataclass(frozen=True, slots=True)
class Source:
    """Where weights come from: a GGUF file, a folder, or a hub if neither is set."""

    name: str
    file: Path | None = None
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
    """A tokenizer, a model, and its context: the tokens it can read and write."""

    tokenizer: Any
    model: Any
    context: int


def resolve_source(name: str, folder: Path | None = None) -> Source:
    """Find the folder, GGUF file, catalogue entry or hub name that is meant."""
    path = Path(name).expanduser()
    if name.lower().endswith(".gguf") or name.lower() in NAMES:
        return Source(name, file=locate_weights(name, folder).resolve())
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ConfigError(f"{path} holds no config.json.", "Give a folder that transformers saved a model in.")
        return Source(name, folder=path.resolve())
    if path.is_file() or name.startswith((".", "~", os.sep)) or name.count("/") > 1:
        cause = f"{name} is not a folder."
        raise MissingModel(cause, "Give a folder that transformers saved a model in, or a .gguf file.")
    return Source(name)


def has_encoder(source: Source, *, here: bool = False) -> bool:
    """Return whether a model has an encoder, by its configuration; `here` asks no hub."""
    if source.file is not None:
        with source.file.open("rb") as file:
            kind = _GGUF_KIND.search(file.read(4096))
        return kind is not None and kind[1].startswith(b"t5")
    if source.folder is not None:
        try:
            config = json.loads((source.folder / "config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False  # loading reports what is wrong
        return config.get("model_type") in _ENCODER_DECODER_TYPES
    if here and not _is_cached(source.name):
        raise MissingModel(f"{source.name} is not on this machine.", "Its first call takes it from the hub.")
    return bool(_hub_config(source, {"local_files_only": True} if here else _hub_options(source)).is_encoder_decoder)


def _is_cached(name: str) -> bool:
    """Return whether a hub's model is in the local cache."""
    hub: Any = importlib.import_module("huggingface_hub")
    try:
        return isinstance(hub.try_to_load_from_cache(name, "config.json"), str)
    except ValueError:  # no name that a hub has
        return False


def weights_digest(source: Source) -> str:
    """Return a digest of the weights, tokenizer and template."""
    if source.file is not None:
        return file_digest(source.file)
    if source.folder is not None:
        return _folder_digest(source.folder)
    return f"{source.name}@{_hub_config(source, _hub_options(source))._commit_hash}"


def _folder_digest(folder: Path) -> str:
    weights = sorted(folder.glob(f"*{_WEIGHTS_SUFFIX}"))
    if not weights:
        cause = f"{folder} holds no {_WEIGHTS_SUFFIX} file."
        raise ConfigError(cause, "Save the model again: save_pretrained writes them.")
    digest = hashlib.sha256()
    for path in weights:
        digest.update(f"{path.name}:{file_digest(path)}\n".encode())
    beside = {path for pattern in _TEXT_FILES for path in folder.glob(pattern)}
    for path in sorted(path for path in beside if not path.name.endswith(".digest.json")):
        digest.update(f"{path.name}:{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def _hub_config(source: Source, reach: dict[str, bool]) -> Any:
    transformers: Any = importlib.import_module("transformers")
    with _quiet(transformers), _loading(source.name):
        return transformers.AutoConfig.from_pretrained(source.name, **reach)


def _hub_options(source: Source) -> dict[str, bool]:
    """Return options that use only cached files if the hub does not answer in time."""
    if source.file is not None or source.folder is not None:
        return {}
    hub: Any = importlib.import_module("huggingface_hub")
    with contextlib.suppress(Exception):  # the HTTP library, and so its errors, depend on the version
        hub.utils.get_session().head(hub.constants.ENDPOINT, timeout=_HUB_TIMEOUT_S)
        return {}
    if not _is_cached(source.name):
        raise MissingModel(
            f"{source.name} is not on this machine, and {hub.constants.ENDPOINT} does not answer.",
            f"Choose {', '.join(f'hf/{entry.alias}' for entry in CATALOGUE)}, a folder that transformers saved a model "
            "in or a .gguf file, or connect this machine.",
        )
    return {"local_files_only": True}


def find_adapter(name: str) -> Adapter | None:
    """Return the LoRA adapter of a folder, a GGUF file or hoptree-weights, if any."""
    if name in ("", NO_ADAPTER):
        return None
    if name == PACKAGED:
        return packaged_adapter()
    path = Path(name).expanduser().resolve()
    if path.suffix == ".gguf":
        return read_adapter(path)
    folder = adapter_folder(name)
    parts = [hashlib.sha256((folder / file).read_bytes()).hexdigest() for file in ADAPTER_FILES]
    templates = (_read_card(folder) or {}).get("templates")
    known = frozenset(map(str, templates)) if isinstance(templates, dict) else frozenset[str]()
    return Adapter(folder, hashlib.sha256("".join(parts).encode()).hexdigest(), folder.name, templates=known)


def adapter_folder(name: str) -> Path:
    """Return the folder of a LoRA adapter in safetensors: the older format runs code."""
    folder = Path(name).expanduser().resolve()
    for file in ADAPTER_FILES:
        if not (folder / file).is_file():
            raise ConfigError(f"{name} holds no {file}.", "Give the folder that peft saved an adapter in.")
    return folder


def _read_card(adapter: Path) -> dict[str, Any] | None:
    path = adapter / ADAPTER_CARD
    if not path.is_file():
        return None
    try:
        card: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        card["base"] = {name: str(card["base"][name]) for name in ("name", "digest")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        cause = f"{path} does not name the base of the adapter."
        raise ConfigError(cause, "Take the folder from where it was trained once more.") from error
    return card


def read_adapter_card(adapter: Path, source: Source) -> dict[str, Any] | None:
    """Read an adapter's card, if any; refuse one that was trained on other weights."""
    if adapter.is_file():
        read_adapter(adapter).check_base(weights_digest(source), f"hf/{source.name}")
        return None
    card = _read_card(adapter)
    if card is None:
        return None
    name, digest = card["base"]["name"], card["base"]["digest"]
    here = weights_digest(source)
    if digest != here:
        raise ConfigError(
            f"The adapter {adapter} was trained on {name} ({digest[:24]}), and {source.name} ({here[:24]}) has other "
            "weights or other text around them.",
            f"Put it on the model it was trained on: hf/{name}?adapter={adapter}, or, where there is --adapter, "
            f"--model hf/{name}",
        )
    return card


def end_tokens(loaded: Loaded) -> frozenset[int]:
    """Return the end tokens of the generation config and the tokenizer."""
    listed = getattr(loaded.model.generation_config, "eos_token_id", None)
    tokens = listed if isinstance(listed, list) else [listed]
    return frozenset(token for token in (*tokens, loaded.tokenizer.eos_token_id) if token is not None)


def start_tokens(model: Any) -> list[int]:
    """Return the tokens that the decoder of an encoder-decoder starts with."""
    generation = model.generation_config
    start = generation.decoder_start_token_id
    start = getattr(model.config, "decoder_start_token_id", None) if start is None else start
    if not isinstance(start, int):
        cause = f"{model.name_or_path} does not say with which token its decoder starts."
        raise ConfigError(cause, "Write decoder_start_token_id into its generation_config.json.")
    return [start, *([] if generation.forced_bos_token_id is None else [generation.forced_bos_token_id])]


def load(source: Source, *, dtype: str, device: str, adapter: Path | None = None) -> Loaded:
    """Load a model to run in batches; `dtype` is torch's name of a number type."""
    if adapter is not None:
        read_adapter_card(adapter, source)
    transformers: Any = importlib.import_module("transformers")
    torch: Any = importlib.import_module("torch")
    options: dict[str, Any] = {"trust_remote_code": False, **_hub_options(source)}
    if source.file is not None:
        where = str(source.file.parent)
        options["gguf_file"] = source.file.name
    else:
        where = str(source.folder or source.name)
    with _quiet(transformers), _loading(source.name), _gguf_read_once() if source.file else contextlib.nullcontext():
        config = transformers.AutoConfig.from_pretrained(where, **options)
        tokenizer = transformers.AutoTokenizer.from_pretrained(where, **options)
        if not (tokenizer.chat_template or config.is_encoder_decoder):
            cause = f"{source.name} has no chat template."
            raise ConfigError(cause, "Choose a model that was trained to follow instructions.")
        known = getattr(config.get_text_config(decoder=True), "vocab_size", None)
        if isinstance(known, int) and tokenizer.vocab_size > known:  # added tokens may never be used
            cause = f"The tokenizer of {source.name} has {tokenizer.vocab_size} tokens and the model knows {known}."
            remedy = "They do not belong together: save the model again with its own tokenizer."
            raise ConfigError(cause, remedy)
        if source.file is None:
            options["use_safetensors"] = True  # the older form runs code when it is read
        options.update(config=config, dtype=getattr(torch, dtype))
        make = _encoder_decoder if config.is_encoder_decoder else _decoder_only
        model = make(source.name, where, options)
        if adapter is not None:
            model = _with_adapter(model, adapter, merge=dtype == "float32")
        model = model.to(device).eval()
    return Loaded(tokenizer, model, _context(model.config.get_text_config()))


@contextlib.contextmanager
def _gguf_read_once() -> Iterator[None]:
    """Read a GGUF file once, not three times: its vocabulary takes most of the time."""
    gguf: Any = importlib.import_module("gguf")
    plain = gguf.GGUFReader
    gguf.GGUFReader = functools.cache(plain)
    try:
        yield
    finally:
        gguf.GGUFReader = plain


def _with_adapter(model: Any, adapter: Path, *, merge: bool) -> Any:
    peft = import_optional("peft", "A LoRA adapter", "whitebox")
    if adapter.is_file():
        wrapped = _with_gguf_adapter(peft, model, adapter)
    else:
        wrapped = peft.PeftModel.from_pretrained(model, str(adapter))
    # Merged into shorter number types, the adapter would be rounded away in part.
    return wrapped.merge_and_unload() if merge else wrapped.get_base_model()


def _with_gguf_adapter(peft: Any, model: Any, adapter: Path) -> Any:
    """Put the matrices of a LoRA file of llama.cpp on a model of `_SAME_ROWS`."""
    torch: Any = importlib.import_module("torch")
    reader = import_optional("gguf", "A LoRA in a GGUF file", "whitebox").GGUFReader(str(adapter))
    if (kind := str(reader.fields["general.architecture"].contents())) not in _SAME_ROWS:
        cause = f"{adapter.name} is for models of the kind {kind}, which transformers orders otherwise."
        raise ConfigError(cause, "Give the folder that it was made from: adapter=FOLDER")
    state: dict[str, Any] = {}
    for tensor in reader.tensors:
        match = _LORA_NAME.fullmatch(str(tensor.name))
        if match is None or match["layer"] not in _LAYERS or tensor.data.dtype.kind != "f":
            raise _foreign_lora(adapter, f"it changes {tensor.name}, or is quantised")
        module = f"model.layers.{match['block']}.{_LAYERS[match['layer']]}"
        weight = torch.from_numpy(tensor.data.astype("float32"))
        state[f"base_model.model.{module}.lora_{match['side'].upper()}.weight"] = weight
    ranks = {weight.shape[0] for name, weight in state.items() if ".lora_A." in name}
    if len(ranks) != 1:
        raise _foreign_lora(adapter, "its layers have several ranks")
    config = peft.LoraConfig(
        r=ranks.pop(),
        lora_alpha=float(reader.fields["adapter.lora.alpha"].contents()),
        target_modules=sorted({name.removeprefix("base_model.model.").rpartition(".lora_")[0] for name in state}),
    )
    wrapped = peft.PeftModel(model, config)
    peft.set_peft_model_state_dict(wrapped, state)
    return wrapped


def _foreign_lora(adapter: Path, why: str) -> ConfigError:
    cause = f"{adapter.name} cannot be put on a model of transformers: {why}."
    return ConfigError(cause, "Give the folder that it was made from: adapter=FOLDER")


def _decoder_only(name: str, where: str, options: dict[str, Any]) -> Any:
    transformers: Any = importlib.import_module("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(where, attn_implementation="sdpa", **options)
    config = model.config.get_text_config()
    known = getattr(model, "_supports_attention_backend", False) and getattr(model, "_supports_sdpa", False)
    settings = ("attn_logit_softcapping", "attention_chunk_size")
    special = any(getattr(config, setting, None) is not None for setting in settings)
    if not known or special or getattr(model, "_is_stateful", False):
        cause = f"{name} ({type(model).__name__}) computes its attention in a way that cannot be batched here."
        raise ConfigError(cause, "Serve it with another program and use --model openai/NAME with --base-url.")
    register_attention()
    model.set_attn_implementation(ATTENTION)
    return model


def _encoder_decoder(name: str, where: str, options: dict[str, Any]) -> Any:
    transformers: Any = importlib.import_module("transformers")
    kind = options["config"].model_type
    if kind not in _ENCODER_DECODER_TYPES:
        raise ConfigError(
            f"{name} is an encoder-decoder model of the kind {kind}, which cannot be batched here.",
            f"Choose one of the kinds {', '.join(_ENCODER_DECODER_TYPES)}, or serve it with another program and use "
            "--model openai/NAME with --base-url.",
        )
    return transformers.AutoModelForSeq2SeqLM.from_pretrained(where, **options)


def _context(config: Any) -> int:
    """Return the positions the model knows; with dynamic RoPE the original ones."""
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    most = int(getattr(config, "max_position_embeddings", 0) or 1 << 20)  # T5 has relative ones
    if rope.get("rope_type") in ("dynamic", "longrope"):
        return int(rope.get("original_max_position_embeddings") or most)
    return most


@contextlib.contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Silence progress bars and log messages of transformers."""
    logging = transformers.utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    # The reader of GGUF files has a progress bar without a switch.
    gguf: Any = importlib.import_module("transformers.modeling_gguf_pytorch_utils")
    bar = getattr(gguf, "tqdm", None)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    gguf.tqdm = lambda items, *_, **__: items
    try:
        yield
    finally:
        gguf.tqdm = bar
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


@contextlib.contextmanager
def _loading(name: str) -> Iterator[None]:
    """Turn errors of transformers into errors with a remedy."""
    try:
        yield
    except (ConfigError, MissingExtra):
        raise
    except ImportError as error:
        raise MissingExtra(f"{name} in transformers", "whitebox") from error
    except Exception as error:  # the errors of all formats cannot be listed
        if is_out_of_memory(error):
            remedy = "Free some, or choose a smaller model, dtype or device: hf/NAME?dtype=bf16&device=cpu"
            raise EndpointError(f"Out of memory for the weights of {name}.", remedy, exit_code=2) from error
        cause = f"transformers could not load {name}: {first_line(error)}."
        raise EndpointError(cause, "Check the name, the files and the memory that is free.", exit_code=2) from error
