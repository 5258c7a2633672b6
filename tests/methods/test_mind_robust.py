"""MIND beyond the paper: what is doubted is not searched with, and what bridges is not dropped."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from tests.methods.asked import Shelf
from tests.methods.continuation_asked import DUKES, GRANDFATHER, Run, Search, sure
from tests.methods.mind_asked import ARMAND, CHARLES, DOUBTED, FACTS, FATHER, JEAN, LAST, SECOND, WRITTEN, figure

from hoptree.core.values import Passage
from hoptree.engine.context import Budget
from hoptree.models.scripted import Rule
from hoptree.text.retrieval_triggers import MAX_THRESHOLD

MANY = f'{{"entities": ["{CHARLES}", "Thouars", "France"], "relations": ["paternal grandfather"]}}'
MORE = MANY.replace('["paternal', '["paternal", "paternal')
"""One relation more, which is as sure and comes first."""


def ask(script: list[Rule], **options: Any) -> Run:
    return Run("mind", script, shelf=options.pop("shelf", Search(*DUKES)), robust=True, **options)


def test_figure_1() -> None:
    run = ask(figure(needed="[1]"), k=1)
    assert run.queries == [GRANDFATHER, f"{CHARLES} father", f"{JEAN} father"]
    assert (run.result.answer, run.result.fidelity) == (ARMAND, "approx")
    assert run.values("accepted") == [True, True]


def test_it_begins_with_what_the_question_itself_finds() -> None:
    run = ask(figure(), k=1)
    assert run.steps.count("read") == 3
    assert DUKES[0].text in run.sent("draft")[0].messages[-1].content
    plain = Run("mind", figure(), shelf=Search(*DUKES), k=1)
    assert "read" not in plain.steps and DUKES[0].text not in plain.sent("draft")[0].messages[-1].content


@pytest.mark.parametrize(("read", "final", "answer"), [(-2.0, -0.01, ARMAND), (-0.01, -2.0, "Louis")])
def test_the_surest_of_all_readings_is_given(read: float, final: float, answer: str) -> None:
    script = [Rule("Louis", step="read", logprob=read), Rule(ARMAND, step="final", logprob=final), *figure()]
    run = ask(script)
    assert run.result.answer == answer
    (last,) = run.sent("final")
    assert LAST in last.messages[-1].content and DUKES[1].text in last.messages[-1].content


def test_a_budget_that_ends_leaves_the_first_reading() -> None:
    run = ask(figure(), budget=Budget(calls=4))
    assert (run.result.answer, run.result.stopped_by) == ("Louis", "calls")


def test_a_name_in_doubt_is_sought_and_not_searched_with() -> None:
    event = ask(figure(), filters="none").of("decision", kind="filtered")[0]
    assert [name for name, *_ in event["candidates"]] == [CHARLES, "paternal grandfather"]


@pytest.mark.parametrize("filters", ["cot", "confidence", "cot+confidence"])
def test_names_of_the_question_and_of_the_last_passages_are_never_dropped(filters: str) -> None:
    """The bridge is the name that the paper's filters lose first: the model is less sure of it than of others."""
    run = ask(figure(Rule(MORE, step="extract"), needed="[1]"), filters=filters, top_k=1, k=1)
    first, second = run.of("decision", kind="filtered")
    assert set(first["value"]) >= {CHARLES, "Thouars", "France"}
    assert JEAN in second["value"] and CHARLES in second["value"]
    if filters != "cot":
        assert second["candidates"][4] == ["paternal grandfather", "relation", "question", 0.7, "confidence"]


def test_a_name_of_the_question_is_not_in_doubt_for_how_a_sentence_begins() -> None:
    text = f"{CHARLES} had the father Louis."
    draft = Rule(text, step="draft", entropy=sure(text, Charles=3.0), attention=0.2, contains=GRANDFATHER)
    run = ask([draft, *figure()], filters="none", shelf=Search(DUKES[2]))
    event = run.of("decision", kind="filtered")[0]
    assert CHARLES in event["value"] and CHARLES not in event["in_doubt"]
    assert CHARLES in run.queries[1]


def test_the_last_reading_sees_what_was_found_last_and_what_the_question_finds() -> None:
    class Shelves(Search):
        async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
            self.asked.append((query, k))
            number = len(self.asked)
            return tuple(
                Passage(f"{number}-{rank}", f"Title {number}-{rank}", f"Text {number}-{rank}.") for rank in range(k)
            )

    run = ask(figure(), shelf=Shelves(), k=3)
    (last,) = run.sent("final")
    shown = re.findall(r"Text (\d-\d)\.", last.messages[-1].content)
    assert shown[:3] == [f"{len(run.queries)}-{rank}" for rank in range(3)]
    assert shown[3:] == [f"1-{rank}" for rank in range(5)]
    assert last.messages[-1].content.count("Title 1-0") == 1, "a text alone often does not say what it is about"


