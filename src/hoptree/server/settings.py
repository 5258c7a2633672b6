"""Settings and limits of a server, and names that clients may use."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hoptree.core.config import is_loopback, is_plain_name, suggest_name
from hoptree.core.errors import ConfigError, closest
from hoptree.engine.cache import Store
from hoptree.engine.context import Prices
from hoptree.engine.registry import DEFAULT_METHOD
from hoptree.models.model import Model
from hoptree.retrieval import DEFAULT_RETRIEVER
from hoptree.server.error_responses import Refusal
from hoptree.server.keys import Key

_MEGABYTE = 2**20


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of requests, uploads, questions and of stopping; sizes are bytes."""

    body: int = _MEGABYTE  # of a JSON request
    upload: int = 64 * _MEGABYTE
    unpacked: int = 256 * _MEGABYTE  # of all files of an upload
    stored: int = 2048 * _MEGABYTE  # of one corpus
    files: int = 1_000
    corpora: int = 100
    calls: int = 500  # of any question, like tokens and seconds: a request can only lower them
    tokens: int = 2_000_000
    seconds: float = 300.0
    asking: int = 256  # questions at once
    connections: int = 1_024
    rate: int = 0  # requests a minute of a key without a rate, or of all clients without keys; 0: no limit
    header_seconds: float = 10.0  # for a client to send headers; likewise body and upload
    body_seconds: float = 30.0
    upload_seconds: float = 600.0
    stop_seconds: float = 20.0  # how long a stop waits for questions under way
    indexing_seconds: float = 3_600.0
    indexing_memory: int = 4096 * _MEGABYTE

    @classmethod
    def parse(cls, text: str, **usual: float) -> Limits:
        """Read `seconds=60,rate=30,upload=10M`; `usual` gives the other limits."""
        known = [field.name for field in fields(cls)]
        values: dict[str, float] = {}
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            name, _, value = (piece.strip() for piece in part.partition("="))
            number = _parse_number(value)
            if name not in known or number is None:
                remedy = f"There are {', '.join(known)}: --limits seconds=60,rate=30"
                raise ConfigError(f"'{part}' is not a limit.", remedy)
            values[name] = number if name.endswith("seconds") else int(number)
            if not values[name] and (number or name != "rate"):  # rate=0.5 becomes 0, which would be no limit
                raise ConfigError(f"A limit of '{part}' allows nothing.", "Give more, or leave that limit out.")
        return cls(**(usual | values))  # type: ignore[arg-type]


def _parse_number(text: str) -> float | None:
    """Read a number of 0 or more; K, M or G at its end are powers of 1,024."""
    factor = {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1:].upper(), 1)
    try:
        number = float(text[:-1] if factor > 1 else text) * factor
    except ValueError:
        return None
    return number if 0 <= number < 1e15 else None


_MODEL_NAME = re.compile(r"[\w][\w.:+-]{0,79}", re.ASCII)
_IN_PROCESS = ("local/", "hf/")  # models that the calling process loads
_FOR_WORKERS = ("models", "corpora", "graphs", "rerankers", "base_urls", "options", "prompts", "method", "retriever")


