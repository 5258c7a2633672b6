"""Chat sets are read as they are, or refused with every fault named."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from tests.training.lora.small_sets import chat, many, write

from hoptree.core.errors import InputError
from hoptree.engine.prompts import prompt_for
from hoptree.models.model import Message
from hoptree.training.chat_rows import ChatRow
from hoptree.training.formats import Format, write_set
from hoptree.training.lora.dataset import read_sets, same_prompts, without_kind

BASE = "ab" * 32


def turns(*said: tuple[str, Any]) -> list[dict[str, Any]]:
    return [{"role": role, "content": content} for role, content in said]


def test_a_set_with_its_digest_and_kinds(tmp_path: Path) -> None:
    long = turns(("system", "Be short."), ("user", "A?"), ("assistant", "a"), ("user", "B?"), ("assistant", " b\n"))
    rows = [chat("q1", part="read"), chat("q2"), {"id": 3, "messages": long}]
    first = write(tmp_path / "a.jsonl", rows)
    second = write(tmp_path / "b.jsonl", [chat("q4")])
    one, two = read_sets([first, second], BASE)
    assert one.as_dict() == {
        "file": str(first),
        "digest": hashlib.sha256(first.read_bytes()).hexdigest(),
        "rows": 3,
        "kinds": {"colours": 1, "colours read": 1, "untold": 1},
    }
    assert one.rows[2].messages == tuple(Message(turn["role"], turn["content"]) for turn in long[:-1])
    assert (one.rows[2].id, one.rows[2].reply) == ("3", " b\n")
    assert [row.id for row in two.rows] == ["q4"]


ORDER = "the assistant comes last"


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ('{"id": "x", ', "it is not JSON"),
        ("[1]", "it is not an object"),
        ({"messages": turns(("user", "A?"), ("assistant", "a"))}, "it has no id"),
        (chat("  "), "it has no id"),
        ({**chat("x"), "id": True}, "it has no id"),
        (chat("x", " \n"), "message 1 asks nothing"),
        (chat("x", kind="taikc-kbae"), "labels_of is missing"),
        ({"id": "x"}, "it has no messages"),
        ({"id": "x", "messages": []}, "it has no messages"),
        ({"id": "x", "messages": ["hello"]}, "message 1 is not an object"),
        ({"id": "x", "messages": turns(("user", None))}, "message 1 is not an object"),
        ({"id": "x", "messages": turns(("user", "A?"), ("bot", "a"))}, "message 2 has the role 'bot'"),
        ({"id": "x", "messages": turns(("assistant", "a"))}, ORDER),
        ({"id": "x", "messages": turns(("user", "A?"))}, ORDER),
        ({"id": "x", "messages": turns(("system", "A"), ("assistant", "a"))}, ORDER),
        ({"id": "x", "messages": turns(("system", "A"))}, ORDER),
        ({"id": "x", "messages": turns(("user", "A"), ("system", "B"), ("assistant", "a"))}, ORDER),
        ({"id": "x", "messages": turns(("user", "A"), ("user", "B"), ("assistant", "a"))}, ORDER),
        (chat("x", reply=" \n"), "its reply is empty"),
        (chat("x", "half \ud83d"), "message 1 holds half a character"),
        ({**chat("x"), "meta": "none"}, "its meta is not an object"),
        (chat("x", labels_of="cd" * 32, model="hf/other"), "what hf/other knows"),
        (chat("x", labels_of=f"hf:{BASE};adapter={BASE[::-1]}"), "what another model knows"),
    ],
)
def test_a_row_that_cannot_be_trained_on_is_named(tmp_path: Path, row: Any, why: str) -> None:
    path = tmp_path / "set.jsonl"
    text = row if isinstance(row, str) else json.dumps(row)
    path.write_text(f"{json.dumps(chat('good'))}\n\n{text}\n", encoding="utf-8")
    with pytest.raises(InputError) as refused:
        read_sets([path], BASE)
    said = refused.value.cause.splitlines()
    assert said[0] == "1 row cannot be trained on:" and len(said) == 2
    assert f"{path}, line 3" in said[1] and why in said[1]
    assert refused.value.exit_code == 2 and "nothing was written" in refused.value.remedy


@pytest.mark.parametrize("labels_of", ["", BASE, f"hf:{BASE};dtype=fp32;device=cpu", f"local:{BASE};n_ctx=4096"])
def test_labels_of_the_same_weights_are_taken(tmp_path: Path, labels_of: str) -> None:
    (one,) = read_sets([write(tmp_path / "set.jsonl", [chat("x", labels_of=labels_of)])], BASE)
    assert len(one.rows) == 1


@pytest.mark.parametrize("meta", [{}, {"meta": {}}, {"meta": {"labels_of": BASE}}, {"meta": {"kind": "my own"}}])
@pytest.mark.parametrize("reply", ["RAG_REQUIRED", "Skagen"])
def test_a_row_of_the_boundary_must_say_whose_boundary_it_is(tmp_path: Path, meta: dict[str, Any], reply: str) -> None:
    """Without `meta` such a row was trained on, whoever's labels it had."""
    asked = prompt_for("taikc", "confident").fill(question="Where was Ada Moor born?").messages
    row = {"id": "x", "messages": turns(*((turn.role, turn.content) for turn in asked), ("assistant", reply)), **meta}
    path = write(tmp_path / "set.jsonl", [row])
    if meta.get("meta"):
        assert len(read_sets([path], BASE)[0].rows) == 1
        return
    with pytest.raises(InputError, match=r"\(id x\): .*RAG_REQUIRED.*labels_of is missing"):
        read_sets([path], BASE)


