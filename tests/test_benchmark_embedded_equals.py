"""The benchmark that compares the embedded model with the GPU: input and output."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from benchmarks.embedded_equals import main, read, report

from hoptree.evaluation.run_folder import Row

SETS = ("2wikimultihopqa", "hotpotqa", "musique")


def rows(*answers: str) -> list[Row]:
    return [
        Row(f"q{place}", "Who?", ("Ida Chase",), answer, scores={"f1": float("Ida" in answer)})
        for place, answer in enumerate(answers)
    ]


def test_agreement_and_f1_compare_the_same_questions() -> None:
    ours = {"hotpotqa": rows("Ida Chase", "the Ida Chase.", "Paris", "")}
    theirs = {"hotpotqa": rows("Ida Chase", "Ida Chase", "Ida", "")[::-1]}
    head, hotpotqa, every = report(ours, theirs)
    assert head.split()[:3] == ["questions", "same", "answer"]
    assert hotpotqa.split()[1:6] == ["4", "75%", "50.0", "75.0", "-25.0"]
    assert every.split()[1:] == hotpotqa.split()[1:]


def test_missing_or_unfinished_runs_are_not_compared(tmp_path: Path) -> None:
    assert read(tmp_path, "local", {"hotpotqa": 2}) is None


def test_missing_data_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["embedded_equals.py", str(tmp_path / "nosuch"), "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2 and "there is no" in capsys.readouterr().err


def test_with_one_model_the_other_is_reported_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in SETS:
        (tmp_path / name).mkdir()
        questions = [
            {"id": f"{name}{place}", "question": f"Who is number {place}?", "answers": ["Ida"]} for place in "12"
        ]
        text = "".join(json.dumps(question) + "\n" for question in questions)
        (tmp_path / name / "dev.jsonl").write_text(text, encoding="utf-8")
        passage = {"id": "p", "title": "Ida", "text": "Ida is number 1."}
        (tmp_path / name / "corpus.jsonl.gz").write_bytes(gzip.compress(json.dumps(passage).encode()))
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"replies": [{"reply": "Ida"}]}), encoding="utf-8")
    out = tmp_path / "out"
    arguments = [str(tmp_path), "--out", str(out), "--quick", "--model", f"scripted/{script}"]
    monkeypatch.setattr("sys.argv", ["embedded_equals.py", *arguments])
    assert main() == 1 and "lacks answers of local/…" in capsys.readouterr().out
    (out / "scripted").rename(out / "local")
    (out / "hf").symlink_to(out / "local")
    monkeypatch.setattr("sys.argv", ["embedded_equals.py", *arguments])
    assert main() == 0
    assert "all                       6         100%" in capsys.readouterr().out
