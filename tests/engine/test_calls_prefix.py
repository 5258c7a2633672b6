"""A request that only looks at a prefix stays one, whatever the model."""

from __future__ import annotations

import asyncio

from hoptree.engine.calls import Calls
from hoptree.models.model import Choice, Message, Reply, Request
from hoptree.models.scripted import Rule, ScriptedModel


class Listening(ScriptedModel):
    asked: list[int]

    async def generate(self, request: Request, *, step: str) -> Reply:
        self.asked.append(request.max_tokens)
        return await super().generate(request, step=step)


def test_a_model_that_thinks_gets_no_room_to_write_behind_a_prefix() -> None:
    model = Listening(rules=[Rule("<think>Hm", finish="length", times=2), Rule("red", entropy=1.0)])
    model.asked = []
    asking = Request((Message("user", "Who?"),), max_tokens=8)
    looking = Request((Message("user", "Who?"),), max_tokens=0, prefix="the hill", signals=frozenset({"entropy"}))

    async def run() -> Choice:
        calls = Calls(None)
        await calls.generate(model, asking, step="s", on_retry=lambda error, wait: None)
        call = await calls.generate(model, looking, step="s", on_retry=lambda error, wait: None)
        return call.reply.choices[0]

    assert len(asyncio.run(run()).tokens) == 2
    assert model.asked[0] == 8 and model.asked[1] > 8 and model.asked[-1] == 0
