"""Answers that are lists of names: how they are split, matched and scored, and what counts as considered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cpu_limit import cpu_limit
from tests.evaluation.report_runs import cells, script
from tests.traced import event
from typer.testing import CliRunner

from hoptree.cli.main import app
from hoptree.core.errors import HoptreeError, InputError
from hoptree.core.values import Answer, Question
from hoptree.engine import registry
from hoptree.engine.context import Context
from hoptree.engine.events import Planned
from hoptree.engine.registry import list_methods, method
from hoptree.evaluation.datasets.examples import Example, digest_of
from hoptree.evaluation.datasets.reading import read_examples
from hoptree.evaluation.experiment import Experiment, failed_row
from hoptree.evaluation.metrics import candidate_recall, considered, names_in_answer, score_list
from hoptree.evaluation.report.contents import group_tables
from hoptree.evaluation.report.measures import read_groups
from hoptree.evaluation.run_folder import summarise
from hoptree.evaluation.running import RunOptions, run_experiment

RAT_PACK = (("Frank Sinatra",), ("Dean Martin",), ("Sammy Davis, Jr.", "Sammy Davis"))


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        ("Frank Sinatra, Dean Martin and Sammy Davis, Jr.", [0, 1, 2]),
        ("Sammy Davis Jr, Frank Sinatra, and Dean Martin", [2, 0, 1]),
        ("Sammy Davis; FRANK SINATRA; dean martin.", [2, 0, 1]),
        ("Frank Sinatra & Dean Martin", [0, 1]),
        ("Frank Sinatra as well as Dean Martin", [0, 1]),
        ("both Frank Sinatra and Dean Martin", [0, 1]),
        ("Frank Sinatra\nDean Martin\n\nJoey Bishop", [0, 1, "joey bishop"]),
        ("1. Frank Sinatra\n2. Dean Martin", [0, 1]),
        ("1) Frank Sinatra 2) Sammy Davis, Jr. 3) Joey Bishop", [0, 2, "joey bishop"]),
        ("(1) Frank Sinatra (2) Dean Martin", [0, 1]),
        ("- Frank Sinatra\n* **Dean Martin**\n• Joey Bishop", [0, 1, "joey bishop"]),
        ("The singers are:\n1. Frank Sinatra", [0]),
        ("The three singers, in order, were:\nFrank Sinatra", [0]),
        ("The answer is: Dean Martin", [1]),
        ('"Frank Sinatra", "Dean Martin"', [0, 1]),
        ("“Frank Sinatra” and «Dean Martin»", [0, 1]),
        ('"Frank Sinatra, Dean Martin"', [0, 1]),
        ('["Frank Sinatra", "Dean Martin"]', [0, 1]),
        ("Frank Sinatra (Danny Ocean), Dean Martin (Sam, a pianist) [2]", [0, 1]),
        ("Frank Sinatra, Frank Sinatra and frank sinatra", [0]),
        ("Sammy Davis, Sammy Davis, Jr.", [2]),
        ("Frank Sinatra Jr.", ["frank sinatra jr"]),
        ("Sinatra", ["sinatra"]),
        ("Martin, Dean", ["martin", "dean"]),
        ('"Hello, Dolly!" and Dean Martin', ["hello dolly", 1]),
        ("Joey Bishop and Joey Bishop", ["joey bishop"]),
        ("The singers are Frank Sinatra and Dean Martin.", [0, 1]),
        ("the singers are frank sinatra, joey bishop and dean martin", [0, "joey bishop", 1]),
        ("The singers were Frank Sinatra, Joey Bishop and Dean Martin.", [0, "joey bishop", 1]),
        ("In Ocean's 11, the leads are Frank Sinatra and Dean Martin.", [0, 1]),
        ("There are two: Frank Sinatra and Dean Martin.", [0, 1]),
        ("The film stars Sammy Davis, Jr. and Dean Martin.", [2, 1]),
        ("Frank Sinatra and Dean Martin starred in Ocean's 11.", [0, 1]),
        ("Frank Sinatra, the singer, and Dean Martin, also a comedian", [0, 1]),
        ("Yes, Dean Martin. He sang in Las Vegas.", [1]),
        ("Both of them: Frank Sinatra and Dean Martin", [0, 1]),
        ("Frank Sinatra or Dean Martin", [0, 1]),
        ("Frank Sinatra / Dean Martin", [0, 1]),
        ("Neither Frank Sinatra nor Dean Martin", ["neither frank sinatra nor dean martin"]),
        ("It was not Frank Sinatra.", ["it was not frank sinatra"]),
        ("They are Joey Bishop and Peter Lawford.", ["joey bishop", "peter lawford"]),
        ("frank sinatra, the singer", [0, "singer"]),
        ("", []),
        (" ,; and \n", []),
    ],
)
def test_names_in_an_answer(answer: str, names: list[int | str]) -> None:
    assert names_in_answer(answer, RAT_PACK) == names


@pytest.mark.parametrize(
    ("answer", "wanted", "names"),
    [
        ("Simon and Garfunkel, Peter, Paul and Mary", (("Peter, Paul and Mary",), ("Simon & Garfunkel",)), [1, 0]),
        ("Earth, Wind & Fire and Chic", (("Earth, Wind and Fire",),), [0, "chic"]),
        ("Paris Hilton", (("Paris",),), ["paris hilton"]),
        ("The Beatles and the Kinks", (("Beatles",), ("The Kinks",)), [0, 1]),
        ("Crash (2004 film)", (("Crash",),), [0]),
        ("Crash", (("Crash (2004 film)", "Crash"),), [0]),
        ("10,000 Maniacs, Blur", (("Blur",),), ["10000 maniacs", 0]),
        ("AT&T and Verizon", (("AT&T",),), [0, "verizon"]),
        ("!!! and Blur", (("!!!",), ("Blur",)), [0, 1]),
        ("Schindler’s List", (("Schindler's List",),), [0]),
        ("And One", (("And One",),), [0]),
        ("Trick or Treat and Blur", (("Trick or Treat",),), [0, "blur"]),
        ("Life is Beautiful", (("Life is Beautiful",),), [0]),
        ("The duo is Simon and Garfunkel", (("Simon & Garfunkel",),), [0]),
        ("The bishop of York", (("York",),), ["bishop of york"]),
        ("New York and Paris Hilton", (("York",), ("Paris",)), ["new york", "paris hilton"]),
        ("It, Blur and The Who", (("Blur",),), ["it", 0, "who"]),
        ("Sodium, chlorine and Argon", (("sodium",), ("argon",)), [0, "chlorine", 1]),
        ("Star Trek: First Contact", (("Star Trek: First Contact",),), [0]),
    ],
)
def test_names_that_hold_what_separates_names(
    answer: str, wanted: tuple[tuple[str, ...], ...], names: list[int | str]
) -> None:
    assert names_in_answer(answer, wanted) == names


@pytest.mark.parametrize(
    ("answer", "em", "precision", "recall"),
    [
        ("Dean Martin, Sammy Davis, Frank Sinatra", 1.0, 1.0, 1.0),
        ("Dean Martin", 0.0, 1.0, 1 / 3),
        ("Dean Martin and Joey Bishop", 0.0, 1 / 2, 1 / 3),
        ("Frank Sinatra, Dean Martin, Sammy Davis, Jr., Joey Bishop", 0.0, 3 / 4, 1.0),
        ("Joey Bishop", 0.0, 0.0, 0.0),
        ("", 0.0, 0.0, 0.0),
    ],
)
def test_scores_of_a_list(answer: str, em: float, precision: float, recall: float) -> None:
    found = score_list(answer, RAT_PACK)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    assert found == pytest.approx({"list_em": em, "list_f1": f1, "list_precision": precision, "list_recall": recall})


def test_no_list_is_wanted_no_scores() -> None:
    assert score_list("Frank Sinatra", ()) == {}


NAMES = st.lists(st.text("abcdeé -,&'.()\"and", min_size=1).filter(lambda name: name.strip(" -,&'.()\"")), max_size=4)


@given(st.text(max_size=200), NAMES)
def test_any_answer_can_be_scored(answer: str, names: list[str]) -> None:
    scores = score_list(answer, [(name,) for name in names])
    assert all(0 <= (value or 0) <= 1 for value in scores.values())


@given(st.lists(st.sampled_from(["Ann Lee", "Bo Derek, Jr.", "Cy and Di", "Eve (actress)", "Flo"]), unique=True))
def test_a_list_of_the_wanted_names_is_right_in_any_order(names: list[str]) -> None:
    wanted = [(name,) for name in sorted(names)]
    for joined in (", ".join(names), "\n".join(f"{n}. {name}" for n, name in enumerate(names, 1)), "; ".join(names)):
        assert set(names_in_answer(joined, wanted)) == set(range(len(wanted)))


@pytest.mark.parametrize(
    "text",
    [
        "„" * 20_000,
        "“" * 20_000,
        "(" * 20_000,
        " " * 20_000 + "x",
        ": " * 10_000,
        "a, " * 5000,
        "Ab c " * 4000,
        "is " * 7000,
        "The " * 5000,
    ],
)
def test_a_hostile_answer_is_read_in_time(text: str) -> None:
    with cpu_limit(5):
        names_in_answer(text, RAT_PACK)


def test_candidates_are_the_hypotheses_of_a_run() -> None:
    events = [
        event("decision", kind="verdict", value=["Dean Martin"]),
        event("plan", nodes=[{"id": 1, "hypothesis": "It was Sammy Davis, Jr. who sang."}]),
        event("node", id=1, state="asking", resolved="Dean Martin"),
    ]
    known = considered(events)
    assert known == ["It was Sammy Davis, Jr. who sang."]
    assert candidate_recall(known, RAT_PACK) == pytest.approx(1 / 3)
    assert candidate_recall((), RAT_PACK) == 0.0
    assert considered([event("node", id=1, state="asking"), event("retrieve")]) is None


def test_a_hypothesis_that_was_struck_was_considered_too() -> None:
    told = {"state": "answered", "hypothesis": "Dean Martin", "hypothesis_before": "Frank Sinatra"}
    known = considered([event("node", id=1, **told)])
    assert known and candidate_recall(known, RAT_PACK) == pytest.approx(2 / 3)


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def row(number: int, **more: Any) -> dict[str, Any]:
    return {"id": f"q{number}", "question": f"Who is in list {number}?", "answers": ["Ann and Bo"], **more}


def test_wanted_names_are_read_and_count_in_the_digest(tmp_path: Path) -> None:
    plain = read_examples(write(tmp_path / "a.jsonl", row(1)))
    listed = read_examples(write(tmp_path / "a.jsonl", row(1, wanted=[["Ann", " Annie "], ["Bo"]])))
    assert plain.examples[0].wanted == () and listed.examples[0].wanted == (("Ann", "Annie"), ("Bo",))
    assert plain.digest != listed.digest
    known = Example("q", "Who?", ("Ann",))
    assert digest_of([known]) == "5903043d6ee9ad75122188341c50167717f1dbe3630e5c514c77152a9df83013", (
        "sets without lists keep the digest they had"
    )


@pytest.mark.parametrize("wanted", ["Ann", [[]], ["Ann"], [["Ann", 1]], [[" "]], {"a": 1}])
def test_wanted_names_in_another_form_are_refused(wanted: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r'Line 1 of a\.jsonl: "wanted"'):
        read_examples(write(tmp_path / "a.jsonl", row(1, wanted=wanted)))


@pytest.fixture
def listing() -> Iterator[str]:
    """A method that has hypotheses for some questions."""
    list_methods()
    before = dict(registry._registered)

    @method("listing", title="Listing")
    async def listing(question: Question, ctx: Context) -> Answer:
        if question.id == "q4":
            raise InputError("Nobody knows.", "Ask something else.")
        if question.id in ("q1", "q2"):
            guess = {"q1": "Ann, Bo and Cy", "q2": "Ann"}[question.id]
            ctx.emit(Planned(nodes=[{"id": 1, "question": "?", "parent": None, "refs": [], "hypothesis": guess}]))
        return Answer({"q1": "Ann and Cy", "q2": "Ann"}.get(question.id, "Ann and Bo"))

    yield "listing"
    registry._registered.clear()
    registry._registered.update(before)


def test_runs_and_reports_tell_the_scores_of_lists(listing: str, tmp_path: Path) -> None:
    """Of five questions four are lists: two with hypotheses, one without, one that fails."""
    pair = [["Ann"], ["Bo"]]
    data = write(tmp_path / "a.jsonl", *(row(n, wanted=pair) for n in range(1, 5)), row(5))
    model = script(tmp_path / "m.json", [{"reply": "x"}])
    out = tmp_path / "run"
    wanted = Experiment(data, method=listing, model=model, name="listing on a")
    metrics = asyncio.run(run_experiment(wanted, out, RunOptions(cache=None)))["metrics"]
    f1 = (1 / 2 + 2 / 3 + 1 + 0) / 4
    assert (metrics["list_f1"]["questions"], metrics["list_f1"]["mean"]) == (4, pytest.approx(f1))
    assert metrics["list_precision"]["mean"] == pytest.approx((1 / 2 + 1 + 1 + 0) / 4)
    share = metrics["candidate_recall"]
    assert (share["questions"], share["mean"]) == (4, pytest.approx((1 + 1 / 2 + 0 + 0) / 4)), (
        "none named is none found"
    )
    assert summarise(out)["metrics"] == metrics
    (group,) = read_groups([out])
    shown = cells(group_tables(group)[0], "listing")
    assert (shown["List F1"].value, shown["List F1"].questions) == (pytest.approx(100 * f1), 4)
    assert (shown["Candidate recall"].value, shown["Candidate recall"].questions) == (pytest.approx(37.5), 4)
    said = CliRunner().invoke(app, ["eval", "report", str(out)])
    assert said.exit_code == 0 and "| List F1 | List P | List R | Candidate recall |" in said.stdout
    command = ["run", "--data", str(data), "--method", "listing", "--model", model, "--out", str(out)]
    told = CliRunner().invoke(app, command)
    assert "list_f1            54.2" in told.stdout and "candidate_recall   37.5" in told.stdout, told.output


def test_runs_without_lists_have_no_columns_for_them(listing: str, tmp_path: Path) -> None:
    data = write(tmp_path / "a.jsonl", row(5))
    wanted = Experiment(data, method=listing, model=script(tmp_path / "m.json", [{"reply": "x"}]), name="listing on a")
    metrics = asyncio.run(run_experiment(wanted, tmp_path / "run", RunOptions(cache=None)))["metrics"]
    assert not {name for name in metrics if name.startswith("list_") or name == "candidate_recall"}
    (group,) = read_groups([tmp_path / "run"])
    assert not {"List F1", "Candidate recall"} & set(group_tables(group)[0].columns)


def test_a_failed_question_has_no_names() -> None:
    example = Example("q", "Who?", ("Ann",), wanted=(("Ann",),))
    scores = failed_row(example, HoptreeError("Broken.", "Mend it."), searchable=False).scores
    assert (scores["list_f1"], scores["candidate_recall"]) == (0.0, None)
    assert (
        "list_f1" not in failed_row(Example("q", "Who?", ("Ann",)), HoptreeError("B.", "M."), searchable=False).scores
    )