def test_the_paper_drops_the_bridge() -> None:
    script = figure(Rule(MANY, step="extract"), needed=["[1]", "[1]"])
    run = Run("mind", script, shelf=Search(*DUKES), filters="cot", k=1)
    assert JEAN not in run.of("decision", kind="filtered")[1]["value"]


def test_few_names_are_not_filtered() -> None:
    run = ask(figure())
    assert "filter" not in run.steps[: run.steps.index("rewrite")]


def test_the_query_is_of_the_names_in_the_sentence() -> None:
    run = ask(figure(Rule(MANY, step="extract")), filters="none", k=1)
    assert run.queries[1:] == [f"{CHARLES} father", f"{JEAN} father"]


def test_dropped_names_are_tried_where_nothing_new_is_found() -> None:
    class Once(Search):
        async def search(self, query: str, **how: Any) -> tuple[Passage, ...]:
            found = await super().search(query, **how)
            return self.passages[1:2] if "grandfather" in query else found[:0] + self.passages[:1]

    run = ask(figure(Rule(MORE, step="extract"), needed="[9]"), filters="confidence", top_k=1, shelf=Once(*DUKES))
    assert run.queries[-1] == "paternal grandfather father" and len(run.queries) == 4
    assert DUKES[1].text in run.sent("rewrite")[1].messages[-1].content
    # Relations alone found it, and what it says of the names that were kept is read all the same.
    read = run.sent("facts")[-1].messages[-1].content
    assert DUKES[1].text in read and re.search(rf"Names: .*{JEAN}", read)


def test_a_sentence_is_replaced_by_a_surer_one_only() -> None:
    script = figure(drafts=(f"{FATHER} {DOUBTED}", LAST, LAST))
    script[-1] = Rule([WRITTEN, SECOND], step="rewrite", entropy=sure(WRITTEN, Jean=9.0), attention=0.2)
    run = ask(script)
    (event,) = run.of("decision", kind="accepted")
    assert (event["value"], event["highest"], event["before"]) == (False, 9.0, 3.0)
    assert run.sent("draft")[1].prefix == FATHER


def test_a_fact_enters_only_if_one_sentence_states_it() -> None:
    apart = Passage("p1", "Dukes", f"{CHARLES} lived. He was a duke. {JEAN} lived, too.")
    outcomes = [
        run.of("memory")[0]["op"]
        for robust in (False, True)
        for run in [Run("mind", figure(Rule(FACTS[0], step="facts")), shelf=Search(apart), robust=robust)]
    ]
    assert outcomes == ["added", "not stated"]


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (f"A film by {CHARLES} and {JEAN}.", "not stated"),
        (f"A film by {CHARLES} and {JEAN}. {CHARLES} was the son of {JEAN}.", "added"),
    ],
)
def test_a_sentence_that_names_two_must_tell_the_relation(text: str, outcome: str) -> None:
    """Two directors of one film are no spouses, and none is the other's father."""
    script = figure(Rule(FACTS[0], step="facts", logprob=-0.05))
    event = ask(script, shelf=Search(Passage("p1", "A Film", text))).of("memory")[0]
    assert (event["op"], "son of" in event["sentence"]) == (outcome, outcome == "added")


def test_another_passage_may_tell_what_the_first_only_names() -> None:
    film = Passage("p0", "A Film", f"A film by {CHARLES} and {JEAN}.")
    event = ask(figure(), shelf=Shelf(film, DUKES[0])).of("memory")[0]
    assert (event["op"], event["passage"]) == ("added", "p1")
    plain = Run("mind", figure(), shelf=Search(film)).of("memory")[0]
    assert plain["op"] == "added", "the paper asks for no more than a confidence"


def named(said: str, *entities: str, hit: str, question: str, relations: tuple[str, ...] = ()) -> Run:
    """A sentence in doubt at one word, where a model has found these names in the question."""
    reply = json.dumps({"entities": entities, "relations": relations})
    draft = Rule([said, LAST], step="draft", entropy=sure(said, **{hit: 4.0}), attention=0.2)
    script = [Rule(reply, step="extract"), draft, *figure()]
    return ask(script, question=question, filters="none")


PINE = "The Trail Of The Lonesome Pine (Song)"


