"""What a model tells of its inside where that is no number, though its scores are."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.models.hf_asking import ask_all, asking, mixed
from tests.timing import TIMEOUT_S

from hoptree.core.errors import EndpointError
from hoptree.models.model import Signal

torch: Any = pytest.importorskip("torch")
pytest.importorskip("transformers")
decoder: Any = importlib.import_module("hoptree.models.batching.decoder")


@pytest.mark.parametrize("signal", ["attention", "hidden"])
def test_a_written_row_fails_and_no_other(
    opened: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, signal: Signal
) -> None:
    model = opened()
    requests = [replace(request, signals=frozenset({signal})) for request in mixed(4, max_tokens=20)]
    expected = ask_all(model, requests)
    damaged = asking("zzzz", max_tokens=12, signals=frozenset({signal}))
    poison = model.loaded().tokenizer.encode("zzzz")[-1]
    plain_write, plain_note = decoder.DecoderOnly.write, decoder.Row.note_attention

    def write(self: Any, rows: Any) -> Any:
        said = plain_write(self, rows)
        for row in rows:
            if row.hidden is not None and poison in row.prompt:
                row.hidden = row.hidden * float("nan")
        return said

    def note_attention(self: Any, weights: Any, first: int) -> None:
        plain_note(self, weights * float("nan") if poison in self.prompt else weights, first)

    monkeypatch.setattr(decoder.DecoderOnly, "write", write)
    monkeypatch.setattr(decoder.Row, "note_attention", note_attention)

    async def all_of() -> list[Any]:
        calls = [*requests[:2], damaged, *requests[2:]]
        return await asyncio.gather(*(model.generate(one, step="s") for one in calls), return_exceptions=True)

    found = asyncio.run(asyncio.wait_for(all_of(), TIMEOUT_S))
    broken = found.pop(2)
    assert isinstance(broken, EndpointError) and not broken.retryable
    assert "attention or hidden state" in str(broken) and "not finite" in str(broken)
    assert [one.text for one in found] == [one.text for one in expected]
