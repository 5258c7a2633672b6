"""The generated corpus of the benchmarks is reproducible and realistic."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from benchmarks.changes import TOLERANCE, agreement
from benchmarks.synthetic import FUNCTION_WORDS, Corpus, Row, write_corpus

PASSAGES = 6_000


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus(PASSAGES)


@pytest.fixture(scope="module")
def rows(corpus: Corpus) -> list[Row]:
    return list(corpus.rows())


def test_the_same_seed_makes_the_same_corpus(rows: list[Row]) -> None:
    assert list(Corpus(PASSAGES).rows()) == rows
    assert next(Corpus(PASSAGES, seed=8).rows()) != rows[0]


def test_any_part_can_be_generated_alone(corpus: Corpus, rows: list[Row]) -> None:
    assert list(corpus.rows(3_990, 4_010)) == rows[3_990:4_010]
    assert list(corpus.rows(5_995)) == rows[5_995:]


def test_a_written_corpus_reads_back_unchanged(corpus: Corpus, rows: list[Row], tmp_path: Path) -> None:
    write_corpus(corpus, tmp_path / "corpus.jsonl", 10, 4_100)
    read = [json.loads(line) for line in (tmp_path / "corpus.jsonl").read_text().splitlines()]
    assert read == [{"id": name, "title": title, "text": text} for name, title, text in rows[10:4_100]]


def test_ids_are_unique_and_nearly_all_titles_too(rows: list[Row]) -> None:
    assert len({name for name, _, _ in rows}) == PASSAGES
    assert len({title for _, title, _ in rows}) > 0.9 * PASSAGES
    assert all(1 <= len(title.split()) <= 3 and title.istitle() for _, title, _ in rows)


def test_words_are_as_frequent_as_in_english_text(rows: list[Row]) -> None:
    counts = Counter(word for _, _, text in rows for word in text.lower().replace(".", "").split())
    total = sum(counts.values())
    assert 95 < total / PASSAGES < 110
    assert 0.055 < counts["the"] / total < 0.065
    assert 0.3 < sum(counts[word] for word in FUNCTION_WORDS) / total < 0.45
    ranked = [count for _, count in counts.most_common()]
    assert all(left >= 2 * right for left, right in pairwise(ranked[at] for at in (100, 1_000, 10_000)))
    assert sum(count == 1 for count in ranked) > 0.1 * len(ranked)


def test_a_larger_corpus_has_more_words(corpus: Corpus) -> None:
    assert Corpus(4 * PASSAGES).vocabulary > 1.8 * corpus.vocabulary


def test_passages_mention_other_titles_with_skewed_frequencies(rows: list[Row]) -> None:
    titles = {title for _, title, _ in rows if " " in title}
    mentions = Counter(title for _, _, text in rows for title in _runs(text) if title in titles)
    assert sum(mentions.values()) > PASSAGES
    assert mentions.most_common(1)[0][1] > 50 * sum(mentions.values()) / len(titles)


def test_questions_come_from_the_words_of_their_passage(corpus: Corpus, rows: list[Row]) -> None:
    texts = {name: set(text.lower().replace(".", "").split()) for name, _, text in rows}
    items = corpus.questions(50, stop=5_000)
    assert len(items) == 50 and items == corpus.questions(50, stop=5_000)
    for item in items:
        content = [word for word in item.question.rstrip("?").split()[3:] if word not in FUNCTION_WORDS]
        assert 4 <= len(content) <= 12 and int(item.passage[1:]) < 5_000
        assert sum(word in texts[item.passage] for word in content) >= len(content) / 3


def test_agreement_distinguishes_a_lost_passage_from_a_tie_at_the_cut() -> None:
    fresh = [[(f"p{at}", 20.0 - at) for at in range(10)]]
    swapped = [[*fresh[0][:-1], ("other", 11.0)]]
    without = [[*fresh[0][1:], ("other", 11.0)]]
    moved = [[(name, score * (1 + 2 * TOLERANCE)) for name, score in fresh[0]]]
    assert agreement(fresh, fresh).identical
    assert agreement(fresh, swapped).lost == 0 and agreement(fresh, swapped).same_sets == 0
    assert agreement(fresh, without).lost == 1
    assert agreement(fresh, moved).worst > TOLERANCE and not agreement(fresh, moved).identical


def _runs(text: str) -> list[str]:
    """Yield each two or three adjacent words."""
    words = text.replace(".", "").split()
    return [" ".join(words[at : at + size]) for size in (2, 3) for at in range(len(words) - size + 1)]
