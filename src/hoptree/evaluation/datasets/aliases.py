"""Further names of answers that a data set keeps in a file of its own."""

from __future__ import annotations

from pathlib import Path

from hoptree.errors import InputError
from hoptree.evaluation.datasets.fields import Fields, distinct
from hoptree.evaluation.datasets.rows import read_question_rows

__all__ = ["Aliases", "read_aliases"]


class Aliases:
    """Names by the id of what they name, or by the id of the question they answer."""

    def __init__(self, names: dict[str, tuple[str, ...]] | None = None) -> None:
        self._names = names or {}

    def of(self, key: str) -> tuple[str, ...]:
        """The names of one thing; none if nothing is known about it."""
        return self._names.get(key, ())


def read_aliases(path: Path) -> Aliases:
    """Aliases from 2WikiMultihopQA's id_aliases.json, AdvHotpotQA's alt_answers.jsonlines, or a file of entities.

    A row names a thing (`Q_id`, `qas_id` or `id`) and gives some of `label`, `answer`, `aliases` and `demonyms`. Rows
    about the same thing add up.
    """
    names: dict[str, tuple[str, ...]] = {}
    for line, row in read_question_rows(path):
        fields = Fields(row, f"Line {line} of {path.name}", "aliases")
        key = fields.text("Q_id", "qas_id", "id")
        if not key:
            raise fields.wrong("names nothing that has aliases (Q_id, qas_id or id)")
        given = [[fields.text("label")], [fields.text("answer")], fields.texts("aliases"), fields.texts("demonyms")]
        names[key] = distinct(names.get(key, ()), *given)
    if not names:
        raise InputError(f"{path} holds no aliases.", 'Each row has a "Q_id" and a list "aliases".')
    return Aliases(names)
