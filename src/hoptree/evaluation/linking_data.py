"""Questions whose entity and relation are known, as SimpleQuestions has them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from hoptree.errors import ConfigError, InputError
from hoptree.evaluation.datasets import HALVES, half_of
from hoptree.evaluation.datasets.fields import Fields
from hoptree.evaluation.datasets.rows import read_question_rows
from hoptree.graph.facts import Entity
from hoptree.graph.linking.relations import Relation
from hoptree.graph.linking.words import name_words
from hoptree.graph.naming import fold
from hoptree.graph.vocabulary import WIKIDATA

__all__ = ["LinkingQuestion", "LinkingSet", "read_linking_questions"]

_ID = re.compile(r"[QP][1-9]\d*|name:.+|[a-z]+://\S+", re.ASCII | re.DOTALL)
_REVERSED = re.compile(r"R(?=[1-9]\d*\Z)", re.ASCII)


@dataclass(frozen=True, slots=True)
class LinkingQuestion:
    """A question with the entity and the relation it is about, each an id or, where there is none, a name.

    `relation_name` is what the data set calls the relation, "" where it does not tell.
    """

    id: str
    text: str
    entity: str
    relation: str = ""
    relation_name: str = ""

    @property
    def by_name(self) -> bool:
        """Whether the entity is known by its name alone: any entity of that name is right then."""
        return _ID.fullmatch(self.entity) is None

    def is_entity(self, entity: Entity) -> bool:
        if not self.by_name:
            return entity.id == self.entity
        return fold(self.entity) in {fold(name) for name in (entity.label, *entity.aliases)}

    def is_relation(self, relation: Relation) -> bool:
        """By the id, or by the name: graphs of several sources have the same relation under several ids."""
        names = {name_words(name) for name in (self.relation_name, self.relation) if name}
        return relation.id == self.relation or name_words(relation.label) in names


@dataclass(frozen=True, slots=True)
class LinkingSet:
    """The questions of a file that can be scored; the others name no entity."""

    questions: tuple[LinkingQuestion, ...]
    without_entity: int = 0


def read_linking_questions(path: Path, *, half: str = "", limit: int | None = None) -> LinkingSet:
    """The first `limit` questions of a file, or of one half of it.

    The entity stands in `subject_qid`, `subject`, or as the first part of the first of `evidence_triples`; the relation
    in `property` (with `property_label`), `relation`, or as the second part.
    """
    if half and half not in HALVES:
        raise ConfigError(f"'{half}' is no half of a data set.", f"Choose {' or '.join(HALVES)}.")
    found: list[LinkingQuestion] = []
    without = 0
    for number, (line, row) in enumerate(read_question_rows(path)):
        question = _question(Fields(row, f"Line {line} of {path.name}", "own"), number)
        if half and half_of(question.id) != half:
            continue
        if question.entity:
            found.append(question)
        else:
            without += 1
    if not found:
        raise InputError(
            f"{path} holds no question whose entity is known.",
            'Rows need "subject_qid" (or "subject") and "property" (or "relation"), or "evidence_triples".',
        )
    return LinkingSet(tuple(found[:limit]), without)


def _question(row: Fields, number: int) -> LinkingQuestion:
    triples = row.rows("evidence_triples", 3)
    subject, relation = (str(part) for part in triples[0][:2]) if triples else ("", "")
    told = row.text("property", "relation") or relation
    return LinkingQuestion(
        row.text("id", "_id") or str(number),
        row.question("question"),
        (row.text("subject_qid", "subject") or subject).removeprefix(WIKIDATA),
        _REVERSED.sub("P", told),  # SimpleQuestions on Wikidata: R19 is P19 the other way round
        row.text("property_label"),
    )
