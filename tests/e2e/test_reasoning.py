"""Reasoning models: what was thought never reaches a parser, an answer or a signal, and is counted."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.endpoint import Endpoint, Response, Seen, index_of, said
from tests.traced import as_dicts

import hoptree
from hoptree.engine.calls import REASONING_TOKENS
from hoptree.engine.events import Event
from hoptree.engine.result import Result

QUESTION = "In which year was the director of Night Train to Lisbon born?"
PLAN = json.dumps(
    {
        "query1": {
            "question": "Who directed Night Train to Lisbon?",
            "children": {"query2": {"question": "In which year was #query1 born?"}},
        }
    }
)
SAID = {
    "taikc/decompose": PLAN,
    "taikc/confident": "Bille August",
    "taikc/read": "1948",
    "taikc/summarise": "Night Train to Lisbon was directed by Bille August, born in 1948.",
    "taikc/final": "1948",
}
THOUGHT = {
    "taikc/decompose": 'Maybe {"query1": {"question": "Who is Mallory?"}} or ```json\n["Mallory"]\n``` would do.',
    "taikc/confident": "I am not sure; RAG_REQUIRED? No, I know it. The answer is Mallory.",
    "taikc/read": "It is not found, the documents do not mention it; RAG_REQUIRED. The answer is Mallory.",
    "taikc/summarise": "Mallory, Mallory, Mallory.",
    "taikc/final": "Not found.\nFinal answer: Mallory",
}


def in_tags(thought: str, text: str) -> Response:
    return said(f"<think>\n{thought}\n</think>\n\n{text}")


def in_another_tag(thought: str, text: str) -> Response:
    return said(f"<reasoning>{thought}</reasoning>{text}")


def after_a_template_that_opens_the_tag(thought: str, text: str) -> Response:
    return said(f"{thought}\n</think>\n\n{text}")


def in_two_thoughts(thought: str, text: str) -> Response:
    return said(f"<think>{thought}</think>Mallory?<think>{thought}</think>{text}")


def apart(thought: str, text: str) -> Response:
    return said(text, reasoning=thought)


def apart_and_in_tags(thought: str, text: str) -> Response:
    return said(f"<think>{thought}</think>{text}", reasoning=thought)


MANNERS = (
    in_tags,
    in_another_tag,
    after_a_template_that_opens_the_tag,
    in_two_thoughts,
    apart,
    apart_and_in_tags,
)


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Endpoint() as running:
        yield running


@pytest.fixture
def settings(endpoint: Endpoint, tmp_path: Path) -> dict[str, Any]:
    index = index_of(
        tmp_path,
        ("Night Train to Lisbon", "Night Train to Lisbon is a film of 2013. It was directed by Bille August."),
        ("Bille August", "Bille August is a Danish film maker. He was born in the year 1948 in Brede."),
    )
    cache = tmp_path / "replies.sqlite"
    return {"method": "taikc", "model": "openai/test", "base_url": endpoint.url, "corpus": index, "cache": cache}


def script(endpoint: Endpoint, manner: Any) -> None:
    for step, text in SAID.items():
        endpoint.on(step, manner(THOUGHT[step], text))
    doubt = "The director is surely Mallory, 1948."
    endpoint.on("taikc/confident", manner(doubt, "RAG_REQUIRED"), contains="In which year was Bille August born?")


@pytest.mark.parametrize("manner", MANNERS, ids=lambda manner: manner.__name__)
def test_thought_never_reaches_a_parser_or_the_answer(
    manner: Any, settings: dict[str, Any], endpoint: Endpoint
) -> None:
    script(endpoint, manner)
    events: list[Event] = []
    result = hoptree.ask(QUESTION, listeners=(events.append,), **settings)
    first = result.tree[0]
    assert result.answer == "1948"
    assert (first.answer, first.source) == ("Bille August", "internal"), "the identifier was thought and not said"
    assert (first.children[0].answer, first.children[0].source) == ("1948", "external")
    assert result.chains == (SAID["taikc/summarise"],)
    assert endpoint.steps().count("taikc/decompose") == 1, "the plan was read at the first try"
    assert all("Mallory" not in seen.prompt for seen in endpoint.requests), "no thought is sent back"
    assert "Mallory" not in json.dumps([event for event in as_dicts(events) if event["event"] != "llm"])
    assert all("Mallory" not in event["reply"] for event in as_dicts(events) if event["event"] == "llm")


@pytest.mark.parametrize("manner", MANNERS, ids=lambda manner: manner.__name__)
def test_thought_is_counted(manner: Any, settings: dict[str, Any], endpoint: Endpoint) -> None:
    script(endpoint, manner)
    spoken = sum(len(text.split()) for text in (*SAID.values(), "RAG_REQUIRED"))
    usage = hoptree.ask(QUESTION, **settings).usage
    assert usage.completion_tokens > spoken, "all that was generated is paid for"
    assert 0 < usage.reasoning_tokens < usage.completion_tokens


def test_thought_that_the_server_counts_is_taken_as_counted(settings: dict[str, Any], endpoint: Endpoint) -> None:
    counted = {"prompt_tokens": 10, "completion_tokens": 50, "completion_tokens_details": {"reasoning_tokens": 44}}
    for step, text in SAID.items():
        endpoint.on(step, said(text, reasoning=THOUGHT[step], usage=counted))
    usage = hoptree.ask(QUESTION, **settings).usage
    assert usage.llm_calls == 5
    assert (usage.completion_tokens, usage.reasoning_tokens) == (250, 220)


def test_a_remembered_reply_still_counts_its_thought(settings: dict[str, Any], endpoint: Endpoint) -> None:
    script(endpoint, in_tags)
    paid = hoptree.ask(QUESTION, **settings)
    free = hoptree.ask(QUESTION, **settings)
    assert free.usage.cached_calls == free.usage.llm_calls
    assert free.usage.reasoning_tokens == paid.usage.reasoning_tokens
    assert (free.answer, free.tree) == (paid.answer, paid.tree)


def test_thought_that_is_never_closed_is_no_answer(settings: dict[str, Any], endpoint: Endpoint) -> None:
    script(endpoint, apart)
    endpoint.on("taikc/confident", said("<think>The answer is Mallory, 1948, and"), contains="Who directed")
    endpoint.on("taikc/read", "Bille August", contains="Question: Who directed")
    result = hoptree.ask(QUESTION, **settings)
    assert (result.tree[0].answer, result.tree[0].source) == ("Bille August", "external"), "silence means: look it up"


@pytest.mark.parametrize("tagged", [True, False], ids=["in tags", "apart"])
def test_a_model_that_thinks_until_its_tokens_end_gets_more_of_them_from_then_on(
    tagged: bool, settings: dict[str, Any], endpoint: Endpoint
) -> None:
    """The endpoint says something only where there is room for its thought."""
    thought = "RAG_REQUIRED, or rather not found. " * 20

    def thinker(seen: Seen) -> Response:
        if seen.body["max_tokens"] < REASONING_TOKENS:
            return said(f"<think>{thought}" if tagged else "", reasoning=None if tagged else thought, finish="length")
        return in_tags(THOUGHT[seen.step], SAID[seen.step])

    endpoint.on("", thinker)
    result = hoptree.ask(QUESTION, **settings)
    assert result.answer == "1948"
    short = [seen for seen in endpoint.requests if seen.body["max_tokens"] < REASONING_TOKENS]
    assert len(short) == 1, "one call is enough to learn it"
    used = sum(len(f"{THOUGHT[step]} {SAID[step]}".split()) for step in endpoint.steps()[1:])
    assert result.usage.completion_tokens >= used + len(thought.split()), "the thought that led nowhere is paid too"


def test_an_answer_that_thought_left_no_room_for_is_asked_for_with_room(
    settings: dict[str, Any], endpoint: Endpoint
) -> None:
    """Also when some of it was said: else the answer would depend on whether the model was known to think before."""
    script(endpoint, apart)
    endpoint.on("taikc/final", said("1948", reasoning="Short thought.", finish="length"))
    assert hoptree.ask(QUESTION, **settings).answer == "1948"
    assert endpoint.steps().count("taikc/final") == 2


SURE, DOUBTFUL = -0.05, -9.0
THOUGHT_TOKENS = (
    ("<think>", -0.01),
    ("Hm,", DOUBTFUL),
    (" Mallory", DOUBTFUL),
    ("</think>", -0.01),
    ("\n\n", DOUBTFUL),
)


def with_signal(
    endpoint: Endpoint, settings: dict[str, Any], tokens: tuple[tuple[str, float], ...], reasoning: str | None = None
) -> tuple[Result, list[dict[str, Any]]]:
    """Answer by probability; the first sub-question gets these tokens."""
    script(endpoint, apart)
    content = "".join(token for token, _ in tokens)
    shown = content if reasoning is None else "Bille August"
    endpoint.on("taikc/direct", said("1948", logprobs=(("1948", SURE),)))
    endpoint.on("taikc/direct", said(shown, reasoning=reasoning, logprobs=tokens), contains="Who directed")
    endpoint.on("taikc/read", "Mallory", contains="Question: Who directed")
    events: list[Event] = []
    result = hoptree.ask(QUESTION, options={"source": "probability"}, listeners=(events.append,), **settings)
    return result, [event for event in as_dicts(events) if event.get("kind") == "probability"]


def test_doubt_in_thought_is_no_doubt_in_the_answer(settings: dict[str, Any], endpoint: Endpoint) -> None:
    result, decisions = with_signal(endpoint, settings, (*THOUGHT_TOKENS, ("Bille", SURE), (" August", -0.02)))
    assert decisions[0]["signal"] == pytest.approx(math.exp(SURE))
    assert (result.tree[0].answer, result.tree[0].source) == ("Bille August", "internal")
    assert all(seen.body["logprobs"] for seen in endpoint.requests if seen.step == "taikc/direct")


def test_doubt_in_the_answer_counts_however_sure_the_thought_was(settings: dict[str, Any], endpoint: Endpoint) -> None:
    sure_thought = tuple((token, -0.001) for token, _ in THOUGHT_TOKENS)
    result, decisions = with_signal(endpoint, settings, (*sure_thought, ("Bille", SURE), (" August", DOUBTFUL)))
    assert decisions[0]["signal"] == pytest.approx(math.exp(DOUBTFUL))
    assert result.tree[0].source == "fallback", "looked up, and no passage names Mallory"


@pytest.mark.parametrize(
    "tokens",
    [
        (("Hm,", DOUBTFUL), (" Mallory", DOUBTFUL), ("Bille", SURE), (" August", -0.02)),
        (*THOUGHT_TOKENS, ("Bille", SURE), (" August", -0.02)),
    ],
    ids=["thought without tags", "thought with tags"],
)
def test_a_server_that_keeps_thought_apart_but_lists_its_tokens_gives_no_false_doubt(
    tokens: tuple[tuple[str, float], ...], settings: dict[str, Any], endpoint: Endpoint
) -> None:
    """Some servers move the thought to reasoning_content and leave its tokens in logprobs."""
    result, decisions = with_signal(endpoint, settings, tokens, reasoning="Hm, Mallory")
    assert decisions[0]["signal"] == pytest.approx(math.exp(SURE))
    assert (result.tree[0].answer, result.tree[0].source) == ("Bille August", "internal")


def test_a_tag_that_is_part_of_the_thought_apart_leaves_the_answer_whole(
    settings: dict[str, Any], endpoint: Endpoint
) -> None:
    script(endpoint, apart)
    endpoint.on("taikc/final", said("1948", reasoning="</think> <think> RAG_REQUIRED"))
    assert hoptree.ask(QUESTION, **settings).answer == "1948"