def test_rows_that_do_not_say_what_they_are_are_counted(tmp_path: Path) -> None:
    untold = [{"id": f"u{n}", "messages": turns(("user", "A?"), ("assistant", "a"))} for n in range(2)]
    sets = read_sets([write(tmp_path / "set.jsonl", [*untold, chat("told")])], BASE)
    assert without_kind(sets) == 2


def test_a_set_made_when_prompts_had_other_names_is_still_trained_on(tmp_path: Path) -> None:
    """What counts is what a row asks, and not in which folder its template lay."""
    row = chat("x", template="taikc/read@00000000", part="read")
    (one,) = read_sets([write(tmp_path / "set.jsonl", [row])], BASE)
    assert one.rows[0].kind == "colours read"


def test_ids_are_of_one_row_over_all_sets(tmp_path: Path) -> None:
    first = write(tmp_path / "a.jsonl", [chat("x"), chat("y"), chat("x")])
    second = write(tmp_path / "b.jsonl", [chat("y")])
    with pytest.raises(InputError) as refused:
        read_sets([first, second], BASE)
    said = refused.value.cause.splitlines()
    assert said[0] == "2 rows cannot be trained on:"
    assert said[1] == f"  {first}, line 3 (id x): its id is also that of {first}, line 1 (id x)"
    assert said[2] == f"  {second}, line 1 (id y): its id is also that of {first}, line 2 (id y)"


def test_of_many_the_first_are_named_and_all_are_counted(tmp_path: Path) -> None:
    rows = [{**row, "messages": row["messages"][:1]} for row in many(9)]
    with pytest.raises(InputError) as refused:
        read_sets([write(tmp_path / "a.jsonl", rows)], BASE)
    said = refused.value.cause.splitlines()
    assert len(said) == 7 and said[0].startswith("9 rows") and said[-1] == "  and 4 more"


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.jsonl cannot be read"):
        read_sets([tmp_path / "none.jsonl"], BASE)
    with pytest.raises(InputError, match="holds no row"):
        read_sets([write(tmp_path / "empty.jsonl", [])], BASE)


def test_rows_that_ask_the_same_are_counted_and_a_contradiction_is_named(tmp_path: Path) -> None:
    first = write(tmp_path / "a.jsonl", [chat("x"), chat("y"), chat("z", "who else")])
    second = write(tmp_path / "b.jsonl", [chat("v", reply="blue hill"), chat("w", reply="blue town")])
    assert same_prompts(read_sets([first, second], BASE)) == {
        "same_reply": 1,
        "other_reply": 2,
        "first": f"{first}, line 1 (id x) and {second}, line 1 (id v)",
    }


@pytest.mark.parametrize("form", ["trl", "llama-factory"])
def test_sets_for_other_programs_are_told_by_their_form(tmp_path: Path, form: Format) -> None:
    row = ChatRow("x", (Message("user", "who"),), "me", "read", "d", {})
    path = tmp_path / "set.json"
    write_set(path, [row, row], form)
    with pytest.raises(InputError, match=rf"set\.json is of the form {form}.*without --format"):
        read_sets([path], BASE)