@dataclass(frozen=True, slots=True)
class Settings:
    """How a server is set up."""

    models: Mapping[str, str | Model]  # specs, or open models, by the names clients see; the first is the default
    corpora: Mapping[str, str] = field(default_factory=dict)  # the first is the default
    graphs: Mapping[str, str] = field(default_factory=dict)
    rerankers: Mapping[str, str] = field(default_factory=dict)
    base_urls: Mapping[str, str] = field(default_factory=dict)  # of `openai/…` models, by name
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by method; clients cannot change them
    prompts: Mapping[str, str] = field(default_factory=dict)  # texts that replace ours, by file name
    corpora_folder: Path | None = None  # of corpora made over HTTP; without one, `uploads_off` says why
    uploads_off: str = "It was started without a folder for them: --corpora DIR."
    runs: Path | None = None
    keys: tuple[Key, ...] = ()
    limits: Limits = field(default_factory=Limits)
    method: str = DEFAULT_METHOD
    retriever: str = DEFAULT_RETRIEVER
    prices: Prices | None = None
    cache: str | Path | Store | None = "default"
    concurrency: int | None = None
    host: str = "127.0.0.1"
    hosts: tuple[str, ...] = ()  # further names of the server
    origins: tuple[str, ...] = ()  # other sites whose pages may ask (CORS)
    journal: Path | None = None  # the file for questions that a stop interrupts
    workers: int = 0  # processes that answer; 0: the server's own

    def check(self) -> None:
        """Refuse settings that let anybody ask, or contradict each other."""
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
                cause = f"The model {name} runs inside the server, and each worker would load it again."
                remedy = "Leave --workers out, or serve the model over HTTP: --model openai/NAME --base-url URL"
                raise ConfigError(cause, remedy)
        if self.concurrency is not None and self.concurrency < self.workers:
            cause = f"A concurrency of {self.concurrency} cannot be parted among {self.workers} workers."
            raise ConfigError(cause, f"Give at most {self.concurrency} workers, or a higher --concurrency.")
        if not isinstance(self.cache, str | Path | None):
            raise ConfigError("A cache that is open cannot be shared by workers.", "Give its file.")

    def for_workers(self) -> dict[str, Any]:
        """Return the settings for answering as JSON without keys, for `read_settings`."""
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
    """Return the host of an origin, or the text itself if it has none."""
    try:
        return urlsplit(origin).hostname or origin
    except ValueError:
        return origin


def model_name(spec: str) -> tuple[str, str]:
    """Split [NAME=]SPEC into name and spec; without NAME, take the last part of SPEC."""
    named, separator, rest = spec.partition("=")
    if separator and "/" not in named:
        name, spec = named.strip(), rest.strip()
    else:
        name = spec.partition("?")[0].rstrip("/").rpartition("/")[2].removesuffix(".gguf").removesuffix(".json")
    if not _MODEL_NAME.fullmatch(name):
        remedy = (
            "Use up to 80 letters A to Z, digits and _ . : + -, as in --model NAME=SPEC; begin with none of . : + -"
        )
        raise ConfigError(f"'{name}' is not a name for a model.", remedy)
    return name, spec


NAME = r"^(?:[a-z0-9]|[^\x00-\xbf])(?:[a-z0-9_-]|[^\x00-\xbf]){0,62}$"
"""What the names of corpora match, roughly: `is_plain_name` says which letters beyond ASCII they may have."""
_MAX_SHOWN_CHARS = 80
_MAX_LISTED = 50
_WHERE_LISTED = {
    "corpus": "GET /v1/corpora lists those there are.",
    "run": "GET /v1/runs lists those there are.",
    "job": "GET /v1/corpora names those under way; of those that ended, the last of each corpus outlives the server.",
}


def check_name(name: str) -> None:
    """Refuse a name that no corpus may have."""
    if not is_plain_name(name):
        rule = "Use up to 63 small letters of any script, digits, - and _, beginning with a letter or digit"
        remedy = f"{rule}: {near}" if (near := suggest_name(name)) else f"{rule}."
        raise Refusal(400, "BadName", f"{name[:_MAX_SHOWN_CHARS]!r} is not a valid name of a corpus.", remedy)


def guess(name: str, known: Collection[str]) -> str:
    """Return the name that was probably meant, or ""."""
    return closest(name[:_MAX_SHOWN_CHARS], known)


def unknown(what: str, name: str, known: Collection[str], *, status: int = 400, param: str | None = None) -> Refusal:
    """Return the refusal of a name that was not configured."""
    if close := guess(name, known):
        remedy = f"Did you mean '{close}'?"
    elif known:
        remedy = f"There are: {', '.join(sorted(known)[:_MAX_LISTED])}."
    else:
        remedy = _WHERE_LISTED.get(what, f"This server has no {what}.")
    kind = "NotFound" if status == 404 else "ConfigError"
    return Refusal(status, kind, f"There is no {what} '{name[:_MAX_SHOWN_CHARS]}'.", remedy, param=param)
