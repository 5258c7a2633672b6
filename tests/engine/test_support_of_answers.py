"""An answer is well supported only if what was read has it together with what the question names, and it fits."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console
from tests.traced import event

from hoptree.cli.render import show_result
from hoptree.core.values import CONTENTS, Passage
from hoptree.engine.answer_sentence import cite_answer, state_answer
from hoptree.engine.registry import find_method
from hoptree.engine.result import Result, read_result
from hoptree.engine.trace import hit_of, passage_of
from hoptree.text.answer_fit import explain_misfit, names_thing, shorten_row
from hoptree.text.comparison_questions import asks_twice
from hoptree.text.names import sentences
from hoptree.text.tokens import language_of

ANTIGUA = {
    "id": "antigua",
    "title": "Antigua and Barbuda",
    "text": "Antigua and Barbuda is an island country. The capital is Saint John's. John Poe is the mayor.",
    "score": 2.0,
}
ANDORRA = {
    "id": "andorra",
    "title": "Andorra",
    "text": "Andorra is a small state in the Pyrenees. People pay in euro there.",
    "score": 1.0,
}
TABLE = {
    "id": "table",
    "title": "table",
    "text": "name: Antigua; currency: XCD; captain: John Poe\nname: Andorra; currency: EUR; captain: Jane Roe",
    "score": 1.0,
}
NOT_TOGETHER = "but not together with what the question names"


def asked(question: str, answer: str, support: str, *more: Any, probability: float | None = 0.9) -> Result:
    """The result of an answer that was read in one passage of three, as likely as that."""
    find_method("hop")
    weighed: dict[str, Any] = {"why": "", "given": True, "why_not": "", "over": [], "calibrated_on": "Z"}
    chosen = [event("decision", kind="chosen", value=answer, probability=probability, **weighed)]
    return read_result(
        [
            event("start", question=question, method="hop", model="m", fidelity="exact", options={}),
            event("retrieve", t=0.1, passages=[ANTIGUA, ANDORRA, TABLE], issued=0.0, seconds=0.1),
            *more,
            *(chosen if probability is not None else []),
            event("final", t=1.0, answer=answer, source="external", support=[support], abstained=False, stopped_by=""),
        ]
    )


def level(result: Result) -> str:
    assert result.confidence is not None
    return result.confidence.level


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("How deep is Lake Orta?", "143 m", "well supported"),
        ("How deep is Lake Orta?", "143 km", "a guess"),
        ("On which day is Lake Orta frozen?", "9th of January", "well supported"),
        ("Which nationality does Lake Orta's owner have?", "Italian", "partly supported"),
    ],
)
def test_an_answer_in_another_form_is_supported(question: str, answer: str, expected: str) -> None:
    text = "Lake Orta is 143 metres deep. On January 9 it is frozen. Its owner is from Italy."
    orta = event(
        "retrieve", t=0.2, passages=[{"id": "o", "title": "Lake Orta", "text": text, "score": 1.0}], issued=0.0
    )
    answered = asked(question, answer, "o", orta)
    assert level(answered) == expected
    assert answered.support.endswith("but only by the name of its country") is (answer == "Italian")


@pytest.mark.parametrize("probability", [0.9, None])
@pytest.mark.parametrize(
    ("question", "answer", "support"),
    [
        ("What is the capital of Andorra?", "Saint John's", "antigua"),
        ("What is the captain of Borealis?", "John Poe", "antigua"),
        ("what is the captain of borealis", "John Poe", "antigua"),
        ("What is the captain of Borealis?", "John Poe", "table"),
        ("What is the currency of Andorra?", "XCD", "table"),
        ("What is Andorra's currency?", "XCD", "table"),
        ("Who is the captain of Andorra?", "John Poe", "table"),
        ("Who are the captain and the mayor of Borealis?", "John Poe, Saint John's", "antigua"),
    ],
)
def test_what_does_not_stand_beside_the_name_asked_about_is_partly_supported(
    question: str, answer: str, support: str, probability: float | None
) -> None:
    answered = asked(question, answer, support, probability=probability)
    assert level(answered) == "partly supported" and NOT_TOGETHER in answered.support


@pytest.mark.parametrize(
    ("question", "answer", "support"),
    [
        ("What is the capital of Antigua and Barbuda?", "Saint John's", "antigua"),
        ("What is the capital of Antigua?", "Saint John's", "antigua"),
        ("what is the capital of antigua?", "Saint John's", "antigua"),
        ("What is the currency of Andorra?", "EUR", "table"),
        ("Who is the captain of Andorra?", "Jane Roe", "table"),
        ("What do people pay with in Andorra?", "euro", "andorra"),
    ],
)
def test_what_stands_beside_the_name_asked_about_is_well_supported(question: str, answer: str, support: str) -> None:
    answered = asked(question, answer, support)
    assert level(answered) == "well supported" and answered.support.endswith("says so")


@pytest.mark.parametrize(
    ("question", "title", "text"),
    [
        ("Where was Wojciech Jerzy Has born?", "Wojciech Jerzy Has", "He was born in Kraków."),
        ("Where was Wojciech Moor born?", "A school", "Its rector was Moor, born in Kraków."),
        ("What is Colleen Zenk Pinter's occupation?", "Colleen Zenk", "She is an actress."),
        ("Who is the president of Poland?", "A palace", "The Polish president lives there."),
        ("Who is the president of the USA?", "A house", "The president of the United States lives there."),
        ("Who invaded the Falkland Islands?", "Falklands War", "Argentina did."),
        ("What were Horsas?", "Airspeed Horsa", "It was a glider."),
        ("Who wrote Łódź's anthem?", "Lodz", "It was Bo."),
        ("who owns reading football club", "Reading F.C.", "Dai owns it."),
    ],
)
def test_other_forms_of_a_name_are_enough(question: str, title: str, text: str) -> None:
    assert names_thing(question, Passage("p", title, text))


@pytest.mark.parametrize(
    ("question", "title", "text"),
    [
        ("Where was Ada Moor born?", "Ada Lovelace", "Ada Lovelace was born in London."),
        ("Where was Wojciech Jerzy Has born?", "A school", "It has a rector from Kraków."),
        ("Who leads Lund University?", "Oslo University", "Bo leads the university."),
        ("What is the capital of Andorra?", "Antigua", "The capital is Saint John's."),
        ("Who is the president of Poland?", "A palace", "The Dutch president lives there."),
    ],
)
def test_another_thing_of_the_kind_is_not_the_one_asked_about(question: str, title: str, text: str) -> None:
    assert not names_thing(question, Passage("p", title, text))


def test_the_lines_around_a_table_count_for_each_row() -> None:
    prices = {"id": "prices", "title": "", "text": "Andorra\nkind: bread; cost: 2\nkind: tea; cost: 9", "score": 1.0}
    more = event("retrieve", t=0.2, passages=[prices], issued=0.0, seconds=0.1)
    assert level(asked("What does tea cost in Andorra?", "9", "prices", more)) == "well supported"


def test_a_row_is_quoted_with_its_name_and_what_was_asked_for() -> None:
    answered = asked("What is the currency of Andorra?", "EUR", "table")
    assert "“name: Andorra; currency: EUR; …”" in answered.sentence
    row = "name: Bo; born: 1950; height: 2 m; weight: 80 kg; club: Lund"
    assert shorten_row(row, "Which club does Bo play for?", "Lund") == "name: Bo; …; club: Lund"
    assert shorten_row(row, "How heavy is Bo?", "80 kg") == "name: Bo; …; weight: 80 kg; …"
    assert shorten_row("He said: no; she said: yes.", "What?", "yes") == "He said: no; she said: yes."
    assert shorten_row("It is here; it stays.", "What?", "it") == "It is here; it stays."


def test_a_passage_that_leads_to_the_one_with_the_answer_is_cited_too() -> None:
    film = {"id": "film", "title": "Vertigo", "text": "Vertigo is a film by Alfred Hitchcock.", "score": 2.0}
    page = {"id": "page", "title": "Alfred Hitchcock", "text": "He died in Los Angeles.", "score": 1.0}
    more = event("retrieve", t=0.2, passages=[film, page], issued=0.0, seconds=0.1)
    answered = asked("Where did the director of Vertigo die?", "Los Angeles", "page", more)
    assert level(answered) == "well supported" and [passage.id for passage in answered.evidence] == ["page", "film"]
    assert answered.sentence.endswith(": “He died in Los Angeles.” [1][2]")
    console = Console(record=True, width=200, file=io.StringIO())
    show_result(console, answered)
    assert "[2] film  Vertigo: Vertigo is a film" in console.export_text()
    other = asked("Where did the director of Psycho die?", "Los Angeles", "page", more)
    assert level(other) == "partly supported" and len(other.evidence) == 1


@pytest.mark.parametrize(("cited", "well"), [("antigua", False), ("andorra", True)])
def test_what_a_step_cites_must_name_what_it_asks_about(cited: str, well: bool) -> None:
    for steps in (1, 2):
        questions = ["What is the capital of Andorra?", "What do people pay with in Andorra?"][:steps]
        nodes: list[dict[str, Any]] = [
            {"id": at, "question": text, "parent": None, "refs": []} for at, text in enumerate(questions, 1)
        ]
        step = {"state": "answered", "source": "external"}
        more = [
            event("plan", t=0.2, nodes=nodes, issues=[]),
            event("node", t=0.3, id=1, **step, answer="Saint John's", evidence=[cited]),
            event("node", t=0.4, id=2, **step, answer="euro", evidence=["andorra"]),
        ]
        answered = asked(questions[0], "Saint John's", cited if steps == 1 else "antigua", *more[: steps + 1])
        reads = level(answered) == "well supported"
        assert not reads if not well else reads or steps == 1, answered.support


@pytest.mark.parametrize(
    ("question", "answer", "reason"),
    [
        ("When was the capital of Antigua founded?", "Saint John's", "a date is asked for, and a name given"),
        ("In which year was the capital founded?", "Saint John's", "a date is asked for, and a name given"),
        ("How many people live in the capital of Antigua?", "Saint John's", "a number is asked for, and a name given"),
        ("What is the population of Antigua?", "John Poe", "a number is asked for, and a name given"),
        ("What is Antigua's population?", "John Poe", "a number is asked for, and a name given"),
        ("How old is John Poe?", "Antigua and Barbuda", "a number is asked for, and a name given"),
        ("Who is the mayor of Antigua?", "1 May 1990", "a person is asked for, and a date given"),
        ("Where is Antigua?", "1990", "a place is asked for, and a date given"),
    ],
)
def test_an_answer_of_the_wrong_type_is_not_well_supported(question: str, answer: str, reason: str) -> None:
    assert explain_misfit(question, answer) == reason
    if answer == "Saint John's":
        answered = asked(question, answer, "antigua")
        assert level(answered) == "partly supported" and reason in answered.support


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("When did it begin?", "World War II"),
        ("When was it built?", "the Middle Ages"),
        ("In which year was it built?", "1889"),
        ("In which month is it held?", "January"),
        ("In which month of the Hebrew calendar is it held?", "Adar"),
        ("On what day is it held?", "Halloween"),
        ("Which decade was it built in?", "The Sixties"),
        ("Which century did he live in?", "Twentieth"),
        ("How many people live there?", "about 22,000"),
        ("How many people came?", "Seven"),
        ("How many people came?", "None"),
        ("How much is it?", "Free"),
        ("How long did it last?", "until Easter"),
        ("How did Bo travel?", "By Train"),
        ("Who won?", "Apollo 11"),
        ("Who won?", "U2"),
        ("What is the number of the road?", "A1"),
        ("Which film was made in the year of the flood?", "Vertigo"),
        ("Is Antigua or Andorra larger?", "Andorra"),
    ],
)
def test_answers_that_may_fit_are_not_called_misfits(question: str, answer: str) -> None:
    assert explain_misfit(question, answer) == ""


@pytest.mark.parametrize(
    ("question", "twice"),
    [
        ("Who is the mayor of Antigua and Barbuda, and in which sea does it lie?", True),
        ("What is the capital of Andorra, and who is its mayor?", True),
        ("Which film won, and which actor was in it?", True),
        ("What is the capital of Andorra, and is it in Spain?", True),
        ("Who is Ada? And how old was she?", True),
        ("Where is the next board meeting, and who is the treasurer?", True),
        ("Where is the next board meeting and who is the treasurer?", True),
        ("When was the bridge built, and who built it?", True),
        ("What is the capital, and whose idea was it?", True),
        ("Which film won a prize, and who directed it?", True),
        ("In what year did it open, and who was there?", True),
        ("Who is the actor who was born in 1950, and who is the brother of Bo?", False),
        ("Which director who made X, and who died in 1950, was Polish?", False),
        ("Which actor was born in 1950 and who made X?", False),
        ("What did Ada say about Bo and who he is?", False),
        ("Who is the mayor of Antigua and Barbuda?", False),
        ("Who is the actor who was born in 1950 and who is the brother of Bo?", False),
        ("Which film won a prize and which was directed by Bo?", False),
        ("Which river flows through A and is its longest?", False),
        ("What city does the company that owns Bumble and bumble have its seat in?", False),
        ('Who led the "Who? Who?" ministry?', False),
        ("Ada wrote a book. Who directed its film?", False),
    ],
)
def test_a_second_question_behind_a_comma_is_seen(question: str, twice: bool) -> None:
    assert asks_twice(question) is twice
    assert not twice or state_answer(question, "Saint John's") == "The answer is Saint John's"


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("Was ist die Hauptstadt von Anguilla?", "german"),
        ("Was kostet ein Kuchen?", "german"),
        ("Was macht chmod?", "german"),
        ("Was ist Skolelinux?", "german"),
        ("Was bedeutet chmod?", "german"),
        ("Und was hat Bach geschrieben?", "german"),
        ("Was it red?", "english"),
        ("Was Bach a German?", "english"),
        ("Was that war lost?", "english"),
        ("Was war declared in 1939?", "english"),
        ("Who was Bach?", "english"),
    ],
)
def test_was_begins_german_and_english_questions(question: str, language: str) -> None:
    assert language_of(question) == language
    assert state_answer(question, "The Valley").startswith("Die Antwort lautet") is (language == "german")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("The capital is Saint John's. John Poe is the mayor.", 2),
        ("The capital is Saint John’s. John Poe is the mayor.", 2),
        ("They didn't. Ada did.", 2),
        ("It was J. Smith's. Ada came.", 2),
        ("He quoted 'J. Smith' there.", 1),
    ],
)
def test_a_possessive_ends_a_sentence(text: str, count: int) -> None:
    assert len(sentences(text)) == count


def test_a_sentence_of_indented_lines_is_quoted_whole() -> None:
    text = (
        "Version 3.2 marked the tenth anniversary of the formation of\n"
        "          the development team.  In a testament to their dedication to  the\n"
        "          game,  all  thirteen  members remained at the start of  the  work.\n"
        "          It was dedicated to Bo.\n"
    )
    sentence = cite_answer("Which version was it?", "Version 3.2", [0], [Passage("p", "Guide", text)])
    assert "formation of the development team.” [1]" in sentence


def planned(*steps: dict[str, Any]) -> list[Any]:
    """A plan of steps, and what became of each."""
    nodes: list[dict[str, Any]] = [
        {"id": at, "question": "?", "parent": None, "refs": []} for at in range(1, len(steps) + 1)
    ]
    settled = [
        event("node", t=0.3, id=at, **{"state": "unanswered", "source": "none", "evidence": []} | step)
        for at, step in enumerate(steps, 1)
    ]
    return [event("plan", t=0.2, nodes=nodes, issues=[]), *settled]


READ = {"state": "answered", "source": "external", "answer": "Saint John's", "evidence": ["antigua"]}


@pytest.mark.parametrize("probability", [0.9, None])
@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([{}, {}], "a passage names it, but steps 1, 2 have no answer"),
        ([{}], "a passage names it, but step 1 has no answer"),
        ([{}, READ], "a passage names it, but step 1 has no answer"),
        ([READ, READ, {}], "each of its 2 steps rests on what was read, but step 3 has no answer"),
        ([READ, READ | {"source": "fallback", "evidence": []}], "only 1 of its 2 steps rest on what was read"),
    ],
)
def test_an_answer_with_an_open_step_is_at_most_partly_supported(
    steps: list[dict[str, Any]], reason: str, probability: float | None
) -> None:
    answered = asked(
        "What is the capital of Antigua?", "Saint John's", "antigua", *planned(*steps), probability=probability
    )
    assert answered.support == f"partly supported: {reason}"


@pytest.mark.parametrize(
    ("question", "answer", "is_quoted"),
    [
        ("Which state is larger, Antigua and Barbuda or Andorra?", "Andorra", False),
        ("Is Antigua and Barbuda or Andorra larger?", "Andorra", False),
        ("Between Monaco and Andorra, which is larger?", "Andorra", False),
        ("Welcher Staat ist größer, Antigua oder Andorra?", "Andorra", False),
        ("Which state borders on the Pyrenees?", "Andorra", True),
        ("Who pays in euro, or in which state?", "People", True),
    ],
)
def test_a_sentence_with_only_one_of_the_offered_answers_is_not_quoted(
    question: str, answer: str, is_quoted: bool
) -> None:
    answered = asked(question, answer, "andorra")
    assert ("“" in answered.sentence or "„" in answered.sentence) is is_quoted, answered.sentence
    assert ("it follows from what was read" in answered.support) is not is_quoted


def test_a_sentence_with_both_of_the_offered_answers_is_quoted() -> None:
    text = "Antigua and Barbuda is smaller. Andorra is larger than Antigua and Barbuda."
    more = event("retrieve", t=0.2, passages=[ANDORRA | {"id": "both", "text": text}], issued=0.0, seconds=0.1)
    answered = asked("Which is larger, Antigua and Barbuda or Andorra?", "Andorra", "both", more)
    assert "“Andorra is larger than Antigua and Barbuda.” [1]" in answered.sentence
    assert answered.support == "well supported: a passage that was read says so"


def supported_by(*passages: dict[str, Any]) -> Result:
    """The result of an answer that all of these passages have."""
    hits = [{"title": "Andorra", "score": 1.0, "id": str(at)} | each for at, each in enumerate(passages)]
    final = {"answer": "euro", "source": "external", "support": [each["id"] for each in hits], "abstained": False}
    return read_result(
        [
            event(
                "start",
                question="What do people pay with in Andorra?",
                method="oner",
                model="m",
                fidelity="exact",
                options={},
            ),
            event("retrieve", t=0.1, passages=hits, issued=0.0, seconds=0.1),
            event("final", t=1.0, **final, stopped_by=""),
        ]
    )


PAYS = {"text": "It is small. People pay in euro there."}
LISTED = {"text": "1. People of Andorra\n2. Paying in euro", "contents": True}


def test_tables_of_contents_and_copies_do_not_count_as_support() -> None:
    twice = supported_by(PAYS, {"text": "It snows. People pay  in euro, there.", "title": "Andorra, as a book"})
    assert twice.support == "well supported: a passage that was read says so" and twice.sentence.endswith("” [1]")
    other = supported_by(PAYS, {"text": "The euro came in 2002."})
    assert other.support == "well supported: 2 passages that were read say so"
    beside = supported_by(LISTED, PAYS)
    assert beside.support == "well supported: a passage that was read says so" and beside.sentence.endswith("” [1]")
    alone = supported_by(LISTED)
    assert alone.support == "partly supported: a passage names it, but only in a list of contents"


def test_the_event_of_a_search_marks_tables_of_contents() -> None:
    hit = hit_of(Passage("p", "T", "t", 0.123456, metadata=(("kind", "html"), CONTENTS)))
    metadata = {"kind": "html", "contents": "yes"}
    assert hit == {"id": "p", "title": "T", "text": "t", "score": 0.1235, "metadata": metadata}
    assert passage_of({**LISTED, "id": "p", "title": "T"}).metadata == (CONTENTS,), "as older traces mark it"


def test_a_sentence_on_a_death_supports_no_birth_well() -> None:
    died = {"id": "died", "title": "Ada Moor", "text": "Ada Moor sang. She died in Lund.", "score": 1.0}
    more = event("retrieve", t=0.2, passages=[died], issued=0.0, seconds=0.1)
    assert level(asked("Where was Ada Moor born?", "Lund", "died", more)) == "partly supported"
    assert level(asked("Where did Ada Moor die?", "Lund", "died", more)) == "well supported"
