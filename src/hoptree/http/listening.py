"""Who reaches a server of ours: the address it listens on, whether that is this machine's own, and keys."""

from __future__ import annotations

import ipaddress
import socket

from hoptree.errors import ConfigError

__all__ = ["bearer_key", "is_loopback", "listen"]

_WAITING = 1_024
"""Connections that wait to be accepted."""


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int, *, remedy: str = "Choose another --port or --host.") -> socket.socket:
    """A socket that listens on an address; 0 is a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host.strip("[]"), port))
        listening.listen(_WAITING)
    except (OSError, UnicodeError) as error:
        listening.close()
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"The server cannot listen on {host}, port {port}: {why}.", remedy) from error
    return listening


def bearer_key(header: str) -> str:
    """The key in the value of an Authorization header; empty where there is none."""
    scheme, _, secret = header.partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""
