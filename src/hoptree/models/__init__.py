"""Language models: one Protocol, and one module for each backend."""

from __future__ import annotations

import difflib
from typing import Any

from hoptree.core.errors import ConfigError
from hoptree.models.model import Model

DEFAULT_MODEL = "local/qwen2.5-coder-1.5b-instruct"
_KINDS = ("openai", "local", "hf", "scripted")
_LOCAL_SETTINGS = {"n_ctx": int, "slots": int, "threads": int, "exact": bool, "adapter": str}
_HF_SETTINGS = {"dtype": str, "device": str, "max_batch_tokens": int, "adapter": str}


def open_model(spec: str, *, base_url: str = "") -> Model:
    """Open the model that `KIND/NAME` names; `base_url` is for `openai/…`.

    Settings follow the name: `local/NAME?n_ctx=8192&slots=2&threads=4&exact=1&adapter=FILE.gguf`,
    `hf/NAME?dtype=bf16&device=cuda&max_batch_tokens=60000&adapter=FOLDER`.
    """
    kind, _, name = spec.partition("/")
    if not name or kind not in _KINDS:
        raise ConfigError(
            f"'{spec}' names no model.",
            f"{_hint(kind, name)}Use openai/NAME, local/NAME, local/FILE.gguf, hf/NAME, hf/FOLDER or scripted/FILE.",
        )
    # Imported here, so that a run loads only the library of the model it uses.
    if kind == "openai":
        from hoptree.models.openai import OpenAIModel

        return OpenAIModel(name, base_url=base_url)
    if base_url:
        raise ConfigError(f"{kind} models take no base URL.", "Use --model openai/NAME with --base-url.")
    if kind == "scripted":
        from hoptree.models.scripted import ScriptedModel

        return ScriptedModel(name)
    weights, _, query = name.partition("?")
    if kind == "local":
        from hoptree.models.local import LocalModel

        example = "n_ctx, slots, threads, exact and adapter: local/NAME?n_ctx=8192"
        return LocalModel(weights, **_parse_settings(query, _LOCAL_SETTINGS, "a local model", example))
    from hoptree.models.hf import HFModel

    example = "dtype, device, max_batch_tokens and adapter: hf/NAME?dtype=bf16&device=cuda"
    return HFModel(weights, **_parse_settings(query, _HF_SETTINGS, "an hf model", example))


def _hint(kind: str, name: str) -> str:
    """Suggest a similar kind, or a model for a name without a kind."""
    from hoptree.models.catalogue import CATALOGUE

    known = _KINDS if name else [word for entry in CATALOGUE for word in (entry.alias, entry.name)]
    close = difflib.get_close_matches(kind, known, 1)
    if not close:
        return ""
    return f"Did you mean '{close[0]}/…'? " if name else f"Did you mean 'local/{close[0]}'? "


def _parse_settings(query: str, types: dict[str, type], model: str, example: str) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        kind = types.get(name)
        if kind is None or not value or (kind is not str and not value.isdigit()):
            raise ConfigError(f"'{part}' is no setting of {model}.", f"There are {example}")
        settings[name] = value == "1" if kind is bool else kind(value)
    return settings
