"""Methods that listen to a model's doubts, at endpoints that give no log-probabilities, or fewer than asked for."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import call
from tests.e2e.endpoint import Endpoint, Response, Seen, index_of, refused
from tests.traced import as_dicts

from hoptree.core.errors import ConfigError
from hoptree.engine.engine import Engine
from hoptree.engine.events import Event
from hoptree.engine.result import UNSUPPORTED, Result

QUESTION = "Who directed Vertigo?"
GUESSES = (
    "Federico Fellini made Vertigo in Rome.",
    "The film is by Orson Welles.",
    "It was Alfred Hitchcock who shot this thriller.",
    "Stanley Kubrick directed Vertigo.",
    "A Frenchman, namely François Truffaut, had that job.",
)
NAMED = '{"entities": ["Vertigo"], "relations": ["director"]}'
Before = Callable[[Seen], Response | None]


class Unsure:
    """Names another director each time, in as many choices as are asked for, or in one if it does not know `n`."""

    def __init__(self, *, counts: bool = True, tells: bool = False, rivals: bool = True) -> None:
        self._guesses, self._counts, self._tells, self._rivals = itertools.cycle(GUESSES), counts, tells, rivals

    def __call__(self, seen: Seen) -> Response:
        many = seen.body.get("n", 1) if self._counts else 1
        choices = [self._choice(seen) for _ in range(many)]
        usage = {"prompt_tokens": 7, "completion_tokens": 9}
        return Response(json.dumps({"choices": choices, "usage": usage}).encode())

    def _choice(self, seen: Seen) -> dict[str, Any]:
        text = NAMED if "JSON" in seen.prompt else f"{next(self._guesses)} So the answer is: Fellini."
        choice: dict[str, Any] = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        if self._tells and "top_logprobs" in seen.body:
            wanted = seen.body["top_logprobs"] if self._rivals else 0
            rivals = [{"token": str(n), "logprob": -1.7} for n in range(wanted)]
            words = [word if not place else f" {word}" for place, word in enumerate(text.split(" "))]
            entries = [{"token": word, "logprob": -1.7, "top_logprobs": rivals} for word in words]
            choice["logprobs"] = {"content": entries}
        return choice


def refusing(seen: Seen) -> Response | None:
    return refused(400, "logprobs are not supported with this model") if "logprobs" in seen.body else None


def capped(message: str, most: int = 5) -> Before:
    def before(seen: Seen) -> Response | None:
        return refused(400, message) if seen.body.get("top_logprobs", 0) > most else None

    return before


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    pages = [("Vertigo", "Vertigo was directed by Alfred Hitchcock."), ("Rome", "Rome is a city in Italy.")]
    return index_of(tmp_path, *pages)


class Asked:
    """Questions put to one engine, one after the other, with all that happened."""

    def __init__(self, endpoint: Endpoint, corpus: Path, method: str, **more: Any) -> None:
        self.events: list[Event] = []
        self._with = {
            "method": method,
            "corpus": corpus,
            "model": "openai/m",
            "base_url": endpoint.url,
            "cache": None,
            "listeners": (self.events.append,),
            **more,
        }

    def __call__(self, *questions: str) -> list[Result]:
        async def ask() -> list[Result]:
            async with Engine(**self._with) as engine:
                return [await engine.ask(question) for question in questions]

        return asyncio.run(ask())

    def decided(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in as_dicts(self.events) if event["event"] == "decision" and event["kind"] == kind]


@pytest.mark.parametrize("method", ["mind", "dragin"])
@pytest.mark.parametrize("before", [None, refusing], ids=["ignored", "refused"])
def test_without_logprobs_samples_tell_the_doubt(
    endpoint: Endpoint, corpus: Path, method: str, before: Before | None
) -> None:
    endpoint.on("", Unsure())
    endpoint.before = before
    asked = Asked(endpoint, corpus, method)
    first, second = asked(QUESTION, "Who directed the film Vertigo?")
    for result in (first, second):
        assert not result.failure and result.fidelity == "approx" and result.usage.retrievals >= 1
        assert result.writing and "logprobs" in result.writing.missing
        (warning,) = [each for each in result.warnings if "log-probabilities" in each]
        assert "openai/m" in warning and "samples" in warning
    assert [event["value"] for event in asked.decided("sentence") if event.get("samples")][:1] == [True]
    kinds = [event["kind"] for event in as_dicts(asked.events) if event["event"] == "warning"]
    assert kinds.count("no_logprobs") == 2, "once a question"
    last = [seen for seen in endpoint.requests if "the film Vertigo" in seen.prompt]
    assert last and not any("logprobs" in seen.body for seen in last), "what is known is not tried again"


@pytest.mark.parametrize("method", ["mind", "dragin"])
def test_without_rivals_of_a_token_samples_tell_the_doubt(endpoint: Endpoint, corpus: Path, method: str) -> None:
    """A log-probability alone is no entropy: taken for one, nothing would ever be in doubt."""
    endpoint.on("", Unsure(tells=True, rivals=False))
    asked = Asked(endpoint, corpus, method)
    first, second = asked(QUESTION, "Who directed the film Vertigo?")
    for result in (first, second):
        assert not result.failure and result.usage.retrievals >= 1 and result.writing
        assert "logprobs" in result.writing.missing and any("samples" in warning for warning in result.warnings)
    assert [event["value"] for event in asked.decided("sentence") if event.get("samples")][:1] == [True]
    assert not any(event.get("words") for event in asked.decided("sentence")), "nothing is judged by what is not told"
    last = [seen for seen in endpoint.requests if "the film Vertigo" in seen.prompt]
    assert last and not any("logprobs" in seen.body for seen in last), "what is known is not tried again"


@pytest.mark.parametrize("method", ["flare", "seakr"])
def test_who_needs_no_rivals_does_without(
    endpoint: Endpoint, corpus: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hoptree.methods.steps.uncertain_sentences.shared_encoder", lambda _: _Encoder())
    endpoint.on("", Unsure(tells=True, rivals=False))
    (result,) = Asked(endpoint, corpus, method)(QUESTION)
    assert (
        not result.failure
        and result.answer == "Fellini"
        and not any("likeliest" in warning for warning in result.warnings)
    )


@pytest.mark.parametrize("method", ["mind", "dragin"])
def test_a_cached_reply_without_logprobs_is_noticed_too(
    endpoint: Endpoint, corpus: Path, method: str, tmp_path: Path
) -> None:
    endpoint.on("", Unsure())
    for _ in range(2):
        (result,) = Asked(endpoint, corpus, method, cache=tmp_path / "cache.sqlite")(QUESTION)
        assert result.writing and "logprobs" in result.writing.missing and not result.failure
    assert result.usage.cached_calls == result.usage.llm_calls


def test_an_endpoint_that_gives_one_sample_at_a_time_is_asked_for_each(endpoint: Endpoint, corpus: Path) -> None:
    endpoint.on("", Unsure(counts=False))
    asked = Asked(endpoint, corpus, "dragin")
    asked(QUESTION)
    first = asked.decided("sentence")[0]
    assert len(first["samples"]) == 5 and len(set(first["samples"])) == 5 and first["value"] is True


@pytest.mark.parametrize("counts", [True, False], ids=["heeds n", "ignores n"])
def test_self_consistency_has_all_its_chains_at_any_endpoint(endpoint: Endpoint, corpus: Path, counts: bool) -> None:
    endpoint.on("", Unsure(counts=counts))
    (result,) = Asked(endpoint, corpus, "cot_sc")(QUESTION)
    assert (len(result.chains), len(endpoint.requests)) == (10, 1 if counts else 10)


@pytest.mark.parametrize("method", ["flare", "seakr"])
@pytest.mark.parametrize("before", [None, refusing], ids=["ignored", "refused"])
def test_who_cannot_do_without_logprobs_says_so(
    endpoint: Endpoint, corpus: Path, method: str, before: Before | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hoptree.methods.steps.uncertain_sentences.shared_encoder", lambda _: _Encoder())
    endpoint.on("", Unsure())
    endpoint.before = before
    (result,) = Asked(endpoint, corpus, method)(QUESTION)
    assert isinstance(result.failure, ConfigError) and result.failure.exit_code == 2
    assert "needs logprobs, which openai/m does not give" in str(result.failure)


class _Encoder:
    async def encode(self, texts: list[str], *, role: str) -> Any:
        import numpy

        return numpy.eye(len(texts))


@pytest.mark.parametrize(
    ("message", "tried"),
    [
        ("top_logprobs must be at most 5", [20, 5]),
        ("Invalid value for 'top_logprobs': expected between 0 and 5.", [20, 5]),
        ("Requested sample logprobs of 20, which is greater than max allowed: 5", [20, 5]),
        ("too many logprobs", [20, 5]),
        ("top_logprobs must be less than 6", [20, 6, 5]),
    ],
)
def test_fewer_logprobs_are_asked_for_where_an_endpoint_caps_them(
    endpoint: Endpoint, corpus: Path, message: str, tried: list[int]
) -> None:
    endpoint.on("", Unsure(tells=True))
    endpoint.before = capped(message)
    asked = Asked(endpoint, corpus, "dragin")
    (result,) = asked(QUESTION)
    asked_counts = [seen.body["top_logprobs"] for seen in endpoint.requests if "top_logprobs" in seen.body]
    assert asked_counts[: len(tried)] == tried and set(asked_counts[len(tried) :]) <= {5}, "what was learnt is kept to"
    assert result.writing and "logprobs" not in result.writing.missing
    warning, _ = result.warnings  # the other says that the answer is a guess
    assert "tells 5 likeliest tokens where 20 are asked for" in warning
    assert asked.decided("sentence")[0]["words"][0][1] is not None and result.usage.retrievals >= 1


def test_who_tells_as_many_as_are_asked_for_is_not_warned_of(endpoint: Endpoint, corpus: Path) -> None:
    endpoint.on("", Unsure(tells=True))
    assert Asked(endpoint, corpus, "dragin")(QUESTION)[0].warnings == (UNSUPPORTED,)


def test_a_cap_of_less_than_five_is_found(endpoint: Endpoint, corpus: Path) -> None:
    endpoint.on("", Unsure(tells=True))
    endpoint.before = capped("too many logprobs", most=1)
    (result,) = Asked(endpoint, corpus, "flare")(QUESTION)
    assert not result.failure
    endpoint.requests.clear()
    (result,) = Asked(endpoint, corpus, "dragin")(QUESTION)
    assert [seen.body["top_logprobs"] for seen in endpoint.requests if "top_logprobs" in seen.body][:3] == [20, 5, 1]


def test_the_command_says_it_too(endpoint: Endpoint, corpus: Path) -> None:
    endpoint.on("", Unsure())
    given = ["ask", QUESTION, "--corpus", str(corpus), "-m", "openai/m", "--base-url", endpoint.url, "--no-cache"]

    def command(method: str) -> subprocess.CompletedProcess[str]:
        return call(*given, "--method", method, folder=corpus, environment=os.environ | {"COLUMNS": "200"})

    done = command("mind")
    assert (
        done.returncode == 0
        and "gives no log-probabilities" in done.stdout
        and "not exactly as in its paper" in done.stdout
    )
    done = command("flare")
    assert done.returncode == 2 and "needs logprobs" in done.stderr and "Traceback" not in done.stderr
