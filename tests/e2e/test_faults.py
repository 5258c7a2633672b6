"""What becomes of a question when the endpoint or the model misbehaves."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path

import pytest
from tests.e2e.asked_once import PLAN, QUESTION, run
from tests.e2e.endpoint import Endpoint, Response, Seen, cut_off, endless, half_json, page, refused, said, silent
from tests.timing import Clock
from tests.traced import as_dicts

import hoptree
import hoptree.models.openai
from hoptree.core.errors import EndpointError, ModelError, RateLimited, UnusableReply
from hoptree.engine.calls import Calls
from hoptree.engine.engine import Engine
from hoptree.engine.events import Event
from hoptree.engine.result import Result
from hoptree.models.model import Message, Request
from hoptree.models.openai import OpenAIModel


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two tries there is hardly any pause; whether there is another try stays as it is."""
    patient = Calls._wait

    def wait(self: Calls, error: ModelError, failures: int, waited: float) -> float | None:
        seconds = patient(self, error, failures, waited)
        return None if seconds is None else seconds / 100

    monkeypatch.setattr(Calls, "_wait", wait)


def retries(events: list[Event]) -> list[str]:
    return [event["error"] for event in as_dicts(events) if event["event"] == "retry"]


@pytest.mark.parametrize("status", [401, 403])
def test_a_wrong_key_is_a_failed_result_that_is_not_tried_again(status: int, endpoint: Endpoint, corpus: Path) -> None:
    endpoint.on("", refused(status, "Incorrect API key provided"))
    result = run(endpoint, corpus)
    assert (result.answer, result.error) == ("", "EndpointError")
    assert "refused the key" in result.error_message and "OPENAI_API_KEY" in result.error_message
    assert len(endpoint.requests) == 1
    assert not result.abstained, "a failure is no abstention"


def test_a_failure_is_raised_by_ask(endpoint: Endpoint, corpus: Path, tmp_path: Path) -> None:
    endpoint.on("", refused(401, "Incorrect API key provided"))
    with pytest.raises(EndpointError, match="refused the key") as failed:
        hoptree.ask(
            QUESTION,
            method="taikc",
            corpus=corpus,
            model="openai/test",
            base_url=endpoint.url,
            cache=tmp_path / "c.sqlite",
        )
    assert failed.value.status == 401


