"""Steps of data sets as sub-questions: standing by themselves, or one resting on the other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.evaluation.datasets.examples import Example
from hoptree.text.parse import question_key, read_questions
from hoptree.training.plans.sub_questions import (
    LeftOut,
    as_phrase,
    as_question,
    as_statement,
    decomposed,
    name_of,
    phrase_of,
    stated,
)
from hoptree.training.questions import Fact, TrainingQuestion


def question(
    text: str, *steps: str, answers: tuple[str, ...] = (), facts: tuple[Fact, ...] = (), dataset: str = "d"
) -> TrainingQuestion:
    example = Example("q1", text, ("x",), dataset=dataset, decomposition=steps, decomposition_answers=answers)
    return TrainingQuestion(example, "train.jsonl", "train", facts)


def parts(asked: TrainingQuestion, *, linked: bool = False) -> list[str]:
    return list(decomposed(asked, linked=linked).questions)


def test_a_last_step_that_puts_answers_together_is_left_to_the_method() -> None:
    asked = question(
        "Would a dog respond to bell before Grey seal?",
        "How sensitive is a grey seal's hearing on land?",
        "How sensitive is a dog's hearing on land?",
        "Is #2 better than #1?",
    )
    kept = ["How sensitive is a grey seal's hearing on land?", "How sensitive is a dog's hearing on land?"]
    assert parts(asked) == parts(asked, linked=True) == kept


def test_a_last_step_about_one_answer_is_asked_and_needs_a_link() -> None:
    asked = question(
        "Did land owners elect their rulers in the Kingdom of Hungary?",
        "Which kind of government ruled over the Kingdom of Hungary?",
        "Does #1 allow citizens to elect their own rulers?",
    )
    with pytest.raises(LeftOut, match="rests on the answer of another"):
        decomposed(asked, linked=False)
    assert parts(asked, linked=True)[1] == "Does that government allow citizens to elect their own rulers?"


def test_a_chain_of_relations_can_only_be_linked() -> None:
    asked = question(
        "How many Publix stores are in the state that borders the state where Hello Love's performer died?",
        "Hello Love >> performer",
        "What city did #1 live when he died?",
        "Which state borders #2 to the east?",
        "how many publix stores are in #3 ?",
        answers=("Hank Snow", "Tennessee", "North Carolina", "35"),
    )
    assert parts(asked, linked=True) == [
        "Who is the performer of Hello Love?",
        "What city did that performer live when he died?",
        "Which state borders that city to the east?",
        "How many publix stores are in that state?",
    ]
    with pytest.raises(LeftOut):
        decomposed(asked, linked=False)


def test_a_chain_that_would_end_in_the_question_itself_is_left_out() -> None:
    asked = question(
        "Who is the spouse of the director of Big Eyes?", "Who is the director of Big Eyes?", "#1 >> spouse"
    )
    with pytest.raises(LeftOut, match="the question itself"):
        decomposed(asked, linked=False)
    assert parts(asked, linked=True)[1] == "Who is the spouse of that director?"


def test_two_facts_behind_a_comparison_become_questions_that_stand_by_themselves() -> None:
    facts = (
        ("The Black Market", "director", "Kurt Land"),
        ("Flat Foot Stooges", "director", "Charley Chase"),
        ("Kurt Land", "date of birth", "19 February 1913"),
        ("Charley Chase", "date of birth", "October 20, 1893"),
    )
    text = "Which film has the director who is older, The Black Market or Flat Foot Stooges?"
    wanted = ["When was the director of The Black Market born?", "When was the director of Flat Foot Stooges born?"]
    found = decomposed(question(text, facts=facts), linked=False)
    assert list(found.questions) == wanted and found.source == "facts"
    steps = (
        "Who is the director of The Black Market?",
        "Who is the director of Flat Foot Stooges?",
        "When was Kurt Land born?",
        "When was Charley Chase born?",
    )
    found = decomposed(question(text, *steps, facts=facts), linked=True)
    assert list(found.questions) == wanted and found.source == "steps", "an answer in a step is nobody's to know"


def test_an_answer_that_a_step_gives_away_becomes_a_reference() -> None:
    asked = question(
        "What was the final book written by the author of On the Origin of Species?",
        "Who is the author of On the Origin of Species?",
        "What was the final book written by Charles Darwin?",
        answers=("charles darwin", "The Formation of Vegetable Mould"),
    )
    assert parts(asked, linked=True)[1] == "What was the final book written by that author?"


def test_a_step_about_somebody_unheard_of_is_left_out() -> None:
    facts = (
        ("Diana Forbes", "mother", "Gertrude Forbes"),
        ("Gertrude Elliott", "sibling", "Maxine Elliott"),
    )
    steps = ("Who is the mother of Diana Forbes?", "Who is the sibling of Gertrude Elliott?")
    with pytest.raises(LeftOut, match="what the question does not name"):
        decomposed(question("Who is the aunt of Diana Forbes?", *steps, facts=facts), linked=True)
    either = (*facts, ("Mary Forbes", "sibling", "Ann Forbes"))  # one of the two rests on the mother
    with pytest.raises(LeftOut, match="what the question does not name"):
        decomposed(question("Who is the aunt of Diana Forbes?", facts=either), linked=True)


def test_a_subject_that_is_written_in_a_way_of_its_own_is_what_no_other_fact_accounts_for() -> None:
    facts = (("Gertrude Elliott", "sibling", "Maxine Elliott"),)
    asked = question("Who is the aunt of Diana Forbes?", facts=(("Diana Forbes", "mother", "Gertrude Forbes"), *facts))
    assert parts(asked, linked=True) == ["Who is the mother of Diana Forbes?", "Who is the sibling of that mother?"]


def test_a_page_that_the_question_names_is_what_the_first_fact_is_about_and_no_other() -> None:
    facts = (("Eleanor of Leicester", "father", "John"), ("John, King of England", "mother", "Eleanor of Aquitaine"))
    asked = question("Who is Eleanor Of England's paternal grandmother?", facts=facts)
    asked = replace(asked, example=replace(asked.example, supporting_titles=("Eleanor of England", "John of England")))
    assert parts(asked, linked=True) == [
        "Who is the father of Eleanor of England?",
        "Who is the mother of that father?",
    ]


def test_dates_are_nothing_that_a_fact_could_be_about() -> None:
    facts = (
        ("Alpha", "director", "Ann Lee"),
        ("Beta", "director", "Joe De Grasse"),
        ("Ann Lee", "date of death", "26 May 1966"),
        ("Joseph De Grasse", "date of death", "May 25, 1940"),
    )
    asked = question("Which film has the director who died first, Alpha or Beta?", facts=facts)
    assert decomposed(asked, linked=False).questions == (
        "When did the director of Alpha die?",
        "When did the director of Beta die?",
    )


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ((), "want of steps"),
        (("Who is A?",), "fewer than two"),
        (("Who is A?", "who is a"), "twice"),
        (("Who is A?", "Is #3 B?"), "no earlier step"),
        (("Who is A?", "Is #0 B?"), "no earlier step"),
        (("Who is A?", "#1 and B movie"), "not a question"),
        (("A >> number of moons", "#1 >> spouse"), "a relation that is not a question"),
        (("Who is A?", "Who is B?", "Who is C?", "Who is D?", "Who is E?"), "more than 4"),
        (("Who is A?", "Who is B?", "Does #1 like #2?", "Where is #3?"), "without a name"),
        (("Who is A?", "Who is B?", "Where was #1 born?"), "without a name"),
    ],
)
def test_what_makes_no_list_is_left_out(steps: tuple[str, ...], why: str) -> None:
    with pytest.raises(LeftOut, match=why):
        decomposed(question("Where is it all?", *steps), linked=True)


def test_relations_in_words() -> None:
    assert as_question("date of birth", "Ada") == "When was Ada born?"
    assert as_question("director", "{x}") == "Who is the director of {x}?"
    assert as_question("owned by", "#1") == "Who owns #1?" and as_phrase("owned by", "#1") == "the owner of #1"
    assert as_question("number of moons", "Mars") == as_phrase("number of moons", "Mars") == ""
    assert phrase_of("Who was the director of Big Eyes?") == "the director of Big Eyes"
    assert phrase_of("Where is it?") == ""


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("Who is the performer of X?", "that performer"),
        ("What is the country of citizenship of X?", "that country"),
        ("Which political party is X a member of?", "that political party"),
        ("What kind of plane dropped it?", "that plane"),
        ("Which state borders X?", "that state"),
        ("Where was X born?", "that place"),
        ("Who wrote X?", "that person"),
        ("The director of X was whom?", "that person"),
        ("When was X built?", "that time"),
        ("What is X?", ""),
        ("Is X a Y?", ""),
    ],
)
def test_how_a_later_question_speaks_of_an_answer(asked: str, name: str) -> None:
    assert name_of(asked) == name


texts = st.text(st.sampled_from("abW #123?>'’. wholiteMdÅ\n"), max_size=30)


@given(texts, st.lists(texts, max_size=5), st.booleans())
def test_whatever_a_file_holds_there_is_a_list_or_a_reason(text: str, steps: list[str], linked: bool) -> None:
    try:
        found = decomposed(question(f"Who {text}?", *(step for step in steps if step.strip())), linked=linked)
    except LeftOut:
        return
    assert 2 <= len(found.questions) <= 4
    assert not any("#1" in asked or "#2" in asked for asked in found.questions)


def test_a_list_is_read_back_as_it_was_meant() -> None:
    asked = question("Which is older?", "When was A built?", "When was B built?")
    found = parts(asked)
    assert read_questions("\n".join(f"{n}. {one}" for n, one in enumerate(found, 1))) == tuple(found)
    assert len({question_key(one) for one in found}) == 2


def test_who_is_named_with_what_belongs_to_them_is_named() -> None:
    facts = (("Mary of Teck", "father", "Francis"), ("Francis", "date of birth", "28 August 1837"))
    asked = question("What is the date of birth of Mary Of Teck's father?", facts=facts)
    assert parts(asked, linked=True) == ["Who is the father of Mary of Teck?", "When was that father born?"]


def test_a_subject_with_the_addition_of_its_page_is_the_value_before_it() -> None:
    facts = (
        ("Dialogues", "director", "Raúl Ruiz"),
        ("Weep", "director", "Jules White"),
        ("Raúl Ruiz (director)", "date of death", "2011"),
        ("Jules White", "date of death", "1985"),
    )
    asked = question("Which film has the director who died earlier, Dialogues or Weep?", facts=facts)
    assert parts(asked) == ["When did the director of Dialogues die?", "When did the director of Weep die?"]


def test_a_subject_is_called_by_the_title_of_its_page_where_the_question_does_so() -> None:
    facts = (("Frederick V", "father", "Frederick IV"), ("Frederick IV", "father", "Louis VI"))
    asked = question("Who is the paternal grandfather of Frederick V Of The Palatinate?", facts=facts)
    asked = replace(asked, example=replace(asked.example, supporting_titles=("Frederick V of the Palatinate",)))
    assert parts(asked, linked=True)[0] == "Who is the father of Frederick V of the Palatinate?"


@pytest.mark.parametrize(
    ("relation", "value", "said"),
    [
        ("director", "Kurt Land", "the director of Alpha is Kurt Land"),
        ("date of birth", "19 February 1913", "Alpha was born on 19 February 1913"),
        ("date of birth", "February 19, 1913", "Alpha was born on February 19, 1913"),
        ("date of death", "1080", "Alpha died in 1080"),
        ("publication date", "June 1950", "Alpha was published in June 1950"),
        ("date of birth", "about 1080 or later", ""),
        ("country of citizenship", "Italian", "Alpha is Italian"),
        ("country of citizenship", "Italy", "Alpha is from Italy"),
        ("country of citizenship", "America", "Alpha is from America"),
        ("country of citizenship", "Ottoman Empire", "Alpha is from the Ottoman Empire"),
        ("country of citizenship", "French and Polish", ""),
        ("country", "United States", "Alpha is in the United States"),
        ("place of birth", "American", ""),
        ("country", "Iran", "Alpha is in Iran"),
        ("country", "Persian", ""),
        ("owned by", "Shell", "Alpha is owned by Shell"),
        ("instance of", "village", ""),
        ("nothing known", "x", ""),
    ],
)
def test_facts_as_parts_of_sentences_where_that_is_good_english(relation: str, value: str, said: str) -> None:
    assert as_statement(relation, "Alpha", value) == said


@pytest.mark.parametrize(
    ("asked", "answer", "said"),
    [
        ("Who is the director of the film Alpha?", "Kurt Land", "the director of the film Alpha is Kurt Land"),
        ("What was the cause of death of Ida?", "fever", "the cause of death of Ida was fever"),
        ("When was Kurt Land born?", "1913", "Kurt Land was born in 1913"),
        ("Where did Kurt Land die?", "Vienna", "Kurt Land died in Vienna"),
        ("Who founded Ikea?", "Kamprad", "Kamprad founded Ikea"),
        ("What company makes Alpha?", "Toyota", "Toyota makes Alpha"),
        ("Who is Alpha's heir?", "Beta", "Alpha's heir is Beta"),
        ("In which country is Kalkeh located?", "Iran", "Kalkeh is located in Iran"),
        ("Which country is Ann Lee from?", "United States", "Ann Lee is from the United States"),
        ("Where is Golestan located?", "in the north of the country", ""),
        ("When was Alpha released?", "May 1, 1943", "Alpha was released on May 1, 1943"),
        ("What is the direction of flow of the river?", "rises in the north and meanders to the sea", ""),
        ("Who are the members of Cream?", "three men", ""),
        ("How many people live there?", "two", ""),
    ],
)
def test_questions_and_answers_as_parts_of_sentences(asked: str, answer: str, said: str) -> None:
    assert stated(asked, answer) == said
