"""The cache of calls: what is paid for once is remembered, and one that cannot be used is given up."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from tests.engine.calling import REQUEST, asking, full, one_after_another, say
from tests.timing import TIMEOUT_S

from hoptree.core.errors import CacheError, EndpointError
from hoptree.core.values import Attended, Token
from hoptree.engine.cache import REPLY, Cache
from hoptree.engine.calls import AdaptiveLimit, Call, Calls, call_key, digest, open_calls
from hoptree.models.model import Choice, Message, Reply, Request, TokenUsage
from hoptree.models.scripted import Rule, ScriptedModel


def test_the_second_call_is_answered_by_the_cache(tmp_path: Path) -> None:
    model = ScriptedModel(rules=[Rule("Paris")])

    async def run() -> list[Call[Reply]]:
        cache = Cache(tmp_path / "replies.sqlite")
        calls = Calls(cache)
        replies = [await say(calls, model), await say(calls, model)]
        cache.close()
        return replies

    first, second = asyncio.run(run())
    assert (first.cached, second.cached) == (False, True)
    assert second.reply == first.reply
    assert second.seconds == pytest.approx(first.seconds, abs=1e-4)
    assert len(model.requests) == 1


def test_a_new_process_finds_the_replies_of_the_one_before(tmp_path: Path) -> None:
    model = ScriptedModel(rules=[Rule("<think>Hm.</think>Paris", logprob=-0.25)])
    request = replace(REQUEST, top_logprobs=1, n=2)

    async def run() -> Call[Reply]:
        cache = Cache(tmp_path / "deep" / "replies.sqlite")
        call = await say(Calls(cache), model, request)
        cache.close()
        return call

    first, second = asyncio.run(run()), asyncio.run(run())
    assert second.cached
    assert second.reply == first.reply
    assert len(second.reply.choices) == 2
    assert len(model.requests) == 1


def test_a_reply_survives_the_cache_unchanged(tmp_path: Path) -> None:
    token = Token("Łódź", -0.5, (("Kraków", -1.5), ("\0", -2.0)))
    inside = Choice("x", tokens=(replace(token, entropy=0.5), replace(token, attention=0.0)), hidden=(0.5, -2.0))
    inside = replace(inside, attended=Attended("é x", ((0, 1), (2, 3)), ((0.25,), ())))
    reply = Reply((Choice("a\u2028b", "thought", "length", (token,)), Choice(""), inside), TokenUsage(4, 3, 2, 1))

    async def run() -> Any:
        cache = Cache(tmp_path / "replies.sqlite")
        await cache.put(b"key", REPLY, reply, 1.23456)
        cached = await cache.get(b"key", REPLY), await cache.get(b"other", REPLY)
        cache.close()
        return cached

    assert asyncio.run(run()) == ((reply, 1.2346), None)


@pytest.mark.parametrize(("tokens", "asked"), [((), 1), ((Token("Paris", -0.5),), 2)])
def test_a_reply_without_the_logprobs_that_were_asked_for_is_that_of_who_asks_for_none(
    tmp_path: Path, tokens: tuple[Token, ...], asked: int
) -> None:
    class Endpoint(ScriptedModel):
        async def generate(self, request: Request, *, step: str) -> Reply:
            reply = await super().generate(request, step=step)
            return replace(reply, choices=tuple(replace(choice, tokens=tokens) for choice in reply.choices))

    model = Endpoint(rules=[Rule("Paris")])
    first, second = one_after_another(
        Calls(Cache(tmp_path / "replies.sqlite")), model, replace(REQUEST, top_logprobs=1), REQUEST
    )
    assert first.reply.choices[0].text == second.reply.choices[0].text == "Paris" and len(model.requests) == asked


def test_without_a_cache_every_call_is_paid() -> None:
    model = ScriptedModel(rules=[Rule("Paris")])
    assert [call.cached for call in one_after_another(Calls(None), model, REQUEST, REQUEST)] == [False, False]
    assert len(model.requests) == 2


def test_a_failure_is_not_remembered(tmp_path: Path, no_backoff: None) -> None:
    model = ScriptedModel(rules=[Rule(fault="401", times=1), Rule("Paris")])

    async def run() -> Call[Reply]:
        cache = Cache(tmp_path / "replies.sqlite")
        calls = Calls(cache)
        with pytest.raises(EndpointError):
            await say(calls, model)
        call = await say(calls, model)
        cache.close()
        return call

    assert not asyncio.run(run()).cached


@pytest.mark.parametrize("name", [field.name for field in fields(Request) if field.name not in ("opening", "template")])
def test_the_key_changes_with_every_field_of_a_request(name: str) -> None:
    other: dict[str, Any] = {
        "messages": (Message("user", "Who? "),),
        "max_tokens": 65,
        "temperature": 0.1,
        "seed": 1,
        "stop": ("\n",),
        "n": 2,
        "top_logprobs": 1,
        "json_schema": "{}",
        "prefix": "The",
        "signals": frozenset({"entropy"}),
        "attention_of": ((0, 3),),
        "top_p": 0.9,
        "top_k": 50,
    }
    model = ScriptedModel(rules=[])
    assert call_key(model, replace(REQUEST, **{name: other[name]})) != call_key(model, REQUEST)


def test_the_name_of_a_prompt_counts_for_models_with_an_adapter_alone() -> None:
    named = replace(REQUEST, template="hop/trained_read@1", opening=REQUEST.messages)
    plain, adapted = ScriptedModel(rules=[]), ScriptedModel(rules=[])
    adapted.trained_on = frozenset({"hop/trained_read@1"})  # type: ignore[attr-defined]
    assert call_key(plain, named) == call_key(plain, REQUEST)
    assert call_key(adapted, named) != call_key(adapted, REQUEST)


def test_replies_that_were_remembered_before_a_field_was_added_are_still_found() -> None:
    key = call_key(ScriptedModel(rules=[]), Request((Message("user", "Who?"),)))
    assert digest(key).hex() == "b31d9f30ebef76cb96d6f99a5ff7e52f63f0334dbd60d4b7a6a60c54b57567a9"


def test_the_key_changes_with_roles_and_with_where_messages_end() -> None:
    model = ScriptedModel(rules=[])
    requests = [
        Request((Message("system", "Who?"),)),
        Request((Message("user", "ab"), Message("user", "c"))),
        Request((Message("user", "a"), Message("user", "bc"))),
        Request((Message("user", "abc"),)),
        replace(REQUEST, stop=("a", "b")),
        replace(REQUEST, stop=("ab",)),
    ]
    assert len({digest(call_key(model, request)) for request in requests}) == len(requests)


def test_the_key_changes_with_the_identity_of_the_model() -> None:
    assert call_key(ScriptedModel(rules=[Rule("a")]), REQUEST) != call_key(ScriptedModel(rules=[Rule("b")]), REQUEST)


def test_the_key_of_a_request_is_the_same_in_every_run() -> None:
    model = ScriptedModel(rules=[])
    assert call_key(model, REQUEST) == call_key(ScriptedModel(rules=[]), Request((Message("user", "Who?"),)))


def test_a_reply_is_on_disk_before_the_method_sees_it(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    model = ScriptedModel(rules=[Rule("Paris")])

    async def run() -> list[tuple[bytes, str]]:
        cache = Cache(path)
        await say(Calls(cache), model)
        beside = sqlite3.connect(path)
        rows = beside.execute("SELECT key, reply FROM replies").fetchall()
        beside.close()
        cache.close()
        return rows

    ((key, text),) = asyncio.run(run())
    assert key == digest(call_key(model, REQUEST))
    assert json.loads(text)["choices"][0][0] == "Paris"


def test_writes_that_come_together_are_committed_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []
    write = Cache._write

    def counted(cache: Cache, rows: list[tuple[bytes, str, float]]) -> None:
        batches.append(len(rows))
        write(cache, rows)

    monkeypatch.setattr(Cache, "_write", counted)

    async def run() -> int:
        cache = Cache(tmp_path / "replies.sqlite")
        model = ScriptedModel(rules=[Rule("Paris")])
        calls = Calls(cache)
        calls._limits[model.endpoint] = limit = AdaptiveLimit(100)
        limit.width = 100.0
        await asyncio.gather(*(say(calls, model, asking(str(number))) for number in range(50)))
        (stored,) = cache._db.execute("SELECT count(*) FROM replies").fetchone()
        cache.close()
        return int(stored)

    assert asyncio.run(run()) == 50
    assert sum(batches) == 50
    assert len(batches) < 25


def test_a_cache_that_cannot_be_written_is_given_up_and_the_reply_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cache, "_write", full)
    model = ScriptedModel(rules=[Rule("Paris")])

    async def run() -> tuple[Calls, list[Call[Reply]]]:
        cache = Cache(tmp_path / "replies.sqlite")
        calls = Calls(cache)
        replies = [await say(calls, model), await say(calls, model)]
        cache.close()
        return calls, replies

    calls, replies = asyncio.run(run())
    assert [(call.reply.text, call.cached) for call in replies] == [("Paris", False), ("Paris", False)]
    assert calls.cache is None
    assert calls.cache_failure is not None
    assert "disk is full" in str(calls.cache_failure)


def test_a_cache_that_cannot_be_read_is_given_up_and_the_reply_paid(tmp_path: Path) -> None:
    model = ScriptedModel(rules=[Rule("Paris")])

    async def run() -> Calls:
        cache = Cache(tmp_path / "replies.sqlite")
        calls = Calls(cache)
        cache._db.execute("DROP TABLE replies")
        assert (await say(calls, model)).reply.text == "Paris"
        cache.close()
        return calls

    assert asyncio.run(run()).cache_failure is not None


@pytest.mark.parametrize("row", ["garbage", "{}", '{"choices": [["a"]], "usage": [], "seconds": 1}', "[]", ""])
def test_a_row_that_cannot_be_understood_is_paid_for_again(tmp_path: Path, row: str) -> None:
    model = ScriptedModel(rules=[Rule("Paris")])

    async def run() -> Call[Reply]:
        cache = Cache(tmp_path / "replies.sqlite")
        cache._db.execute("INSERT INTO replies VALUES (?, ?, 0)", (digest(call_key(model, REQUEST)), row))
        call = await say(Calls(cache), model)
        cache.close()
        return call

    call = asyncio.run(run())
    assert (call.reply.text, call.cached) == ("Paris", False)


def test_a_reply_with_half_a_character_is_delivered_and_the_cache_goes_on(tmp_path: Path) -> None:
    model = ScriptedModel(rules=[Rule("half \ud83d", contains="odd"), Rule("Paris")])

    async def run() -> list[str]:
        cache = Cache(tmp_path / "replies.sqlite")
        calls = Calls(cache)
        async with asyncio.timeout(TIMEOUT_S):
            texts = [(await say(calls, model, request)).reply.text for request in (asking("odd"), REQUEST)]
            cache.close()
        return texts

    odd, usual = asyncio.run(run())
    assert odd.startswith("half")
    assert usual == "Paris"


def test_a_file_that_is_no_cache_is_a_cache_error(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    path.write_bytes(b"This is not a database. " * 100)
    with pytest.raises(CacheError, match="cannot be used"):
        Cache(path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(CacheError):
        Cache(tmp_path / "folder")


def test_a_cache_is_opened_where_it_is_wanted_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOPTREE_CACHE", str(tmp_path / "mine.sqlite"))
    handed = Cache(tmp_path / "handed.sqlite")
    for wanted, place in (("default", "mine"), (tmp_path / "other.sqlite", "other"), (handed, "handed")):
        calls = open_calls(wanted)
        assert isinstance(calls.cache, Cache) and calls.cache.path == tmp_path / f"{place}.sqlite"
        calls.close()
    calls = open_calls(None)
    calls.close()
    assert calls.cache is None and calls.cache_failure is None


def test_a_cache_that_cannot_be_opened_is_done_without_and_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    calls = open_calls(tmp_path / "file" / "replies.sqlite")
    calls.close()
    assert calls.cache is None and "cannot be used" in str(calls.cache_failure)


def test_a_cache_that_was_given_up_is_closed_all_the_same(tmp_path: Path) -> None:
    calls = open_calls(tmp_path / "replies.sqlite")
    cache = calls.cache
    assert isinstance(cache, Cache)
    cache._db.execute("DROP TABLE replies")
    one_after_another(calls, ScriptedModel(rules=[Rule("Paris")]), REQUEST)
    assert calls.cache is None
    calls.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        cache._db.execute("SELECT 1")