@pytest.mark.parametrize(
    ("said", "name", "query"),
    [
        ("The composer of the song The Trail of the Lonesome Pine is Glass.", PINE, f"{PINE} composer"),
        ("The composer of Canardo is Glass.", "Canardo (Rapper)", "Canardo (Rapper) composer"),
        ("The composer of Rooney is Glass.", "Mickey Rooney", "Mickey Rooney composer"),
        ("The composer of Hobbit is Glass.", "The Hobbit: A Journey", "The Hobbit: A Journey composer"),
    ],
)
def test_a_thing_may_be_called_by_less_than_its_name(said: str, name: str, query: str) -> None:
    run = named(said, name, hit="Glass", question=f"Who was the composer of {name}?", relations=("composer",))
    assert run.queries[1] == query


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("Paul was an American who married Anna.", "average American family"),
        ("Paul was from Ruslana and married Anna.", "Heart On Fire (Ruslana Song)"),
        ("Paul Hobbit married Anna.", "Paul Hobbit and Anna Meet Tom"),
    ],
)
def test_a_word_of_a_name_is_not_all_of_it(said: str, name: str) -> None:
    """What stands inside a name or in brackets behind it is another thing, and so is what is a name of its own."""
    run = named(said, name, said.partition(" was")[0].partition(" married")[0], hit="Anna", question=f"Who is {name}?")
    assert name not in run.queries[1] and "Paul" in run.queries[1]


def test_a_name_in_doubt_that_is_not_whole_gives_way_to_the_question_too() -> None:
    said = "So the answer is: Canardo."
    run = named(said, "Canardo (Rapper)", hit="Canardo", question="Is Paris the home of Canardo (Rapper)?")
    assert run.queries[1] == "Canardo (Rapper) Paris home"


@pytest.mark.parametrize(("found", "query"), [("composer", "Song Sung composer"), ("giant panda", "giant panda")])
def test_a_relation_is_not_searched_for_without_a_name(found: str, query: str) -> None:
    """Small letters may also be a thing, which the sentence is then about."""
    said = f"The {found} was calm."
    run = named(said, "Song Sung", found, hit="calm", question=f"Which {found} has Song Sung?")
    assert run.queries[1] == query


@pytest.mark.parametrize("again", ["", "  ", "."])
def test_nothing_is_no_surer_sentence(again: str) -> None:
    script = figure(drafts=(f"{FATHER} {DOUBTED}", LAST, LAST))
    script[-1] = Rule(again, step="rewrite", entropy=0.1, attention=0.2)
    run = ask(script)
    assert run.sent("draft")[1].prefix == FATHER and run.result.chains == (f"{FATHER} {LAST}",)
    (event,) = run.of("decision", kind="accepted")
    assert (event["value"], event["highest"]) == (False, None)


@pytest.mark.parametrize(("doubt", "taken"), [(0.2, True), (9.0, False)])
def test_a_conclusion_of_yes_is_as_sure_as_its_yes(doubt: float, taken: bool) -> None:
    """No word of it carries content, and those that announce it tell nothing of it."""
    said = "So the answer is: yes."
    script = figure(drafts=(FATHER, LAST, LAST))
    script[-1] = Rule(said, step="rewrite", entropy=sure(said, yes=doubt, answer=9.0), attention=0.2)
    run = ask(script)
    (event,) = run.of("decision", kind="accepted")
    assert (event["value"], event["highest"], event["before"]) == (taken, doubt, 3.0)


def test_what_only_announces_an_answer_is_no_surer_sentence() -> None:
    script = figure(drafts=(FATHER, LAST, LAST))
    script[-1] = Rule("So the answer is:", step="rewrite", entropy=0.1, attention=0.2)
    (event,) = ask(script).of("decision", kind="accepted")
    assert (event["value"], event["highest"]) == (False, None)


def test_a_name_in_doubt_that_would_be_searched_with_alone_gives_way_to_the_question() -> None:
    """Behind "So the answer is" no word says what is sought of the name."""
    said = f"His grandfather is {ARMAND}. {LAST}"
    entropy = [0.1] * len(said.split())
    entropy[-4] = 9.0
    run = ask([Rule(said, step="draft", entropy=entropy, attention=0.2), *figure()])
    assert run.sentences(True)[0] == LAST
    assert run.queries[1] == f"{CHARLES} paternal grandfather"


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_every_search_counts(most: int) -> None:
    run = ask([*figure(), Rule(": Louis.", step="conclude")], k=1, retrievals=most)
    assert len(run.queries) == most and run.result.answer == ARMAND
    assert run.values("stop") == ["answer" if most == 3 else "retrievals"]


