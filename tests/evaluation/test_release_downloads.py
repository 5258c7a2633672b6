"""Releases fetched over HTTP: cut off and continued, changed meanwhile, wrong, or not there."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from tests.evaluation.dataset_rows import MUSIQUE
from tests.evaluation.release_files import Hub, hub, jsonl, made

from hoptree.core.errors import InputError
from hoptree.evaluation.datasets.fetch import Order, get
from hoptree.evaluation.datasets.releases import Remote, find_set


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


MANY = jsonl(*({**MUSIQUE, "id": f"2hop__{number}"} for number in range(50)))


def test_a_download_that_is_cut_off_goes_on(tmp_path: Path) -> None:
    with hub({"/m.jsonl": MANY}) as address:
        Hub.cut = 5_000
        for kept in (5_000, 10_000):
            with pytest.raises(
                InputError, match=rf"m.jsonl could not be fetched: .* broke off .*{kept:,} bytes are kept"
            ):
                made(tmp_path, "musique", url=f"{address}/m.jsonl")
        Hub.cut = 0
        got = made(tmp_path, "musique", url=f"{address}/m.jsonl", sha256=hashlib.sha256(MANY).hexdigest())
        assert [start for _, start in Hub.asked] == [None, "bytes=5000-", "bytes=10000-"]
        assert got.questions == 50
        assert [path.name for path in (tmp_path / "musique" / ".downloads").iterdir()] == ["m.jsonl"]
        made(tmp_path, "musique", url=f"{address}/m.jsonl", replace=True)
        assert len(Hub.asked) == 3  # it is there


def test_a_file_that_changed_meanwhile_is_fetched_anew(tmp_path: Path) -> None:
    with hub({"/m.jsonl": MANY}) as address:
        Hub.cut = 5_000
        with pytest.raises(InputError):
            made(tmp_path, "musique", url=f"{address}/m.jsonl")
        Hub.cut, Hub.tag, Hub.files = 0, '"two"', {"/m.jsonl": jsonl(MUSIQUE)}
        assert made(tmp_path, "musique", url=f"{address}/m.jsonl").questions == 1


def test_a_download_with_another_digest_is_deleted(tmp_path: Path) -> None:
    with hub({"/m.jsonl": MANY}) as address:
        with pytest.raises(InputError, match=r"The SHA-256 of m.jsonl is .*, not 0000"):
            made(tmp_path, "musique", url=f"{address}/m.jsonl", sha256="0" * 64)
        assert not list((tmp_path / "musique" / ".downloads").iterdir())
        assert not (tmp_path / "musique" / "dev.jsonl").exists()


def test_what_cannot_be_fetched_is_told(tmp_path: Path) -> None:
    with hub({"/page": b"<!DOCTYPE html><html>Sign in</html>", "/short": b"[]"}) as address:
        with pytest.raises(
            InputError, match=r"HTTP 404.* or download it by hand \(https://github.com/StonyBrookNLP/musique\)"
        ):
            made(tmp_path, "musique", url=f"{address}/none")
        with pytest.raises(InputError, match=r"127.0.0.1 sent a web page in the place of page"):
            made(tmp_path, "musique", url=f"{address}/page")
        public = find_set("musique")
        other = replace(public.release("dev"), remotes=(Remote("m.jsonl", f"{address}/short", 7),))
        with pytest.raises(InputError, match=r"m.jsonl has 2 bytes, not 7"):
            get(public, other, tmp_path, Order(), lambda stage, done, total: None)
    with pytest.raises(InputError, match=r"has no public address.* Give it with --from"):
        made(tmp_path, "popqa", "dev_longtail")
