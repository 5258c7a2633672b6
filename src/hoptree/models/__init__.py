"""Language models: one Protocol, and one module for each way to reach a model."""

from __future__ import annotations

import difflib
from typing import Any

from hoptree.core.errors import ConfigError
from hoptree.models.model import Model

DEFAULT_MODEL = "local/qwen2.5-coder-1.5b-instruct"
_KINDS = ("openai", "local", "hf", "scripted")
_LOCAL_SETTINGS = ("n_ctx", "slots", "threads", "exact", "adapter")
_HF_SETTINGS = ("dtype", "device", "max_batch_tokens", "adapter")


def open_model(spec: str, *, base_url: str = "") -> Model:
    """The model a `KIND/NAME` text names; `base_url` is for `openai/…`.

    Settings stand behind the name: `local/NAME?n_ctx=8192&slots=2&threads=4&exact=1&adapter=FILE.gguf`,
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
    if kind == "local":
        from hoptree.models.local import LocalModel

        file, _, settings = name.partition("?")
        return LocalModel(file, **_local_settings(settings))
    if kind == "hf":
        from hoptree.models.hf import HFModel

        weights, _, settings = name.partition("?")
        return HFModel(weights, **_hf_settings(settings))
    from hoptree.models.scripted import ScriptedModel

    return ScriptedModel(name)


def _hint(kind: str, name: str) -> str:
    """What may be meant by a kind that there is not, or by a name without one."""
    from hoptree.models.catalogue import CATALOGUE

    known = _KINDS if name else [word for entry in CATALOGUE for word in (entry.alias, entry.name)]
    close = difflib.get_close_matches(kind, known, 1)
    if not close:
        return ""
    return f"Did you mean '{close[0]}/…'? " if name else f"Did you mean 'local/{close[0]}'? "


def _local_settings(text: str) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for part in filter(None, text.split("&")):
        name, _, value = part.partition("=")
        if name not in _LOCAL_SETTINGS or not (value if name == "adapter" else value.isdigit()):
            raise ConfigError(
                f"'{part}' is no setting of a local model.",
                "There are n_ctx, slots, threads, exact and adapter: local/NAME?n_ctx=8192",
            )
        settings[name] = value == "1" if name == "exact" else value if name == "adapter" else int(value)
    return settings


def _hf_settings(text: str) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for part in filter(None, text.split("&")):
        name, _, value = part.partition("=")
        if name not in _HF_SETTINGS or not value or (name == "max_batch_tokens" and not value.isdigit()):
            raise ConfigError(
                f"'{part}' is no setting of an hf model.",
                "There are dtype, device, max_batch_tokens and adapter: hf/NAME?dtype=bf16&device=cuda",
            )
        settings[name] = int(value) if name == "max_batch_tokens" else value
    return settings
