"""Requests for models of transformers, one by one and all at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

from hoptree.models.model import Message, Reply, Request

__all__ = ["WORDS", "ask", "ask_all", "asking", "mixed", "texts"]

WORDS = ("red", "green", "blue", "one", "two", "three", "river", "hill", "town", "who", "wrote", "where", "is", "the")


def asking(text: str = "who wrote it", **options: Any) -> Request:
    return Request((Message("user", text),), **{"max_tokens": 12, **options})


def mixed(count: int, most_words: int = 60, most_tokens: int = 30, **options: Any) -> list[Request]:
    """Requests of very different lengths, in the prompt and in the reply."""
    chance = random.Random(5)
    return [
        asking(
            " ".join(chance.choices(WORDS, k=chance.randint(1, most_words))),
            **{"max_tokens": chance.randint(1, most_tokens), **options},
        )
        for _ in range(count)
    ]


def ask(model: Any, request: Request) -> Reply:
    reply: Reply = asyncio.run(model.generate(request, step="test"))
    return reply


def ask_all(model: Any, requests: Sequence[Request], gap: float = 0.0) -> list[Reply]:
    async def one(request: Request, wait: float) -> Reply:
        await asyncio.sleep(wait)
        reply: Reply = await model.generate(request, step="test")
        return reply

    async def together() -> list[Reply]:
        return await asyncio.gather(*(one(request, gap * number) for number, request in enumerate(requests)))

    return asyncio.run(together())


def texts(replies: Sequence[Reply]) -> list[str]:
    return [choice.text for reply in replies for choice in reply.choices]
