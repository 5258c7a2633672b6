"""Bounds on what clients may ask of the server."""

from __future__ import annotations

from dataclasses import dataclass, fields

from hoptree.core.errors import ConfigError

_MEGABYTE = 2**20


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of requests, uploads, questions and of stopping; `parse` reads them from text.

    Sizes are bytes. `body` is that of a JSON request, `upload` that of an upload, `unpacked` what all its files may be
    once they are unpacked, `stored` what one corpus may hold. `calls`, `tokens` and `seconds` bound every question,
    whatever budget it asks for. `asking` questions are answered at once. `rate` is the number of requests a minute of
    a key that names none itself, and of everybody together where there are no keys; 0 is no limit.
    `header_seconds`, `body_seconds` and `upload_seconds` are how long a client may take to send them, `stop_seconds`
    how long a stop waits for questions that are under way.
    """

    body: int = _MEGABYTE
    upload: int = 64 * _MEGABYTE
    unpacked: int = 256 * _MEGABYTE
    stored: int = 2048 * _MEGABYTE
    files: int = 1_000
    corpora: int = 100
    calls: int = 500
    tokens: int = 2_000_000
    seconds: float = 300.0
    asking: int = 256
    connections: int = 1_024
    rate: int = 0
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    upload_seconds: float = 600.0
    stop_seconds: float = 20.0
    indexing_seconds: float = 3_600.0
    indexing_memory: int = 4096 * _MEGABYTE

    @classmethod
    def parse(cls, text: str) -> Limits:
        """Read `seconds=60,rate=30,upload=10M`."""
        known = [field.name for field in fields(cls)]
        values: dict[str, float] = {}
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            name, _, value = (piece.strip() for piece in part.partition("="))
            number = _parse_number(value)
            if name not in known or number is None:
                remedy = f"There are {', '.join(known)}: --limits seconds=60,rate=30"
                raise ConfigError(f"'{part}' is no limit.", remedy)
            values[name] = number if name.endswith("seconds") else int(number)
            if not values[name] and (number or name != "rate"):  # half a request a minute is not no limit
                raise ConfigError(f"A limit of '{part}' allows nothing.", "Give more, or leave that limit out.")
        return cls(**values)  # type: ignore[arg-type]


def _parse_number(text: str) -> float | None:
    """Read a number of 0 or more, with K, M or G behind it for powers of 1,024."""
    factor = {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1:].upper(), 1)
    try:
        number = float(text[:-1] if factor > 1 else text) * factor
    except ValueError:
        return None
    return number if 0 <= number < 1e15 else None
