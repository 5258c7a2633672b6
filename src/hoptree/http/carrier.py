"""What brings a request to a server and the reply back, and how it can fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

__all__ = ["CONNECT_SECONDS", "Bad", "BrokenOff", "Carrier", "TooLong", "Unreachable"]

CONNECT_SECONDS = 10.0


class Bad(Exception):
    """The URL cannot be asked for."""


class Unreachable(Exception):
    """No connection could be made."""


class BrokenOff(Exception):
    """The connection ended before the reply did, or what came over it is not HTTP."""


class TooLong(Exception):
    """The reply has more bytes than are read."""


class Carrier(Protocol):
    """Keep-alive connections to one server."""

    async def send(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str], max_body: int
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers (in lower case) and body of a reply; failures are the errors of this module."""

    async def aclose(self) -> None: ...
