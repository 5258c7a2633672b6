"""Files of questions that are refused, by name, whatever is wrong with them."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.evaluation.dataset_rows import (
    ALIASES,
    HOTPOT,
    MUSIQUE,
    OWN,
    QALD,
    SOUND,
    STRATEGY,
    WEBQSP,
    lines,
    only,
    whole,
)

from hoptree.core.errors import ConfigError, InputError
from hoptree.evaluation.datasets.examples import DataSet
from hoptree.evaluation.datasets.formats import FORMS
from hoptree.evaluation.datasets.reading import read_examples


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([OWN, {**OWN, "question": "Other?"}], r"Line 2 of bad.jsonl has the id 'a1' of an earlier .*Line 1"),
        ([OWN, {**OWN, "id": "a2", "answers": []}], "Line 2 of bad.jsonl has no answer"),
        ([OWN, {**OWN, "id": "a2", "answers": [" "]}], "Line 2 of bad.jsonl has no answer"),
        ([OWN, HOTPOT], "Line 2 of bad.jsonl is in the form of hotpotqa, while"),
        ([OWN, {**OWN, "id": "a2", "question": " "}], "Line 2 of bad.jsonl holds no question"),
        ([OWN, {**OWN, "id": "a2", "hops": "two"}], '"hops" is not a whole number'),
        ([OWN, {**OWN, "id": "a2", "answers": [["Skagen"]]}], '"answers" is not a list of texts'),
        ([HOTPOT, {**HOTPOT, "_id": "b", "supporting_facts": [["Ada"]]}], "form of hotpotqa"),
        ([HOTPOT, {**HOTPOT, "_id": "b", "supporting_facts": [["Ada", "1"]]}], "numbers of sentences"),
        ([HOTPOT, {"id": "b", "question": "Who?"}], "Line 2 of bad.jsonl has no answer"),
        ([MUSIQUE, {**MUSIQUE, "id": "m", "paragraphs": ["x"]}], "not a JSON object"),
        ([{**STRATEGY, "answer": "perhaps"}], "neither true nor false"),
        ([{"utterance": "who?", "targetValue": "Ada"}], "not a list of descriptions"),
        ([{**QALD, "question": [{"language": "de", "string": "Wo?"}]}], "no question in English"),
        ([OWN, 7], "Line 2 of bad.jsonl holds no question"),
        ([], "holds no questions"),
    ],
)
def test_rows_that_break_the_form_are_refused_by_name(tmp_path: Path, rows: list[Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_examples(lines(tmp_path / "bad.jsonl", rows))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (json.dumps(OWN).encode() + b'\n{"id": \n', r"Line 2 of bad\.json"),
        (b'{"Version": "1", "Questions": [\n' + json.dumps(WEBQSP).encode() + b",\n{]}", "Line 3 of"),
        (b'{"Version": "1", "Questions": [\n' + json.dumps(WEBQSP).encode(), "is not JSON"),
        (b'{"Version": "1", "Questions": [\n' + json.dumps(WEBQSP).encode() + b"], 7}", "is not JSON"),
        (b'{"Version": "1", "Questions": ["\xff"]}', "not UTF-8"),
        (b"one field\n", "1 field and no known names"),
        (b'question,answer\n"open,x\n', "not a row of a table"),
        (b"a\tb\nc\n", "Line 2 of"),
        (b"\x00\x01\x02" * 50, "binary"),
        (gzip.compress(json.dumps(OWN).encode() * 9, mtime=0)[:-9], "damaged|cannot be read"),
    ],
)
def test_broken_files_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "bad.json").write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_examples(tmp_path / "bad.json")


def test_a_file_without_any_answers_can_still_be_asked(tmp_path: Path) -> None:
    data = read_examples(whole(tmp_path / "test.json", [{**HOTPOT, "answer": "", "supporting_facts": []}]))
    assert not only(data).answers and only(data).supporting_facts is None


def test_a_file_is_read_anew_only_when_it_holds_something_else(tmp_path: Path) -> None:
    path, times = tmp_path / "data.jsonl", (1_700_000_000, 1_700_000_000)
    read = []
    for question in ("Who?", "Who?", "Why?"):
        path.write_text(json.dumps({"question": question, "answer": "x"}), encoding="utf-8")
        os.utime(path, times)
        read.append(read_examples(path).examples[0])
    assert [example.question for example in read] == ["Who?", "Who?", "Why?"]
    assert read[0] is read[1]


def test_judgements_that_change_are_read_anew(tmp_path: Path) -> None:
    (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "Who?"}', encoding="utf-8")
    (tmp_path / "qrels").mkdir()
    for passage in ("a", "b"):
        table = f"query-id\tcorpus-id\tscore\nq\t{passage}\t1\n"
        (tmp_path / "qrels" / "test.tsv").write_text(table, encoding="utf-8")
        assert read_examples(tmp_path).examples[0].supporting_ids == (passage,)


def test_a_form_can_be_told_and_must_exist(tmp_path: Path) -> None:
    path = lines(tmp_path / "dev.jsonl", [HOTPOT])
    assert read_examples(path, form="own").form == "own"
    with pytest.raises(InputError, match="form of popqa"):
        read_examples(lines(tmp_path / "pop.jsonl", [{**OWN, "possible_answers": 7}]), form="popqa")
    with pytest.raises(ConfigError, match="Did you mean hotpotqa"):
        read_examples(path, form="hotpot")
    with pytest.raises(ConfigError, match="takes no aliases"):
        read_examples(path, aliases=lines(tmp_path / "id_aliases.json", ALIASES))
    with pytest.raises(ConfigError, match="limit of 0"):
        read_examples(path, limit=0)
    with pytest.raises(InputError, match="There is no"):
        read_examples(tmp_path / "none.jsonl")


@pytest.mark.parametrize("form", FORMS)
def test_a_sound_row_is_told_by_itself(tmp_path: Path, form: str) -> None:
    assert read_examples(lines(tmp_path / "x.jsonl", [SOUND[form]])).form == form


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
anything = st.recursive(
    plain | st.sampled_from(['["a"', "['a', \"b\\'\"]", "[[[", '{"a"', "(list (description", "\ud83d"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.parametrize("form", FORMS)
@given(data=st.data())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_row_with_anything_in_it_is_read_or_refused(tmp_path: Path, form: str, data: st.DataObject) -> None:
    row = json.loads(json.dumps(SOUND[form]))
    _spoil(row, data)
    path = lines(tmp_path / "spoiled.jsonl", [row])
    for told in (form, "auto"):
        found = read_or_refused(path, told)
        for example in found.examples if found else ():
            assert example.id and example.question and all(answer.strip() for answer in example.answers)
            json.dumps(dataclasses.asdict(example), ensure_ascii=False).encode()


def read_or_refused(path: Path, form: str = "auto") -> DataSet | None:
    """The set, or None where an error of the right kind names the file; any other error is raised."""
    try:
        return read_examples(path, form=form)
    except InputError as error:
        if path.name not in error.cause:
            raise AssertionError("the file is not named") from error
        return None


def _spoil(value: Any, data: st.DataObject) -> None:
    """Put anything in one place of a row, however deep."""
    while True:
        places = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not places:
            return
        place = data.draw(st.sampled_from(places))
        inner = value[place]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            value[place] = data.draw(anything)
            return
        value = inner


@given(content=st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_read_or_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "any.json").write_bytes(content)
    found = read_or_refused(tmp_path / "any.json")
    assert found is None or found.examples


SHARED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"


@pytest.mark.skipif(not SHARED.is_dir(), reason="the folder of data is not there")
def test_all_files_of_the_data_folder_are_read() -> None:
    paths = sorted(SHARED.glob("*/dev*.jsonl"))
    assert paths
    for path in paths:
        data = read_examples(path)
        count = sum(1 for line in path.read_bytes().split(b"\n") if line.strip())
        assert (data.form, len(data.examples) + len(data.left_out)) == ("own", count), path
        assert data.left_out == data.taken_apart and len(data.left_out) < count / 5, path
        assert all(example.answers for example in data.examples), path
