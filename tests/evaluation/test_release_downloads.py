"""Releases fetched over HTTP: cut off and continued, changed meanwhile, wrong, or not there."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.dataset_rows import MUSIQUE
from tests.evaluation.release_files import Hub, hub, jsonl, made

from hoptree.core.errors import HoptreeError, InputError
from hoptree.evaluation.datasets.fetch import Order, get, remotes_of
from hoptree.evaluation.datasets.releases import Remote, find_set


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


MANY = jsonl(*({**MUSIQUE, "id": f"2hop__{number}"} for number in range(50)))


def test_a_download_that_is_cut_off_goes_on(tmp_path: Path) -> None:
    with hub({"/m.jsonl": MANY}) as address:
        Hub.cut = 5_000
        for kept in (5_000, 10_000):
            with pytest.raises(HoptreeError, match=rf"could not be fetched: .* broke off .*{kept:,} bytes") as cut_off:
                made(tmp_path, "musique", url=f"{address}/m.jsonl")
            assert cut_off.value.exit_code == 1  # the same command may work later
        Hub.cut = 0
        got = made(tmp_path, "musique", url=f"{address}/m.jsonl", sha256=hashlib.sha256(MANY).hexdigest())
        assert [start for _, start in Hub.asked] == [None, "bytes=5000-", "bytes=10000-"]
        assert got.questions == 50
        assert [path.name for path in (tmp_path / "musique" / ".downloads").glob("*/*")] == ["m.jsonl"]
        wanted: dict[str, Any] = {"sha256": hashlib.sha256(MANY).hexdigest(), "replace": True}
        made(tmp_path, "musique", url=f"{address}/m.jsonl", **wanted)
        assert len(Hub.asked) == 3  # it is there, and the one that is wanted
        with pytest.raises(InputError, match=r"HTTP 404.*Give another address with --url"):
            made(tmp_path, "musique", url=f"{address}/gone.jsonl", replace=True)
        Hub.asked.pop()
        Hub.files = {"/m.jsonl": jsonl(MUSIQUE)}
        assert made(tmp_path, "musique", url=f"{address}/m.jsonl", replace=True).questions == 1
        assert Hub.asked[3:] == [("/m.jsonl", None)]
        with pytest.raises(InputError, match=r"The SHA-256 of m\.jsonl is "):
            made(tmp_path, "musique", url=f"{address}/m.jsonl", **wanted)
        assert len(Hub.asked) == 5 and (tmp_path / "musique" / "dev.jsonl").exists()


def test_what_was_kept_from_one_address_is_not_taken_for_that_of_another(tmp_path: Path) -> None:
    with hub({"/a/m.jsonl": MANY, "/b/m.jsonl": jsonl(MUSIQUE)}) as address:
        for place, questions in (("a", 50), ("b", 1), ("a", 50)):
            assert made(tmp_path, "musique", url=f"{address}/{place}/m.jsonl").questions == questions
            for file in ("dev.jsonl", "corpus.jsonl.gz"):
                (tmp_path / "musique" / file).unlink()
        assert [path for path, _ in Hub.asked] == ["/a/m.jsonl", "/b/m.jsonl"], "what is kept is not fetched again"


def test_a_file_that_changed_meanwhile_is_fetched_anew(tmp_path: Path) -> None:
    with hub({"/m.jsonl": MANY}) as address:
        Hub.cut = 5_000
        with pytest.raises(HoptreeError):
            made(tmp_path, "musique", url=f"{address}/m.jsonl")
        Hub.cut, Hub.tag, Hub.files = 0, '"two"', {"/m.jsonl": jsonl(MUSIQUE)}
        assert made(tmp_path, "musique", url=f"{address}/m.jsonl").questions == 1


def test_a_download_with_another_digest_is_deleted(tmp_path: Path) -> None:
    with hub({"/m.jsonl": MANY}) as address:
        with pytest.raises(InputError, match=r"The SHA-256 of m.jsonl is .*, not 0000"):
            made(tmp_path, "musique", url=f"{address}/m.jsonl", sha256="0" * 64)
        assert not list((tmp_path / "musique" / ".downloads").glob("*/*"))
        assert not (tmp_path / "musique" / "dev.jsonl").exists()


def test_another_address_must_give_the_known_digest_unless_told_otherwise(tmp_path: Path) -> None:
    name = "musique_ans_v1.0_dev.jsonl"
    (known,) = find_set("musique").release("dev").remotes
    digest = hashlib.sha256(MANY).hexdigest()
    with hub({f"/{name}": MANY, "/m.jsonl": MANY}) as address:
        with pytest.raises(InputError, match=f"is {digest}, not {known.sha256}.* give --sha256 {digest}"):
            made(tmp_path, "musique", url=f"{address}/{name}")
        assert not (tmp_path / "musique" / "dev.jsonl").exists()
        got = made(tmp_path, "musique", url=f"{address}/{name}", sha256=digest)
        assert f"{name} is not the known release, SHA-256 {known.sha256}." in got.notes
        got = made(tmp_path, "musique", url=f"{address}/m.jsonl", replace=True)
        assert "Hoptree knows no digest of m.jsonl, and checked none: give --sha256." in got.notes


def test_an_address_stands_in_for_the_file_of_its_name() -> None:
    release = find_set("hotpotqa").release("dev")
    first, second = release.remotes[0], Remote("b.zip", "http://a/b.zip", 7, "1" * 64)
    both = replace(release, remotes=(first, second))
    assert remotes_of(both, Order(url="http://c/b.zip")) == (first, replace(second, url="http://c/b.zip"))
    other = Order(url="http://c/b.zip", sha256="A" * 64)
    assert remotes_of(both, other) == (first, Remote("b.zip", "http://c/b.zip", 0, "a" * 64))
    assert remotes_of(both, Order(url="http://c/x")) == (Remote("x", "http://c/x"), second)
    assert remotes_of(both, Order()) == both.remotes


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