class Once(Search):
    """Finds something new only with the name that was dropped."""

    async def search(self, query: str, **how: Any) -> tuple[Passage, ...]:
        await super().search(query, **how)
        return self.passages[1:2] if "Thouars" in query else self.passages[:1]


def dropped(**options: Any) -> Run:
    """A first search finds what the question found already, and the name that was dropped finds more."""
    text = f"The father of {CHARLES} in Rome at Thouars is Louis."
    many = json.dumps({"entities": [CHARLES, "Ann", "Ben"], "relations": []})
    draft = Rule([text, LAST], step="draft", entropy=sure(text, Louis=3.0), attention=0.2)
    return ask([Rule(many, step="extract"), draft, *figure()], top_k=1, filters="confidence", **options)


def test_facts_are_read_of_the_names_that_were_searched_with() -> None:
    run = dropped(shelf=Once(*DUKES))
    assert [("Thouars" in query, CHARLES in query) for query in run.queries[1:3]] == [(False, True), (True, False)]
    assert "Thouars" in run.sent("facts")[0].messages[-1].content.rpartition("Names:")[2]


def test_a_name_that_was_dropped_is_still_tried_when_its_sentence_is_gone() -> None:
    """The sentence that named Thouars was written again without it; a later search finds nothing new."""

    class Late(Once):
        async def search(self, query: str, **how: Any) -> tuple[Passage, ...]:
            found = await super().search(query, **how)
            return self.passages[2:] if len(self.asked) == 2 else found

    first = f"The father of {CHARLES} in Rome at Thouars is Louis."
    second = f"The mother of that {CHARLES} there in Rome was Marie."
    many = json.dumps({"entities": [CHARLES, "Ann", "Ben"], "relations": []})
    drafts = Rule([first, second, LAST], step="draft", entropy=[0.1] * 14 + [3.0], attention=0.2)
    script = [Rule(many, step="extract"), drafts, Rule(WRITTEN, step="rewrite", entropy=0.1, attention=0.2), *figure()]
    run = ask(script, top_k=1, filters="confidence", shelf=Late(*DUKES))
    asked = run.of("decision", kind="sub_query")
    assert [event["again"] for event in asked] == [False, False, True]
    assert "Thouars" not in asked[1]["sentence"] and "Thouars" in asked[2]["value"]


@pytest.mark.parametrize(
    ("filters", "beside", "taken"),
    [
        ("cot+confidence", " with Ann", "confidence"),
        ("cot+confidence", "", "cot"),
        ("confidence", "", "confidence"),
        ("cot", " with Ann", "cot"),
        ("none", " with Ann", "none"),
    ],
)
def test_of_two_filters_the_one_is_taken_that_tells_something(filters: str, beside: str, taken: str) -> None:
    """The model wrote Ann, and tells how sure it was; of a relation that it never wrote it tells nothing."""
    text = f"The father of {CHARLES}{beside} is Louis."
    draft = Rule([text, LAST], step="draft", entropy=sure(text, Louis=3.0), attention=0.2)
    named = Rule(MANY.replace("paternal grandfather", "uncle"), step="extract")
    event, *_ = ask([draft, named, *figure()], filters=filters).of("decision", kind="filtered")
    assert event["filters"] == taken and "uncle" in [name for name, *_ in event["candidates"]]


def test_where_nothing_is_in_doubt_nothing_is_asked_about_names() -> None:
    def script() -> list[Rule]:
        return [Rule(LAST, step="draft", entropy=0.1, attention=0.2), *figure()]

    assert "extract" not in ask(script()).steps
    assert Run("mind", script()).steps == ["extract", "draft"], "the paper's first step"


def test_dropped_names_are_not_tried_where_no_search_is_left() -> None:
    assert len(dropped(shelf=Once(*DUKES), retrievals=2).queries) == 2


@pytest.mark.parametrize("robust", [False, True])
def test_a_sentence_that_is_unsure_everywhere_is_looked_up(robust: bool) -> None:
    """The paper's threshold rises with the sentence and is never reached."""
    draft = Rule(DOUBTED, step="draft", entropy=5.0, attention=0.2)
    script = [draft, *figure(), Rule(": Louis.", step="conclude")]
    run = Run("mind", script, shelf=Search(*DUKES), robust=robust, retrievals=2)
    first, *_ = run.of("decision", kind="sentence")
    assert first["value"] is robust and (first["theta"] == MAX_THRESHOLD) is robust
