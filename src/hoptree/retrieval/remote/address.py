"""The URL of a corpus in a search engine, taken apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from hoptree.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Address:
    """Where a corpus is: `name` is the last part of the path, `folder` what stands before it."""

    scheme: str
    host: str
    port: int | None
    user: str
    password: str
    folder: str
    name: str
    settings: tuple[tuple[str, str], ...]

    def read(self, defaults: Mapping[str, str]) -> dict[str, str]:
        """The settings behind the `?`, with defaults for those that are not given."""
        if unknown := [name for name, _ in self.settings if name not in defaults]:
            raise ConfigError(
                f"'{unknown[0]}' is no setting of {self.scheme}.", f"There are {', '.join(sorted(defaults))}."
            )
        return {**defaults, **dict(self.settings)}

    @property
    def shown(self) -> str:
        """The URL without the password, in one spelling."""
        port = f":{self.port}" if self.port else ""
        settings = "&".join(f"{name}={value}" for name, value in sorted(self.settings))
        return f"{self.scheme}://{self.host}{port}{self.folder}/{self.name}{'?' if settings else ''}{settings}"


def read_address(url: str) -> Address:
    example = "Write it as elasticsearch://HOST:9200/INDEX or milvus://HOST:19530/COLLECTION."
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        settings = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError as error:
        raise ConfigError(f"The URL of the corpus cannot be read ({error}).", example) from error
    folder, _, name = parts.path.rstrip("/").rpartition("/")
    if not name:
        raise ConfigError("The URL of the corpus does not name an index or collection.", example)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return Address(parts.scheme, host, port, user, password, unquote(folder), unquote(name), tuple(settings))


T = TypeVar("T")

BATCH = 1_000
BATCH_BYTES = 4 * 2**20
"""Less than half of what the strictest of the engines takes in one request."""


def whole_characters(text: str) -> str:
    """The text with halves of characters, which cannot be sent, replaced."""
    return text.encode("utf-8", "replace").decode()


def shortened(query: str, most: int) -> str:
    """A query that can be sent: of more than `most` words, each counts once and the first ones are taken."""
    query = whole_characters(query)
    words = query.split()
    return query if len(words) <= most else " ".join(list(dict.fromkeys(words))[:most])


def pairs(metadata: Any, text: Callable[[Any], str] = str) -> tuple[tuple[str, str], ...]:
    """Names and values of an engine's object of metadata, in the order of the names; none if it is no object."""
    if not isinstance(metadata, dict):
        return ()
    return tuple(
        (str(name), text(value))
        for name, values in sorted(metadata.items())
        for value in (values if isinstance(values, list) else [values])
    )


def batches(rows: Iterable[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """The rows, so many at a time that a request stays small."""
    batch: list[T] = []
    total = 0
    for row in rows:
        if batch and (len(batch) >= BATCH or total + size(row) > BATCH_BYTES):
            yield batch
            batch, total = [], 0
        batch.append(row)
        total += size(row)
    if batch:
        yield batch
