"""How an administrator sets a server up: requests only choose among what is named here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hoptree.core.errors import ConfigError
from hoptree.core.http_server import is_loopback
from hoptree.engine.cache import Store
from hoptree.engine.context import Prices
from hoptree.engine.registry import DEFAULT_METHOD
from hoptree.models.model import Model
from hoptree.retrieval import DEFAULT_RETRIEVER
from hoptree.server.keys import Key
from hoptree.server.limits import Limits

_MODEL_NAME = re.compile(r"[\w][\w.:+-]{0,79}", re.ASCII)
_IN_PROCESS = ("local/", "hf/")
"""Models that are loaded by the process that calls them."""
_FOR_WORKERS = ("models", "corpora", "graphs", "rerankers", "base_urls", "options", "method", "retriever")


@dataclass(frozen=True, slots=True)
class Settings:
    """How a server is set up.

    `models` are specs, or models that are open, by the names clients see; the first is the default one, and so is the
    first corpus. `base_urls` are of `openai/…` models, by those names. `corpora_folder` holds the corpora that clients
    make. `options` are set for all questions of a method, and clients cannot change them. `hosts` are further names
    under which the server is reached, `origins` the web pages elsewhere that may ask it. `journal` is the file for
    questions that a stop cut off. `workers` are processes that answer; with none the server's own does.
    """

    models: Mapping[str, str | Model]
    corpora: Mapping[str, str] = field(default_factory=dict)
    graphs: Mapping[str, str] = field(default_factory=dict)
    rerankers: Mapping[str, str] = field(default_factory=dict)
    base_urls: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    corpora_folder: Path | None = None
    runs: Path | None = None
    keys: tuple[Key, ...] = ()
    limits: Limits = field(default_factory=Limits)
    method: str = DEFAULT_METHOD
    retriever: str = DEFAULT_RETRIEVER
    prices: Prices | None = None
    cache: str | Path | Store | None = "default"
    concurrency: int | None = None
    host: str = "127.0.0.1"
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    journal: Path | None = None
    workers: int = 0

    def check(self) -> None:
        """Refuse settings that would let everybody ask, or that do not fit together."""
        if not is_loopback(self.host) and not self.keys:
            remedy = "Give a file of keys (--keys FILE), or listen on this machine only (--host 127.0.0.1)."
            raise ConfigError(f"Listening on {self.host} without keys would let anybody ask at your cost.", remedy)
        names = (*self.hosts, *(_host(origin) for origin in self.origins))
        if not self.keys and (name := next((name for name in names if not is_loopback(name.lower())), None)):
            raise ConfigError(
                f"Answering to {name} without keys would let anybody ask at your cost, through a proxy or a web page.",
                "Give a file of keys (--keys FILE), or leave --allow-host and --allow-origin out.",
            )
        if self.prices is None and any(key.budget.cost is not None for key in self.keys):
            raise ConfigError("A key has a budget of money, which needs prices.", "Give them: --prices IN/OUT")
        if not self.models:
            raise ConfigError("The server has no model.", "Name one or more: --model openai/NAME")
        if self.workers:
            self._check_workers()

    def _check_workers(self) -> None:
        """Refuse what worker processes cannot share."""
        for name, given in self.models.items():
            if not isinstance(given, str):
                raise ConfigError(f"The model {name} is open, and workers cannot share it.", "Give its spec, a text.")
            if given.startswith(_IN_PROCESS):
                raise ConfigError(
                    f"The model {name} runs inside the server, and each worker would load it again.",
                    "Leave --workers out, or serve the model over HTTP: --model openai/NAME --base-url URL",
                )
        if self.concurrency is not None and self.concurrency < self.workers:
            raise ConfigError(
                f"A concurrency of {self.concurrency} cannot be parted among {self.workers} workers.",
                f"Give at most {self.concurrency} workers, or a higher --concurrency.",
            )
        if not isinstance(self.cache, str | Path | None):
            raise ConfigError("A cache that is open cannot be shared by workers.", "Give its file.")

    def for_workers(self) -> dict[str, Any]:
        """Return what answering takes, as JSON without any keys. `read_settings` reads it."""
        return {
            **{name: getattr(self, name) for name in _FOR_WORKERS},
            "corpora_folder": None if self.corpora_folder is None else str(self.corpora_folder),
            "limits": asdict(self.limits),
            "prices": None if self.prices is None else asdict(self.prices),
            "cache": None if self.cache is None else str(self.cache),
            "concurrency": self.concurrency,
        }


def read_settings(data: Mapping[str, Any]) -> Settings:
    """Read the settings of a worker."""
    folder, prices = data["corpora_folder"], data["prices"]
    return Settings(
        **{name: data[name] for name in _FOR_WORKERS},
        corpora_folder=None if folder is None else Path(folder),
        limits=Limits(**data["limits"]),
        prices=None if prices is None else Prices(**prices),
        cache=data["cache"],
        concurrency=data["concurrency"],
    )


def _host(origin: str) -> str:
    """Return the host of an origin, or the text itself where it has none."""
    try:
        return urlsplit(origin).hostname or origin
    except ValueError:
        return origin


def model_name(spec: str) -> tuple[str, str]:
    """Split NAME=SPEC into the name clients see and the spec; the last part of a SPEC alone is its name."""
    named, separator, rest = spec.partition("=")
    if separator and "/" not in named:
        name, spec = named.strip(), rest.strip()
    else:
        name = spec.partition("?")[0].rstrip("/").rpartition("/")[2].removesuffix(".gguf").removesuffix(".json")
    if not _MODEL_NAME.fullmatch(name):
        raise ConfigError(f"'{name}' is no name for a model.", "Give it one: --model NAME=SPEC")
    return name, spec
