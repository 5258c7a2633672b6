"""Names marked by GLiNER and ReLiK; small modules stand in for the packages, as their real calls look."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import pytest

from hoptree.core.errors import ConfigError, HoptreeError, InputError, MissingModel, UnusableReply
from hoptree.graph.entity_linking import LABELS, Mention, MentionModelCandidates, open_mention_model
from hoptree.graph.facts import Candidate, Entity
from hoptree.text.names import fold

ENTITIES = (
    Entity("Q1", "Splendor in the Grass", page="Splendor in the Grass (film)"),
    Entity("Q2", "Splendor in the Grass", description="a song"),
    Entity("Q3", "Elia Kazan", ("Elia Kazanjoglou",)),
    Entity("Q4", "Natalie Wood"),
)


class Names:
    """An index of names that finds them as they are."""

    async def of_mention(self, mention: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        wanted = fold(mention)
        matches = [entity for entity in ENTITIES if wanted in map(fold, (entity.label, *entity.aliases))]
        return tuple(Candidate(entity, 0.85**place) for place, entity in enumerate(matches))[:limit]

    async def of_text(self, text: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        raise AssertionError("the model reads texts")


class Told:
    """A reader that was told what to say, and counts how often it was asked."""

    name = "told"

    def __init__(self, *mentions: Mention) -> None:
        self.mentions, self.texts = mentions, list[str]()

    def read(self, text: str) -> tuple[Mention, ...]:
        self.texts.append(text)
        return self.mentions


def linked(*mentions: Mention, limit: int = 10) -> list[tuple[str, float]]:
    linked_candidates = asyncio.run(
        MentionModelCandidates(Told(*mentions), Names()).of_text("some question", limit=limit)
    )
    return [(candidate.entity.id, candidate.score) for candidate in linked_candidates]


def test_marked_names_are_looked_up() -> None:
    assert linked(Mention("elia kazan", score=0.5), Mention("Splendor in the Grass", score=0.9)) == [
        ("Q1", 0.9),
        ("Q2", 0.765),
        ("Q3", 0.5),
    ]
    assert linked(Mention("Elia Kazan", score=0.4), Mention("Elia Kazanjoglou", score=0.8)) == [("Q3", 0.8)]
    assert linked(Mention("Splendor in the Grass"), limit=1) == [("Q1", 1.0)] and linked() == []


def test_a_title_is_an_entity_by_its_page_then_by_its_name_then_by_the_words_in_the_text() -> None:
    assert linked(Mention("it", "Splendor in the Grass (film)")) == [("Q1", 1.0)]
    assert linked(Mention("it", "Splendor in the Grass (song)")) == [("Q1", 1.0), ("Q2", 0.85)]
    assert linked(Mention("Kazan", "Elia Kazanjoglou")) == [("Q3", 1.0)]
    assert linked(Mention("Natalie Wood", "Natalia Zakharenko")) == [("Q4", 1.0)]
    assert linked(Mention("nobody", "No Such Page")) == []


class Titles:
    """Titles of a corpus, which have no ids."""

    async def of_mention(self, mention: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        return (Candidate(Entity("", mention), 1.0),)

    async def of_text(self, text: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        return ()


def test_titles_are_told_apart_without_ids() -> None:
    reader = Told(Mention("Film Alpha", score=0.9), Mention("Film Beta", score=0.8))
    candidates = asyncio.run(
        MentionModelCandidates(reader, Titles()).of_text("Do Film Alpha and Film Beta share a maker?")
    )
    assert [candidate.entity.label for candidate in candidates] == ["Film Alpha", "Film Beta"]


def test_a_text_is_read_once() -> None:
    reader = Told(Mention("Elia Kazan"))
    candidates = MentionModelCandidates(reader, Names())
    for _ in range(2):
        asyncio.run(candidates.of_text("who was elia kazan"))
    assert asyncio.run(candidates.of_text("  ")) == () and reader.texts == ["who was elia kazan"]
    assert asyncio.run(candidates.of_mention("Natalie Wood"))[0].entity.id == "Q4"


class FakeGLiNER:
    loaded: ClassVar[list[str]] = []

    @classmethod
    def from_pretrained(cls, model_id: str, **kwargs: Any) -> FakeGLiNER:
        if model_id == "missing":
            raise OSError("no such model")
        cls.loaded.append(model_id)
        return cls()

    def predict_entities(
        self, text: str, labels: Sequence[str], flat_ner: bool = True, threshold: float = 0.5
    ) -> list[dict[str, Any]]:
        assert list(labels) == list(LABELS) and 0 < threshold < 0.5
        if "crash" in text:
            raise RuntimeError("out of memory")
        spans = [("natalie wood", "person", 0.61), ("splendor in the grass", "film", 0.97), (" ", "film", 0.5)]
        return [
            {
                "start": text.find(mention),
                "end": text.find(mention) + len(mention),
                "text": mention,
                "label": label,
                "score": score,
            }
            for mention, label, score in spans
            if mention in text
        ]


class Span(NamedTuple):
    start: int
    end: int
    label: str
    text: str


class FakeRelik:
    @classmethod
    def from_pretrained(cls, model_name_or_dir: str, config_file_name: str = "config.yaml", **kwargs: Any) -> FakeRelik:
        print("a banner")  # noqa: T201 - as the real one does
        return cls()

    def __call__(self, text: str | list[str] | None = None, **kwargs: Any) -> SimpleNamespace:
        spans = [Span(0, 4, "Elia Kazan", "Elia"), Span(9, 12, "--NME--", "Nat")]
        return SimpleNamespace(text=text, tokens=[], id=0, spans=spans, triplets=[], candidates=None)


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, attribute, fake in (("gliner", "GLiNER", FakeGLiNER), ("relik", "Relik", FakeRelik)):
        module = ModuleType(name)
        setattr(module, attribute, fake)
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.usefixtures("packages")
def test_gliner_marks_names_the_surest_first() -> None:
    reader = open_mention_model("gliner:urchade/gliner_small-v2.1")
    assert FakeGLiNER.loaded[-1] == "urchade/gliner_small-v2.1" and reader.name == "gliner:urchade/gliner_small-v2.1"
    assert reader.read("did natalie wood star in splendor in the grass") == (
        Mention("splendor in the grass", score=0.97),
        Mention("natalie wood", score=0.61),
    )
    with pytest.raises(UnusableReply, match="out of memory"):
        reader.read("crash")
    with pytest.raises(MissingModel, match="GLiNER cannot load missing") as raised:
        open_mention_model("gliner:missing")
    assert raised.value.exit_code == 2


@pytest.mark.usefixtures("packages")
def test_relik_names_titles(capsys: pytest.CaptureFixture[str]) -> None:
    reader = open_mention_model("relik:some/folder")
    assert reader.read("Elia and Nat") == (Mention("Elia", "Elia Kazan"), Mention("Nat"))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", ["gliner", "relik"])
def test_a_package_that_is_not_there_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=f"needs the package {name}.*pip install"):
        open_mention_model(f"{name}:model")


@pytest.mark.parametrize("spec", ["spacy:x", "gliner", "gliner:", "relik: ", ":x", ""])
def test_other_linkers_are_refused(spec: str) -> None:
    with pytest.raises(ConfigError, match="is not a linker"):
        open_mention_model(spec)


def test_errors_of_a_reader_reach_the_one_who_asks() -> None:
    class Broken(Told):
        def read(self, text: str) -> tuple[Mention, ...]:
            raise UnusableReply("it broke")

    with pytest.raises(HoptreeError, match="it broke"):
        asyncio.run(MentionModelCandidates(Broken(), Names()).of_text("x"))
