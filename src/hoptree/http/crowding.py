"""How many connections one address may have at once, so that one machine cannot take the place of all."""

from __future__ import annotations

import logging
from collections import Counter

from hoptree.http.listening import is_loopback

__all__ = ["Crowd"]

_LOG = logging.getLogger("hoptree.http")


class Crowd:
    """The connections of each address, `each` at most.

    Those of this machine have no bound: to a server behind a proxy here, all clients come from it.
    """

    def __init__(self, each: int) -> None:
        self._each = each
        self._counts: Counter[str] = Counter()
        self._told: set[str] = set()

    def enters(self, host: str) -> bool:
        """Count a connection; whether it may stay."""
        self._counts[host] += 1
        if self._counts[host] <= self._each or is_loopback(host):
            return True
        if host not in self._told:
            self._told.add(host)
            _LOG.warning("%s has %d connections, and gets no more", host, self._each)
        return False

    def leaves(self, host: str) -> None:
        self._counts[host] -= 1
        if self._counts[host] < self._each:
            self._told.discard(host)
        if not self._counts[host]:
            del self._counts[host]
