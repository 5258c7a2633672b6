"""How many connections one address may have at once, so that one machine cannot take the place of all."""

from __future__ import annotations

import ipaddress
import logging
from collections import Counter

from hoptree.http.listening import is_loopback

__all__ = ["Crowd"]

_LOG = logging.getLogger("hoptree.http")


class Crowd:
    """The connections of each address, `each` at most.

    Those of this machine have no bound: to a server behind a proxy here, all clients come from it. Of IPv6, whoever has
    one address has all of its first 64 bits, so these count as one.
    """

    def __init__(self, each: int) -> None:
        self._each = each
        self._counts: Counter[str] = Counter()
        self._told: set[str] = set()

    def enters(self, host: str) -> bool:
        """Count a connection; whether it may stay."""
        whose = _whose(host)
        self._counts[whose] += 1
        if self._counts[whose] <= self._each or is_loopback(whose):
            return True
        if whose not in self._told:
            self._told.add(whose)
            _LOG.warning("%s has %d connections, and gets no more", whose, self._each)
        return False

    def leaves(self, host: str) -> None:
        whose = _whose(host)
        self._counts[whose] -= 1
        if self._counts[whose] < self._each:
            self._told.discard(whose)
        if not self._counts[whose]:
            del self._counts[whose]


def _whose(host: str) -> str:
    """What an address counts as: itself, the IPv4 address that it stands for, or the network of an IPv6 one."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address) or address.is_loopback:
        return host
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))
