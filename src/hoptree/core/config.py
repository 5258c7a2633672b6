"""Settings from .env and hoptree.toml in this folder, and the user's hoptree.toml."""

from __future__ import annotations

import ipaddress
import os
import unicodedata
import warnings
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from hoptree.core.errors import ConfigError, did_you_mean
from hoptree.core.files import config_dir

CONFIG_FILE = "hoptree.toml"
VARIABLES = {
    **{name: f"HOPTREE_{name.upper()}" for name in ("model", "corpus", "graph", "retriever", "method")},
    "base_url": "OPENAI_BASE_URL",
    "budget": "HOPTREE_BUDGET",
    "prices": "HOPTREE_PRICES",
}
"""The environment variable of each setting of a configuration file."""
_OTHER_VARIABLES = tuple(
    f"HOPTREE_{name}"
    for name in (
        *("CACHE", "CONTACT", "DEBUG", "MCP_KEY", "MODELS", "MODEL_SOURCE", "OTEL", "RERANK_KEY"),
        *("TRUST_REMOTE_CODE", "VOLUME"),
    )
)
"""Further variables that .env may set, but not hoptree.toml."""
KEY = "OPENAI_API_KEY"
_OPTIONS_TABLE = "options"


class Config(NamedTuple):
    """What configuration files set, and where each value came from."""

    origins: Mapping[str, str]
    options: Mapping[str, Mapping[str, Any]]
    files: tuple[str, ...]
    notes: tuple[str, ...] = ()  # warnings for the user


def load_config(
    environ: MutableMapping[str, str], folder: Path | None = None, user: Path | None = None, *, trusted: bool = False
) -> Config:
    """Set the unset environment variables that .env and hoptree.toml give.

    The order of precedence is: option, environment, .env, hoptree.toml of the current folder, the user's hoptree.toml.
    Files of the current folder may come from somebody else: the user's key is not sent to a remote endpoint that only
    they name, unless the caller was given its address (`trusted`).
    """
    folder, user = folder or Path(), user or config_dir()
    origins = {name: "environment" for name in (*VARIABLES.values(), KEY) if environ.get(name)}
    options: dict[str, dict[str, Any]] = {}
    config_files: list[str] = []
    project: set[str] = set()
    for path, read in (
        (folder / ".env", _read_env),
        (folder / CONFIG_FILE, _read_toml),
        (user / CONFIG_FILE, _read_toml),
    ):
        if not path.is_file():
            continue
        values, tables = read(path)
        config_files.append(str(path))
        for name, value in values.items():
            if not environ.get(name):
                environ[name], origins[name] = value, str(path)
                project |= {name} if path.parent == folder else set()
        for method, given in tables.items():
            origins |= {f"options.{method}.{name}": str(path) for name in given if name not in options.get(method, {})}
            options[method] = given | options.get(method, {})
    if VARIABLES["base_url"] in project and environ.get(KEY) and KEY not in project and not trusted:
        return Config(origins, options, tuple(config_files), _withhold_key(environ, origins))
    return Config(origins, options, tuple(config_files))


def settings_of_files() -> tuple[dict[str, str], Mapping[str, Mapping[str, Any]]]:
    """Return settings by name and options by method, from environment and files.

    Of the environment, only a missing key is set, from .env.
    """
    environ = dict(os.environ)
    config = load_config(environ)
    for note in config.notes:
        warnings.warn(note, stacklevel=3)
    if config.notes:
        environ.pop(VARIABLES["base_url"], None)  # the key stays in the environment, so the untrusted endpoint goes
    elif KEY in environ:
        os.environ.setdefault(KEY, environ[KEY])
    return {name: environ[variable] for name, variable in VARIABLES.items() if environ.get(variable)}, config.options


def _read_env(path: Path) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """Read the lines NAME=VALUE of a .env file that are meant for Hoptree."""
    values = {}
    for line in _read_text(path).splitlines():
        name, sign, value = (part.strip() for part in line.strip().removeprefix("export ").partition("="))
        if name.startswith("HOPTREE_") and not sign:
            raise ConfigError(f"{path} has the line '{name}' without =.", "Write NAME=VALUE, or remove it.")
        if name.startswith("HOPTREE_") and name not in (known := (*VARIABLES.values(), *_OTHER_VARIABLES)):
            hint = did_you_mean(name, known, f"There are: {', '.join(sorted(known))}.")
            raise ConfigError(f"{path} has the unknown setting '{name}'.", hint)
        if name.startswith(("HOPTREE_", "OPENAI_")) and sign:
            values[name] = value[1:-1] if value[:1] in "'\"" and value[:1] == value[-1:] else value
    return values, {}


def _read_toml(path: Path) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """Read a configuration file: settings, and a table of options for each method."""
    import tomllib

    try:
        data = tomllib.loads(_read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}.", 'Write lines such as model = "ollama/llama3.1".') from error
    tables = data.pop(_OPTIONS_TABLE, {})
    for name, value in data.items():
        if name not in VARIABLES:
            known = f"There are: {', '.join(VARIABLES)} and [options.METHOD]."
            hint = did_you_mean(name, (*VARIABLES, _OPTIONS_TABLE), known)
            raise ConfigError(f"{path} has the unknown setting '{name}'.", hint)
        is_number = name == "budget" and type(value) is int  # as --budget takes one
        if not is_number and not (isinstance(value, str) and value):
            raise ConfigError(f"{path}: {name} is not text.", f'Write {name} = "…".')
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise ConfigError(f"{path}: [options] needs a method.", "Write [options.hop] above its options.")
    return {VARIABLES[name]: str(value) for name, value in data.items()}, tables


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.", "Fix or remove it.") from error


def _withhold_key(environ: MutableMapping[str, str], origins: dict[str, str]) -> tuple[str, ...]:
    """Unset the user's key for an endpoint that only this folder names; return notes."""
    url = environ[VARIABLES["base_url"]]
    if is_loopback_url(url):
        return ()
    del environ[KEY]
    origins[KEY] = "withheld"
    file = origins[VARIABLES["base_url"]]
    return (f"{file} names the endpoint {url}: your {KEY} is not sent there. If you trust it: --base-url {url}",)


def is_loopback_url(url: str) -> bool:
    """Return whether a URL leads to this machine."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return host == "0.0.0.0" or is_loopback(host)


def is_loopback(host: str) -> bool:
    """Return whether an address is reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


_DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))})
_MAX_NAME_CHARS = 63
_FIRST_KINDS = frozenset({"Ll", "Lm", "Lo", "Nd"})
_NAME_KINDS = _FIRST_KINDS | {"Mn", "Mc"}


def suggest_name(text: str) -> str:
    """Return the plain name that is nearest to a text, or "" if none is."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).lower())
    kept = "".join(char if char == "_" or unicodedata.category(char) in _NAME_KINDS else " " for char in folded)
    name = "-".join(kept.split())
    first = next((at for at, char in enumerate(name) if unicodedata.category(char) in _FIRST_KINDS), len(name))
    name = name[first:][:_MAX_NAME_CHARS].rstrip("-_")
    return name if is_plain_name(name) else ""


def is_plain_name(name: str) -> bool:
    """Return whether a name is safe in paths and addresses.

    It has small letters of any script, digits, - and _.
    """
    kinds = [unicodedata.category(char) for char in name]
    return (
        0 < len(name) <= _MAX_NAME_CHARS
        and kinds[0] in _FIRST_KINDS
        and all(char in "-_" or kind in _NAME_KINDS for char, kind in zip(name, kinds, strict=True))
        and name == unicodedata.normalize("NFKC", name.lower())
        and name not in _DEVICES
    )
