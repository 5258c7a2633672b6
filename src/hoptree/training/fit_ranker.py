"""Fit the retrieval ranker to questions with gold passages, on a CPU.

First the trees for single passages, also without each fold of the questions; then those for passages after others, by
the scores of trees that did not see the question; last those for sentences. OUT.part keeps what is finished.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hoptree import __version__
from hoptree.core.errors import InputError, file_errors
from hoptree.core.files import atomic_write, with_sum
from hoptree.evaluation.datasets.examples import Example
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.index.links import folded
from hoptree.retrieval.rank_features import ALONE, SENTENCE, Features
from hoptree.retrieval.ranker import FORMAT, LEAF_DECIMALS, PARTS, THRESHOLD_DIGITS, CandidateFinder, Trees, read_trees
from hoptree.training.leakage import Excluded, admit
from hoptree.training.questions import TrainingQuestion, read_training_questions

_MIN_CURVATURE = 1e-6
_MIN_GAIN = 1e-12
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Lists:
    """Rows of features, list after list; `lengths` has a number for each list."""

    rows: NDArray[np.float32]
    relevant: NDArray[np.bool_]
    lengths: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Growth:
    """The settings of boosting."""

    trees: int = 300
    depth: int = 5
    rate: float = 0.08
    bins: int = 48
    feature_share: float = 0.4
    list_share: float = 0.8
    penalty: float = 3.0
    seed: int = 7


def grow(
    lists: Lists, how: Growth, begun: Trees | None = None, on_tree: Callable[[Trees], None] = lambda trees: None
) -> Trees:
    """Boost symmetric trees; continuing from `begun` gives the same result.

    All nodes of a level have the same split: such trees overfit little, and scoring is a look-up. The loss is a softmax
    of each relevant row against all irrelevant rows of its list.
    """
    edges = [_edges(column, how.bins) for column in lists.rows.T]
    binned = np.stack(
        [np.searchsorted(edge, column).astype(np.uint8) for edge, column in zip(edges, lists.rows.T, strict=True)]
    )
    usable = [at for at, edge in enumerate(edges) if len(edge)]
    of_list = np.repeat(np.arange(len(lists.lengths)), lists.lengths)
    features: list[Any] = begun.features.tolist() if begun else []
    thresholds: list[Any] = begun.thresholds.tolist() if begun else []
    leaves: list[Any] = begun.leaves.tolist() if begun else []
    scores = begun.score(lists.rows) if begun else np.zeros(len(lists.rows))
    for count in range(len(features), how.trees):
        random = np.random.default_rng([how.seed, count])
        gradient, curvature = _derivatives(scores, lists, of_list)
        kept = np.flatnonzero((random.random(len(lists.lengths)) < how.list_share)[of_list])
        tried = np.sort(random.choice(usable, max(1, int(how.feature_share * len(usable))), replace=False))
        columns = {int(at): binned[at, kept].astype(np.int64) for at in tried}
        widths = {feature: len(edges[feature]) for feature in columns}
        asked, cuts = _levels(columns, widths, gradient[kept], curvature[kept], how)
        place = np.zeros(len(scores), dtype=np.int64)
        for level, (feature, cut) in enumerate(zip(asked, cuts, strict=True)):
            place |= (binned[feature] > cut).astype(np.int64) << level
        drops = np.bincount(place[kept], gradient[kept], 2**how.depth)
        bends = np.bincount(place[kept], curvature[kept], 2**how.depth)
        leaf = np.round(-how.rate * drops / (bends + how.penalty), LEAF_DECIMALS)
        features.append(asked)
        thresholds.append([float(edges[feature][cut]) for feature, cut in zip(asked, cuts, strict=True)])
        leaves.append(leaf.tolist())
        scores = scores + leaf[place]
        on_tree(Trees(np.array(features), np.array(thresholds), np.array(leaves)))
    return Trees(np.array(features), np.array(thresholds), np.array(leaves))


def _edges(values: NDArray[Any], bins: int) -> Floats:
    """Return thresholds that split a feature evenly by rows and by values."""
    distinct = np.unique(values).astype(np.float64)
    if len(distinct) <= bins:
        edges = (distinct[:-1] + distinct[1:]) / 2
    else:
        by_rows = np.quantile(values, np.linspace(0, 1, bins + 1)[1:-1])
        edges = np.concatenate([by_rows, np.quantile(distinct, np.linspace(0, 1, bins // 2 + 1)[1:-1])])
    return np.unique([float(f"{edge:.{THRESHOLD_DIGITS}g}") for edge in edges])


def _derivatives(scores: Floats, lists: Lists, of_list: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return the first and second derivative of the loss by each row's score."""
    starts = np.cumsum(lists.lengths) - lists.lengths
    raised = np.exp(scores - np.maximum.reduceat(scores, starts)[of_list])
    irrelevant = np.add.reduceat(np.where(lists.relevant, 0.0, raised), starts)[of_list]
    inverse = np.where(lists.relevant, 1 / (raised + irrelevant), 0.0)
    first, second = (np.add.reduceat(inverse**power, starts)[of_list] for power in (1, 2))
    chance = raised / (raised + irrelevant)
    gradient = np.where(lists.relevant, chance - 1, raised * first)
    curvature = np.where(lists.relevant, chance * (1 - chance), raised * first - raised**2 * second)
    return gradient, np.maximum(curvature, _MIN_CURVATURE)


