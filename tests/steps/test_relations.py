"""Relations ranked by words, by an encoder, and by the model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from hoptree.graph.facts import Entity
from hoptree.graph.linking import Relation
from hoptree.models.scripted import Rule, ScriptedModel
from hoptree.runtime.calls import Calls
from hoptree.runtime.context import Context
from hoptree.runtime.trace import Trace
from hoptree.steps.relations import ByEncoder, ByModel, ByWords, RelationRanking

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

RELATIONS = (
    Relation("P1", "place of death", ("died in",), values=("Holyoke",)),
    Relation("P2", "occupation", description="what they do"),
    Relation("P3", "crew", outward=False, values=("Apollo 12", "Skylab 3")),
)


def ranked(
    ranking: RelationRanking, question: str, model: ScriptedModel, relations: Sequence[Relation] = RELATIONS
) -> list[str]:
    ctx = Context(method="treeqa", model=model, calls=Calls(None), trace=Trace("t"))
    entity = Entity("Q1", "Alan Bean")
    return [one.id for one in asyncio.run(ranking.rank(ctx, question, relations, keep=2, entity=entity))]


def scripted(reply: str = "") -> ScriptedModel:
    return ScriptedModel(rules=[Rule(reply)] if reply else [])


def test_by_words() -> None:
    ranking = ByWords()
    assert ranked(ranking, "what is the occupation of alan bean", scripted())[0] == "P2"
    assert ranked(ranking, "where did he die", scripted())[0] == "P1"
    assert ranked(ranking, "occupation", scripted(), RELATIONS[:1]) == ["P1"]  # other relations, another ranking


def test_by_the_model() -> None:
    model = scripted("[2]")
    assert ranked(ByModel(ByWords()), "where did alan bean die", model) == ["P2"]
    (request,) = model.requests
    assert request[0] == "treeqa/relations"
    assert "[1] Alan Bean | place of death | Holyoke\n[2] Alan Bean | occupation | what they do" in request[1]
    assert "[3] Apollo 12, Skylab 3 | crew | Alan Bean" in request[1]
    assert ranked(ByModel(ByWords()), "where did alan bean die", scripted("hm")) == ["P1", "P2"]
    assert ranked(ByModel(ByWords()), "where did alan bean die", scripted("None")) == []
    assert ranked(ByModel(ByWords()), "any", scripted(), RELATIONS[:1]) == ["P1"]
    assert ranked(ByModel(ByWords()), "any", scripted(), ()) == []


class Letters:
    """Texts are near if they share letters."""

    name = identity = "letters"
    dimensions = 26
    remote = False

    def __init__(self) -> None:
        self.encoded: list[str] = []

    async def encode(self, texts: Sequence[str], *, role: str) -> NDArray[numpy.float32]:
        numpy = pytest.importorskip("numpy")
        self.encoded += texts
        rows = numpy.array([[text.count(chr(97 + letter)) for letter in range(26)] for text in texts], dtype="float32")
        return rows / numpy.maximum(numpy.linalg.norm(rows, axis=1, keepdims=True), 1e-9)  # type: ignore[no-any-return]

    async def aclose(self) -> None:
        return None


def test_by_an_encoder_the_nearest_name_counts_and_names_are_encoded_once() -> None:
    pytest.importorskip("numpy")
    letters = Letters()
    ranking = ByEncoder(letters)
    assert ranked(ranking, "died in", scripted())[0] == "P1"
    assert ranked(ranking, "crew", scripted())[0] == "P3"
    assert letters.encoded.count("occupation") == 1 and ranked(ranking, "x", scripted(), ()) == []
