"""Yes and no in German and Chinese are concluded from passages, as in English."""

from __future__ import annotations

from typing import Any

import pytest
from tests.traced import event

from hoptree.core.values import Answer, Passage
from hoptree.engine.answer_sentence import state_answer
from hoptree.engine.registry import find_method
from hoptree.engine.result import Result, read_result
from hoptree.text.grounding import find_quote, grounded, supports_answer

PASSAGES = [
    {"id": "mc", "title": "Midnight Commander", "text": "Midnight Commander 是一个文件管理器。Ja, nein.", "score": 1},
    {"id": "emil", "title": "埃米尔·勃兰特", "text": "埃米尔·勃兰特是来自伯尔尼的瑞士地质学家。", "score": 1},
    {
        "id": "moon",
        "title": "Mondlicht",
        "text": "Das Mondlicht gehört Katrin Harms. Emil Brandt war da.",
        "score": 1,
    },
]


def answered(question: str, answer: str) -> Result:
    find_method("hop")
    final: dict[str, Any] = {"answer": answer, "source": "external", "abstained": False, "stopped_by": ""}
    return read_result(
        [
            event("start", question=question, method="hop", model="m", fidelity="exact", options={}),
            event("retrieve", t=0.1, passages=PASSAGES, issued=0.0, seconds=0.1),
            event("final", t=1.0, support=[passage["id"] for passage in PASSAGES], **final),
        ]
    )


@pytest.mark.parametrize(
    ("question", "answer", "sentence"),
    [
        ("Gehört das Mondlicht Katrin Harms?", "Ja", "Ja [1]."),
        ("Gehört das Mondlicht Katrin Harms?", "nein.", "Nein [1]."),
        ("War Emil Brandt Schweizer?", "Ja", "Ja [1]."),
        ("埃米尔·勃兰特是瑞士人吗？", "是", "是 [1]。"),
        ("埃米尔·勃兰特是瑞士人吗？", "不是。", "否 [1]。"),
        ("埃米尔·勃兰特是瑞士人吗？", "Yes", "是 [1]。"),
        ("Is Emil Brandt Swiss?", "Yes", "Yes [1]."),
    ],
)
def test_yes_and_no_rest_on_passages_about_the_question(question: str, answer: str, sentence: str) -> None:
    result = answered(question, answer)
    assert len(result.evidence) == 1 < len(result.consulted), "the others are about something else"
    assert (result.sentence, result.support) == (sentence, "partly supported: it follows from what was read")


def test_yes_and_no_are_not_words_to_search_for() -> None:
    passages = [Passage(str(hit["id"]), str(hit["title"]), str(hit["text"])) for hit in PASSAGES]
    for verdict in ("Ja", "Nein", "是", "不是"):
        assert find_quote(verdict, "Lebt hier Emil Brandt?", passages) is None
        assert grounded(Answer(verdict), "Lebt hier Emil Brandt?", passages).support == ("moon",)
        assert supports_answer(verdict, ())
    assert not supports_answer("Ja Rule", ())


def test_a_word_for_yes_answers_a_question_in_english() -> None:
    assert state_answer("What is the German word for yes?", "Ja") == "The German word for yes is Ja"
