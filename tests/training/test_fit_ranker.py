"""Boosted trees for ranking, and the ranker that is fitted to questions with gold passages."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hoptree.core.errors import InputError
from hoptree.core.values import Passage
from hoptree.retrieval.indexing import index_passages
from hoptree.retrieval.ranker import Trees, read_ranker
from hoptree.training import fit_ranker as fitting
from hoptree.training.fit_ranker import Growth, Lists, RankerSpec, fit_ranker, grow

SMALL = Growth(trees=12, depth=2, rate=0.3, penalty=0.1)


def lists(seed: int = 0, count: int = 60, size: int = 8) -> Lists:
    """Lists in which the row is relevant that has the most of the second feature, if the third is not there."""
    random = np.random.default_rng(seed)
    rows = random.random((count * size, 3)).astype(np.float32)
    rows[:, 2] = rows[:, 2] > 0.5
    worth = (rows[:, 1] - rows[:, 2]).reshape(count, size)
    relevant = (worth == worth.max(axis=1, keepdims=True)).reshape(-1)
    return Lists(rows, relevant, np.full(count, size))


def found(trees: Trees, asked: Lists) -> float:
    """The share of lists whose relevant row is first."""
    size = asked.lengths[0]
    best = trees.score(asked.rows).reshape(-1, size).argmax(axis=1)
    return float(asked.relevant.reshape(-1, size)[np.arange(len(best)), best].mean())


def test_trees_learn_what_makes_a_row_relevant() -> None:
    trees = grow(lists(), Growth(trees=60, depth=3, rate=0.3, penalty=0.1))
    assert found(trees, lists(1)) > 0.8
    assert found(grow(lists(), Growth(trees=1, depth=1)), lists(1)) < 0.6


def test_growing_goes_on_where_it_was_cut_off() -> None:
    saved: list[Trees] = []
    at_once = grow(lists(), SMALL, on_tree=saved.append)
    resumed = grow(lists(), SMALL, begun=saved[4])
    for name in ("features", "thresholds", "leaves"):
        assert (getattr(at_once, name) == getattr(resumed, name)).all()


def test_features_that_never_differ_are_not_asked() -> None:
    asked = lists()
    flat = Lists(np.column_stack([np.ones(len(asked.rows)), asked.rows]), asked.relevant, asked.lengths)
    assert 0 not in grow(flat, SMALL).features


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RankerSpec:
    """Films and their directors, a question for each film, and two questions that are measured on."""
    monkeypatch.setattr(fitting, "_ALONE", SMALL)
    monkeypatch.setattr(fitting, "_CHAINED", SMALL)
    monkeypatch.setattr(fitting, "_SENTENCE", SMALL)
    passages, rows = [], []
    for n in range(12):
        passages.append(
            Passage(f"f{n}", f"Grey Gull{n}", f"Grey Gull{n} is a film by Eva Lund{n}, shot in a barn. It rained.")
        )
        passages.append(Passage(f"d{n}", f"Eva Lund{n}", f"She had a brother. Her childhood passed at Hamlet{n}."))
        question = f"Where was the director of the film Grey Gull{n} born?"
        rows.append({"id": str(n), "question": question, "answers": [f"Hamlet{n}"], "dataset": "films"})
        rows[-1]["supporting_ids"] = [f"f{n}", f"d{n}"]
    index_passages(passages, tmp_path / "idx")
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (tmp_path / "eval.jsonl").write_text("\n".join(map(json.dumps, rows[:2])), encoding="utf-8")
    return RankerSpec(
        (tmp_path / "train.jsonl",),
        {"": str(tmp_path / "idx")},
        tmp_path / "out" / "r.json",
        (tmp_path / "eval.jsonl",),
    )


def test_a_ranker_is_fitted_to_what_is_not_measured_on(world: RankerSpec) -> None:
    stages: list[str] = []
    made_from = fit_ranker(world, lambda stage, done, total: stages.append(stage))
    assert made_from["questions"] == {"films": 10} and sum(made_from["left_out"].values()) == 2
    read = read_ranker(world.out)
    assert len(read.chained.leaves) == len(read.sentence.leaves) == SMALL.trees
    assert json.loads(world.out.read_text())["made_from"]["ids"] == made_from["ids"]
    assert not world.out.with_name("r.json.part").exists()
    assert {"alone, films", "alone", "chained, films", "chained", "sentence"} <= set(stages)


def _stop(at: str, done: int) -> Callable[[str, int, int], None]:
    def on_progress(stage: str, count: int, total: int) -> None:
        if (stage, count) == (at, done):
            raise KeyboardInterrupt

    return on_progress


@pytest.mark.parametrize(("stage", "done"), [("alone-without-2", 7), ("chained, films", 3), ("chained", 12)])
def test_a_fit_that_was_cut_off_ends_the_same(world: RankerSpec, stage: str, done: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(fitting, "_TREES_BETWEEN_SAVES", 5)
    fit_ranker(world)
    at_once = world.out.read_bytes()
    world.out.unlink()
    with pytest.raises(KeyboardInterrupt):
        fit_ranker(world, _stop(stage, done))
    assert not world.out.exists()
    again: list[tuple[str, int]] = []
    fit_ranker(world, lambda stage, done, total: again.append((stage, done)))
    assert ("alone, films", 1) not in again and ("alone-without-0", 1) not in again
    assert world.out.read_bytes() == at_once


def test_sentences_are_scored_by_words_where_each_passage_has_one(world: RankerSpec, tmp_path: Path) -> None:
    passages = [Passage(f"{kind}{n}", f"Title {kind}{n}", f"The film Gull{n}") for kind in "fd" for n in range(12)]
    index_passages(passages, tmp_path / "short")
    fit_ranker(RankerSpec(world.data, {"": str(tmp_path / "short")}, world.out, world.exclude))
    assert len(read_ranker(world.out).sentence.leaves) == 1


def test_another_fit_is_begun_anew(world: RankerSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        fit_ranker(world, _stop("alone", 3))
    monkeypatch.setattr(fitting, "_ALONE", Growth(trees=3, depth=1))
    stages: list[str] = []
    fit_ranker(world, lambda stage, done, total: stages.append(stage))
    assert "alone, films" in stages and len(read_ranker(world.out).alone.leaves) == 3


def test_what_cannot_be_fitted_is_said(world: RankerSpec, tmp_path: Path) -> None:
    bare = tmp_path / "bare.jsonl"
    bare.write_text('{"id": "1", "question": "Who?", "answers": ["x"], "dataset": "films"}\n', encoding="utf-8")
    with pytest.raises(InputError, match="gold passages"):
        fit_ranker(RankerSpec((bare,), world.corpora, world.out, world.exclude))
    with pytest.raises(InputError, match="--corpus films=INDEX"):
        fit_ranker(RankerSpec(world.data, {"other": "x"}, world.out, world.exclude))
    with pytest.raises(InputError, match="measured on"):
        fit_ranker(RankerSpec(world.data, world.corpora, world.out, ()))
    index_passages([Passage("a", "Goat", "A goat and a film."), Passage("b", "Cow", "A film.")], tmp_path / "other")
    with pytest.raises(InputError, match="No gold passage"):
        fit_ranker(RankerSpec(world.data, {"": str(tmp_path / "other")}, world.out, world.exclude))
    index_passages([Passage("a", "Goat", "A goat.")], tmp_path / "one")
    with pytest.raises(InputError, match="No gold passage"):
        fit_ranker(RankerSpec(world.data, {"": str(tmp_path / "one")}, world.out, world.exclude))


def test_a_folder_of_somebody_else_is_not_touched(world: RankerSpec) -> None:
    theirs = world.out.with_name("r.json.part") / "notes.txt"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="in the way"):
        fit_ranker(world)
    assert theirs.read_text(encoding="utf-8") == "mine"