def _levels(
    columns: dict[int, NDArray[np.int64]], widths: dict[int, int], gradient: Floats, curvature: Floats, how: Growth
) -> tuple[list[int], list[int]]:
    """Choose the feature and bin with the largest gain for each level."""
    place = np.zeros(len(gradient), dtype=np.int64)
    width = 1 + max(widths.values())
    asked: list[int] = []
    cuts: list[int] = []
    for level in range(how.depth):
        nodes, best, begins = 1 << level, (-np.inf, 0, 0), place * width
        for feature, column in columns.items():
            where = begins + column
            left = np.bincount(where, gradient, nodes * width).reshape(nodes, width).cumsum(axis=1)
            bend = np.bincount(where, curvature, nodes * width).reshape(nodes, width).cumsum(axis=1)
            right, right_bend = left[:, -1:] - left, bend[:, -1:] - bend
            gains = (left**2 / (bend + how.penalty) + right**2 / (right_bend + how.penalty)).sum(axis=0)
            cut = int(gains[: widths[feature]].argmax())
            if gains[cut] > best[0] + _MIN_GAIN:
                best = (float(gains[cut]), feature, cut)
        asked.append(best[1])
        cuts.append(best[2])
        place |= (columns[best[1]] > best[2]).astype(np.int64) << level
    return asked, cuts


_FOLDS = 4
_TREES_BETWEEN_SAVES = 25
_ALONE, _CHAINED, _SENTENCE = Growth(trees=150), Growth(trees=250), Growth(trees=80, depth=4)


@dataclass(frozen=True, slots=True)
class RankerSpec:
    """Questions with gold passages, indexes by data set, and exclusions."""

    data: tuple[Path, ...]
    corpora: Mapping[str, str]
    out: Path
    exclude: tuple[Path, ...]


_BY_WORDS = Trees(np.array([[SENTENCE.index("covered")]]), np.array([[0.0]]), np.array([[0.0, 1.0]]))
"""Scores of sentences if there are no lists to learn them from."""
_NO_GOLD = InputError("No gold passage is among the candidates of any question.", "Give the indexes that hold them.")
_NO_TEXT = frozenset(("", "yes", "no", "noanswer"))
OnProgress = Callable[[str, int, int], None]
Rows = tuple[NDArray[Any], Sequence[bool], Sequence[int]]  # features, relevance of rows, and lengths of lists
Extract = Callable[[Features, Example, int], Rows]


def fit_ranker(spec: RankerSpec, on_progress: OnProgress = lambda stage, done, total: None) -> dict[str, Any]:
    """Fit a ranker and write it; return what it was made from."""
    questions = [each for each in read_training_questions(spec.data) if each.example.supporting_ids]
    if not questions:
        raise InputError("No question names its gold passages.", 'Give rows with a list "supporting_ids".')
    admitted = admit(questions, Excluded(spec.exclude), any_split=True)
    by_set: dict[str, list[TrainingQuestion]] = {}
    for question in admitted.questions:
        by_set.setdefault(question.example.dataset, []).append(question)
    sources = []
    for name, each in by_set.items():
        if (folder := spec.corpora.get(name, spec.corpora.get(""))) is None:
            raise InputError(f"No index is given for the questions of '{name}'.", f"Add --corpus {name}=INDEX.")
        sources.append(_Source(name, Index(Path(folder)), each))
    made_from = {
        "questions": {source.name: len(source.questions) for source in sources},
        "ids": _digest([question.key for question in admitted.questions]),
        "indexes": {source.name: source.index.manifest.digest for source in sources},
        "left_out": admitted.left_out,
        "excluded": [path.name for path in spec.exclude],
        "alone": asdict(_ALONE),
        "chained": asdict(_CHAINED),
        "sentence": asdict(_SENTENCE),
        "hoptree": __version__,
    }
    kept = _Kept(spec.out.with_name(f"{spec.out.name}.part"), _digest([made_from, PARTS]), on_progress)
    alone = [kept.lists("alone", source, _alone_rows) for source in sources]
    folds = [kept.trees(f"alone-without-{fold}", _join(alone, fold), ALONE, _ALONE) for fold in range(_FOLDS)]

    def chained_rows(features: Features, example: Example, fold: int) -> Rows:
        rows, relevant, lengths = _alone_rows(features, example, fold)
        return features.chained(rows, folds[fold].score(rows)), relevant, lengths

    chained = [kept.lists("chained", source, chained_rows) for source in sources]
    sentence = [kept.lists("sentence", source, _sentence_rows) for source in sources]
    grown = {
        name: kept.trees(name, _join(sets), PARTS[name], how).as_dict(PARTS[name])
        for name, sets, how in (
            ("alone", alone, _ALONE),
            ("chained", chained, _CHAINED),
            ("sentence", sentence, _SENTENCE),
        )
    }
    written = with_sum({"format": FORMAT, "made_from": made_from, **grown})
    atomic_write(spec.out, [json.dumps(written, separators=(",", ":"))])
    shutil.rmtree(kept.folder)
    return made_from


