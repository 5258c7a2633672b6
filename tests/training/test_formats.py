"""Training sets in the forms of other programs, and their figures beside the paper's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hoptree.core.errors import ConfigError, InputError
from hoptree.models.model import Message
from hoptree.training.chat_rows import PAPER, ChatRow, RowLength, compare_with_paper, consistent_rows, word_lengths
from hoptree.training.formats import check_out, read_format, write_set


def rows(count: int = 2, label: str = "gap") -> list[ChatRow]:
    asked = (Message("system", "Be brief."), Message("user", "Who? Wer?"))
    return [ChatRow(f"d/{label}{n}", asked, f"Größe {n}", label, "d", {"split": "train"}) for n in range(count)]


TURNS = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who? Wer?"}]


def test_chat(tmp_path: Path) -> None:
    assert write_set(tmp_path / "s.jsonl", rows(), "chat") == [tmp_path / "s.jsonl"]
    first, _ = (json.loads(line) for line in (tmp_path / "s.jsonl").read_text(encoding="utf-8").splitlines())
    assert first["messages"] == [*TURNS, {"role": "assistant", "content": "Größe 0"}] and first["id"] == "d/gap0"


def test_trl_takes_a_prompt_and_its_completion(tmp_path: Path) -> None:
    write_set(tmp_path / "s.jsonl", rows(), "trl")
    first, _ = (json.loads(line) for line in (tmp_path / "s.jsonl").read_text(encoding="utf-8").splitlines())
    assert first["prompt"] == TURNS and first["completion"] == [{"role": "assistant", "content": "Größe 0"}]
    assert first["id"] == "d/gap0" and first["meta"]["label"] == "gap"


def test_llama_factory_takes_a_list_and_finds_it_beside_other_sets(tmp_path: Path) -> None:
    info = tmp_path / "dataset_info.json"
    info.write_text(json.dumps({"mine": {"file_name": "mine.json"}, "s": {"old": 1}}), encoding="utf-8")
    assert write_set(tmp_path / "s.json", rows(), "llama-factory") == [tmp_path / "s.json", info]
    listed = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    assert [row["messages"][-1]["content"] for row in listed] == ["Größe 0", "Größe 1"]
    known = json.loads(info.read_text(encoding="utf-8"))
    assert known["mine"] == {"file_name": "mine.json"} and known["s"]["file_name"] == "s.json"
    assert known["s"]["formatting"] == "sharegpt" and known["s"]["columns"] == {"messages": "messages"}
    roles = {turn["role"] for row in listed for turn in row["messages"]}
    tags = known["s"]["tags"]
    assert roles == {tags["system_tag"], tags["user_tag"], tags["assistant_tag"]}
    assert {tags["role_tag"], tags["content_tag"]} == set(listed[0]["messages"][0])


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_list_of_sets_that_cannot_be_read_is_left_alone(tmp_path: Path, text: str) -> None:
    info = tmp_path / "dataset_info.json"
    info.write_text(text, encoding="utf-8")
    for attempt in (check_out, lambda path, form: write_set(path, rows(), form)):
        with pytest.raises(InputError, match=r"dataset_info\.json"):
            attempt(tmp_path / "s.json", "llama-factory")
    assert info.read_text(encoding="utf-8") == text and not (tmp_path / "s.json").exists()


def test_what_cannot_be_written_is_told_before(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Give --out s\.json"):
        check_out(tmp_path / "s.jsonl", "llama-factory")
    with pytest.raises(ConfigError, match="no form of training sets 'csv'"):
        read_format("csv")
    (tmp_path / "f").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="cannot be written"):
        write_set(tmp_path / "f" / "s.jsonl", rows(), "trl")


def test_figures_stand_beside_those_of_the_paper() -> None:
    told = compare_with_paper([*word_lengths([*rows(3), *rows(1, "confident")]), RowLength("of another paper", 1, 1)])
    assert [(line["part"], line["rows"], line["paper"]["table"]) for line in told] == [
        ("confident", 1, 6),
        ("gap", 3, 6),
        ("boundary", 4, 1),
    ]
    assert told[0]["instruction"] == 4.0 and told[0]["output"] == 2.0
    for whole, parts in (("instructions", ("decompose", "read", "summary")), ("boundary", ("confident", "gap"))):
        assert PAPER[whole].rows == sum(PAPER[part].rows for part in parts), "as the paper's tables add up"


def test_rows_that_ask_and_say_the_same_are_taken_once() -> None:
    first, _ = rows(2)
    second = ChatRow("second", (Message("user", "Where?"),), "There", "gap", "d", {})
    again = [ChatRow("other", first.messages, first.target, "gap", "d", {}), first, second]
    assert consistent_rows(again) == ([again[0], second], {"rows that ask and say the same as another": 1})
