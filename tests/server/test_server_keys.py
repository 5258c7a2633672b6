"""Who may ask, how often, and for how much."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from tests.server.running import QUESTION, Running, eventually, limits, running, script, settings

from hoptree.core.errors import ConfigError
from hoptree.engine.context import Budget
from hoptree.server.error_responses import Refusal
from hoptree.server.keys import CallSize, HeldCalls, Key, Quotas, find_key, read_keys
from hoptree.server.workers import _Question

SECRET = "correct-horse-battery"


def _key(name: str = "ada", secret: str = SECRET, **more: object) -> Key:
    return Key(name, hashlib.sha256(secret.encode()).digest(), **more)  # type: ignore[arg-type]


def _with(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def test_without_a_key_or_with_a_wrong_one_nothing_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running(settings(tmp_path, keys=(_key(),))) as server, caplog.at_level("INFO"):
        for path in ("/v1/methods", "/v1/models", "/v1/corpora", "/v1/runs", "/v1/compare", "/metrics", "/v1/jobs/x"):
            assert server.client.get(path).status_code == 401
            assert server.client.get(path, headers=_with("wrong-horse-battery")).status_code == 401
        assert server.ask().status_code == 401
        for header in ("Bearer", f"Basic {SECRET}", SECRET, f"Bearer {SECRET}x", f"Bearer {SECRET[:-1]}"):
            reply = server.client.get("/v1/methods", headers={"Authorization": header})
            assert reply.status_code == 401
            assert reply.headers["www-authenticate"].startswith("Bearer")
            assert "films" not in reply.text
        chat = server.client.post("/v1/chat/completions", json={})
        assert chat.json()["error"]["type"] == "authentication_error"
        assert server.client.get("/v1/methods", headers=_with(SECRET)).status_code == 200
        assert server.client.get("/v1/methods", headers={"Authorization": f"bearer {SECRET}"}).status_code == 200
        assert server.client.get("/health").status_code == server.client.get("/docs").status_code == 200
    assert "refused NoKey" in caplog.text
    assert "refused WrongKey" in caplog.text
    assert SECRET not in caplog.text
    assert "wrong-horse-battery" not in caplog.text


@pytest.mark.parametrize("passage", ["films%23a", "an%2Fid/of%20parts", "%3Cscript%3E"])
def test_a_browser_that_follows_a_citation_is_led_to_the_page(tmp_path: Path, passage: str) -> None:
    path, browser = f"/v1/corpora/sample/passages/{passage}", {"Accept": "text/html,*/*;q=0.8"}
    with running(settings(tmp_path, keys=(_key(),))) as server:
        reply = server.client.get(path, headers=browser, follow_redirects=False)
        place = passage.replace("/", "%2F")
        assert (reply.status_code, reply.headers["location"]) == (303, f"/#/passage/sample/{place}")
        assert "sample" not in reply.text
        assert server.client.get(path, headers={**browser, **_with("wrong-horse-battery")}).status_code == 401
        assert server.client.get(path).status_code == server.client.post(path, headers=browser).status_code == 401
        assert server.client.get("/v1/corpora", headers=browser).status_code == 401


def test_a_key_that_may_not_change_corpora_is_told_so(tmp_path: Path) -> None:
    may = _key("bob", "another-horse-battery", corpora=True)
    with running(settings(tmp_path, keys=(_key(), may), corpora_folder=tmp_path / "own")) as server:
        listed = server.client.get("/v1/corpora", headers=_with(SECRET)).json()
        assert not listed["uploads"] and listed["uploads_off"].startswith("This key may not change corpora")
        listed = server.client.get("/v1/corpora", headers=_with("another-horse-battery")).json()
        assert listed["uploads"] and not listed["uploads_off"]


def test_all_keys_are_compared_whichever_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    import hmac

    compared: list[bytes] = []
    real = hmac.compare_digest

    def compare(a: bytes, b: bytes) -> bool:
        compared.append(a)
        return real(a, b)

    monkeypatch.setattr("hmac.compare_digest", compare)
    keys = [_key("a", "a" * 20), _key("b", "b" * 20), _key("c", "c" * 20)]
    assert find_key(keys, "a" * 20) is keys[0]
    assert find_key(keys, "x" * 20) is None
    assert len(compared) == 6


def test_a_key_may_change_corpora_only_if_it_says_so(tmp_path: Path) -> None:
    keys = (_key(), _key("admin", "b" * 20, corpora=True))
    with running(settings(tmp_path, keys=keys, corpora_folder=tmp_path / "own")) as server:
        files = {"files": ("a.txt", b"Ada was born in London.")}
        post, data = server.client.post, {"name": "own"}
        refused = post("/v1/corpora", data=data, files=files, headers=_with(SECRET))
        assert refused.status_code == 403
        assert refused.json()["error"]["remedy"]
        assert server.client.delete("/v1/corpora/films", headers=_with(SECRET)).status_code == 403
        assert post("/v1/corpora", data=data, files=files, headers=_with("b" * 20)).status_code == 202


def test_requests_of_a_minute_are_counted_for_each_key(tmp_path: Path) -> None:
    keys = (_key(rate=2), _key("other", "b" * 20))
    with running(settings(tmp_path, keys=keys, limits=limits(rate=1))) as server:
        get = server.client.get
        assert [get("/v1/models", headers=_with(SECRET)).status_code for _ in range(3)] == [200, 200, 429]
        refused = get("/v1/models", headers=_with(SECRET))
        assert 1 <= int(refused.headers["retry-after"]) <= 31
        assert [get("/v1/models", headers=_with("b" * 20)).status_code for _ in range(2)] == [200, 429]


def test_a_bucket_fills_again() -> None:
    now = [0.0]
    quotas, key = Quotas(60, lambda: now[0]), _key()
    for _ in range(60):
        quotas.take(key)
    with pytest.raises(Refusal):
        quotas.take(key)
    now[0] = 1.0
    quotas.take(key)
    with pytest.raises(Refusal):
        quotas.take(key)


def test_a_day_of_a_key_has_a_budget(tmp_path: Path) -> None:
    with running(settings(tmp_path, keys=(_key(budget=Budget(calls=9)),))) as server:
        asked = [_ask(server) for _ in range(3)]
        assert [status for status, _ in asked] == [200, 200, 429]
        assert asked[0][1]["stopped_by"] is None
        assert asked[1][1]["stopped_by"] == "calls"
        assert asked[2][1]["error"]["class"] == "BudgetSpent"


def test_questions_that_are_asked_at_once_have_one_budget_together(tmp_path: Path) -> None:
    calls, at_once = 5, 8
    slow = {"demo": script(latency=0.2)}
    with running(settings(tmp_path, models=slow, keys=(_key(budget=Budget(calls=calls)),))) as server:
        with ThreadPoolExecutor(at_once) as asking:
            asked = list(asking.map(lambda _: _ask(server), range(at_once)))
        assert {status for status, _ in asked} <= {200, 429}
        assert [body["error"]["class"] for status, body in asked if status == 429][:1] == ["BudgetSpent"]
        account = server.state.questions.quotas._accounts["ada"]
        assert account.calls == calls and not account.held
        assert len(server.state.questions.running) == 0


def _ask(server: Running) -> tuple[int, dict[str, dict[str, str]]]:
    reply = server.client.post("/v1/ask", json={"question": QUESTION}, headers=_with(SECRET))
    return reply.status_code, reply.json()


def test_the_next_day_begins_with_nothing_spent() -> None:
    now = [0.0]
    quotas, key = Quotas(0, lambda: now[0]), _key(budget=Budget(tokens=10))
    quotas.charge(key, 7)
    assert quotas.remaining(key).tokens == 3
    quotas.charge(key, 7)
    with pytest.raises(Refusal) as refused:
        quotas.remaining(key)
    assert refused.value.retry_after == 86_400
    now[0] = 86_400.0
    assert quotas.remaining(key).tokens == 10


def test_a_client_that_leaves_has_asked_all_the_same(tmp_path: Path) -> None:
    slow = script(0.5)
    wanted = settings(tmp_path, models={"demo": slow}, keys=(_key(budget=Budget(calls=3)),))
    with running(wanted) as server:
        for times in range(1, 4):
            asked = {"question": QUESTION, "method": "direct", "stream": True}
            with server.client.stream("POST", "/v1/ask", json=asked, headers=_with(SECRET)) as reply:
                assert reply.status_code == 200
                eventually(lambda times=times: len(slow.requests) == times)  # type: ignore[misc]
            eventually(lambda: len(server.state.questions.running) == 0)
        status, body = _ask(server)
        assert (status, body["error"]["class"]) == (429, "BudgetSpent")
        assert len(slow.requests) == 3


@pytest.mark.parametrize("budget", [Budget(calls=3), Budget(tokens=250), Budget(cost=2.5)])
def test_a_call_is_held_until_it_is_settled(budget: Budget) -> None:
    """Of calls of 100 tokens three fit, the third of which goes beyond the budget of tokens or money."""

    async def ask() -> tuple[list[int], list[int]]:
        quotas, key, size = Quotas(0, lambda: 0.0), _key(budget=budget), CallSize(100, 1.0, 50, 0.5)
        sent, refused = list[int](), list[int]()

        async def call(number: int) -> None:
            try:
                await quotas.hold(key, size)
            except Refusal:
                refused.append(number)
                return
            sent.append(number)
            await asyncio.sleep(0)
            if number != 1:  # that one fails, and costs nothing
                quotas.charge(key, 100, 1.0)
            quotas.settle(key, size, lost=False)

        await asyncio.gather(*map(call, range(20)))
        return sent, refused

    sent, refused = asyncio.run(ask())
    assert len(sent) == 4 and len(refused) == 16


def test_a_question_that_its_own_seconds_end_is_charged(tmp_path: Path) -> None:
    wanted = settings(tmp_path, models={"demo": script(30)}, keys=(_key(budget=Budget(calls=1)),))
    with running(wanted) as server:
        asked = {"question": QUESTION, "method": "direct", "budget": {"seconds": 1}}
        statuses = [server.client.post("/v1/ask", json=asked, headers=_with(SECRET)).status_code for _ in range(2)]
    assert statuses == [200, 429]


def test_keys_are_read_from_a_file(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"x" * 20).hexdigest()
    path = tmp_path / "keys.toml"
    path.write_text(
        f'[[key]]\nname = "ada"\nsecret = "{SECRET}"\nrate = 30\nbudget = "tokens=1000"\ncorpora = true\n'
        f'[[key]]\nname = "bob"\nsha256 = "{digest}"\n'
    )
    ada, bob = read_keys(path)
    assert (ada.name, ada.rate, ada.budget.tokens, ada.corpora) == ("ada", 30, 1000, True)
    assert find_key((ada, bob), SECRET) is ada
    assert find_key((ada, bob), "x" * 20) is bob
    assert SECRET not in repr(ada)


def test_a_file_of_keys_that_anybody_may_write_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(f'[[key]]\nname = "a"\nsecret = "{SECRET}"')
    path.chmod(0o666)
    with pytest.raises(ConfigError, match="anybody on this machine may change them") as refused:
        read_keys(path)
    assert refused.value.remedy == f"Make them yours alone: chmod 600 {path}"
    path.chmod(0o600)
    assert len(read_keys(path)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "key = 3",
        '[[key]]\nname = "a"',
        '[[key]]\nname = "a"\nsecret = "short"',
        f'[[key]]\nname = "a"\nsecret = "{SECRET}\\n"',
        f'[[key]]\nname = "a"\nsecret = "{SECRET}\\t."',
        f'[[key]]\nname = "a"\nsecret = "{SECRET}"\nrate = 0',
        f'[[key]]\nname = "a"\nsecret = "{SECRET}"\nrate = {10**400}',
        "key = [1]",
        f'[[key]]\nname = "a"\nsecret = "{SECRET}"\nadmin = true',
        f'[[key]]\nname = "a"\nsecret = "{SECRET}"\nsha256 = "00"',
        f'[[key]]\nname = "a"\nsecret = "{SECRET}"\nbudget = "seconds=3"',
        f'[[key]]\nname = "a"\nsecret = "{SECRET}"\nbudget = "apples=3"',
        f'[[key]]\nname = "a b"\nsecret = "{SECRET}"',
        f'[[key]]\nname = "a"\nsecret = "{SECRET}"\n[[key]]\nname = "b"\nsecret = "{SECRET}"',
        f'[[key]]\nname = "a"\nsecret = {SECRET}',
    ],
)
def test_a_file_of_keys_that_cannot_be_used_says_why_and_no_secret(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_keys(path)
    assert refused.value.remedy
    assert SECRET not in str(refused.value)


def test_a_budget_of_money_needs_prices(tmp_path: Path) -> None:
    from hoptree.engine.context import Prices

    wanted = settings(tmp_path, keys=(_key(budget=Budget(cost=1.0)),))
    with pytest.raises(ConfigError, match="prices"):
        wanted.check()
    replace(wanted, prices=Prices(1.0, 1.0)).check()


def test_a_call_that_a_worker_gives_up_while_it_waits_is_not_held() -> None:
    """Else it would take up room until its question ends, and the question's next call would wait for it."""

    async def give_up() -> None:
        quotas, key = Quotas(0), _key(budget=Budget(calls=2))
        question = _Question((), asyncio.get_running_loop().create_future(), HeldCalls(quotas, key, None))
        others, answers = [CallSize(1, float(cost), 1, 0.0) for cost in range(2)], list[Mapping[str, Any]]()
        for other in others:
            await quotas.hold(key, other)
        size = {"tokens": 1, "cost": 2.0, "prompt_tokens": 1, "prompt_cost": 0.0}
        message = {"id": 1, "events": [], "over": False}
        question.receive({**message, "hold": 0, "size": size}, answers.append)
        await asyncio.sleep(0)
        question.receive({**message, "settled": 0, "lost": False}, answers.append)
        for other in others:
            quotas.settle(key, other, lost=False)
        await asyncio.sleep(0.01)
        for other in others:
            await asyncio.wait_for(quotas.hold(key, other), 5)
        assert answers == []

    asyncio.run(give_up())