def test_the_key_is_sent_and_never_shown(endpoint: Endpoint, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    events: list[Event] = []
    result = run(endpoint, corpus, events=events)
    assert {seen.headers["authorization"] for seen in endpoint.requests} == {"Bearer sk-very-secret"}
    assert "very-secret" not in json.dumps(as_dicts(events)) + json.dumps(result.as_dict())


def test_an_unknown_model_is_named_in_the_failure(endpoint: Endpoint, corpus: Path) -> None:
    endpoint.on("", refused(404, "The model does not exist"))
    result = run(endpoint, corpus)
    assert result.error == "EndpointError"
    assert "'test'" in result.error_message and "--base-url" in result.error_message
    assert len(endpoint.requests) == 1


@pytest.mark.usefixtures("hurried")
def test_an_endpoint_that_nobody_serves_is_a_failed_result(corpus: Path) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        url = f"http://127.0.0.1:{reserved.getsockname()[1]}/v1"
        events: list[Event] = []

        async def ask() -> Result:
            engine = Engine(
                method="taikc", model="openai/test", base_url=url, corpus=corpus, listeners=(events.append,)
            )
            async with engine:
                return await engine.ask(QUESTION)

        result = asyncio.run(ask())
    assert (result.answer, result.error) == ("", "EndpointError")
    assert "cannot be reached" in result.error_message and "--base-url" in result.error_message
    assert len(retries(events)) == 3, "four tries in all"


def test_a_rate_limit_with_retry_after_is_waited_for(endpoint: Endpoint, corpus: Path) -> None:
    endpoint.on("", refused(429, "slow down", retry_after="0.05"), times=6)
    events: list[Event] = []
    result = run(endpoint, corpus, events=events)
    assert (result.answer, result.error) == ("1948", "")
    waits = [event["wait"] for event in as_dicts(events) if event["event"] == "retry"]
    assert waits == [0.05] * 6, "more often than other failures are tried, and as long as asked"


def test_a_rate_limit_for_a_while_is_waited_out(endpoint: Endpoint, corpus: Path) -> None:
    endpoint.on("", refused(429, "slow down", retry_after="0.1"), seconds=0.3)
    events: list[Event] = []
    result = run(endpoint, corpus, events=events)
    assert (result.answer, result.error) == ("1948", "")
    assert retries(events)


def test_a_rate_limit_without_retry_after_is_waited_for(endpoint: Endpoint, corpus: Path) -> None:
    endpoint.on("taikc/final", refused(429, "slow down"), "1948")
    events: list[Event] = []
    result = run(endpoint, corpus, events=events)
    assert result.answer == "1948"
    assert len(retries(events)) == 1


def test_a_rate_limit_that_outlasts_all_patience_is_a_failed_result(endpoint: Endpoint, corpus: Path) -> None:
    endpoint.on("taikc/read", refused(429, "come back tomorrow", retry_after="86400"))
    result = run(endpoint, corpus)
    assert (result.answer, result.error) == ("", "RateLimited")
    assert isinstance(result.failure, RateLimited) and result.failure.retry_after == 86400
    assert "come back tomorrow" in result.error_message and "replies in the cache are kept" in result.error_message
    assert endpoint.steps().count("taikc/read") == 1


def test_a_spent_quota_is_not_waited_for(endpoint: Endpoint, corpus: Path) -> None:
    endpoint.on("", refused(429, "You exceeded your current quota, check your billing details"))
    result = run(endpoint, corpus)
    assert result.error == "RateLimited"
    assert len(endpoint.requests) == 1


TEMPORARY = {
    "500": refused(500, "internal error"),
    "503 with Retry-After": refused(503, "overloaded", retry_after="0"),
    "web page": page(),
    "half a JSON object": half_json(),
    "connection cut in the middle of the body": cut_off(),
    "empty body": Response(),
    "JSON that is no completion": Response(b'{"object": "list", "data": []}'),
    "no choices": Response(b'{"choices": []}'),
    "bytes that are no text": Response(b"\xff\xfe\x00\x80" * 50),
}


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("fault", TEMPORARY.values(), ids=TEMPORARY)
def test_a_passing_fault_costs_a_retry_and_changes_no_answer(fault: Response, endpoint: Endpoint, corpus: Path) -> None:
    for step in ("taikc/read", "taikc/decompose"):
        endpoint.on(step, fault, times=2)
    events: list[Event] = []
    result = run(endpoint, corpus, events=events)
    assert (result.answer, result.error) == ("1948", "")
    assert len(retries(events)) == 4


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("fault", TEMPORARY.values(), ids=TEMPORARY)
def test_a_lasting_fault_is_a_failed_result_after_four_tries(fault: Response, endpoint: Endpoint, corpus: Path) -> None:
    endpoint.on("taikc/final", fault)
    result = run(endpoint, corpus)
    assert result.answer == "" and result.error in ("EndpointError", "UnusableReply")
    assert endpoint.url in result.error_message
    assert "\n" not in result.error_message and "<html" not in result.error_message
    assert endpoint.steps().count("taikc/final") == 4
    assert [node.answer for node in result.tree] == ["Bille August"], "what was found stays in the tree"


@pytest.mark.usefixtures("hurried")
def test_a_web_page_is_called_one(endpoint: Endpoint, corpus: Path) -> None:
    endpoint.on("", page())
    result = run(endpoint, corpus)
    assert isinstance(result.failure, UnusableReply)
    assert "a web page instead of a chat completion" in result.error_message


@pytest.mark.usefixtures("hurried")
def test_an_endless_reply_is_cut_off_by_the_client(
    endpoint: Endpoint, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hoptree.models.openai, "MAX_BODY_BYTES", 50_000)
    endpoint.on("taikc/read", endless())
    result = run(endpoint, corpus)
    assert result.error == "UnusableReply" and "without end" in result.error_message
    assert endpoint.steps().count("taikc/read") == 4


@pytest.mark.usefixtures("hurried")
def test_one_endless_reply_among_good_ones_changes_no_answer(
    endpoint: Endpoint, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hoptree.models.openai, "MAX_BODY_BYTES", 50_000)
    endpoint.on("taikc/read", endless(), times=1)
    assert run(endpoint, corpus).answer == "1948"


def test_a_slow_server_is_given_up_after_the_timeout(endpoint: Endpoint, corpus: Path) -> None:
    clocks: list[Clock] = []

    def late(seen: Seen) -> Response:
        clocks[0].advance(80.0)
        return silent()

    endpoint.on("taikc/decompose", late, times=1)

    async def ask() -> Result:
        clocks.append(Clock(asyncio.get_running_loop()))
        model = OpenAIModel("test", base_url=endpoint.url, timeout=80.0)
        async with Engine(method="taikc", model=model, corpus=corpus, listeners=(events.append,)) as engine:
            return await engine.ask(QUESTION)

    events: list[Event] = []
    result = asyncio.run(ask())
    assert result.answer == "1948"
    assert len(retries(events)) == 1 and "did not answer within 80 seconds" in retries(events)[0]


@pytest.mark.parametrize("nothing", ["", "   \n", None], ids=["empty", "blank", "null"])
def test_an_empty_reply_to_confident_qa_means_look_it_up(nothing: str | None, endpoint: Endpoint, corpus: Path) -> None:
    endpoint.on("taikc/confident", said(nothing))
    result = run(endpoint, corpus)
    assert result.answer == "1948"
    assert result.usage.retrievals == 2


@pytest.mark.parametrize("nothing", ["", None], ids=["empty", "null"])
def test_an_empty_reply_from_the_reader_continues_with_a_guess(
    nothing: str | None, endpoint: Endpoint, corpus: Path
) -> None:
    endpoint.on("taikc/read", said(nothing), contains="Question: Who directed")
    endpoint.on("taikc/direct", "Bille August", contains="Who directed")
    result = run(endpoint, corpus)
    assert result.answer == "1948"
    assert len(endpoint.texts("taikc/direct")) == 1 and result.tree[0].source == "external", "what was read says so"


@pytest.mark.parametrize(
    "nonsense",
    [
        "I would rather talk about the weather.",
        "",
        "[]",
        "{}",
        '{"query1": {"question": "   "}}',
        "42",
        "null",
        '{"query1": ' * 3000,
        "[" * 100_000,
        '{"a": [1, 2, {"b": null}]}',
    ],
    ids=["prose", "nothing", "empty list", "empty object", "blank", "number", "null", "deep", "deeper", "other JSON"],
)
def test_a_tree_of_nonsense_is_answered_as_one_piece_and_says_so(
    nonsense: str, endpoint: Endpoint, corpus: Path
) -> None:
    endpoint.on("taikc/decompose", nonsense)
    endpoint.on("taikc/read", "1948", contains=f"Question: {QUESTION}")
    events: list[Event] = []
    result = run(endpoint, corpus, events=events)
    assert (result.answer, result.error) == ("1948", "")
    assert [(node.id, node.question, node.children) for node in result.tree] == [(1, QUESTION, [])]
    assert any("answered as one piece" in warning for warning in result.warnings)
    assert endpoint.steps().count("taikc/decompose") == 2, "asked once more and no more"
    issues = next(event["issues"] for event in as_dicts(events) if event["event"] == "plan")
    assert [issue["kind"] for issue in issues] == ["decompose_failed"]


def test_a_tree_that_is_nonsense_only_at_first_is_asked_for_again(endpoint: Endpoint, corpus: Path) -> None:
    endpoint.on("taikc/decompose", "Let me think about that.", json.dumps(PLAN))
    result = run(endpoint, corpus)
    assert result.answer == "1948" and not result.warnings
    first, second = (seen.body["messages"] for seen in endpoint.requests[:2])
    assert second[: len(first)] == first, "what a server has read already comes first again"
    assert second[len(first)] == {"role": "assistant", "content": "Let me think about that."}
    assert [message["role"] for message in second[len(first) :]] == ["assistant", "user"]


def test_an_endpoint_that_wants_max_completion_tokens_gets_them_from_then_on(endpoint: Endpoint, corpus: Path) -> None:
    complaint = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'."

    def picky(seen: Seen) -> Response | None:
        return refused(400, complaint) if "max_tokens" in seen.body else None

    endpoint.before = picky
    events: list[Event] = []
    result = run(endpoint, corpus, events=events)
    assert result.answer == "1948" and not retries(events)
    refused_ones = [seen for seen in endpoint.requests if "max_tokens" in seen.body]
    assert len(refused_ones) == 1, "it is told once"
    accepted = endpoint.requests[1]
    assert accepted.body["max_completion_tokens"] == refused_ones[0].body["max_tokens"]


@pytest.mark.parametrize("parameter", ["temperature", "seed"])
def test_an_endpoint_that_refuses_a_parameter_is_asked_without_it(
    parameter: str, endpoint: Endpoint, corpus: Path
) -> None:
    def picky(seen: Seen) -> Response | None:
        complaint = f"Unsupported value: '{parameter}' does not support 0 with this model."
        return refused(400, complaint) if parameter in seen.body else None

    endpoint.before = picky
    assert run(endpoint, corpus).answer == "1948"
    assert sum(parameter in seen.body for seen in endpoint.requests) == 1


@pytest.mark.parametrize("refusal", ["logprobs are not supported", "Unknown field: 'top_logprobs'."])
def test_an_endpoint_without_log_probabilities_is_asked_without_them_from_then_on(
    refusal: str, endpoint: Endpoint, corpus: Path
) -> None:
    endpoint.before = lambda seen: refused(400, refusal) if "logprobs" in seen.body else None
    endpoint.on("taikc/direct", "1948")

    async def ask() -> Result:
        options = {"source": "probability"}
        async with Engine(
            method="taikc", model="openai/test", base_url=endpoint.url, corpus=corpus, options=options
        ) as engine:
            return await engine.ask(QUESTION)

    result = asyncio.run(ask())
    assert result.answer == "1948" and any("no log-probabilities" in warning for warning in result.warnings)
    assert sum("logprobs" in seen.body for seen in endpoint.requests) == 1


def test_a_400_that_no_parameter_explains_is_told_and_not_tried_again(endpoint: Endpoint, corpus: Path) -> None:
    endpoint.on("", refused(400, "This model's maximum context length is 4096 tokens"))
    result = run(endpoint, corpus)
    assert result.error == "EndpointError" and "maximum context length" in result.error_message
    assert "k=" in result.error_message, "the remedy is fewer passages"
    assert len(endpoint.requests) == 1


@pytest.mark.usefixtures("hurried")
def test_a_failed_question_does_not_take_others_down(endpoint: Endpoint, corpus: Path) -> None:
    endpoint.on("taikc/decompose", refused(500, "boom"), contains="Doomed")

    async def ask() -> tuple[Result, Result, Result]:
        async with Engine(method="taikc", model="openai/test", base_url=endpoint.url, corpus=corpus) as engine:
            return await asyncio.gather(engine.ask(QUESTION), engine.ask("Doomed: who?"), engine.ask(QUESTION + " "))

    good, doomed, other = asyncio.run(ask())
    assert (good.answer, doomed.error, other.answer) == ("1948", "EndpointError", "1948")


def test_a_cache_that_cannot_be_used_costs_a_warning_and_not_the_answer(
    endpoint: Endpoint, corpus: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.sqlite"
    broken.write_bytes(b"this is no database, and long enough to be looked at" * 100)
    result = hoptree.ask(
        QUESTION, method="taikc", corpus=corpus, model="openai/test", base_url=endpoint.url, cache=broken
    )
    assert result.answer == "1948"
    assert any("cannot be used" in warning for warning in result.warnings)


def test_several_requests_at_once_adapt_to_a_refused_parameter(endpoint: Endpoint) -> None:
    def strict(seen: Seen) -> Response:
        if "max_tokens" in seen.body:
            return refused(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        return said("Paris")

    endpoint.on("test/step", strict)
    model = OpenAIModel("test", base_url=endpoint.url)

    async def ask() -> list[str]:
        requests = [Request((Message("user", f"{number}?"),)) for number in range(4)]
        replies = await asyncio.gather(*(model.generate(request, step="test/step") for request in requests))
        await model.aclose()
        return [reply.text for reply in replies]

    assert asyncio.run(ask()) == ["Paris"] * 4
