"""A generated corpus of any size with the word frequencies of English text, and questions to it.

Function words have their usual shares; the other words are invented, pronounceable and follow Zipf and Mandelbrot over
a vocabulary that grows with the corpus as Heaps found. Words come in inflected forms (-s, -ed, -ing), are repeated
within a passage more often than chance has it, and stand in sentences. Passages have about 100 words and a title of
one to three capitalised words, and mention the titles of other passages, some of which are mentioned far more often
than the rest.

Everything follows from the seed and the number of passages. Passages are made in blocks, each from a seed of its own,
so that memory does not grow with the corpus and any part can be made again without the rest.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["BYTES_A_PASSAGE", "FUNCTION_WORDS", "Corpus", "KnownItem", "Row", "write_corpus"]

BYTES_A_PASSAGE = 720
"""Of the JSONL file, about."""
_BLOCK = 4_000
_MEAN_WORDS, _SD_WORDS, _FEWEST_WORDS = 100, 20, 20
_MENTIONS = 3.0
_POPULARITY = 2.5
"""Passage number `passages * u ** 2.5` is mentioned: the first ones often, most of them hardly ever."""
_REPEATED = 0.1
_SENTENCE = 1 / 18
_RARE = 8_000
"""The rank from which words are rare."""
_SHARES = (  # per thousand words of running text
    *((62, "the"), (31, "of"), (28, "and"), (24, "in"), (22, "to"), (21, "a"), (11, "was"), (9, "is"), (8, "for")),
    *((8, "as"), (7, "on"), (7, "with"), (7, "by"), (6, "he"), (6, "at"), (6, "that"), (5, "from"), (5, "it")),
    *((5, "his"), (4, "an"), (3, "were"), (3, "are"), (3, "which"), (3, "this"), (3, "be"), (3, "or"), (3, "has")),
    *((3, "had"), (3, "its"), (3, "also"), (2, "but"), (2, "not"), (2, "first"), (2, "their"), (2, "one"), (2, "they")),
    *((2, "after"), (2, "who"), (2, "have"), (2, "new"), (2, "two"), (2, "her"), (2, "she"), (2, "been"), (2, "other")),
    *((2, "when"), (2, "there"), (1, "all"), (1, "during"), (1, "into"), (1, "time"), (1, "more"), (1, "school")),
    *((1, "would"), (1, "may"), (1, "years"), (1, "most"), (1, "only"), (1, "over"), (1, "city"), (1, "some")),
    *((1, "between"), (1, "world"), (1, "where"), (1, "later"), (1, "about")),
)
FUNCTION_WORDS = tuple(word for _, word in _SHARES)
"""The most frequent words of English, nearly all of them function words."""
_ONSETS: tuple[str, ...] = (*"bdfghklmnprstvwz", "br", "dr", "kl", "st", "tr")
_NUCLEI: tuple[str, ...] = (*"aeiou", "ai")
_CODAS = "nrltmkp"
"""The last letter of every invented word: none that would make one word look like a form of another."""
_ENDINGS = ("s", "ed", "ing")
_OPENINGS = ("What is the", "Which of the", "Who was the", "When did the", "Where was the", "How did the")
Row = tuple[str, str, str]
"""Id, title and text."""
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class KnownItem:
    """A question made from the words of one passage, which should be found by it."""

    question: str
    passage: str


class Corpus:
    """The generated corpus of so many passages."""

    def __init__(self, passages: int, *, seed: int = 7) -> None:
        self.passages, self.seed = passages, seed
        self._content = max(2_000, round(80 * (_MEAN_WORDS * max(passages, 1)) ** 0.49))
        self._words = [*FUNCTION_WORDS, *(_form(rank) for rank in range(self._content))]
        self._draw = _Alias(_frequencies(self._content))

    @property
    def vocabulary(self) -> int:
        """How many different words there may be."""
        return len(self._words)

    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[Row]:
        """The passages from one number up to another."""
        stop = self.passages if stop is None else stop
        for block in range(start // _BLOCK, -(-stop // _BLOCK)):
            low, high = max(start - block * _BLOCK, 0), min(stop - block * _BLOCK, _BLOCK)
            yield from self._block(block)[low:high]

    def questions(self, count: int, *, stop: int | None = None, seed: int = 1) -> list[KnownItem]:
        """Known-item questions to passages spread over the first `stop`: 4 to 12 of their words with function words.

        A word may stand there in another form than in the passage.
        """
        stop = self.passages if stop is None else stop
        random = np.random.default_rng((self.seed, seed))
        blocks = np.unique(random.integers(0, -(-stop // _BLOCK), 40))
        ranks = {word: rank for rank, word in enumerate(self._words[len(FUNCTION_WORDS) :])}
        made: list[KnownItem] = []
        for number, block in enumerate(blocks.tolist()):
            rows = self._block(block)[: stop - block * _BLOCK]
            wanted = count * (number + 1) // len(blocks) - len(made)
            for at in random.integers(0, len(rows), wanted).tolist():
                name, _, text = rows[at]
                made.append(KnownItem(self._question(text, ranks, random), name))
        order = random.permutation(len(made)).tolist()
        return [made[at] for at in order]

    def _question(self, text: str, ranks: dict[str, int], random: np.random.Generator) -> str:
        words = dict.fromkeys(word.lower().rstrip(".") for word in text.split())
        content = [word for word in words if word in ranks]
        some = random.choice(len(content), min(int(random.integers(4, 13)), len(content)), replace=False)
        said = [_OPENINGS[random.integers(len(_OPENINGS))]]
        for word, other_form, joined in zip(
            (content[at] for at in some), random.random(len(some)) < 0.3, random.random(len(some)) < 0.4, strict=True
        ):
            said.append(_form(_base(ranks[word])) if other_form else word)
            if joined:
                said.append(FUNCTION_WORDS[random.integers(30)])
        return " ".join(said) + "?"

    def _block(self, number: int) -> list[Row]:
        first = number * _BLOCK
        count = min(_BLOCK, self.passages - first)
        random = np.random.default_rng((self.seed, 0, number))
        sizes = np.maximum(random.normal(_MEAN_WORDS, _SD_WORDS, count), _FEWEST_WORDS).astype(np.int64)
        ends = np.cumsum(sizes)
        starts = ends - sizes
        total = int(ends[-1])
        words = self._repeat(self._draw(random, total), np.repeat(starts, sizes), random)
        pieces = list(itemgetter(*words.tolist())(self._words))
        self._mention(pieces, starts, sizes, random)
        _punctuate(pieces, starts, random)
        titles = self.titles(np.arange(first, first + count))
        for end in ends.tolist():
            pieces[end - 1] += "\n"
        texts = " ".join(pieces).rstrip("\n").split("\n ")  # one long join is quicker than many short ones
        names = [f"p{at}" for at in range(first, first + count)]
        return list(zip(names, titles, texts, strict=True))

    def _repeat(self, words: Integers, starts: Integers, random: np.random.Generator) -> Integers:
        """Some words are said again: they stand for one that came before in the same passage."""
        places = np.flatnonzero(random.random(len(words)) < _REPEATED)
        back = (random.random(len(places)) * (places - starts[places])).astype(np.int64)
        words[places] = words[places - back]
        return words

    def _mention(self, pieces: list[str], starts: Integers, sizes: Integers, random: np.random.Generator) -> None:
        counts = random.poisson(_MENTIONS, len(starts))
        of = np.repeat(np.arange(len(starts)), counts)
        # Neither the first word nor the last: those belong to the sentence.
        places = starts[of] + 1 + (random.random(len(of)) * (sizes[of] - 2)).astype(np.int64)
        targets = (self.passages * random.random(len(of)) ** _POPULARITY).astype(np.int64)
        for place, title in zip(places.tolist(), self.titles(targets), strict=True):
            pieces[place] = title

    def titles(self, numbers: Integers) -> list[str]:
        """The titles of passages, which follow from their numbers."""
        mixed = _mixed(numbers, self.seed)
        sizes = (np.searchsorted((0.1, 0.65), _unit(mixed, 1)) + 1).tolist()
        # Cubed: common words stand in titles more often than rare ones, yet most titles have a rare one.
        ranks = np.stack([self._content * _unit(mixed, slot) ** 3 for slot in (2, 3, 4)], axis=1).astype(np.int64)
        words = itemgetter(*(ranks + len(FUNCTION_WORDS)).ravel().tolist())(self._words) if len(numbers) else ()
        triples = zip(words[::3], words[1::3], words[2::3], strict=True)
        return [" ".join(triple[:size]).title() for size, triple in zip(sizes, triples, strict=True)]


class _Alias:
    """Draws from a discrete distribution in constant time (Walker's alias method)."""

    def __init__(self, shares: npt.NDArray[np.float64]) -> None:
        size = len(shares)
        scaled = (shares * (size / shares.sum())).tolist()
        self._keep = np.ones(size)
        self._other = np.arange(size)
        small = [at for at, share in enumerate(scaled) if share < 1]
        large = [at for at, share in enumerate(scaled) if share >= 1]
        while small and large:
            low, high = small.pop(), large[-1]
            self._keep[low], self._other[low] = scaled[low], high
            scaled[high] -= 1 - scaled[low]
            if scaled[high] < 1:
                small.append(large.pop())

    def __call__(self, random: np.random.Generator, count: int) -> Integers:
        places = random.integers(0, len(self._keep), count)
        return np.where(random.random(count) < self._keep[places], places, self._other[places])


def _frequencies(content: int) -> npt.NDArray[np.float64]:
    common = np.array([share for share, _ in _SHARES]) / 1000
    ranks = np.arange(content)
    # The rare words fall off faster than the others, so that many of them occur only once or twice.
    rest = (ranks + 100.0) ** -1.05 * np.maximum(ranks / _RARE, 1.0) ** -0.55
    return np.concatenate([common, rest * ((1 - common.sum()) / rest.sum())])


def _form(rank: int) -> str:
    """The word of a rank: even ranks are words, odd ones forms of words three times as frequent."""
    half = rank // 2
    return _lemma(half) if rank % 2 == 0 else _lemma(half // 3) + _ENDINGS[half % 3]


def _base(rank: int) -> int:
    """The rank of the word that a rank is a form of."""
    return rank if rank % 2 == 0 else rank // 2 // 3 * 2


def _lemma(number: int) -> str:
    """The n-th invented word, the first ones short; no two are alike."""
    letters, rest = "", number  # digits of a number whose base is the count of syllables
    while True:
        rest, digit = divmod(rest, len(_ONSETS) * len(_NUCLEI))
        letters += _ONSETS[digit % len(_ONSETS)] + _NUCLEI[digit // len(_ONSETS)]
        if not rest:
            return letters + _CODAS[number % len(_CODAS)]
        rest -= 1


def _punctuate(pieces: list[str], starts: Integers, random: np.random.Generator) -> None:
    """Begin sentences with a capital letter and end them with a full stop."""
    begins = random.random(len(pieces)) < _SENTENCE
    begins[starts] = True
    for place in np.flatnonzero(begins).tolist():
        pieces[place] = pieces[place].title()
        pieces[place - 1] += "."


def _mixed(numbers: Integers, seed: int) -> npt.NDArray[np.uint64]:
    """A number that looks random for each number (the finaliser of SplitMix64)."""
    value = (numbers.astype(np.uint64) + np.uint64(seed)) * np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def _unit(mixed: npt.NDArray[np.uint64], slot: int) -> npt.NDArray[np.float64]:
    """The slot-th number between 0 and 1 that follows from each."""
    again = _mixed(mixed.view(np.int64), slot)
    return (again >> np.uint64(11)).astype(np.float64) / 2.0**53


class _Worker:
    """Makes lines in a process of its own, which keeps the corpus from one block to the next."""

    corpus: Corpus

    @classmethod
    def start(cls, passages: int, seed: int) -> None:
        cls.corpus = Corpus(passages, seed=seed)

    @classmethod
    def lines(cls, span: tuple[int, int]) -> str:
        # There is nothing in ids, titles and texts that JSON would have to escape.
        rows = cls.corpus.rows(*span)
        return "".join([f'{{"id": "{name}", "title": "{title}", "text": "{text}"}}\n' for name, title, text in rows])


def write_corpus(corpus: Corpus, path: Path, start: int = 0, stop: int | None = None) -> None:
    """Write passages as JSONL with id, title and text, on all processors."""
    stop = corpus.passages if stop is None else stop
    spans = [(max(low, start), min(low + _BLOCK, stop)) for low in range(start // _BLOCK * _BLOCK, stop, _BLOCK)]
    workers = min(os.cpu_count() or 1, -(-len(spans) // 4))
    with (
        path.open("w", encoding="ascii") as file,
        ProcessPoolExecutor(workers, initializer=_Worker.start, initargs=(corpus.passages, corpus.seed)) as pool,
    ):
        for at in range(0, len(spans), 8 * workers):  # a few at a time: a slow disk must not fill the memory
            file.writelines(pool.map(_Worker.lines, spans[at : at + 8 * workers]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("passages", type=int, help="how many passages")
    parser.add_argument("file", type=Path, help="the JSONL file to write")
    parser.add_argument("--seed", type=int, default=7, help="another seed, another corpus (default 7)")
    parser.add_argument("--questions", type=Path, metavar="FILE", help="write 1,000 known-item questions here")
    chosen = parser.parse_args()
    began = time.perf_counter()
    corpus = Corpus(chosen.passages, seed=chosen.seed)
    write_corpus(corpus, chosen.file)
    rate = chosen.passages / (time.perf_counter() - began)
    print(f"{chosen.passages:,} passages, {chosen.file.stat().st_size / 1e6:,.0f} MB, {rate:,.0f} a second")
    if chosen.questions:
        with chosen.questions.open("w", encoding="utf-8") as file:
            for item in corpus.questions(1_000):
                file.write(json.dumps({"question": item.question, "passage": item.passage}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
