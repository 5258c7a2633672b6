"""An answer that follows from steps is shown with what the steps quote."""

from __future__ import annotations

from typing import Any

import pytest
from tests.traced import event

from hoptree.engine.registry import find_method
from hoptree.engine.result import read_result

MARIA = "Maria Moor was a painter. In 1909 she married the geologist Emil Brandt. She died on 3 June 1960."
PASSAGES = [
    {"id": "maria", "title": "Maria Moor", "text": MARIA, "score": 2.0},
    {"id": "emil", "title": "Emil Brandt", "text": "Emil Brandt was a geologist. He died on 4 May 1952.", "score": 1.0},
    {"id": "bern", "title": "Bern", "text": "Bern is a city. Emil Brandt and Maria Moor lived there.", "score": 1.0},
]
COMPARED = event("decision", kind="compared", value=True, kind_of="choice", facts={}, why="Emil died first")
STEPS = [("When did Emil Brandt die?", "4 May 1952", "emil"), ("When did Maria Moor die?", "3 June 1960", "maria")]
QUOTED = "“He died on 4 May 1952.” [2] “She died on 3 June 1960.” [1]"


def stated(question: str, answer: str, *more: Any, steps: list[tuple[str, str, str]] = STEPS) -> str:
    """The sentence of an answer after these steps."""
    find_method("hop")
    nodes: list[dict[str, Any]] = [
        {"id": at, "question": text, "parent": None, "refs": []} for at, (text, _, _) in enumerate(steps, 1)
    ]
    settled = [
        event("node", t=0.3, id=at, state="answered", source="external", answer=value, evidence=[name], resolved=text)
        for at, (text, value, name) in enumerate(steps, 1)
    ]
    support = [passage["id"] for passage in PASSAGES]
    final = {"answer": answer, "source": "external", "support": support, "abstained": False, "stopped_by": ""}
    return read_result(
        [
            event("start", question=question, method="hop", model="m", fidelity="exact", options={}),
            event("retrieve", t=0.1, passages=PASSAGES, issued=0.0, seconds=0.1),
            event("plan", t=0.2, nodes=nodes, issues=[]),
            *settled,
            *more,
            event("final", t=1.0, **final),
        ]
    ).sentence


@pytest.mark.parametrize("decided", [(), (COMPARED,)])
@pytest.mark.parametrize(
    ("question", "answer", "begin"),
    [
        ("Who died first, Emil Brandt or Maria Moor?", "Emil Brandt", "Emil Brandt died first"),
        ("Did Emil Brandt die before Maria Moor?", "Yes", "Yes"),
        ("Did Emil Brandt die after Maria Moor?", "No", "No"),
    ],
)
def test_a_comparison_quotes_its_steps(question: str, answer: str, begin: str, decided: tuple[Any, ...]) -> None:
    assert stated(question, answer, *decided) == f"{begin}: {QUOTED}"


def test_quotations_of_steps_have_the_marks_of_the_language() -> None:
    sentence = stated("Wer starb zuerst, Emil Brandt oder Maria Moor?", "Emil Brandt")
    assert sentence.endswith("lautet Emil Brandt: „He died on 4 May 1952.“ [2] „She died on 3 June 1960.“ [1]")


def test_the_answer_of_a_last_step_is_quoted_from_that_step() -> None:
    last = ("Whom did Maria Moor marry?", "Emil Brandt", "maria")
    sentence = stated("Who married the painter who died in 1960?", "Emil Brandt", steps=[STEPS[1], last])
    assert sentence.endswith("“In 1909 she married the geologist Emil Brandt.” [1]")
