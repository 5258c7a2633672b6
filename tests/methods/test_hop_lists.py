"""hop on questions for several things: every item is read for, and code puts lists together."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.cpu_limit import cpu_limit
from tests.methods.asked import Asked, Shelf
from tests.methods.hop_asked import EVERY, HALF, chosen, plan, reads, skipped, standings, steps

from hoptree.core.values import Answer, Passage
from hoptree.engine.calls import Calls
from hoptree.engine.context import Context
from hoptree.engine.trace import Trace
from hoptree.evaluation.metrics import score_list
from hoptree.methods.hop.candidates import Operator
from hoptree.methods.hop.lists import Items, combine, split_list
from hoptree.models.model import Capability, Reply, Request
from hoptree.models.scripted import Rule, ScriptedModel

CASTS = {
    "Night Train": ("Ada Moor", ["Ben Hale", "Cora Lind", "Dan Roe", "Eve Zed"]),
    "Low Tide": ("Ada Moor", ["Cora Lind", "Fay Orr", "Dan Roe"]),
    "Red House": ("Gus Hill", ["Ben Hale", "Fay Orr", "Hal Ives"]),
    **{f"Film Number {name}": ("Ada Moor", ["Ian Kerr"]) for name in ("Ash", "Birch", "Cedar", "Elm", "Fir", "Oak")},
}
SCHOOLS = {"Ben Hale": "Bard College", "Cora Lind": "Bard College", "Fay Orr": "Lund Academy"}
FILMS = [
    Passage(title, title, f"{title} is a film that was directed by {by}. It stars {', '.join(cast)}.")
    for title, (by, cast) in CASTS.items()
]
PEOPLE = [Passage(name, name, f"{name} is an actor. {name} studied at {school}.") for name, school in SCHOOLS.items()]
STARS = "Which actors starred in both Night Train and Low Tide?"
STUDIED = "Which of the actors of Night Train have studied at Bard College?"
PARTS = {STUDIED: ("Which actors starred in Night Train?", "Who studied at Bard College?")}


class Library(Shelf):
    """Gives the passages that share most words with a query; of a title alone where one is asked for."""

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        self.asked.append((query, k))
        words = set(re.findall(r"\w+", query.casefold()))
        shared = {p.id: len(words & set(re.findall(r"\w+", f"{p.title} {p.text}".casefold()))) for p in self.passages}
        passages = [p for p in self.passages if not where or p.title == where["title"]]
        return tuple(sorted(passages, key=lambda passage: -shared[passage.id])[:k])


class Reader(ScriptedModel):
    """Lists exactly what the passages shown state, and says NOT FOUND to anything else.

    One that `guesses` adds a name that it made up to every list, and answers whole questions with it.
    """

    guesses: str = ""
    lacks_logprobs = False

    @property
    def capabilities(self) -> frozenset[Capability]:
        return super().capabilities - {"logprobs"} if self.lacks_logprobs else super().capabilities

    async def generate(self, request: Request, *, step: str) -> Reply:
        shown = request.messages[-1].content
        asked = re.findall(r"Question: ([^\n]*)", shown)[-1]
        if step.endswith("decompose"):
            text = json.dumps({f"query{number}": part for number, part in enumerate(PARTS.get(asked, ()), 1)})
        elif step.endswith("list"):
            among = re.findall(r"\nNames: ([^\n]*)", shown)
            names = [name for name in self._stated(asked, shown) if not among or name in among[0]]
            text = "\n".join([*names, *filter(None, [self.guesses])]) or "NOT FOUND"
        else:
            text = self.guesses or "NOT FOUND"
        return await ScriptedModel(rules=[Rule(text)]).generate(request, step=step)

    def _stated(self, asked: str, shown: str) -> list[str]:
        films = {title: cast for title, cast in CASTS.items() if f"passage: {title}:" in shown}
        if "starred" in asked or "actors of" in asked:
            return [name for title, (_, cast) in films.items() if title in asked for name in cast]
        if "direct" in asked:
            return [title for title, (by, _) in films.items() if by in asked]
        return [name for name, school in SCHOOLS.items() if school in asked and f"passage: {name}:" in shown]


class Listed(Asked):
    """A question put to a reader of lists over films and people."""

    def __init__(
        self,
        question: str,
        *,
        guesses: str = "",
        lacks_logprobs: bool = False,
        shelf: type[Shelf] = Library,
        **options: Any,
    ) -> None:
        self._reader = Reader(rules=[])
        self._reader.guesses, self._reader.lacks_logprobs = guesses, lacks_logprobs
        super().__init__("hop", [], question, shelf(*FILMS, *PEOPLE), options=options)

    async def _ask(self, *given: Any) -> Any:
        self.model = self._reader
        return await super()._ask(*given)


QUESTIONS = {
    STARS: ["Cora Lind", "Dan Roe"],
    "Which actors starred in either Low Tide or Red House?": [
        "Cora Lind",
        "Fay Orr",
        "Dan Roe",
        "Ben Hale",
        "Hal Ives",
    ],
    "Which actors starred in Night Train but not in Low Tide?": ["Ben Hale", "Eve Zed"],
    "Which films did Gus Hill direct?": ["Red House"],
    "Which films were directed by Ada Moor?": [title for title, (by, _) in CASTS.items() if by == "Ada Moor"],
    "List the films that were directed by Ada Moor.": [t for t, (by, _) in CASTS.items() if by == "Ada Moor"],
    STUDIED: ["Ben Hale", "Cora Lind"],
    "Which actor starred in both Low Tide and Red House?": ["Fay Orr"],
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("lacks_logprobs", [False, True], ids=["log-probabilities", "none"])
@pytest.mark.parametrize("guesses", ["", "Zoe Nobody"], ids=["perfect", "guesses"])
def test_what_is_stated_is_listed_whoever_reads(question: str, lacks_logprobs: bool, guesses: str) -> None:
    run = Listed(question, guesses=guesses, lacks_logprobs=lacks_logprobs)
    wanted = [(name,) for name in QUESTIONS[question]]
    assert score_list(run.result.answer, wanted)["list_f1"] == 1, run.result.answer
    assert run.result.usage.llm_calls <= 9
    assert {passage.title for passage in run.result.evidence} <= {*CASTS, *SCHOOLS}


def test_a_list_takes_more_passages_than_one_reading_holds() -> None:
    run = Listed("Which films were directed by Ada Moor?", k=3)
    assert steps(run) == ["list"] * 3, "no more readings than are allowed"
    assert len(run.result.answer.split(", ")) == 8 == len(run.result.evidence), "each film with its own page"
    (combined,) = run.of("decision", kind="combined")
    assert combined["how"] == "list" and combined["asked"] == ["Which films were directed by Ada Moor?"]


def test_a_computed_list_stands_before_a_reading_that_is_surer() -> None:
    run = Listed(STARS, guesses="Ben Hale")
    assert [row["answer"] for row in standings(run)[-1]] == ["Cora Lind, Dan Roe", "Ben Hale"], "he is not in Low Tide"
    first, second = standings(run)[-1]
    assert first["probability"] >= second["probability"]
    assert 'of the names listed (4 to "Which actors starred in Night Train?"' in run.result.why
    assert run.result.why.endswith("2 are in every list")


def test_low_effort_reads_a_list_once_and_splits_only_where_that_pays() -> None:
    assert ("split", "expected gain too small") in skipped(Listed(STARS, guesses="Cora Lind", effort="low"))


def test_each_name_is_supported_by_a_passage_for_every_condition() -> None:
    run = Listed(STUDIED)
    assert {passage.id for passage in run.result.evidence} == {"Night Train", "Ben Hale", "Cora Lind"}
    assert chosen(run)["value"] == "Ben Hale, Cora Lind"


def test_several_names_for_one_thing_do_not_stand_first() -> None:
    """Who asks for one actor is not answered by a list only because code made it."""
    run = Listed("Which actor starred in both Night Train and Low Tide?", guesses="Zoe Nobody")
    (listed,) = [row for row in standings(run)[-1] if row["answer"] == "Cora Lind, Dan Roe"]
    assert listed["features"]["computed"] == 0


class Titled(Library):
    """Finds pages of people by their titles alone."""

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        passages = await super().search(query, k=len(self.passages), where=where)
        return tuple(passage for passage in passages if where or passage not in PEOPLE)[:k]


@pytest.mark.parametrize(
    "parts", [PARTS[STUDIED], ("Which actors starred in Night Train?", "Which of #query1 studied at Bard College?")]
)
def test_names_of_another_list_are_looked_for_on_their_own_pages(
    parts: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PARTS, STUDIED, tuple(parts))
    run = Listed(STUDIED, shelf=Titled)
    asked_of = [event for event in run.of("llm", step="list") if event["template"].startswith("hop/list_among@")]
    assert asked_of and run.result.answer == "Ben Hale, Cora Lind"
    assert {passage.id for passage in run.result.evidence} >= {"Ben Hale", "Cora Lind"}


def test_a_list_that_nothing_states_is_no_answer() -> None:
    run = Listed("Which films were directed by Nobody Known?")
    assert run.result.answer == "" and run.result.abstained


def test_what_is_listed_is_counted_in_code() -> None:
    question = "How many actors starred in Night Train?"
    parts = {"query1": {"question": "Which film is Night Train?", "children": {"query2": "Who starred in #query1?"}}}
    script = [
        plan(parts),
        *reads(How_many=("five", HALF), Which_film="Night Train"),
        Rule("1. Ben Hale\n2. Cora Lind\n3. Zoe Nobody", step="list"),
    ]
    run = Asked("hop", script, question, Library(*FILMS), options=EVERY)
    combined = run.of("decision", kind="combined")[0]
    assert (combined["how"], combined["value"], combined["answer"]) == ("count", ["Ben Hale", "Cora Lind"], "2")
    assert "2" in {row["answer"] for row in standings(run)[-1]}


@pytest.mark.parametrize(
    ("reply", "names"),
    [
        ("Ben Hale, Cora Lind, and Dan Roe", ["Ben Hale", "Cora Lind", "Dan Roe"]),
        ("- Ben Hale\n* ben hale.\n2) Cora Lind", ["Ben Hale", "Cora Lind"]),
        ('["Ben Hale", "Cora Lind"]', ["Ben Hale", "Cora Lind"]),
        ("Answer: Ben Hale; Cora Lind", ["Ben Hale", "Cora Lind"]),
        ("It stars: Ben Hale, Cora Lind", ["Ben Hale", "Cora Lind"]),
        ('```json\n[\n"Ben Hale",\n"Cora Lind"\n]\n```', ["Ben Hale", "Cora Lind"]),
        ("Sammy Low, Jr.\nTom, Dick and Hairy", ["Sammy Low, Jr", "Tom, Dick and Hairy"]),
        ("Night Train and Zoe Nobody", []),
        ("NOT FOUND", []),
        ("", []),
    ],
)
def test_lists_are_parted_at_lines_commas_and_the_last_and(reply: str, names: list[str]) -> None:
    page = replace(
        FILMS[0], text=f"{FILMS[0].text} Sammy Low, Jr. wrote the music; Tom, Dick and Hairy was shown first."
    )
    run = Asked("hop", [Rule(reply, step="list")], "Which people did Night Train star?", Library(page), options={})
    assert run.of("decision", kind="combined")[0]["value"] == names


@pytest.mark.parametrize("blank", [" ", "\t", "\n", " ,", ", ", " and"])
def test_a_list_with_much_white_space_takes_no_time(blank: str) -> None:
    with cpu_limit():
        split_list(f"Ann{blank * 20_000}Lee")


@pytest.fixture
def ctx() -> Context:
    return Context(method="hop", model=ScriptedModel(rules=[]), calls=Calls(None), trace=Trace("test"))


def items(*names: str) -> Items:
    return tuple(Answer(name, support=(f"page of {name}", "another")) for name in names)


@pytest.mark.parametrize(
    ("operator", "first", "second", "left"),
    [
        ("intersect", ("Capitol", "Decca"), ("Capitol Records", "EMI"), "Capitol"),
        ("intersect", ("Decca",), ("EMI",), ""),
        ("intersect", ("Decca",), (), ""),
        ("union", ("Capitol", "Decca"), ("Capitol Records", "EMI"), "Capitol, Decca, EMI"),
        ("difference", ("Capitol", "Decca"), ("Capitol Records", "EMI"), "Decca"),
        ("difference", ("Decca",), (), "Decca"),
        ("count", ("Decca", "EMI"), ("Decca", "EMI"), "2"),
        ("count", ("Lund", "Sweden"), ("Lund", "Sweden"), ""),
        ("count", ("Decca", "about 20"), ("Decca", "about 20"), ""),
    ],
)
def test_lists_are_put_together_in_code(
    ctx: Context, operator: Operator, first: tuple[str, ...], second: tuple[str, ...], left: str
) -> None:
    answer = combine(ctx, operator, {"Which labels are in A?": items(*first), "Which labels are in B?": items(*second)})
    assert (answer.text if answer else "") == left
    if answer and operator == "intersect":
        assert answer.support == ("page of Capitol", "page of Capitol Records"), "one passage for each condition"


@pytest.mark.parametrize(
    ("trained", "lacks_logprobs", "prompt"),
    [(False, False, "hop/list"), (True, False, "hop/list"), (False, True, "hop/list_or_not_found")],
)
def test_who_makes_good_use_of_not_found_may_say_it(trained: bool, lacks_logprobs: bool, prompt: str) -> None:
    run = Listed("Which films did Gus Hill direct?", trained=trained, lacks_logprobs=lacks_logprobs)
    assert {event["template"].split("@")[0] for event in run.of("llm", step="list")} == {prompt}
    assert run.result.answer == "Red House"
    assert not any(event["template"].startswith("hop/trained") for event in run.of("llm")), "no lists were trained"
