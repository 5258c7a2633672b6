"""The cost of a request: the slope between two runs, compared with FlashRAG."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path

import pytest
from benchmarks import flashrag_adapter, throughput
from benchmarks.slots import Figures
from benchmarks.throughput import FLASHRAG_METHODS, Measured, beside_flashrag

from hoptree.evaluation.experiment import Experiment


def test_startup_is_separated_from_requests() -> None:
    small = Measured("oner", "bm25", 20, Figures(requests=20), cpu=0.24, waited=0.0)
    full = Measured("oner", "bm25", 100, Figures(requests=100), cpu=0.4, waited=0.0).after(small)
    assert full.cpu_ms == pytest.approx(2.0) and full.start == pytest.approx(0.2)
    assert small.cpu_ms == pytest.approx(12.0)


def test_a_run_over_a_generated_corpus_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throughput, "PASSAGES", 200)
    index, data = throughput.generated(tmp_path)
    with throughput.endpoint(slots=4) as url:
        asked = Experiment(
            data, "oner", options={}, limit=2, corpus=str(index), base_url=f"{url}/v1", model="openai/slots"
        )
        done = throughput.measure(url, tmp_path / "run", asked, slots=4)
    assert done.questions == done.done.requests == 2 and done.cpu > 0


def test_flashrag_is_compared_by_seconds_and_processor_time(tmp_path: Path) -> None:
    assert [*flashrag_adapter.METHODS] == [*FLASHRAG_METHODS]
    row = {"method": "oner", "cpu": 0.4, "figures": asdict(Figures(requests=100, began=5.0, ended=7.0)), "versions": {}}
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\nprint('''{json.dumps(row)}''')\n", encoding="utf-8")
    python.chmod(0o755)
    ours = Measured("oner", "bm25", 100, Figures(requests=100, began=1.0, ended=2.0), cpu=0.2, waited=0.0)
    chosen = Namespace(flashrag=str(python), passages=None, questions=100, slots=64)
    first, _ = beside_flashrag("http://127.0.0.1:9", tmp_path, chosen, [ours], tmp_path / "questions.jsonl")
    assert "seconds 1.00 / 2.00 = 0.500" in first and "ms a request 2.00 / 4.00 = 0.50" in first


def test_words_replace_the_tokens_of_flashrag() -> None:
    words = flashrag_adapter.Words()
    ids = words.encode("Ada Stone  saw Ada", allowed_special="all")
    assert len(ids) == 4 and words.decode(ids) == "Ada Stone  saw Ada"
