"""Computed states of fixed prompt beginnings, kept on disk for the next process."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hoptree.core.files import cache_dir
from hoptree.models.model import Message, Request

MAX_FOLDER_BYTES = 512 * 2**20
_MIN_OPENING_CHARS = 80
"""Shorter beginnings are read again as quickly as a file."""
_TIMEOUT_S = 600.0
"""A state is saved and restored between the batches of other calls, which may be long ones."""
_SUFFIX, _PART_SUFFIX = ".state", ".part"
_DIGEST_BYTES = hashlib.sha256().digest_size


def states_folder() -> Path:
    return cache_dir() / "states"


@dataclass(frozen=True, slots=True)
class Opening:
    """The beginning of a prompt that its template fixes, and the key of its state."""

    messages: tuple[Message, ...]
    key: str


def find_opening(request: Request, identity: str) -> Opening | None:
    """Return the opening of a request; None where it is too short to be worth a file.

    `identity` names all that a state depends on beside the text: weights, context and build of the library.
    """
    if sum(len(message.content) for message in request.opening) < _MIN_OPENING_CHARS:
        return None
    parts = [identity, *(f"{message.role}\n{message.content}" for message in request.opening)]
    return Opening(request.opening, hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest())


class PromptStates:
    """State files of one llama.cpp server, each followed by the SHA-256 of its key and content.

    llama.cpp reads and writes them in `folder`, and trusts what it reads: a file is checked before. What cannot be
    read or written is done without.
    """

    def __init__(self, folder: Path, api_key: str, *, max_bytes: int = MAX_FOLDER_BYTES) -> None:
        self._folder, self._api_key, self._max_bytes = folder, api_key, max_bytes

    def has(self, key: str) -> bool:
        """Return whether there is a file for a state, sound or not."""
        return (self._folder / (key + _SUFFIX)).is_file()

    def restore(self, server: Any, slot: int, key: str) -> bool:
        """Load a state into a slot; False where there is no file for it, or a damaged or foreign one."""
        path = self._folder / (key + _SUFFIX)
        try:
            content = path.read_bytes()
            if _checksum(key, content[:-_DIGEST_BYTES]) != content[-_DIGEST_BYTES:]:
                return False
            os.utime(path)  # the oldest are deleted first
        except OSError:
            return False
        return self._act(server, slot, "restore", path.name)

    def save(self, server: Any, slot: int, key: str) -> None:
        """Write the state of a slot in one step, then delete the oldest files beyond the limit."""
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            part = self._folder / f"{key}-{secrets.token_hex(4)}{_PART_SUFFIX}"
            try:
                if self._act(server, slot, "save", part.name):
                    with part.open("r+b") as file:
                        file.write(_checksum(key, file.read()))
                        file.flush()
                        os.fsync(file.fileno())
                    part.replace(self._folder / (key + _SUFFIX))
            finally:
                part.unlink(missing_ok=True)
            self._evict()

    def _evict(self) -> None:
        """Delete the oldest files beyond the limit, and with them what killed processes left."""
        files = [path for path in self._folder.iterdir() if path.suffix in (_SUFFIX, _PART_SUFFIX)]
        total = 0
        for path, stat in sorted(((path, path.stat()) for path in files), key=lambda entry: -entry[1].st_mtime):
            total += stat.st_size
            if total > self._max_bytes:
                path.unlink(missing_ok=True)

    def _act(self, server: Any, slot: int, action: str, name: str) -> bool:
        """Have the server save or restore a slot, which it offers on its local port alone."""
        connection = http.client.HTTPConnection(urlsplit(server.listening_address).netloc, timeout=_TIMEOUT_S)
        headers = {"Authorization": f"Bearer {self._api_key}", "Content-Type": "application/json"}
        try:
            connection.request("POST", f"/slots/{slot}?action={action}", json.dumps({"filename": name}), headers)
            response = connection.getresponse()
            response.read()
            return response.status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def _checksum(key: str, content: bytes) -> bytes:
    return hashlib.sha256(key.encode() + content).digest()