def _alone_rows(features: Features, example: Example, fold: int) -> Rows:
    relevant = [passage.id in example.supporting_ids for passage in features.candidates]
    return features.alone(), relevant, [len(relevant)]


def _sentence_rows(features: Features, example: Example, fold: int) -> Rows:
    """Return the sentences of gold passages, labelled by relevance."""
    gold = [passage for passage in features.candidates if passage.id in example.supporting_ids]
    answers = {folded(answer) for answer in (*example.answers, *example.decomposition_answers)} - _NO_TEXT
    if not gold:
        return np.zeros((0, len(SENTENCE))), [], []
    read = features.of(gold)
    relevant = read.sentences_with(answers)
    return read.of_sentences(), relevant.tolist(), [len(part) for part in read.by_passage(relevant)]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class _Source:
    """A data set's index and its questions."""

    name: str
    index: Index
    questions: Sequence[TrainingQuestion]


def _join(sets: Sequence[Mapping[str, NDArray[Any]]], without_fold: int | None = None) -> Lists:
    """Join the lists of all data sets but those of a fold."""
    parts: list[Lists] = []
    for each in sets:
        lengths, relevant = each["lengths"], each["relevant"]
        hits = np.add.reduceat(relevant.astype(np.int64), np.cumsum(lengths) - lengths)
        chosen = (hits > 0) & (hits < lengths) & (each["folds"] != without_fold)
        rows = np.repeat(chosen, lengths)
        parts.append(Lists(each["rows"][rows], relevant[rows], lengths[chosen]))
    return Lists(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Lists)))


class _Kept:
    """The finished parts of a fit, in a folder beside its result."""

    def __init__(self, folder: Path, digest: str, on_progress: OnProgress) -> None:
        self.folder, self._on_progress = folder, on_progress
        marker = folder / "fit"
        with file_errors(folder, "written", "Give --out a file that can."):
            if marker.is_file() and marker.read_text(encoding="utf-8") != digest:
                shutil.rmtree(folder)
            elif not marker.is_file() and folder.exists() and any(folder.iterdir()):
                raise InputError(f"{folder} is in the way, and not of a fit.", "Give another --out, or move it.")
            folder.mkdir(parents=True, exist_ok=True)
            atomic_write(marker, [digest])

    def lists(self, stage: str, source: _Source, extract: Extract) -> Mapping[str, NDArray[Any]]:
        """Return the features of every question of a data set."""
        path = self.folder / f"{stage}-{source.name}.npz"
        if not path.is_file():
            arrays = self._extracted(f"{stage}, {source.name}", source, extract)
            fresh = path.with_suffix(".new.npz")
            np.savez(fresh, allow_pickle=False, **arrays)
            fresh.replace(path)
        with np.load(path, allow_pickle=False) as stored:
            return dict(stored)

    def _extracted(self, stage: str, source: _Source, extract: Extract) -> dict[str, NDArray[Any]]:
        finder = CandidateFinder(source.index)
        parts: list[tuple[NDArray[Any], Sequence[bool], Sequence[int], Sequence[int]]] = []
        for count, question in enumerate(source.questions):
            self._on_progress(stage, count, len(source.questions))
            _, features = finder.find(question.example.question, 0)
            if features is None:
                continue
            rows, relevant, lengths = extract(features, question.example, count % _FOLDS)
            parts.append((rows, relevant, lengths, [count % _FOLDS] * len(lengths)))
        if not parts:
            raise _NO_GOLD
        kinds = {"rows": np.float32, "relevant": np.bool_, "lengths": np.int64, "folds": np.int64}
        return {
            name: np.concatenate([part[at] for part in parts]).astype(kind)
            for at, (name, kind) in enumerate(kinds.items())
        }

    def trees(self, name: str, lists: Lists, names: Sequence[str], how: Growth) -> Trees:
        """Return grown trees, continuing from saved ones."""
        if not len(lists.lengths):
            if name == "sentence":  # every passage is one sentence
                return _BY_WORDS
            raise _NO_GOLD
        path = self.folder / f"{name}.json"
        begun = read_trees(json.loads(path.read_text(encoding="utf-8")), names) if path.is_file() else None

        def save(trees: Trees) -> None:
            self._on_progress(name, len(trees.leaves), how.trees)
            if len(trees.leaves) % _TREES_BETWEEN_SAVES == 0 or len(trees.leaves) == how.trees:
                atomic_write(path, [json.dumps(trees.as_dict(names))])

        return grow(lists, how, begun, save)
