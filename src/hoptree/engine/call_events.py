"""Events of calls beyond the method: models, searches, graphs, and their retries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from hoptree.engine.events import OMIT, Event, OfNode
from hoptree.engine.generation_view import GenerationView


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldCall(OfNode):
    """A call of a model, a search or a graph. `seconds` is the work on it, `issued` when it was asked for."""

    cached: bool = False
    issued: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCalled(WorldCall):
    """A model replied. `price` is what the tokens would cost without any cache, `cost` what they did cost."""

    event: ClassVar[str] = "llm"
    step: str = ""
    template: str = ""
    role: str = "answer"
    reply: str = ""
    finish: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    price: float | None = field(default=None, metadata=OMIT)
    cost: float = 0.0

    @property
    def full_price(self) -> float:
        """What the tokens would cost without any cache; old traces know only what they did cost."""
        return self.cost if self.price is None else self.price


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieved(WorldCall):
    """A search found `passages`: objects with id, title, text and score."""

    event: ClassVar[str] = "retrieve"
    query: str = ""
    kind: str = ""
    k: int = 0
    where: dict[str, str] | None = field(default=None, metadata=OMIT)
    passages: list[dict[str, Any]] = field(default_factory=list)

    def add_to(self, view: GenerationView) -> None:
        view.find(self.query, self.passages)


@dataclass(frozen=True, slots=True, kw_only=True)
class TitlesFound(WorldCall):
    """The titles of the best passages for a name were looked up; no passage was read."""

    event: ClassVar[str] = "titles"
    name: str = ""
    k: int = 0
    titles: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsFound(WorldCall):
    """The knowledge graph gave the facts around an entity."""

    event: ClassVar[str] = "facts"
    entity: str = ""
    label: str = ""
    direction: str = "both"
    facts: list[str] = field(default_factory=list)
    complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EntitiesFound(WorldCall):
    """The knowledge graph gave the entities that a name, or a text, may mean: pairs of id and label."""

    event: ClassVar[str] = "entities"
    name: str = ""
    whole: bool | None = field(default=None, metadata=OMIT)
    found: list[list[str]] = field(default_factory=list)
    scores: list[float] | None = field(default=None, metadata=OMIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried(Event):
    """An attempt failed and is made again after `wait` seconds."""

    event: ClassVar[str] = "retry"
    step: str = ""
    error: str = ""
    wait: float = 0.0
