"""What a person reads above the bare answer: a sentence with citations, how well it is supported, its spelling."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cpu_limit import cpu_limit
from tests.traced import event

from hoptree.core.values import Passage
from hoptree.engine.answer_sentence import CITATIONS, cite_answer, cut_around, state_answer
from hoptree.engine.engine import MAX_QUESTION
from hoptree.engine.registry import find_method
from hoptree.engine.result import Result, read_result
from hoptree.engine.support import describe_answer
from hoptree.text.grounding import correct_spelling, find_quote, holding, supports_answer

MANY_WRONG = "of such answers to other questions, many were wrong"
FILM = {
    "id": "film",
    "title": "The Hourglass Sanatorium",
    "text": "A film of 1973 that was directed by Wojciech Jerzy Has. It won a prize.",
    "score": 2.0,
}
HAS = {
    "id": "has",
    "title": "Wojciech Jerzy Has",
    "text": "He was born in Kraków. He died in Łódź in October 2000, at the age of seventy-five.",
    "score": 1.0,
}
QUESTION = "In which city did the director of the film The Hourglass Sanatorium die?"


def result(
    answer: str,
    *more: Any,
    source: str = "external",
    support: list[str] | None = None,
    of: str = QUESTION,
    method: str = "oner",
) -> Result:
    final = {"answer": answer, "source": source, "support": ["film", "has"] if support is None else support}
    return read_result(
        [
            event("start", question=of, method=method, model="m", fidelity="exact", options={}),
            event("retrieve", t=0.1, passages=[FILM, HAS], issued=0.0, seconds=0.1),
            *more,
            event("final", t=1.0, abstained=not answer, stopped_by="", **final),
        ]
    )


@pytest.mark.parametrize(
    ("question", "answer", "sentence"),
    [
        (QUESTION, "Łódź", "The director of the film The Hourglass Sanatorium died in Łódź"),
        ("Who is the director of the film X?", "Ada Moor", "The director of the film X is Ada Moor"),
        ("Who directed Whiplash?", "Damien Chazelle", "Damien Chazelle directed Whiplash"),
        ("When was the Eiffel Tower built?", "1889", "The Eiffel Tower was built in 1889"),
        ("When did Bach die?", "28 July 1750", "Bach died on 28 July 1750"),
        ("Where did Ada move to?", "Paris", "The answer is Paris"),
        ("Where was Ada raised in?", "Rome", "The answer is Rome"),
        ("Who has Ada Moor married?", "Ben", "The answer is Ben"),
        ("Who had she met?", "Ben", "The answer is Ben"),
        ("Who has the most goals?", "Ben", "Ben has the most goals"),
        ("Where did Ada study?", "Lund University", "Ada studied at Lund University"),
        ("Where is the tomb located?", "in Rome", "The tomb is located in Rome"),
        ("Which film was released first, Alpha or Beta?", "Beta", "Beta was released first"),
        ("Which film has the director who was born earlier, A or B?", "A", "A has the director who was born earlier"),
        ("What is Bach's birthplace?", "Eisenach", "Bach's birthplace is Eisenach"),
        ("Are both films Polish?", "yes", "Yes"),
    ],
)
def test_questions_of_a_safe_form_are_turned_round(question: str, answer: str, sentence: str) -> None:
    assert state_answer(question, answer) == sentence


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What country is Paris in?", "France"),
        ("What was the film named after?", "a dog"),
        ("Who plays Batman?", "Ada and Bo"),
        ("How many films did X direct?", "7"),
        ("Who is he?", "Bo"),
        ("When did the war begin?", "World War II"),
        ("Where did the writer of the play that he direct die and live?", "Rome"),
    ],
)
def test_other_questions_are_not_forced_into_a_form(question: str, answer: str) -> None:
    assert state_answer(question, answer) == f"The answer is {answer}"


def test_questions_in_other_languages_get_no_english_words() -> None:
    assert state_answer("Wo starb Bach?", "Leipzig") == "Die Antwort lautet Leipzig"
    assert state_answer("巴赫在哪里去世？", "莱比锡") == "答案是莱比锡"
    assert state_answer("Où est mort Bach ?", "Leipzig") == "Leipzig"
    assert state_answer("Sind beide Filme polnisch?", "yes") == "Ja" and state_answer("两部都是电影吗？", "no") == "否"


@pytest.mark.parametrize(
    ("question", "answer", "read", "sentence"),
    [
        ("Wo starb Bach?", "", 0, "Es wurde keine Antwort gefunden."),
        ("Wo starb Bach?", "", 5, "In den 5 gelesenen Stellen wurde keine Antwort gefunden."),
        ("Und in welchem Jahr?", "", 0, "Es wurde keine Antwort gefunden."),
        ("In welchem Jahr?", "", 0, "Es wurde keine Antwort gefunden."),
        ("Kennst du Exim?", "", 0, "Es wurde keine Antwort gefunden."),
        ("Können Sie Exim einrichten?", "", 0, "Es wurde keine Antwort gefunden."),
        ("An wen?", "", 0, "Es wurde keine Antwort gefunden."),
        ("And in which year?", "", 0, "No answer was found."),
        ("Wo starb Bach?", "Köln", 5, "Vielleicht Köln: nichts Gelesenes sagt es."),
        ("巴赫在哪里去世？", "", 1, "在读过的段落中没有找到答案。"),
        ("巴赫在哪里去世？", "科隆", 5, "可能是科隆：读过的内容都没有这样说。"),
        ("Where did Bach die?", "Köln", 5, "Possibly Köln: nothing that was read says so."),
        ("Where did Bach die?", "", 5, "No answer was found in the 5 passages that were read."),
    ],
)
def test_what_is_no_supported_answer_is_told_in_the_language_of_the_question(
    question: str, answer: str, read: int, sentence: str
) -> None:
    parts: dict[str, Any] = {"computed": False, "nodes": (), "evidence": (), "cited": (), "measured": None}
    stated, confidence = describe_answer(question, answer, "external", read=[Passage("p", "", "")] * read, **parts)
    assert stated == sentence and (confidence is None or confidence.reason == "nothing that was read says so")


def test_quotations_have_the_marks_of_the_language_of_the_question() -> None:
    passages = [Passage("a", "Bach", "Bach starb 1750 in Leipzig. Er war Kantor.")]
    assert cite_answer("Wo starb Bach?", "Leipzig", [0], passages) == (
        "Die Antwort lautet Leipzig: „Bach starb 1750 in Leipzig.“ [1]"
    )


def test_an_answer_is_a_sentence_with_citations_and_a_quotation() -> None:
    answered = result("Łódź")
    assert answered.answer == "Łódź" and answered.sentence == (
        "The director of the film The Hourglass Sanatorium died in Łódź: "
        "“He died in Łódź in October 2000, at the age of seventy-five.” [1][2]"
    )
    assert answered.as_dict()["sentence"] == answered.sentence and answered.as_dict()["answer"] == "Łódź"


def test_the_passages_of_the_steps_are_cited_too() -> None:
    nodes = [
        {"id": 1, "question": "Who directed it?", "parent": None, "refs": []},
        {"id": 2, "question": "Where did #query1 die?", "parent": 1, "refs": [1]},
    ]
    answered = result(
        "Łódź",
        event("plan", t=0.2, nodes=nodes, issues=[]),
        event("node", t=0.3, id=1, state="answered", answer="Wojciech Jerzy Has", source="external", evidence=["film"]),
        event("node", t=0.4, id=2, state="answered", answer="Łódź", source="external", evidence=["has"]),
    )
    assert "died in Łódź [1]: “He died in Łódź" in answered.sentence and answered.sentence.endswith("” [2]")
    assert answered.confidence is not None and answered.confidence.level == "well supported"
    assert answered.confidence.reason == "each of its 2 steps rests on what was read"


def test_a_step_that_is_a_guess_makes_the_answer_partly_supported() -> None:
    nodes: list[dict[str, Any]] = [{"id": number, "question": "?", "parent": None, "refs": []} for number in (1, 2)]
    answered = result(
        "Łódź",
        event("plan", t=0.2, nodes=nodes, issues=[]),
        event("node", t=0.3, id=1, state="answered", answer="Somebody", source="fallback", evidence=[]),
        event("node", t=0.4, id=2, state="answered", answer="Łódź", source="external", evidence=["has"]),
    )
    assert answered.confidence is not None and answered.confidence.level == "partly supported"
    assert answered.confidence.reason == "only 1 of its 2 steps rest on what was read"


def test_what_no_passage_holds_is_a_guess_and_what_was_read_is_kept_apart() -> None:
    answered = result("Warsaw")
    assert answered.sentence == "Possibly Warsaw: nothing that was read says so." and answered.evidence == ()
    assert answered.as_dict()["confidence"] == {"level": "a guess", "reason": "nothing that was read says so"}
    assert [passage["id"] for passage in answered.as_dict()["consulted"]] == ["film", "has"]
    own = result("Warsaw", source="internal", support=[])
    assert own.confidence is not None and "its own knowledge" in own.confidence.reason


BORN = "In which city was the director of the film The Hourglass Sanatorium born?"
DIED = {"id": 2, "question": "Where did #query1 die?", "parent": 1, "refs": [1]}


def of_two_steps(answer: str, last: str, *more: Any, of: str = QUESTION, method: str = "oner", **end: Any) -> Result:
    """The result of a plan whose second step, supported by a passage, came to `last`."""
    first = {"id": 1, "question": "Who directed it?", "parent": None, "refs": []}
    step = {"state": "answered", "source": "external"}
    return result(
        answer,
        event("plan", t=0.2, nodes=[first, DIED | end], issues=[]),
        event("node", t=0.3, id=1, **step, answer="Wojciech Jerzy Has", evidence=["film"]),
        event("node", t=0.4, id=2, **step, answer=last, evidence=["has"]),
        *more,
        of=of,
        method=method,
    )


def test_an_answer_that_its_last_step_contradicts_is_at_most_partly_supported() -> None:
    contrary = of_two_steps("Kraków", "Łódź")
    assert contrary.answer == "Kraków" and contrary.confidence is not None
    assert contrary.confidence.level == "partly supported"
    assert contrary.confidence.reason == "each of its 2 steps rests on what was read, but its last step says “Łódź”"
    assert "Kraków [1]:" in contrary.sentence, "the first step's passage"
    born = of_two_steps("Kraków", "Warsaw", of=BORN, question="Where was #query1 born?")
    assert born.confidence is not None and born.confidence.level == "partly supported"


@pytest.mark.parametrize(
    ("probability", "level"), [(0.9, "partly supported"), (0.5, "partly supported"), (0.1, "a guess")]
)
def test_a_contradicted_answer_is_never_well_supported_however_likely(probability: float, level: str) -> None:
    find_method("hop")
    weighed = {"probability": probability, "why": "", "given": True, "why_not": "", "over": [], "calibrated_on": "Z"}
    contrary = of_two_steps("Kraków", "Łódź", event("decision", kind="chosen", value="Kraków", **weighed), method="hop")
    assert contrary.confidence is not None and contrary.confidence.level == level
    assert "but its last step says “Łódź”" in contrary.confidence.reason


@pytest.mark.parametrize(
    ("of", "answer", "half"),
    [
        ("Who directed The Hourglass Sanatorium and when did he die?", "Wojciech Jerzy Has", True),
        ("In which year was The Hourglass Sanatorium made, and by whom?", "1973", True),
        ("Who directed The Hourglass Sanatorium and when did he die?", "Wojciech Jerzy Has, October 2000", False),
        ("Who directed the film that won a prize and was made in 1973?", "Wojciech Jerzy Has", False),
        ("Who made The Hourglass Sanatorium, the film about where and when a man dies?", "Wojciech Jerzy Has", False),
    ],
)
def test_one_answer_to_two_questions_is_at_most_partly_supported(of: str, answer: str, half: bool) -> None:
    answered = result(answer, of=of)
    assert answered.confidence is not None
    assert answered.confidence.reason.endswith(", but the question asks for two things") is half
    assert answered.confidence.level == "partly supported" or not half
    assert answered.sentence.startswith(f"The answer is {answer}") or not half, answered.sentence


def test_a_passage_that_no_step_rests_on_is_not_cited_for_the_answer() -> None:
    """It names the city and the film, but says something else of them."""
    other = {"id": "other", "title": "Łódź", "text": "The Hourglass Sanatorium was shown in Łódź.", "score": 0.5}
    begun = event("retrieve", t=0.15, passages=[other], issued=0.1, seconds=0.1)
    final = {"answer": "Łódź", "source": "external", "support": ["film", "has", "other"]}
    answered = of_two_steps("Łódź", "Łódź", begun, event("final", t=1.0, abstained=False, stopped_by="", **final))
    assert [passage.id for passage in answered.evidence] == ["film", "has"]
    assert [passage.id for passage in answered.consulted] == ["film", "has", "other"]
    assert "[1]" in answered.sentence and "[2]" in answered.sentence and "[3]" not in answered.sentence


@pytest.mark.parametrize(
    ("answer", "last", "of", "end"),
    [
        ("Łódź", "the city of Łódź", QUESTION, {}),
        ("Łódź", "Lodz, Poland", QUESTION, {}),
        ("Wojciech Jerzy Has", "Wojciech Has", "Who directed the film?", {"question": "Who is #query1?"}),
        ("Poland", "Polish", "Which country is he of?", {"question": "What is the nationality of #query1?"}),
        ("2000", "October 2000", "When did he die?", {"question": "When did #query1 die?"}),
        ("沈括", "北宋科学家沈括", "Who wrote it?", {"question": "Who was #query1?"}),
        ("yes", "Łódź", "Did he die in Poland?", {}),
        ("Has", "Łódź", "Who died in the larger city, Has or Braden?", {}),
        ("75", "1925", "How old was he?", {"question": "When was #query1 born?"}),
        ("Kraków", "Łódź", QUESTION, {"parent": None, "refs": []}),  # two steps that stand side by side
    ],
)
def test_what_means_the_same_or_was_concluded_is_no_contradiction(
    answer: str, last: str, of: str, end: dict[str, Any]
) -> None:
    concluded = of_two_steps(answer, last, of=of, **end)
    assert concluded.confidence is not None and "last step" not in concluded.confidence.reason


def test_what_code_concluded_contradicts_no_step() -> None:
    find_method("hop")
    compared = event("decision", kind="compared", value=True, kind_of="choice", facts={}, why="Łódź is larger")
    listed = {"answer": "Kraków", "how": "list", "of": [["Kraków"]], "asked": ["?"]}
    for decided in (compared, event("decision", kind="combined", value=["Kraków"], **listed)):
        concluded = of_two_steps("Kraków", "Łódź", decided)
        assert concluded.confidence is not None and concluded.confidence.level == "well supported"


def test_a_question_above_its_parts_is_not_held_against_the_last_of_them() -> None:
    """In a tree of the question itself what stands below is what an answer needs, not what it comes to."""
    root: dict[str, Any] = {"id": 0, "question": QUESTION, "parent": None, "refs": []}
    step = {"state": "answered", "source": "external"}
    asked = result(
        "Łódź",
        event("plan", t=0.2, nodes=[root, {"id": 1, "question": "Who directed it?", "parent": 0, "refs": []}]),
        event("node", t=0.3, id=1, **step, answer="Wojciech Jerzy Has", evidence=["film"]),
        event("node", t=0.4, id=0, **step, answer="Łódź", evidence=["has"]),
    )
    assert asked.confidence is not None and asked.confidence.level == "well supported"


@pytest.mark.parametrize(
    ("last", "level"),
    [({"state": "unanswered"}, "a guess"), ({"answer": "2000", "evidence": ["has"]}, "well supported")],
)
def test_what_no_passage_holds_is_a_guess_where_a_step_is_open(last: dict[str, Any], level: str) -> None:
    nodes: list[dict[str, Any]] = [{"id": number, "question": "?", "parent": None, "refs": []} for number in (1, 2)]
    step = {"state": "answered", "source": "external"}
    answered = result(
        "73 years",
        event("plan", t=0.2, nodes=nodes, issues=[]),
        event("node", t=0.3, id=1, **step, answer="1973", evidence=["film"]),
        event("node", t=0.4, id=2, **step | last),
        source="synthesis",
    )
    assert answered.confidence is not None and answered.confidence.level == level


def test_names_that_stand_in_several_passages_are_supported_together() -> None:
    answered = result("Kraków, The Hourglass Sanatorium")
    assert answered.confidence is not None and answered.confidence.level == "well supported"
    assert answered.sentence.endswith("Kraków, The Hourglass Sanatorium [1][2].")


def test_no_answer_says_where_none_was_found() -> None:
    answered = result("")
    assert answered.sentence == "No answer was found in the 2 passages that were read." and answered.confidence is None


def test_a_measured_probability_is_told_with_what_it_was_calibrated_on() -> None:
    find_method("hop")  # whose decisions are typed once it is loaded
    weighed = {"probability": 0.4, "why": "no other answer was found", "given": True, "why_not": "", "over": []}
    chosen = event("decision", kind="chosen", value="Łódź", calibrated_on="questions of Z", **weighed)
    start = event("start", question=QUESTION, method="hop", model="m", fidelity="exact", options={})
    retrieved = event("retrieve", t=0.1, passages=[FILM, HAS], issued=0.0, seconds=0.1)
    final = event("final", t=1.0, answer="Łódź", source="external", support=["has"], abstained=False, stopped_by="")
    answered = read_result([start, retrieved, chosen, final])
    view = answered.as_dict()["confidence"]
    assert (view["level"], view["probability"], view["calibrated_on"]) == ("partly supported", 0.4, "questions of Z")
    assert "%" not in answered.why + answered.sentence + view["reason"] and answered.why == "no other answer was found"


@pytest.mark.parametrize(
    ("probability", "reason"),
    [
        (0.9, "a passage names it, but not together with what the question names"),
        (
            0.4,
            f"a passage names it, but not together with what the question names; {MANY_WRONG}",
        ),
    ],
)
def test_a_likely_answer_is_only_partly_supported_by_a_passage_without_the_name_asked_about(
    probability: float, reason: str
) -> None:
    find_method("hop")
    weighed = {"probability": probability, "why": "", "given": True, "why_not": "", "over": [], "calibrated_on": "Z"}
    answered = result(
        "Kraków", event("decision", kind="chosen", value="Kraków", **weighed), method="hop", of="Who is Bo?"
    )
    assert answered.confidence is not None and answered.confidence.reason.startswith(reason)
    assert answered.confidence.level == "partly supported"


def test_a_long_quotation_is_cut_around_the_answer() -> None:
    text = f"{'before ' * 60}Łódź {'behind ' * 60}".strip()
    cut = cut_around(text, "Łódź", 100)
    assert len(cut) <= 102 and "Łódź" in cut and cut.startswith("…before") and cut.endswith("behind…")
    assert cut_around("short", "x", 100) == "short"
    page = Passage("p", "P", text)
    assert cite_answer("Who?", "Łódź", [0], [page]).endswith("…” [1]")


MANY_WRONG = "of such answers to other questions, many were wrong"
BRADEN = Passage("p", "Braden Cup", "The cup was given by Samuel Braden in 1920. Johanna Smith and Frances Hill came.")


def test_an_answer_that_is_a_sentence_stays_one_and_rests_on_its_names() -> None:
    answer = "The film was made by Wojciech Jerzy Has"
    assert state_answer("Who directed the film?", answer) == answer
    assert state_answer("Which film did Ada see?", "The Way We Were") == "The answer is The Way We Were"
    passages = [Passage("o", "Other", "The keeper has a boat."), Passage("film", "", "Wojciech Jerzy Has made it.")]
    held = describe_answer(
        "Who?", answer, "external", nodes=(), evidence=passages,
        cited=(), read=passages, computed=False, measured=None,
    )  # fmt: skip
    assert held[0] == f"{answer} [2]."  # "The" is no name


@pytest.mark.parametrize(
    ("answer", "spelled"),
    [("Branden", "Braden"), ("Samuel Branden", "Samuel Braden"), ("samuel brandon", "samuel brandon")],
)
def test_a_misspelt_name_is_spelled_as_in_the_passage(answer: str, spelled: str) -> None:
    assert correct_spelling(answer, "Who gave the cup?", [BRADEN]) == spelled


@pytest.mark.parametrize(
    "answer",
    [
        "Johann Smith",  # the ending tells two names apart
        "Francis Hill",  # one letter of a short word
        "Saul Braden",  # another word
        "Samuel Branden Jones",  # more words than the passage has
        "1921",
        "yes",
        "Graden",  # the first letter
        "Samuel Bradon Smith",
    ],
)
def test_names_that_may_be_others_are_left_as_they_are(answer: str) -> None:
    assert correct_spelling(answer, "Who gave the cup?", [BRADEN]) == answer


def test_nothing_is_corrected_where_the_word_stands_somewhere_or_two_names_fit() -> None:
    other = Passage("q", "Q", "Branden was another man.")
    assert correct_spelling("Samuel Branden", "Who?", [BRADEN, other]) == "Samuel Branden"
    assert correct_spelling("Branden", "Who is Branden?", [BRADEN]) == "Branden"
    both = Passage("r", "R", "Thomson and Thompsen met.")
    assert correct_spelling("Thompson", "Who met?", [both]) == "Thompson"


def test_a_corrected_answer_is_told_and_rests_on_its_passage() -> None:
    answered = result("Wojciech Jerzy Hass")
    assert answered.answer == "Wojciech Jerzy Hass", "three letters are too few to tell names apart"
    answered = result("Woojciech Jerzy Has")
    assert answered.answer == "Wojciech Jerzy Has" and [passage.id for passage in answered.evidence] == ["film"]
    assert "The answer is spelled as in the passages; the model wrote Woojciech Jerzy Has." in answered.warnings
    assert result("Woojciech Jerzy Has", source="internal").answer == "Woojciech Jerzy Has"


def test_the_answer_of_a_published_method_is_not_corrected() -> None:
    misspelt = "Woojciech Jerzy Has"
    start = {"question": QUESTION, "model": "m", "options": {}}
    retrieved = event("retrieve", t=0.1, passages=[FILM, HAS], issued=0.0, seconds=0.1)
    final = event("final", t=1.0, answer=misspelt, source="external", support=[], abstained=False, stopped_by="")
    for method, fidelity, answer in (
        ("taikc", "exact", misspelt),
        ("taikc", "approx", "Wojciech Jerzy Has"),
        ("hop", "exact", "Wojciech Jerzy Has"),
    ):
        began = event("start", method=method, fidelity=fidelity, **start)
        assert read_result([began, retrieved, final]).answer == answer, (method, fidelity)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("沈括", "《梦溪笔谈》是北宋科学家沈括所著的一部笔记。"),
        ("1088年", "大约成书于1088年。"),
        ("1088", "大约成书于1088年。"),
        ("東京", "日本の首都は東京です。"),
    ],
)
def test_passages_hold_answers_in_scripts_without_spaces(answer: str, text: str) -> None:
    passage = Passage("p", "", text)
    assert supports_answer(answer, [passage]) and holding(answer, "", [passage]) == {"p"}
    quote = find_quote(answer, "", [passage])
    assert quote is not None and quote.text == text
    assert not supports_answer("苏轼", [passage])


@pytest.mark.parametrize("unit", ["A, or ", "A, ", ", or B", "? A, or "])
def test_the_longest_question_is_put_into_a_sentence_in_no_time(unit: str) -> None:
    """A pattern that tried every comma with every "or" held the loop of a server for a minute."""
    with cpu_limit():
        state_answer(f"Who is older {unit * (MAX_QUESTION // len(unit))}", "Rome")


@pytest.mark.parametrize(
    ("question", "stated"),
    [
        ("Who was born in Rome, Ann or Bob?", "Ann was born in Rome"),
        ("Was it Rome? Who was born there, Ann, Bob or Cid? ", "The answer is Ann"),
        ("Who was born in Rome, Italy?", "Ann was born in Rome, Italy"),
    ],
)
def test_who_is_to_be_chosen_from_is_not_part_of_the_sentence(question: str, stated: str) -> None:
    assert state_answer(question, "Ann") == stated


def test_a_number_in_a_quote_cites_nothing() -> None:
    passages = [Passage("a#1", "Ada", "Ada Moor was born in 1948 [2] [3][4], and argv[1] is read.", 1.0)]
    sentence = cite_answer("When was Ada Moor born?", "1948", [0], passages)
    assert sentence == "Ada Moor was born in 1948: “Ada Moor was born in 1948 […] […], and argv[1] is read.” [1]"
    assert CITATIONS.findall(sentence) == ["[1]"]


@pytest.mark.parametrize("text", ["前" * 400 + "北京" + "后" * 400, "前 " + "前" * 400 + "北京" + "后" * 99 + " x"])
def test_a_text_without_spaces_is_cut_around_the_answer(text: str) -> None:
    excerpt = cut_around(text, "北京", 160)
    assert "北京" in excerpt and len(excerpt) <= 162
