"""Which encoder a name stands for."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from urllib.parse import parse_qsl

from hoptree.errors import ConfigError
from hoptree.retrieval.encoders.encoder import Encoder, Prefixes

__all__ = ["check_encoder", "open_encoder", "settled"]

_KINDS = ("minilm", "static", "onnx", "st", "openai")
_FORMS = "Use minilm, static/FOLDER, onnx/FOLDER, st/NAME or openai/NAME."
_SETTINGS = ("query", "passage")


def settled(spec: str) -> str:
    """The same encoder from wherever it is named: a folder that is there is named by its whole path."""
    named, mark, prefixes = spec.partition("?")
    kind, _, name = named.partition("/")
    if kind not in ("static", "onnx", "st") or not name or not Path(name).is_dir():
        return spec
    return f"{kind}/{os.path.abspath(name)}{mark}{prefixes}"  # noqa: PTH100 - a link stays one, and .. goes


def open_encoder(spec: str, *, base_url: str = "") -> Encoder:
    """The encoder of a name such as `minilm`, `static/FOLDER`, `onnx/FOLDER`, `st/NAME` or `openai/NAME`.

    Prefixes that the model's name and settings do not tell are written behind it: `onnx/FOLDER?query=query: &passage=`.
    """
    kind, name, prefixes = _read(spec)
    if base_url and kind != "openai":
        raise ConfigError(f"The encoder '{spec}' runs here and takes no base URL.", "Leave it out, or use openai/NAME.")
    return _open(kind, name, prefixes, base_url)


def check_encoder(spec: str) -> None:
    """Refuse a name that stands for no encoder; whether it can be opened is not tried."""
    _read(spec)


def _read(spec: str) -> tuple[str, str, Prefixes | None]:
    """The kind of an encoder, the model's name and its prefixes."""
    spec, prefixes = _with_prefixes(spec)
    kind, slash, name = spec.partition("/")
    if kind not in _KINDS:
        near = difflib.get_close_matches(kind, _KINDS, 1)
        raise ConfigError(f"There is no encoder '{spec}'.", f"Did you mean {near[0]}? {_FORMS}" if near else _FORMS)
    if kind != "minilm" and not name:
        raise ConfigError(f"The encoder '{spec}' names no model.", _FORMS)
    if kind == "minilm" and slash:
        raise ConfigError(f"There is no encoder '{spec}'.", _FORMS)
    return kind, name, prefixes


def _open(kind: str, name: str, prefixes: Prefixes | None, base_url: str) -> Encoder:
    if kind == "openai":
        from hoptree.retrieval.encoders.endpoint import EndpointEncoder

        return EndpointEncoder(name, base_url=base_url, prefixes=prefixes)
    if kind == "static":
        from hoptree.retrieval.encoders.static import StaticEncoder

        return StaticEncoder(Path(name), prefixes=prefixes)
    if kind == "st":
        from hoptree.retrieval.encoders.transformer import TransformerEncoder

        return TransformerEncoder(name, prefixes=prefixes)
    from hoptree.retrieval.encoders.onnx import OnnxEncoder, folder_files
    from hoptree.retrieval.encoders.packaged import minilm_files

    if kind == "minilm":
        return OnnxEncoder("minilm", minilm_files(), prefixes=prefixes or Prefixes())
    folder = Path(name)
    return OnnxEncoder(f"onnx/{folder.resolve().name}", folder_files(folder), prefixes=prefixes)


def _with_prefixes(spec: str) -> tuple[str, Prefixes | None]:
    name, mark, query = spec.partition("?")
    if not mark:
        return spec, None
    try:
        given = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=True))
    except ValueError as error:
        raise ConfigError(f"'{query}' are no settings of an encoder.", "Write ?query=PREFIX&passage=PREFIX.") from error
    if unknown := sorted(set(given) - set(_SETTINGS)):
        raise ConfigError(f"An encoder has no setting '{unknown[0]}'.", "Write ?query=PREFIX&passage=PREFIX.")
    return name, Prefixes(given.get("query", ""), given.get("passage", ""))
