"""The live Wikipedia as a corpus, against a local server that answers in the form of MediaWiki's API."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.retrieval.wiki_server import Answer, Wiki, serving

from hoptree.core.errors import ConfigError, EndpointError, HoptreeError, RateLimited, UnusableReply
from hoptree.core.http_client import Unreachable
from hoptree.core.public_http import HttpCache
from hoptree.core.values import Passage
from hoptree.retrieval.remote.wikipedia import Wikipedia, passages_of
from hoptree.retrieval.remote.wikipedia_api import (
    Page,
    WikiApi,
    can_be_title,
    read_hits,
    read_page,
    read_site,
    wiki_url,
)
from hoptree.retrieval.retriever import is_remote, open_retriever

APOLLO = """Apollo 14 was the eighth crewed mission of the Apollo program and the third to land on the Moon.


== Crew ==
Alan Shepard was the commander.


=== Backup ===
Eugene Cernan was the commander of the backup crew.


== Landing ==
Apollo 14 landed in the Fra Mauro highlands on February 5, 1971."""


@pytest.fixture
def wiki(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wiki]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    pages = {
        "Apollo 14": APOLLO,
        "Richard Nixon": "Richard Nixon was the 37th president of the United States, from 1969 to 1974.",
        "Nixon": "Nixon may refer to:\nRichard Nixon, president\nCynthia Nixon, actress",
        "Fahrrad/Test": "A page with a slash about bicycles.",
        "東京": "東京は日本の首都である。人口は一千万人を超える。",
    }
    with serving(Wiki(pages, {"Tricky Dick": "Richard Nixon"}, {"Nixon"})) as running:
        yield running


def opened(wiki: Wiki, *, cache: Path | None = None, patience: float = 0.0) -> Wikipedia:
    remembered = HttpCache(cache) if cache else None
    api = WikiApi(wiki.url, contact="me@example.org", cache=remembered, a_second=1000, patience=patience)
    return Wikipedia(api)


def found(
    wiki: Wiki,
    query: str,
    k: int = 5,
    where: Mapping[str, str] | None = None,
    *,
    cache: Path | None = None,
    patience: float = 0.0,
) -> tuple[Passage, ...]:
    async def whole() -> tuple[Passage, ...]:
        retriever = opened(wiki, cache=cache, patience=patience)
        try:
            await retriever.check()
            return await retriever.search(query, k=k, where=where)
        finally:
            await retriever.aclose()

    return asyncio.run(whole())


def test_a_search_gives_the_best_passages_of_the_pages_found(wiki: Wiki) -> None:
    first, *others = found(wiki, "Who was the commander of Apollo 14?")
    assert (first.id, first.title, first.text) == ("Apollo 14_1_0", "Apollo 14", "Alan Shepard was the commander.")
    assert first.metadata_by_name() == {
        "revision": "100",
        "section": "Crew",
        "url": "https://en.wikipedia.org/wiki/Apollo_14",
    }
    assert first.document == "Apollo 14" and APOLLO[first.start : first.end] == first.text
    assert first.score > others[0].score and first.stages == (("bm25", first.score),)
    assert {passage.id for passage in others} >= {"Apollo 14_0_0", "Apollo 14_2_0"}
    assert wiki.queries() == ["was the commander of Apollo 14", "commander OR Apollo OR 14"]
    assert all(agent.startswith("Hoptree/") and "(me@example.org)" in agent for agent in wiki.agents)


def test_sections_are_numbered_as_headings_come(wiki: Wiki) -> None:
    passages = list(passages_of(Page("Apollo 14", APOLLO, 7)))
    assert [(one.id, dict(one.metadata).get("section", "")) for one in passages] == [
        ("Apollo 14_0_0", ""),
        ("Apollo 14_1_0", "Crew"),
        ("Apollo 14_2_0", "Crew › Backup"),
        ("Apollo 14_3_0", "Landing"),
    ]
    assert not any("==" in one.text for one in passages)


def test_long_sections_are_cut_and_empty_ones_still_count() -> None:
    text = f"Short.\n\n\n== Empty ==\n\n\n== Long ==\n{'One sentence of five words. ' * 2_000}"
    passages = list(passages_of(Page("A_B", text, 1)))
    assert [one.id for one in passages[:3]] == ["A_B_0_0", "A_B_2_0", "A_B_2_1"] and len(passages) > 40
    assert all(len(one.text.split()) <= 225 for one in passages)


def test_the_page_of_a_title(wiki: Wiki) -> None:
    (best,) = found(wiki, "On which day did they land?", 1, {"title": "Apollo 14"})
    assert best.id == "Apollo 14_3_0" and wiki.titles() == ["Apollo 14"] and not wiki.queries()
    # That the page is about the query was known before: passages that share no word with it come last, in order.
    every = found(wiki, "backup", 9, {"title": "Apollo 14"})
    assert [one.id for one in every] == ["Apollo 14_2_0", "Apollo 14_0_0", "Apollo 14_1_0", "Apollo 14_3_0"]
    assert [one.score > 0 for one in every] == [True, False, False, False]


@pytest.mark.parametrize("named", ["Tricky Dick", "richard_Nixon"])
def test_a_redirect_is_followed_to_a_page_that_has_one_title(wiki: Wiki, named: str) -> None:
    (one,) = found(wiki, "president", where={"title": named})
    assert (one.id, one.title, one.document) == ("Richard Nixon_0_0", "Richard Nixon", "Richard Nixon")
    assert found(wiki, "president", where={"title": named, "section": "Life"}) == ()


def test_a_list_of_meanings_is_no_text(wiki: Wiki) -> None:
    assert found(wiki, "president", where={"title": "Nixon"}) == ()
    assert {one.title for one in found(wiki, "Nixon president")} == {"Richard Nixon"}
    assert "Nixon" not in wiki.titles()[1:]


@pytest.mark.parametrize(
    "title", ["No such page", "A|B", "C#", "{{Template}}", "De:Mond", "Category:Moon", "", " _ ", "x" * 300, "\ud800"]
)
def test_what_is_no_page_gives_no_passages(wiki: Wiki, title: str) -> None:
    assert found(wiki, "anything", where={"title": title}) == ()


@pytest.mark.parametrize("title", ["Fahrrad/Test", "東京"])
def test_unusual_titles(wiki: Wiki, title: str) -> None:
    (one,) = found(wiki, "日本の首都 bicycles", where={"title": title})
    assert one.id == f"{title}_0_0" and one.title == title and one.score > 0


def test_other_filters_hold(wiki: Wiki) -> None:
    assert [one.id for one in found(wiki, "commander", where={"section": "Crew"})] == ["Apollo 14_1_0"]
    assert found(wiki, "commander", where={"title": "Apollo 14", "revision": "99"}) == ()
    assert [one.id for one in found(wiki, "commander", 1, {"document": "Apollo 14"})] == ["Apollo 14_1_0"]


def test_nothing_found_and_nothing_asked(wiki: Wiki) -> None:
    assert found(wiki, "zzz qqq") == () and wiki.queries() == ["zzz qqq", "zzz OR qqq"]
    assert found(wiki, "  ") == () and found(wiki, "?!?") == () and found(wiki, "commander", 0) == ()
    assert len(wiki.queries()) == 2


def test_what_its_search_would_obey_is_taken_out(wiki: Wiki) -> None:
    found(wiki, '-intitle:moon "exact phrase" NOT insource:/re.*/ ~far AND O\'Brien U.S. ' + "word " * 5 + "x" * 400)
    assert wiki.queries()[0] == "intitle moon exact phrase not insource re far and O'Brien U.S word"


def test_a_page_is_asked_for_once(wiki: Wiki, tmp_path: Path) -> None:
    async def twice() -> None:
        retriever = opened(wiki)
        await asyncio.gather(*(retriever.search(word, k=1, where={"title": "Apollo 14"}) for word in "abc"))
        await retriever.search("Apollo commander", k=1)
        await retriever.search("president", k=1, where={"title": "Tricky Dick"})
        await retriever.search("president", k=1, where={"title": "Richard Nixon"})
        await retriever.aclose()

    asyncio.run(twice())
    assert wiki.titles() == ["Apollo 14", "Tricky Dick"]
    for _ in range(2):
        found(wiki, "Apollo commander", cache=tmp_path / "pages.sqlite")
    assert wiki.titles() == ["Apollo 14", "Tricky Dick", "Apollo 14"]


def test_a_page_that_changed_is_asked_for_again(wiki: Wiki, tmp_path: Path) -> None:
    cache = tmp_path / "pages.sqlite"
    assert found(wiki, "Apollo commander", 1, cache=cache)[0].metadata_by_name()["revision"] == "100"
    wiki.pages["Apollo 14"], wiki.revisions["Apollo 14"] = "Apollo 14 had a new commander.", 101
    (new,) = found(wiki, "Apollo commander", 1, cache=cache)
    assert new.text == "Apollo 14 had a new commander." and new.metadata_by_name()["revision"] == "101"
    (kept,) = found(wiki, "commander", 1, {"title": "Apollo 14"}, cache=cache)
    assert kept.text == new.text and wiki.titles() == ["Apollo 14", "Apollo 14"]


def test_a_cache_that_cannot_be_used_is_done_without(wiki: Wiki, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOPTREE_CACHE", "/proc/nowhere/replies.sqlite")

    async def whole() -> tuple[Passage, ...]:
        retriever = open_retriever(wiki.corpus)
        try:
            return await retriever.search("Apollo commander", k=1)
        finally:
            await retriever.aclose()

    assert asyncio.run(whole())[0].id == "Apollo 14_1_0"


def told(error: HoptreeError) -> tuple[type[HoptreeError], int, bool]:
    return type(error), error.exit_code, bool(getattr(error, "retryable", False))


JSON = {"Content-Type": "application/json"}


def failure(code: str, info: str = "…") -> bytes:
    return json.dumps({"error": {"code": code, "info": info, "docref": "See …"}, "servedby": "mw1"}).encode()


@pytest.mark.parametrize(
    ("answer", "error", "exit_code", "words"),
    [
        ((200, {}, b"<!DOCTYPE html><html>"), UnusableReply, 1, "a web page instead of JSON"),
        ((200, JSON, b'{"query": {"pa'), UnusableReply, 1, "half a JSON object"),
        ((200, JSON, b"[]"), UnusableReply, 1, "does not answer like the API of a MediaWiki"),
        ((200, JSON, b'{"query": {"pages": {"1": {}}}}'), UnusableReply, 1, "does not answer like the API"),
        ((200, JSON, b'{"query": {"pages": [7]}}'), UnusableReply, 1, "does not answer like the API"),
        ((200, JSON, failure("maxlag")), EndpointError, 1, "is busy (maxlag"),
        ((200, JSON, failure("internal_api_error_DBQueryError")), EndpointError, 1, "is busy"),
        ((200, JSON, failure("ratelimited")), RateLimited, 1, "fewer requests"),
        ((200, JSON, failure("readapidenied")), EndpointError, 2, "only for its members"),
        ((200, JSON, failure("badvalue", "Unrecognized value")), EndpointError, 2, "refused the request (badvalue"),
        ((429, {"Retry-After": "3000"}, b""), RateLimited, 1, "HTTP 429"),
        ((503, {}, b""), EndpointError, 1, "HTTP 503"),
        ((403, {}, b"Please set a user-agent"), EndpointError, 2, "HOPTREE_CONTACT"),
        (
            (301, {"Location": "https://w.org/w/api.php?a=b"}, b""),
            EndpointError,
            2,
            "moved to https://w.org/w/api.php.",
        ),
        ((404, {}, b""), EndpointError, 2, "HTTP 404"),
        ((200, JSON, b" " * (17 * 2**20)), UnusableReply, 1, "without end"),
    ],
)
def test_what_goes_wrong_is_said(
    wiki: Wiki, answer: Answer, error: type[HoptreeError], exit_code: int, words: str
) -> None:
    wiki.before = lambda request: answer if "titles" in request or "generator" in request else None
    for where in (None, {"title": "Apollo 14"}):
        with pytest.raises(error) as raised:
            found(wiki, "commander", where=where)
        assert told(raised.value) == (error, exit_code, False) and words in str(raised.value)


def test_a_busy_wiki_is_waited_for_as_it_asks(wiki: Wiki) -> None:
    refusals = [(429, {"Retry-After": "0"}, b""), (200, {"Retry-After": "0.01"}, failure("maxlag"))]
    wiki.before = lambda request: refusals.pop() if refusals and "titles" in request else None
    assert len(found(wiki, "commander", 1, {"title": "Apollo 14"}, patience=5)) == 1
    assert wiki.titles() == ["Apollo 14"] * 3


def test_a_page_without_text_is_not_remembered(wiki: Wiki, tmp_path: Path) -> None:
    bare = json.dumps({"query": {"pages": [{"ns": 0, "title": "Apollo 14", "lastrevid": 100}]}}).encode()
    wiki.before = lambda request: (200, JSON, bare) if "titles" in request else None
    with pytest.raises(UnusableReply, match="gave no text of 'Apollo 14'"):
        found(wiki, "commander", where={"title": "Apollo 14"}, cache=tmp_path / "pages.sqlite")
    wiki.before = lambda request: None
    assert found(wiki, "commander", where={"title": "Apollo 14"}, cache=tmp_path / "pages.sqlite")


def test_a_wiki_that_cannot_be_read_is_told_when_it_is_opened(wiki: Wiki) -> None:
    wiki.extensions = ("Cite",)
    with pytest.raises(ConfigError, match=r"cannot give the plain text of its pages.*TextExtracts"):
        open_retriever(wiki.corpus, cached=False)
    with pytest.raises(EndpointError, match="has no such page"):
        open_retriever(wiki.corpus.replace("/w/", "/v/"), cached=False)
    with pytest.raises(ConfigError, match="'linked' needs an index folder"):
        open_retriever(wiki.corpus, "linked")


def test_a_wiki_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(seconds: float) -> None:
        return None

    monkeypatch.setattr("hoptree.core.public_http.asyncio.sleep", at_once)
    with pytest.raises(EndpointError, match="cannot be reached") as raised:
        open_retriever("mediawiki+http://127.0.0.1:9/w/api.php", cached=False)
    assert raised.value.exit_code == 1


def test_without_a_network_wikipedia_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(seconds: float) -> None:
        return None

    async def nowhere(*args: object) -> None:
        raise Unreachable("Name or service not known")

    monkeypatch.setattr("hoptree.core.public_http.asyncio.sleep", at_once)
    monkeypatch.setattr("hoptree.core.http_client.ConnectionPool.send", nowhere)
    with pytest.raises(EndpointError, match=r"en\.wikipedia\.org.* cannot be reached") as raised:
        open_retriever("wikipedia", cached=False)
    assert raised.value.exit_code == 1 and "Is there a network?" in raised.value.remedy
    assert "Start the server" not in str(raised.value)


def test_the_language_of_the_wiki_decides_how_words_are_compared(wiki: Wiki) -> None:
    wiki.pages = {"Rad": "Ein Fahrrad.", "Räder": "Viele Fahrräder und Häuser."}
    wiki.language = "de"
    (one,) = found(wiki, "Häusern", where={"title": "Räder"})
    assert one.score > 0


def test_names_of_wikis() -> None:
    assert wiki_url("wikipedia") == wiki_url("wikipedia:en") == "https://en.wikipedia.org/w/api.php"
    assert wiki_url("wikipedia:zh-min-nan") == "https://zh-min-nan.wikipedia.org/w/api.php"
    assert wiki_url("mediawiki+https://w.org/api.php") == "https://w.org/api.php"
    assert all(map(is_remote, ("wikipedia", "wikipedia:de", "mediawiki+http://h/api.php")))
    assert not any(map(is_remote, ("./wikipedia", "wikipedia.idx", "wiki")))
    for bad in ("wikipedia:", "wikipedia:evil.org/", "wikipedia:DE", "mediawiki+", "mediawiki+https://w.org/wiki/Moon"):
        with pytest.raises(ConfigError, match="Write wikipedia, wikipedia:de"):
            wiki_url(bad)


def test_an_index_of_that_name_is_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wikipedia").mkdir()
    monkeypatch.chdir(tmp_path)
    assert wiki_url("wikipedia").startswith("https://en.")
    (tmp_path / "wikipedia" / "hoptree-index.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"Write \./wikipedia for the index"):
        wiki_url("wikipedia")


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["query", "pages", "title", "ns", "extract", "general", "extensions", "index", "pageprops"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JUNK)
def test_no_reply_breaks_the_reading(data: object) -> None:
    for read in (
        lambda: read_page(data, "T", "wiki"),
        lambda: read_hits(data, "wiki"),
        lambda: read_site(data, "wiki"),
    ):
        with contextlib.suppress(HoptreeError):
            read()


@given(st.text(alphabet="= \nab\t.", max_size=200))
def test_passages_are_slices_of_the_page_each_with_its_own_name(text: str) -> None:
    passages = list(passages_of(Page("T", text, 1)))
    assert all(one.text == text[one.start : one.end] for one in passages)
    assert len({one.id for one in passages}) == len(passages)


@given(st.text(max_size=300))
def test_titles_that_are_asked_for_are_one_title(name: str) -> None:
    if can_be_title(name):
        assert "|" not in name and "#" not in name and name.encode()
