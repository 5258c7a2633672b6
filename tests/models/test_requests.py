"""What a request may ask for: values that mean nothing are refused before any model sees them."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

import pytest
from tests.e2e.endpoint import Endpoint, Response, Seen, refused, said

from hoptree.core.errors import ConfigError
from hoptree.models.llama_cpp import request_body
from hoptree.models.model import Message, Request
from hoptree.models.openai import OpenAIModel

ASKED = (Message("user", "Who?"),)


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ({"temperature": -0.1}, "temperature is -0.1"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"temperature": math.inf}, "temperature is inf"),
        ({"top_p": 0.0}, "top_p is 0"),
        ({"top_p": 1.01}, "top_p is 1.01"),
        ({"top_p": math.nan}, "top_p is nan"),
        ({"top_k": -1}, "top_k is -1"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"max_tokens": -1, "prefix": "The"}, "max_tokens is -1"),
        ({"n": 0}, "0 replies"),
        ({"top_logprobs": -1}, "top_logprobs is -1"),
    ],
)
def test_what_means_nothing_is_refused_with_what_would(values: dict[str, Any], cause: str) -> None:
    with pytest.raises(ConfigError, match=cause) as caught:
        Request(ASKED, **values)
    assert caught.value.remedy.startswith("Give ") and caught.value.exit_code == 2


def test_a_request_that_only_looks_at_what_is_there_writes_nothing() -> None:
    for values in ({"prefix": "The"}, {"signals": frozenset({"hidden"})}, {"prefix": "The", "attention_of": ((0, 1),)}):
        assert Request(ASKED, 0, **values).max_tokens == 0


def test_llama_gets_what_cuts_off_only_where_something_does() -> None:
    greedy, plain = request_body(Request(ASKED, top_p=0.9), 0), request_body(Request(ASKED, temperature=0.7), 0)
    assert (greedy["top_p"], greedy["top_k"], plain["top_p"], plain["top_k"]) == (1.0, 1, 1.0, 0)
    assert "samplers" not in greedy and "samplers" not in plain
    cut = request_body(Request(ASKED, temperature=0.7, top_p=0.9, top_k=50), 0)
    assert (cut["temperature"], cut["top_p"], cut["top_k"], cut["min_p"]) == (0.7, 0.9, 50, 0.0)
    assert cut["samplers"].index("temperature") == 0


@pytest.mark.parametrize("picky", [False, True])
def test_an_endpoint_gets_top_p_if_it_takes_it_and_no_top_k(picky: bool) -> None:
    """Top-k is no part of its protocol, and its capabilities say so."""

    def refuse(seen: Seen) -> Response | None:
        return refused(400, "Unsupported parameter: 'top_p'.") if picky and "top_p" in seen.body else None

    with Endpoint() as endpoint:
        endpoint.before = refuse
        endpoint.on("", said("Ada"))
        model = OpenAIModel("test", base_url=endpoint.url)

        async def ask() -> None:
            for values in ({}, {"top_p": 0.9, "top_k": 50}):
                await model.generate(Request(ASKED, temperature=1.0, **values), step="s")  # type: ignore[arg-type]
            await model.aclose()

        asyncio.run(ask())
    bodies = [json.loads(seen.key) for seen in endpoint.requests]
    assert [body.get("top_p") for body in bodies] == [None, 0.9, *([None] if picky else [])]
    assert all("top_k" not in body for body in bodies)
    assert "top_p" in model.capabilities and "top_k" not in model.capabilities
