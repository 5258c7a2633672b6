"""A question over two passages, and a scripted model that answers it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.endpoint import index_of

from hoptree.integrations.engine_thread import Hoptree
from hoptree.models.scripted import Rule, ScriptedModel

__all__ = ["QUESTION", "broken", "films", "model"]

QUESTION = "In which year was the director of Night Train to Lisbon born?"
PLAN = {
    "query1": {
        "question": "Who directed Night Train to Lisbon?",
        "children": {"query2": {"question": "In which year was #query1 born?"}},
    }
}
PASSAGES = (
    ("Night Train to Lisbon", "Night Train to Lisbon is a film of 2013. Bille August directed it."),
    ("Bille August", "Bille August was born in 1948 in Denmark. He directed several films."),
)


def model() -> ScriptedModel:
    rules = [
        Rule(json.dumps(PLAN), step="decompose"),
        Rule("RAG_REQUIRED", step="confident"),
        Rule("Bille August", step="read", contains="Question: Who directed"),
        Rule("1948", step="read"),
        Rule("He was born in 1948.", step="summarise"),
        Rule("1948", step="final"),
    ]
    return ScriptedModel(rules=rules)


def films(folder: Path, scripted: ScriptedModel | None = None) -> Hoptree:
    """Hoptree over the two passages, with a model that answers QUESTION."""
    return Hoptree(method="taikc", model=scripted or model(), corpus=index_of(folder, *PASSAGES), cache=None)


def broken() -> Hoptree:
    """Hoptree with a model that refuses the key."""
    return Hoptree(method="direct", model=ScriptedModel(rules=[Rule(fault="401")]), cache=None)
