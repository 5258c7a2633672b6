"""How what a knowledge graph said is remembered, and by what it is found again."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from hoptree.graph.facts import Entity, Fact, Neighbourhood, Qualifier, Term
from hoptree.runtime.cache import Form

__all__ = ["ENTITIES", "NEIGHBOURHOOD", "graph_key"]


def graph_key(identity: str, asked: str, **settings: Any) -> list[str]:
    """Everything that determines what a graph says to one question."""
    return ["graph", identity, asked, json.dumps(settings, sort_keys=True)]


def _load_entity(data: dict[str, Any]) -> Entity:
    return Entity(**{**data, "aliases": tuple(data["aliases"])})


def _load_fact(data: dict[str, Any]) -> Fact:
    qualifiers = tuple(Qualifier(Term(**one["relation"]), Term(**one["value"])) for one in data["qualifiers"])
    subject, relation, value = (Term(**data[name]) for name in ("subject", "relation", "object"))
    return Fact(subject, relation, value, qualifiers, tuple(data["sources"]))


def _load_neighbourhood(data: dict[str, Any]) -> Neighbourhood:
    found = data["around"]
    return Neighbourhood(_load_entity(found["entity"]), tuple(map(_load_fact, found["facts"])), found["complete"])


def _dump_neighbourhood(found: Neighbourhood) -> dict[str, Any]:
    return {"around": asdict(found)}


def _dump_entities(found: tuple[Entity, ...]) -> dict[str, Any]:
    return {"entities": [asdict(one) for one in found]}


def _load_entities(data: dict[str, Any]) -> tuple[Entity, ...]:
    return tuple(map(_load_entity, data["entities"]))


NEIGHBOURHOOD = Form(_dump_neighbourhood, _load_neighbourhood)
ENTITIES = Form(_dump_entities, _load_entities)
