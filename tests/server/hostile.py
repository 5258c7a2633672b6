"""What is sent by those who mean harm: archives that lie, requests in pieces, replies that nobody reads."""

from __future__ import annotations

import io
import socket
import zipfile
from pathlib import Path

from tests.server.running import Running
from tests.timing import TIMEOUT_S

_MANY = 200


def corpora(server: Running) -> Path:
    folder = server.state.settings.corpora_folder
    assert folder is not None
    folder.mkdir(exist_ok=True)
    return folder


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def link() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        entry = zipfile.ZipInfo("a.txt")
        entry.create_system, entry.external_attr = 3, 0o120777 << 16
        archive.writestr(entry, "/etc/passwd")
    return buffer.getvalue()


def lying(content: bytes) -> bytes:
    """An archive whose directory says that its file is small."""
    packed = bytearray(zipped({"a.txt": content}))
    place = packed.rindex(b"PK\x01\x02")
    packed[place + 24 : place + 28] = (10).to_bytes(4, "little")
    return bytes(packed)


def locked() -> bytes:
    packed = bytearray(zipped({"a.txt": b"Text."}))
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        packed[packed.rindex(mark) + offset] |= 1
    return bytes(packed)


def head(server: Running, path: str, header: str, *, method: str = "POST") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n{header}\r\n\r\n".encode()


def deaf(server: Running, asked: bytes) -> socket.socket:
    """A client that asks for more than it has room for, and has read nothing of it."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.connect(("127.0.0.1", server.port))
    raw.sendall(asked * _MANY)
    return raw


def drip(raw: socket.socket, text: bytes) -> bytes:
    """Send a byte every now and then, until the other side hangs up."""
    raw.settimeout(0.1)
    for byte in text:
        try:
            raw.sendall(bytes([byte]))
            if not (received := raw.recv(65536)):
                return b""
            return received
        except TimeoutError:
            continue
        except OSError:
            return b""
    return b"it took all of it"


def until(raw: socket.socket, end: bytes) -> bytes:
    received = b""
    while end not in received:
        part = raw.recv(65536)
        assert part, "the other side hung up"
        received += part
    return received


def all_of(raw: socket.socket) -> bytes:
    """What comes until the other side hangs up."""
    raw.settimeout(TIMEOUT_S)
    received = b""
    try:
        while part := raw.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    return received
