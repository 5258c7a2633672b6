"""Reading the triples of a reply: every form models use, and every way to break one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.cpu_limit import cpu_limit

from hoptree.methods.steps.fact_extraction import MAX_NAME_CHARS, MAX_TRIPLES, Triple, read_triples

TWO: list[Triple] = [("Elia Kazan", "spouse", "Molly Kazan"), ("Wanda", "director", "Barbara Loden")]
LINES = "\n".join(" | ".join(row) for row in TWO)
TABLE = "| Subject | Relation | Object |\n|:---|---|---:|\n" + "\n".join(f"| {' | '.join(row)} |" for row in TWO)
OBJECTS = [dict(zip(("subject", "relation", "object"), row, strict=True)) for row in TWO]
OTHER_NAMES = [dict(zip(("head", "Predicate", "tail"), row, strict=True)) for row in TWO]

FORMS = {
    "lines": LINES,
    "numbered": "1. Elia Kazan | spouse | Molly Kazan\n2) Wanda | director | Barbara Loden",
    "bullets": "Here are the facts:\n\n- Elia Kazan | spouse | Molly Kazan\n* Wanda | director | Barbara Loden",
    "bold": "**Elia Kazan** | *spouse* | **Molly Kazan**\n`Wanda` | director | “Barbara Loden”",
    "table": TABLE,
    "tabs": LINES.replace(" | ", "\t"),
    "arrows": "Elia Kazan -> spouse -> Molly Kazan\nWanda → director → Barbara Loden",
    "tuples": "(Elia Kazan, spouse, Molly Kazan)\n(Wanda, director, Barbara Loden).",
    "quoted tuples": '("Elia Kazan", "spouse", "Molly Kazan"),\n("Wanda", "director", "Barbara Loden")',
    "semicolons": "<Elia Kazan; spouse; Molly Kazan>\nWanda; director; Barbara Loden",
    "dashes": "Elia Kazan - spouse - Molly Kazan\nWanda – director – Barbara Loden",
    "labels": "Subject: Elia Kazan | Relation: spouse | Object: Molly Kazan\nSubject: Wanda | director | Barbara Loden",
    "CSV": '"Elia Kazan", "spouse", "Molly Kazan"\n"Wanda", "director", "Barbara Loden"',
    "JSON lists": json.dumps(TWO),
    "indented JSON lists": json.dumps(TWO, indent=2),
    "JSON objects": json.dumps(OBJECTS),
    "indented JSON objects": json.dumps({"facts": OBJECTS}, indent=2),
    "other names": json.dumps({"triples": OTHER_NAMES}),
    "JSON Lines": "\n".join(json.dumps(row) for row in TWO),
    "objects a line": "\n".join(json.dumps(row) + "," for row in OBJECTS),
    "fenced": f"Sure!\n```json\n{json.dumps(OBJECTS, indent=1)}\n```\nThose are all facts.",
    "fenced lines": f"```\n{LINES}\n```",
    "by subject": json.dumps({"Elia Kazan": {"spouse": ["Molly Kazan"]}, "Wanda": {"director": "Barbara Loden"}}),
    "lines in JSON": json.dumps({"facts": LINES.splitlines()}),
    "never closed": json.dumps({"facts": OBJECTS})[:-2],
    "smart quotes": json.dumps(TWO).replace('"Elia', "“Elia").replace('Kazan", "s', 'Kazan”, "s'),
    "trailing comma": '[["Elia Kazan", "spouse", "Molly Kazan"], ["Wanda", "director", "Barbara Loden"],]',
    "one object for both": json.dumps(
        [OBJECTS[0], {"subject": "Wanda", "relation": "director", "object": ["Barbara Loden"]}]
    ),
    "Windows": LINES.replace("\n", "\r\n"),
}


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_every_form_of_a_list_is_read(form: str) -> None:
    read = read_triples(FORMS[form])
    assert (list(read.triples), read.malformed, read.understood) == (TWO, 0, True)


@pytest.mark.parametrize("reply", ["none", "None.", "[]", "```json\n[]\n```", '{"facts": []}', "No facts."])
def test_a_reply_that_says_there_is_none_is_understood(reply: str) -> None:
    read = read_triples(reply)
    assert (read.triples, read.malformed, read.understood) == ((), 0, True)


@pytest.mark.parametrize(
    "reply", ["", " \n", "I cannot do that.", "The film was directed by him; it was good.", "{", "7"]
)
def test_prose_holds_no_triples(reply: str) -> None:
    read = read_triples(reply)
    assert (read.triples, read.understood) == ((), False)


@pytest.mark.parametrize(
    ("reply", "malformed"),
    [
        ("a | b", 1),
        ("a | b | c | d", 1),
        ("a |  | c", 1),
        ("a | ?! | c", 1),
        (f"{'x' * (MAX_NAME_CHARS + 1)} | b | c", 1),
        (f"a | {'x' * 101} | c", 1),
        ("(a, b)", 1),
        ('[["a", "b"], ["a", "b", null], ["a", true, "c"], ["a", "b", {"c": 1}]]', 4),
        ('[{"subject": "a", "relation": "b"}]', 1),
        ('["one", "two", "three", "four"]', 1),
    ],
)
def test_what_should_be_a_triple_and_is_none_is_counted(reply: str, malformed: int) -> None:
    read = read_triples(f"{LINES}\n{reply}" if reply[0] not in "[{" else reply)
    assert read.malformed == malformed
    assert list(read.triples) == (TWO if reply[0] not in "[{" else [])


def test_numbers_are_texts() -> None:
    assert read_triples('[["Wanda", "year", 1970], ["Wanda", "rating", 7.5]]').triples == (
        ("Wanda", "year", "1970"),
        ("Wanda", "rating", "7.5"),
    )


@pytest.mark.parametrize(
    ("reply", "kept"),
    [
        (LINES[:-3], 1),
        (LINES[:-16], 1),
        (LINES[:-25], 1),
        (LINES, 1),  # nobody knows whether the name went on
        (LINES + "\n", 2),
        (json.dumps(TWO)[:-9], 1),
        (json.dumps(TWO)[:-20], 1),
        (json.dumps(TWO, indent=1)[:-9], 1),
        (json.dumps(TWO)[:10], 0),
        (json.dumps(TWO)[:-1], 2),
        (json.dumps(OBJECTS)[:-1] + ", ", 2),
        (json.dumps(OBJECTS)[:-5], 1),
    ],
)
def test_a_reply_that_was_cut_off_loses_what_may_be_half_a_fact(reply: str, kept: int) -> None:
    assert list(read_triples(reply, cut=True).triples) == TWO[:kept]


def test_a_model_that_repeats_itself_for_ever_is_read_up_to_a_point() -> None:
    for endless in (LINES + "\n", "[" * 50_000, '{"a":' * 50_000, "(a, b, c) " * 20_000, "|" * 200_000, '"' * 200_000):
        with cpu_limit():
            read = read_triples(endless * 50)
        assert len(read.triples) <= MAX_TRIPLES


# Properties

NAME = st.text(
    alphabet=st.characters(
        blacklist_categories=("Cc", "Cs", "Zs", "Zl", "Zp"), blacklist_characters="|\"'“”‘’„`*_,;:="
    ),
    min_size=1,
    max_size=30,
).filter(lambda name: name[0].isalnum() and any(letter.isalnum() for letter in name))
TRIPLES = st.lists(st.tuples(NAME, NAME, NAME), min_size=1, max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=20,
)
WRITERS: Sequence[Callable[[Any], str]] = (
    lambda triples: "\n".join(" | ".join(row) for row in triples),
    lambda triples: "\n".join(f"- {' | '.join(row)}" for row in triples),
    lambda triples: json.dumps(triples),
    lambda triples: json.dumps(triples, ensure_ascii=False, indent=1),
    lambda triples: json.dumps({"facts": [dict(zip("spo", row, strict=True)) for row in triples]}),
    lambda triples: "\n".join(json.dumps(row) for row in triples),
    lambda triples: (
        "```json\n"
        + json.dumps([dict(zip(("head", "relation", "tail"), row, strict=True)) for row in triples])
        + "\n```"
    ),
)


@given(TRIPLES, st.sampled_from(WRITERS))
def test_what_is_written_in_a_form_is_read_back(triples: list[Triple], write: Callable[[Any], str]) -> None:
    headed = {("subject", "relation", "object"), ("s", "p", "o"), ("head", "relation", "tail")}
    if any(tuple(part.casefold() for part in row) in headed for row in triples):
        return
    assert list(read_triples(write(triples)).triples) == triples


@given(st.text(max_size=500), st.booleans())
@example("\ufeff", False)
@example('{"subject": []}', True)
@example("[[[[", True)
def test_no_text_is_an_exception(reply: str, cut: bool) -> None:
    _well_formed(reply, cut)


@given(JSON)
def test_no_json_is_an_exception(value: Any) -> None:
    _well_formed(json.dumps(value), False)


@given(TRIPLES, st.sampled_from(WRITERS), st.data())
def test_a_broken_reply_gives_only_whole_triples(triples: list[Triple], write: Callable[[Any], str], data: Any) -> None:
    """Cut anywhere, and with a character put anywhere, it is read without an exception."""
    complete = write(triples)
    place = data.draw(st.integers(0, len(complete)))
    _well_formed(complete[:place], True)
    _well_formed(complete[:place] + data.draw(st.characters()) + complete[place:], False)


def _well_formed(reply: str, cut: bool) -> None:
    read = read_triples(reply, cut=cut)
    assert read.malformed >= 0
    for triple in read.triples:
        assert len(triple) == 3
        for part in triple:
            assert part == " ".join(part.split())
            assert any(letter.isalnum() for letter in part)
            assert len(part) <= MAX_NAME_CHARS
            part.encode()
