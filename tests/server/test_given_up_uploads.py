"""Uploads that nobody waits for any more: the thread that unpacks one ends before anything else goes on."""

from __future__ import annotations

import asyncio
import io
import threading
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from starlette.datastructures import UploadFile
from tests.server.running import settings
from tests.timing import TIMEOUT_S

from hoptree.server import jobs as staging
from hoptree.server.app import ServerState, open_state

pytestmark = pytest.mark.usefixtures("forked_workers")


class _Held(io.BytesIO):
    """A file that is read when the test lets it."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.reached, self.let = threading.Event(), threading.Event()

    def read(self, size: int | None = -1) -> bytes:
        self.reached.set()
        assert self.let.wait(TIMEOUT_S)
        return super().read(size)


def _left(state: ServerState) -> list[Path]:
    folder = state.settings.corpora_folder
    assert folder is not None
    return list((folder / ".incoming").iterdir())


def test_an_upload_that_is_given_up_keeps_its_place_until_its_thread_has_ended(tmp_path: Path) -> None:
    async def given_up() -> None:
        state = open_state(settings(tmp_path, corpora_folder=tmp_path / "own"))
        held = _Held(b"Ada keeps bees.")
        files = [UploadFile(held, filename="a.txt"), UploadFile(io.BytesIO(b"x"), filename="sub/b.txt")]
        task = asyncio.create_task(state.corpus_service.create("mine", files))
        assert await asyncio.to_thread(held.reached.wait, TIMEOUT_S)
        for _ in range(2):  # the guard's patience is over, then the server stops
            task.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not task.done() and _left(state), "the thread is still at it"
        held.let.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not _left(state)
        assert not (tmp_path / "own" / "mine").exists()
        job = await state.corpus_service.create("mine", [UploadFile(io.BytesIO(b"Ada."), filename="a.txt")])
        assert job.corpus == "mine"
        await state.aclose()

    asyncio.run(given_up())


def test_documents_that_are_in_place_when_nobody_waits_any_more_are_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, let = threading.Event(), threading.Event()

    async def given_up() -> None:
        state = open_state(settings(tmp_path, corpora_folder=tmp_path / "own"))
        await state.corpus_service.create("mine", [UploadFile(io.BytesIO(b"Ada keeps bees."), filename="a.txt")])
        while state.jobs.running():
            await asyncio.sleep(0.01)

        place = staging.place

        def held(*given: object) -> object:
            placed = place(*given)  # type: ignore[arg-type]
            reached.set()
            assert let.wait(TIMEOUT_S)
            return placed

        monkeypatch.setattr(staging, "place", held)
        files = [UploadFile(io.BytesIO(b"New."), filename=name) for name in ("a.txt", "b.txt")]
        task = asyncio.create_task(state.corpus_service.add("mine", files))
        assert await asyncio.to_thread(reached.wait, TIMEOUT_S)
        task.cancel()
        await asyncio.sleep(0)
        let.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        await state.aclose()

    asyncio.run(given_up())
    corpus = tmp_path / "own" / "mine"
    assert {path.name: path.read_bytes() for path in (corpus / "documents").iterdir()} == {"a.txt": b"Ada keeps bees."}
    assert not (corpus / "pending").exists() and not (corpus / "replaced").exists()
