"""Training sets: the method's own prompts, targets its own steps understand, and labels by the rules."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hoptree.core.errors import ConfigError, EndpointError, InputError
from hoptree.engine.engine import Engine
from hoptree.evaluation.datasets.reading import half_of
from hoptree.models.model import Message, Reply, Request
from hoptree.models.scripted import ScriptedModel
from hoptree.retrieval.indexing import build_index
from hoptree.text.parse_dialogue import read_self_knowledge
from hoptree.text.parse_labels import read_relevance
from hoptree.training.build import build
from hoptree.training.chat_rows import ChatRow, balance_rows, describe
from hoptree.training.formats import Kind, SetSpec, read_kind, write_set
from hoptree.training.labelled_passages import is_right
from hoptree.training.lora.dataset import read_sets

QUESTIONS: list[dict[str, Any]] = [
    {
        "id": "q0",
        "question": "When was the director of film Alpha born?",
        "answers": ["1913", "19 February 1913"],
        "supporting_ids": ["alpha", "land"],
        "decomposition": ["Who is the director of Alpha?", "When was #1 born?"],
    },
    {
        "id": "q1",
        "question": "Are Alpha and Beta from the same country?",
        "answers": ["no"],
        "supporting_ids": ["alpha", "beta"],
        "decomposition": ["Which country is Alpha from?", "Which country is Beta from?", "Is #1 the same as #2?"],
    },
    {"id": "q2", "question": "Who directed Gamma?", "answers": ["Ida Chase"], "supporting_ids": ["lost"]},
    {"id": "q3", "question": "Who directed Delta?", "answers": ["Ida Chase"]},
]
PASSAGES = [
    {"id": "alpha", "title": "Alpha", "text": "Alpha is a film of 1950 by director Kurt Land, made in Peru."},
    {"id": "beta", "title": "Beta", "text": "Beta is a film of 1960, made in Chile."},
    {"id": "land", "title": "Kurt Land", "text": "Kurt Land, who made pictures, came into the world in 1913."},
    {"id": "echo", "title": "Echo", "text": "Echo is a film director of 1913 whom nobody knew."},
    {"id": "fox", "title": "Fox", "text": "Fox is a film, born to be seen."},
]
REPLIES = [
    {"step": "direct", "contains": "Alpha born", "reply": "February 1913"},
    {"step": "direct", "contains": "same country", "reply": "No, they are not."},
    {"step": "direct", "reply": "Kurt Land"},
    {"reply": "nothing"},
]


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def here(tmp_path: Path) -> Path:
    lines(tmp_path / "train.jsonl", [row | {"dataset": "films", "source_split": "train"} for row in QUESTIONS])
    (tmp_path / "m.json").write_text(json.dumps({"replies": REPLIES}), encoding="utf-8")
    build_index(lines(tmp_path / "corpus.jsonl", PASSAGES), tmp_path / "idx")
    return tmp_path


def wanted(here: Path, kind: Kind, **more: Any) -> SetSpec:
    given: dict[str, Any] = {"model": f"scripted/{here / 'm.json'}", "cache": None, "corpus": str(here / "idx")}
    return SetSpec(kind, (here / "train.jsonl",), here / "out.jsonl", **(given | more))


def made(here: Path, kind: Kind, **more: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    told = asyncio.run(build(wanted(here, kind, **more)))
    return told, [json.loads(line) for line in (here / "out.jsonl").read_text(encoding="utf-8").splitlines()]


def target(row: dict[str, Any]) -> str:
    assert [turn["role"] for turn in row["messages"]] == ["system", "user", "assistant"]
    return str(row["messages"][-1]["content"])


def test_knowing_is_labelled_by_the_models_own_answers(here: Path) -> None:
    told, rows = made(here, "ra-isf-know")
    assert [target(row) for row in rows] == ["yes", "yes", "no", "no"]
    assert [row["meta"]["answer"] for row in rows][:2] == ["February 1913", "No, they are not"]
    assert {row["meta"]["model"] for row in rows} == {told["model"]} == {f"scripted/{here / 'm.json'}"}
    assert told["labels"] == {"yes": 2, "no": 2} and told["sources"] == {"films": {"yes": 2, "no": 2}}
    assert [read_self_knowledge(target(row)).known for row in rows] == [True, True, False, False]


def test_equal_words_only(here: Path) -> None:
    _, rows = made(here, "ra-isf-know", right_f1=1.0)
    assert [target(row) for row in rows] == ["no", "yes", "no", "no"]
    with pytest.raises(ConfigError, match="F1 of 0 "):
        made(here, "ra-isf-know", right_f1=0.0)


class Recording(ScriptedModel):
    """Keeps what the method asked."""

    asked: dict[str, list[tuple[Message, ...]]]

    async def generate(self, request: Request, *, step: str) -> Reply:
        self.asked.setdefault(step, []).append(request.messages)
        return await super().generate(request, step=step)


def asked_by_ra_isf(here: Path, question: str) -> dict[str, list[tuple[Message, ...]]]:
    async def ask() -> dict[str, list[tuple[Message, ...]]]:
        model = Recording(str(here / "m.json"))
        model.asked = {}
        async with Engine(
            method="ra_isf", model=model, corpus=here / "idx", options={"depth": 1}, cache=None
        ) as engine:
            await engine.ask(question)
        return model.asked

    return asyncio.run(ask())


@pytest.mark.parametrize("kind", ["ra-isf-know", "ra-isf-relevance", "ra-isf-decompose"])
def test_prompts_are_those_that_the_method_sends(here: Path, kind: Kind) -> None:
    _, rows = made(here, kind)
    row = next(row for row in rows if row["meta"]["question"] == "films/q1")
    sent = asked_by_ra_isf(here, QUESTIONS[1]["question"])[f"ra_isf/{kind.rpartition('-')[2]}"]
    prompts = [[{"role": turn.role, "content": turn.content} for turn in messages] for messages in sent]
    assert row["messages"][:-1] in prompts
    assert row["meta"]["template"].startswith(f"ra_isf/{kind.rpartition('-')[2]}@")


def test_relevance_by_gold_and_search(here: Path) -> None:
    told, rows = made(here, "ra-isf-relevance", k=5)
    of = {(row["meta"]["question"], row["meta"]["passage"]): target(row) for row in rows}
    assert of["films/q0", "alpha"] == "relevant"
    assert of["films/q0", "land"] == "relevant", "gold that the search does not find is in the corpus all the same"
    assert of["films/q0", "fox"] == "irrelevant"
    assert ("films/q0", "echo") not in of, "it says the answer, and may be relevant"
    assert of["films/q1", "beta"] == "relevant" and ("films/q1", "fox") not in of, "the search does not find it"
    assert all(read_relevance(word) == (word == "relevant") for word in of.values())
    assert told["left_out"] == {
        "passages that say the answer and are not gold": 1,
        "gold passages not in the corpus": 1,
        "without gold passages": 1,
    }


def test_relevance_by_titles_where_there_are_no_ids(here: Path) -> None:
    row = {"id": "t", "question": "Where was Beta made?", "answers": ["Chile"], "supporting_titles": ["Beta"]}
    lines(here / "train.jsonl", [row])
    _, rows = made(here, "ra-isf-relevance")
    assert [row["meta"]["passage"] for row in rows if target(row) == "relevant"] == ["beta"]


def test_relevance_needs_a_corpus(here: Path) -> None:
    with pytest.raises(InputError, match="no corpus"):
        made(here, "ra-isf-relevance", corpus="")


def test_titles_are_shown_where_the_method_would_show_them(here: Path) -> None:
    _, plain = made(here, "ra-isf-relevance")
    _, titled = made(here, "ra-isf-relevance", titles=True)
    assert "Passage:\nAlpha is a film" in plain[0]["messages"][1]["content"]
    assert "Passage:\nAlpha: Alpha is a film" in titled[0]["messages"][1]["content"]


def test_decompositions_alone_and_linked(here: Path) -> None:
    told, rows = made(here, "ra-isf-decompose")
    assert [target(row) for row in rows] == ["1. Which country is Alpha from?\n2. Which country is Beta from?"]
    assert sum(told["left_out"].values()) == 3 and all(why.startswith("films: ") for why in told["left_out"])
    told, rows = made(here, "ra-isf-decompose", linked=True)
    assert target(rows[0]) == "1. Who is the director of Alpha?\n2. When was that director born?"
    assert rows[0]["meta"]["template"].startswith("ra_isf/decompose_linked@")
    assert "without the others" not in rows[0]["messages"][0]["content"]
    assert told["sources"] == {"films": {"steps": 2}} and told["target_words"] == {"mean": 12.5, "max": 13}


TEACHER = [
    {"step": "relevance", "contains": "made in Peru", "reply": "Relevant."},
    {"step": "relevance", "contains": "nobody knew", "reply": "Perhaps so."},
    {"step": "relevance", "reply": "irrelevant"},
    {"step": "decompose", "contains": "same country", "reply": "1. Where is Alpha from?\n2) **Where is Beta from?**"},
    {"step": "decompose", "contains": "Gamma", "fault": "401"},
    {"step": "decompose", "contains": "Delta", "reply": "1. Who directed Delta?"},
    {"step": "decompose", "reply": "I cannot."},
]


def test_a_teacher_labels_the_passages_that_a_search_finds(here: Path) -> None:
    (here / "m.json").write_text(json.dumps({"replies": TEACHER}), encoding="utf-8")
    told, rows = made(here, "ra-isf-relevance", teacher=True)
    of = {(row["meta"]["question"], row["meta"]["passage"]): target(row) for row in rows}
    assert of["films/q0", "alpha"] == "relevant" and of["films/q0", "fox"] == "irrelevant"
    assert of["films/q0", "land"] == "irrelevant", "it is gold, and the teacher says otherwise"
    assert ("films/q0", "echo") not in of, "the teacher said neither"
    assert told["left_out"] == {
        "replies that are neither relevant nor irrelevant": 1,
        "without a passage that was found": 2,
    }
    assert {row["meta"]["teacher"] for row in rows} == {told["teacher"]} and told["solved"] == 4


def test_a_teacher_splits_questions(here: Path) -> None:
    (here / "m.json").write_text(json.dumps({"replies": TEACHER}), encoding="utf-8")
    told, rows = made(here, "ra-isf-decompose", teacher=True)
    assert [target(row) for row in rows] == ["1. Where is Alpha from?\n2. Where is Beta from?"]
    assert told["labels"] == {"teacher": 1} and told["failed"] == ["q2"]
    assert told["left_out"] == {
        "not answered by the model": 1,
        "films: no sub-question that is another question": 2,
    }
    (here / "m.json").write_text(json.dumps({"replies": [{"reply": "I cannot."}]}), encoding="utf-8")
    with pytest.raises(InputError, match=r"another question\. Take another teacher: -m MODEL\.$"):
        made(here, "ra-isf-decompose", teacher=True)
    with pytest.raises(InputError, match="no labels by a teacher"):
        made(here, "ra-isf-know", teacher=True)


def test_how_likely_each_passage_makes_the_right_answer(here: Path) -> None:
    replies = [{"step": "read", "contains": "made in Peru", "reply": "", "logprob": [-0.1, -0.1], "entropy": 0.0}]
    replies += [{"step": "read", "reply": "", "logprob": -2.0, "entropy": 0.0}]
    (here / "m.json").write_text(json.dumps({"replies": replies}), encoding="utf-8")
    told, rows = made(here, "replug-lsr", k=4)
    assert [row["id"] for row in rows] == ["films/q0", "films/q1"] and told["solved"] == 4
    passages = {passage["id"]: passage for passage in rows[0]["meta"]["passages"]}
    assert rows[0]["messages"][-1]["content"] == "1913", "the first accepted answer, of one word"
    assert passages["alpha"]["likelihood"] == pytest.approx(math.exp(-0.1))
    assert passages["fox"]["likelihood"] == pytest.approx(math.exp(-2))
    for share in ("share", "preferred"):
        assert sum(passage[share] for passage in passages.values()) == pytest.approx(1)
    assert passages["alpha"]["preferred"] > 0.99 and rows[0]["meta"]["divergence"] > 0
    assert told["left_out"] == {"with fewer than 2 passages found": 2}
    with pytest.raises(InputError, match="it is to train a retriever"):
        read_sets([here / "out.jsonl"], "")
    (here / "m.json").write_text(json.dumps({"replies": REPLIES}), encoding="utf-8")
    with pytest.raises(ConfigError, match="needs entropy"):
        made(here, "replug-lsr")


def test_as_many_questions_of_each_type_as_a_paper_draws(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = ["bridge"] * 4 + ["comparison"] * 3
    rows = [
        {"id": f"h{number}", "question": f"Who is {number}?", "answers": ["x"], "type": kind, "dataset": "hotpotqa"}
        for number, kind in enumerate(kinds)
    ]
    lines(here / "train.jsonl", rows)
    monkeypatch.setattr(
        "hoptree.training.build.paper_sample", lambda paper, name: {"bridge": 2, "comparison": 1} if name else {}
    )
    told, drawn = made(here, "ra-isf-know", paper="taikc", seed=3)
    types = [kinds[int(row["meta"]["question"].removeprefix("hotpotqa/h"))] for row in drawn]
    assert sorted(types) == ["bridge", "bridge", "comparison"] and told["questions"]["asked"] == 3
    monkeypatch.undo()
    with pytest.raises(InputError, match="hotpotqa has 7 questions, not 2,000"):
        made(here, "ra-isf-know", paper="taikc-training")
    with pytest.raises(InputError, match="--paper says how many"):
        made(here, "ra-isf-know", paper="taikc", limit=3)


def test_no_rows_is_an_error_that_tells_why(here: Path) -> None:
    row = QUESTIONS[0] | {"question": "When was the director of Alpha born?", "dataset": "films"}
    lines(here / "train.jsonl", [row])
    with pytest.raises(InputError, match=r"No row .*films: a sub-question that is the question.*--linked") as error:
        made(here, "ra-isf-decompose")
    assert error.value.exit_code == 2 and not (here / "out.jsonl").exists()


def test_the_same_questions_are_drawn_every_time(here: Path) -> None:
    first = [row["id"] for row in made(here, "ra-isf-know", limit=2, seed=4)[1]]
    again = [row["id"] for row in made(here, "ra-isf-know", limit=2, seed=4)[1]]
    others = [[row["id"] for row in made(here, "ra-isf-know", limit=2, seed=seed)[1]] for seed in range(6)]
    assert first == again and any(other != first for other in others)
    assert [row["id"] for row in made(here, "ra-isf-know", limit=1)[1]] == ["films/q0"]


def test_evaluation_questions_are_refused(here: Path) -> None:
    lines(here / "train.jsonl", [QUESTIONS[0] | {"source_split": "dev"}, QUESTIONS[1] | {"source_split": "train"}])
    with pytest.raises(InputError, match="split 'dev'"):
        made(here, "ra-isf-know")


def test_questions_that_failed_are_told_and_the_others_kept(here: Path) -> None:
    replies = [{"step": "direct", "contains": "Gamma", "fault": "401"}, *REPLIES]
    (here / "m.json").write_text(json.dumps({"replies": replies}), encoding="utf-8")
    told, rows = made(here, "ra-isf-know")
    assert told["failed"] == ["q2"] and len(rows) == 3 and told["left_out"] == {"not answered by the model": 1}


def test_when_all_fail_that_is_the_error(here: Path) -> None:
    (here / "m.json").write_text(json.dumps({"replies": [{"fault": "401"}]}), encoding="utf-8")
    with pytest.raises(EndpointError):
        made(here, "ra-isf-know")
    assert not (here / "out.jsonl").exists()


def test_replies_are_remembered(here: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(here, "ra-isf-know", cache=str(own_cache))
    before = (here / "out.jsonl").read_bytes()

    async def refuse(self: ScriptedModel, request: Request, *, step: str) -> Reply:
        raise AssertionError("asked again")

    monkeypatch.setattr(ScriptedModel, "generate", refuse)
    told, _ = made(here, "ra-isf-know", cache=str(own_cache))
    assert (here / "out.jsonl").read_bytes() == before and told["rows"] == 4 and not told["failed"]


def test_what_is_read_is_not_written(here: Path) -> None:
    before = (here / "train.jsonl").read_bytes()
    for more in ({"out": here / "train.jsonl"}, {"out": here / "e.jsonl", "exclude": (here / "e.jsonl",)}):
        given: dict[str, Any] = {"data": (here / "train.jsonl",), "kind": "ra-isf-know", **more}
        with pytest.raises(InputError, match="is read, and cannot be written"):
            asyncio.run(build(SetSpec(**given)))
    assert (here / "train.jsonl").read_bytes() == before


def test_a_half_is_built_from_and_nothing_like_the_other_half(here: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": f"h{n}", "dataset": "films", "question": f"Who directed film {n}?", "answers": ["x"]} for n in "abcdef"
    ]
    first = [row for row in rows if half_of(row["id"]) == "first"]
    second = [row for row in rows if half_of(row["id"]) == "second"]
    assert first and second
    twin = first[0] | {"question": f"{second[0]['question']} "}
    other = [f"What is the name of town {row['id']}?" for row in first[1:]]
    kept = [row | {"question": text} for row, text in zip(first[1:], other, strict=True)]
    lines(here / "train.jsonl", [twin, *second[:1], *kept])
    told, built = made(here, "ra-isf-know", half="first")
    assert [row["id"] for row in built] == [f"films/{row['id']}" for row in kept]
    assert told["left_out"] == {"evaluation question by words": 1} and told["excluded"]["questions"] == 1
    assert told["half"] == "first" and told["questions"]["read"] == len(first) + 1
    with pytest.raises(ConfigError, match="not a half of a data set"):
        made(here, "ra-isf-know", half="third")


def test_the_other_half_of_a_file_named_for_evaluation_tells_what_is_measured_on(here: Path) -> None:
    rows = [row | {"dataset": "films"} for row in QUESTIONS]
    asked = replace(wanted(here, "ra-isf-know", any_split=True), data=(lines(here / "dev.jsonl", rows),))
    with pytest.raises(InputError, match="known which are measured on"):
        asyncio.run(build(asked))
    told = asyncio.run(build(replace(asked, half="second")))
    assert told["questions"]["asked"] == sum(half_of(row["id"]) == "second" for row in rows) > 0
    assert told["splits"] == {"dev": told["questions"]["asked"]}


def test_kinds() -> None:
    assert read_kind("ra-isf-know") == "ra-isf-know"
    assert [read_kind(name) for name in ("if", "kbae", "gold")] == ["taikc-if", "taikc-kbae", "taikc-gold"]
    assert read_kind("taikc-gold") == "taikc-gold"
    with pytest.raises(ConfigError, match="Did you mean kbae"):
        read_kind("kbea")
    with pytest.raises(ConfigError, match="Did you mean ra-isf-relevance"):
        read_kind("ra-isf-relevence")


@pytest.mark.parametrize(
    ("answer", "golds", "right"),
    [
        ("The Beatles", ("beatles",), True),
        ("Barack Obama", ("Michelle Obama", "Barack Hussein Obama"), True),
        ("Obama", ("Barack Hussein Obama",), False),
        ("Yes, it was", ("yes",), True),
        ("yes", ("no",), False),
        ("", ("x",), False),
    ],
)
def test_what_counts_as_right(answer: str, golds: tuple[str, ...], right: bool) -> None:
    assert is_right(answer, golds) == right


def rows_of(**counts: int) -> list[ChatRow]:
    return [
        ChatRow(f"{label}{n}", (Message("user", "a b"),), label, label, "d", {})
        for label, count in counts.items()
        for n in range(count)
    ]


def test_balance() -> None:
    rows = rows_of(yes=10, no=3)
    kept = balance_rows(rows, 2.0, seed=1)
    assert describe(kept)["labels"] == {"yes": 6, "no": 3}
    assert kept == [row for row in rows if row in kept], "in their order"
    assert balance_rows(rows, None, 1) == rows and balance_rows(rows, 2.0, seed=1) == kept != balance_rows(
        rows, 2.0, seed=2
    )
    for impossible in (0.5, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="balance of"):
            balance_rows(rows, impossible, 1)


def test_a_balance_that_cannot_be_is_refused_before_anything_is_asked(here: Path) -> None:
    (here / "m.json").unlink()
    for impossible in (0.5, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="balance of"):
            made(here, "ra-isf-know", balance=impossible)


def test_a_set_with_one_label_only_is_told_and_one_that_was_to_be_balanced_refused(here: Path) -> None:
    for balance in (None, 1.0):
        told, rows = made(here, "ra-isf-know", balance=balance)
        assert told["warnings"] == [] and len(rows) == 4
    (here / "m.json").write_text(json.dumps({"replies": [{"reply": "nonsense"}]}), encoding="utf-8")
    with pytest.raises(InputError, match="All 4 rows have the label 'no', so nothing can be balanced"):
        made(here, "ra-isf-know", balance=1.0)
    assert [target(row) for row in rows] != ["no"] * 4, "what was built before is kept"
    told, rows = made(here, "ra-isf-know")
    assert [target(row) for row in rows] == ["no"] * 4
    assert [said.partition(":")[0] for said in told["warnings"]] == ["All 4 rows have the label 'no'"]


def test_decompositions_have_no_labels_to_be_told_of(here: Path) -> None:
    told, rows = made(here, "ra-isf-decompose")
    assert len(rows) == 1 and told["warnings"] == []


def test_a_file_named_for_evaluation_is_refused_unless_it_is_known_what_is_measured_on(here: Path) -> None:
    rows = [row | {"dataset": "films", "source_split": "train"} for row in QUESTIONS[:2]]
    asked = replace(wanted(here, "ra-isf-know"), data=(lines(here / "dev.jsonl", rows),))
    with pytest.raises(InputError, match="by its name for evaluation"):
        asyncio.run(build(asked))
    assert not (here / "out.jsonl").exists()
    measured = lines(here / "measured.jsonl", [rows[1]])
    told = asyncio.run(build(replace(asked, exclude=(measured,))))
    assert told["questions"]["asked"] == 1 and told["left_out"]["evaluation question by id"] == 1


def test_a_file_that_cannot_be_written_is_a_plain_error(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="cannot be written"):
        write_set(tmp_path / "f" / "out.jsonl", rows_of(yes=1), "chat")


def test_questions_with_broken_answers_are_left_out_and_counted(here: Path) -> None:
    broken = {"id": "q4", "question": "Which company?", "answers": ["[", "'", "A", "p", "l", "e", "]"]}
    lines(here / "train.jsonl", [row | {"dataset": "films", "split": "train"} for row in (*QUESTIONS, broken)])
    told, rows = made(here, "ra-isf-know")
    (why,) = told["left_out"]
    assert "a printed list split into characters" in why and told["left_out"][why] == 1
    assert told["questions"]["read"] == 5 and len(rows) == 4


def test_a_limit_takes_questions_of_all_files_in_turn(here: Path) -> None:
    """A trial with twelve questions of three files had twelve of the first."""
    films = [row | {"dataset": "films", "split": "train"} for row in QUESTIONS]
    towns = [
        {"id": f"t{n}", "question": f"What is town {n}?", "answers": ["x"], "dataset": "towns", "split": "train"}
        for n in ("a", "b")
    ]
    data = (lines(here / "films.jsonl", films), lines(here / "towns.jsonl", towns))

    def ids(limit: int) -> list[str]:
        asyncio.run(build(replace(wanted(here, "ra-isf-know", limit=limit), data=data)))
        return [json.loads(line)["id"] for line in (here / "out.jsonl").read_text(encoding="utf-8").splitlines()]

    assert ids(2) == ["films/q0", "towns/ta"]
    assert ids(3) == ["films/q0", "films/q1", "towns/ta"], "in the order of the files"
    assert ids(5) == ["films/q0", "films/q1", "films/q2", "towns/ta", "towns/tb"]
    assert len(ids(9)) == 6


def test_excluded_questions_that_tell_no_steps_are_counted(here: Path) -> None:
    told_steps = [row | {"id": f"e{n}", "question": f"Something else {n}?"} for n, row in enumerate(QUESTIONS[:1])]
    untold: list[dict[str, Any]] = [
        {"id": f"u{n}", "question": f"What about {n}?", "answers": ["x"]} for n in ("a", "b")
    ]
    evaluated = lines(here / "eval.jsonl", [*told_steps, *untold])
    told, _ = made(here, "ra-isf-know", exclude=(evaluated,))
    assert told["excluded"] == {"files": [str(evaluated)], "questions": 3, "without_steps": 2}
