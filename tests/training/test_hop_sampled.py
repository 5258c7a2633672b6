"""Rejection sampling for hop: kept is what led to the right answer by its evidence, and each sample is drawn anew."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.forking import PROCESSES
from tests.training.film_world import lines

from hoptree.core.errors import ConfigError, EndpointError, InputError
from hoptree.models.model import Reply, Request
from hoptree.models.scripted import ScriptedModel
from hoptree.retrieval.indexing import build_index
from hoptree.training.build import build
from hoptree.training.chat_rows import RowJournal
from hoptree.training.formats import SetSpec
from hoptree.training.lora.dataset import read_sets

FILM: dict[str, Any] = {
    "id": "q0",
    "dataset": "films",
    "source_split": "train",
    "question": "When was the director of the film Alpha born?",
    "answers": ["3 May 1913"],
    "hops": 2,
    "supporting_ids": ["alpha", "land"],
    "supporting_titles": ["Alpha", "Kurt Land"],
}
SONG: dict[str, Any] = {
    "id": "q1",
    "dataset": "songs",
    "source_split": "train",
    "question": "who wrote the song echo",
    "answers": ["Ida Chase"],
    "hops": 1,
    "supporting_ids": ["echo"],
}
PASSAGES = [
    {"id": "alpha", "title": "Alpha", "text": "It was long lost. Alpha is a film of 1950 by Kurt Land, made in Peru."},
    {"id": "land", "title": "Kurt Land", "text": "Kurt Land (born May 3, 1913) was a director. He liked dogs a lot."},
    {"id": "diary", "title": "Diary", "text": "Kurt Land was born on 3 May 1913, as this diary of a director says."},
    {"id": "echo", "title": "Echo", "text": "Echo is a song that Ida Chase wrote. It has three lines."},
    {"id": "fox", "title": "Fox", "text": "Fox is the director of a film, born when nobody looked."},
    {"id": "owl", "title": "Owl", "text": "Owl wrote a song and was born there."},
]
DIRECTOR, BORN = "Who is the director of the film Alpha?", "When was #query1 born?"
PLAN = {"query1": {"question": DIRECTOR, "children": {"query2": BORN}}}
LONGER = {"query1": {"question": DIRECTOR, "children": {"query2": BORN, "query3": "Where was #query1 seen?"}}}
BY_LAND = "Kurt Land\nSentence: Alpha is a film of 1950 by Kurt Land, made in Peru."
IN_1913 = "May 3, 1913\nSentence: Kurt Land (born May 3, 1913) was a director."
IN_DIARY = "3 May 1913\nSentence: Kurt Land was born on 3 May 1913, as this diary of a director says."
BY_CHASE = "Ida Chase\nSentence: Echo is a song that Ida Chase wrote."


def asked(question: str, reply: str | list[str]) -> dict[str, Any]:
    """Return a rule for the reading of one question."""
    return {"step": "read", "regex": rf"Question: {question}[^\n]*$", "reply": reply}


def script(
    *first: dict[str, Any], plan: Any = PLAN, born: str | list[str] = IN_1913, last: str = IN_1913
) -> list[dict[str, Any]]:
    """Return the rules of a model; `first` come before the others."""
    plans = plan if isinstance(plan, list) else [plan]
    return [
        *first,
        {"step": "decompose", "contains": "Alpha", "reply": [json.dumps(each) for each in plans]},
        {"step": "decompose", "reply": "{}"},
        asked("Who is the director", BY_LAND),
        asked("When was Kurt Land born", born),
        asked("Where was Kurt Land seen", "dogs\nSentence: He liked dogs a lot."),
        asked("who wrote the song echo", BY_CHASE),
        {"step": "read", "reply": "NOT FOUND"},
        {"step": "final", "reply": last},
    ]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    lines(tmp_path / "train.jsonl", [FILM, SONG])
    build_index(lines(tmp_path / "corpus.jsonl", PASSAGES), tmp_path / "idx")
    return tmp_path


def spec_of(here: Path, rules: list[dict[str, Any]] | None = None, **more: Any) -> SetSpec:
    (here / "m.json").write_text(json.dumps({"replies": script() if rules is None else rules}), encoding="utf-8")
    settings: dict[str, Any] = {"corpora": {"": str(here / "idx")}, "k": 3, "samples": 3, "cache": None} | more
    return SetSpec(
        "sampled", (here / "train.jsonl",), here / "out.jsonl", model=f"scripted/{here / 'm.json'}", **settings
    )


def built(
    here: Path, rules: list[dict[str, Any]] | None = None, **more: Any
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return what is reported of a set, and its rows by their ids."""
    report = asyncio.run(build(spec_of(here, rules, **more)))
    rows = [json.loads(line) for line in (here / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    return report, {row["id"].replace("/sampled/", "/"): row for row in rows}


def reply(row: dict[str, Any]) -> str:
    return str(row["messages"][-1]["content"])


def requests_of(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """Keep all requests that a scripted model gets from now on."""
    requests: list[Request] = []
    generate = ScriptedModel.generate

    async def recorded(self: ScriptedModel, request: Request, *, step: str) -> Reply:
        requests.append(request)
        return await generate(self, request, step=step)

    monkeypatch.setattr(ScriptedModel, "generate", recorded)
    return requests


def test_what_led_to_the_right_answer_is_kept_in_the_prompts_that_were_sent(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = requests_of(monkeypatch)
    report, rows = built(here)
    assert {name: reply(row) for name, row in rows.items()} == {
        "films/q0/plan": json.dumps({"query1": {"question": DIRECTOR, "children": {"query2": BORN}}}),
        "films/q0/read/1": BY_LAND,
        "films/q0/read/2": IN_1913,
        "films/q0/last": IN_1913,
        "songs/q1/read": BY_CHASE,
        "songs/q1/plan": "{}",
    }
    sent = [[{"role": turn.role, "content": turn.content} for turn in request.messages] for request in requests]
    assert all(row["messages"][:-1] in sent for row in rows.values())
    assert {row["meta"]["template"].partition("@")[0] for row in rows.values()} == {
        "hop/trained_read",
        "hop/trained_plan",
    }
    sampling = report["sampling"]
    assert (sampling["runs"], sampling["right"], sampling["plans"], sampling["readings"]) == (6, 6, 3, 3)
    assert report["left_out"] == {"films: samples whose first reading was wrong": 3}
    assert not list(here.glob("*.part"))


def test_rows_can_be_trained_on(here: Path) -> None:
    built(here)
    (training_set,) = read_sets([here / "out.jsonl"], "any")
    assert len(training_set.rows) == 6 and {row.kind for row in training_set.rows} == {"sampled"}


def test_a_right_answer_from_other_passages_is_dropped(here: Path) -> None:
    report, rows = built(here, script(born=IN_DIARY, last=IN_DIARY))
    assert not any(name.startswith("films") for name in rows)
    assert report["sampling"]["right"] == 6 and report["sampling"]["plans"] == 0
    assert report["left_out"]["films: samples whose plan was right, and not from the gold passages"] == 3
    lines(here / "train.jsonl", [{name: value for name, value in FILM.items() if "supporting" not in name}, SONG])
    _, rows = built(here, script(born=IN_DIARY, last=IN_DIARY))
    assert reply(rows["films/q0/read/2"]) == IN_DIARY, "without gold, any sentence that was shown is evidence"


def test_gold_may_be_known_by_titles(here: Path) -> None:
    titled = {name: value for name, value in FILM.items() if name != "supporting_ids"}
    lines(here / "train.jsonl", [titled, SONG])
    assert "films/q0/plan" in built(here)[1]
    assert "films/q0/plan" not in built(here, script(born=IN_DIARY))[1]


@pytest.mark.parametrize(
    ("born", "why"),
    [
        (
            "May 1913\nSentence: Kurt Land was born in 1913 in May.",
            "no sentence that was shown says the answer",
        ),
        ("May 3, 1913\nSentence: Kurt Land", "no sentence that was shown says the answer"),
        ("May 3, 1913\nSentence: He liked dogs a lot.", "no sentence that was shown says the answer"),
        ("May 3, 1913", "no sentence that was shown says the answer"),
        ("NOT FOUND", "a part was not answered from passages"),
    ],
)
def test_parts_rest_on_sentences_that_were_shown(here: Path, born: str, why: str) -> None:
    report, rows = built(here, script(born=born))
    assert "films/q0/plan" not in rows
    assert any(why in reason for reason in report["left_out"]), report["left_out"]


def test_wrong_answers_are_dropped_and_right_ones_are_written_as_the_sentence_has_them(here: Path) -> None:
    report, rows = built(here, script(last="1913\nSentence: Kurt Land (born May 3, 1913) was a director."))
    assert "films/q0/plan" not in rows and report["left_out"]["films: samples whose plan was wrong"] == 3
    wordy = "on 3 May 1913 as Kurt Land\nSentence: Kurt Land (born May 3, 1913) was a director."
    assert reply(built(here, script(last=wordy))[1]["films/q0/last"]) == IN_1913
    report, _ = built(here, script(last=wordy), right_f1=1.0)
    assert report["left_out"]["films: samples whose plan was wrong"] == 3


def test_a_last_reading_without_a_sentence_of_its_prompt_is_no_row(here: Path) -> None:
    report, rows = built(here, script(last="May 3, 1913"))
    assert "films/q0/plan" in rows and "films/q0/last" not in rows
    assert report["left_out"]["films: no last reading, as its sentence is not shown"] == 1


def test_a_sentence_that_was_cut_off_is_none(here: Path) -> None:
    cut = {"step": "read", "contains": "Question: When was Kurt Land born", "reply": IN_1913[:-10], "finish": "length"}
    report, rows = built(here, script(cut))
    assert "films/q0/plan" not in rows
    why = "films: samples whose plan was right, and no sentence that was shown says the answer of a part"
    assert report["left_out"][why] == 3


def test_one_plan_a_question_of_the_fewest_parts_and_the_most_frequent(here: Path) -> None:
    other = {"query1": {"question": "Who is the director of Alpha?", "children": {"query2": BORN}}}
    report, rows = built(here, script(plan=[LONGER, other, PLAN, PLAN, LONGER]), samples=5)
    assert json.loads(reply(rows["films/q0/plan"])) == PLAN and report["sampling"]["plans"] == 5
    assert Counter(row["meta"]["label"] for row in rows.values() if row["id"].startswith("films")) == {
        "plan": 1,
        "read": 2,
        "last reading": 1,
    }


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ({"query1": DIRECTOR, "query2": "When was Kurt Land born, on 3 May 1913?"}, "gives the answer away"),
        (
            {"query1": {"question": DIRECTOR, "children": {"query2": BORN}}, "query3": FILM["question"]},
            "has the whole question as a part",
        ),
        ({}, "samples without a plan"),
    ],
)
def test_plans_that_teach_nothing_are_dropped(here: Path, plan: Any, why: str) -> None:
    whole = asked("When was the director", IN_1913)
    report, rows = built(here, script(whole, plan=plan))
    assert "films/q0/plan" not in rows and any(why in reason for reason in report["left_out"]), report["left_out"]


def test_no_plan_is_taught_only_of_one_hop_that_every_sample_reads(here: Path) -> None:
    wrong = asked("who wrote the song echo", ["NOT FOUND", BY_CHASE])
    _, rows = built(here, script(wrong))
    assert "songs/q1/plan" not in rows and reply(rows["songs/q1/read"]) == BY_CHASE
    lines(here / "train.jsonl", [FILM, {name: value for name, value in SONG.items() if name != "hops"}])
    assert "songs/q1/plan" not in built(here)[1]


def test_a_question_is_read_at_once_only_with_all_gold_passages_in_sight(here: Path) -> None:
    at_once = asked("When was the director", IN_1913)
    assert reply(built(here, script(at_once), k=5)[1]["films/q0/read"]) == IN_1913
    report, rows = built(here, script(at_once, plan={}), k=1)
    assert "films/q0/read" not in rows
    assert report["left_out"]["films: samples whose first reading was right, and no sentence that was shown says so"]


def test_passages_that_do_not_tell_are_not_found(here: Path) -> None:
    lines(here / "corpus.jsonl", [row for row in PASSAGES if row["id"] not in ("land", "diary")])
    build_index(here / "corpus.jsonl", here / "small")
    lines(here / "train.jsonl", [FILM, SONG | {"dataset": "films"}])  # a set has readings for what is not found in it
    _, rows = built(here, corpora={"": str(here / "small")}, samples=1)
    none = rows["films/q0/none"]
    assert reply(none) == "NOT FOUND" and none["meta"]["label"] == "not found"
    assert "1913" not in none["messages"][1]["content"]


def test_nothing_is_kept_of_a_plan_with_a_part_that_found_nothing(here: Path) -> None:
    failing = {"query1": {"question": DIRECTOR, "children": {"query2": "In what diary is #query1?"}}}
    report, rows = built(here, script(plan=failing))
    assert not any(name.startswith("films") for name in rows)
    assert report["left_out"]["films: samples whose plan was right, and a part was not answered from passages"] == 3


def test_every_sample_is_drawn_anew_and_the_same_again(
    here: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = requests_of(monkeypatch)
    _, rows = built(here, cache=str(own_cache), temperature=0.9)
    first = [request for request in requests if request.messages[-1].content.endswith(f"Question: {FILM['question']}")]
    plans = [request for request in first if "JSON" in request.messages[0].content]
    assert len(plans) == 3 == len({request.seed for request in plans}) and {r.temperature for r in requests} == {0.9}
    asked_before = len(requests)
    assert built(here, cache=str(own_cache), temperature=0.9)[1] == rows and len(requests) == asked_before
    built(here, cache=str(own_cache), temperature=0.9, seed=1)
    assert len(requests) == 2 * asked_before, "another seed draws other replies"


def test_samples_and_questions_are_asked_at_once(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generate, waiting, all_there = ScriptedModel.generate, list[str](), asyncio.Event()

    async def together(self: ScriptedModel, request: Request, *, step: str) -> Reply:
        waiting.append(request.messages[-1].content)
        if len(waiting) == 6:
            all_there.set()
        await all_there.wait()  # for ever, if one were asked after the other
        return await generate(self, request, step=step)

    monkeypatch.setattr(ScriptedModel, "generate", together)
    built(here)
    assert Counter(text.rpartition(" ")[2] for text in waiting[:6]) == {"born?": 3, "echo": 3}


def _killed(spec: SetSpec) -> None:
    """Build a set in a process that is killed as soon as the first question is on disk."""
    add = RowJournal.add

    async def added(self: RowJournal, key: str, question_rows: Any) -> None:
        await add(self, key, question_rows)
        os.kill(os.getpid(), signal.SIGKILL)

    RowJournal.add = added  # type: ignore[method-assign]
    asyncio.run(build(spec))


def test_a_killed_build_goes_on_with_the_next_question(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, rows = built(here)
    (here / "out.jsonl").unlink()
    child = PROCESSES.Process(target=_killed, args=(spec_of(here, concurrency=1),))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL and not (here / "out.jsonl").exists()
    with (here / "out.jsonl.part").open("a", encoding="utf-8") as file:
        file.write('{"key": "half')
    requests = requests_of(monkeypatch)
    report, again = built(here)
    assert again == rows and report["sampling"]["runs"] == 6
    told = {turn.content for request in requests for turn in request.messages}
    assert any("echo" in text for text in told) and not any("Alpha born?" in text for text in told)


def test_questions_that_failed_are_asked_again_and_others_are_not(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generate = ScriptedModel.generate

    async def refused(self: ScriptedModel, request: Request, *, step: str) -> Reply:
        if "who wrote the song echo" in request.messages[-1].content:
            raise EndpointError("Not now.", status=401)
        return await generate(self, request, step=step)

    with monkeypatch.context() as patched:
        patched.setattr(ScriptedModel, "generate", refused)
        report, rows = built(here)
    assert report["failed"] == ["q1"] and report["left_out"]["not answered by the model"] == 1
    assert (here / "out.jsonl.part").exists() and not any(name.startswith("songs") for name in rows)
    requests = requests_of(monkeypatch)
    report, rows = built(here)
    assert report["failed"] == [] and len(rows) == 6 and not (here / "out.jsonl.part").exists()
    assert not any("Alpha born?" in turn.content for request in requests for turn in request.messages)


def test_refusals(here: Path) -> None:
    with pytest.raises(InputError, match="no corpus"):
        built(here, corpora={})
    with pytest.raises(InputError, match="No corpus is given for the questions of 'songs'"):
        built(here, corpora={"films": str(here / "idx")})
    with pytest.raises(ConfigError, match="all samples of a question are the same"):
        built(here, temperature=0.0)
    assert built(here, temperature=0.0, samples=1)[0]["rows"] == 6
    for settings in ({"samples": 0}, {"temperature": -1.0}, {"temperature": float("nan")}, {"right_f1": 0.0}):
        with pytest.raises(ConfigError):
            built(here, **settings)
    with pytest.raises(EndpointError, match="The script says 401"):
        built(here, [{"fault": "401"}])
