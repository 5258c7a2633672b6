"""How many rows of which kind and data set a training set for hop has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import ceil

from hoptree.evaluation.datasets.reading import seeded_rank
from hoptree.training.chat_rows import ChatRow, consistent_rows

_KINDS = {"read": "reading", "not found": "reading", "plan": "plan", "no plan": "plan", "guess": "guess"}
_SHARES = {"reading": 0.55, "plan": 0.27, "guess": 0.1, "other": 0.08}
_NOT_FOUND_SHARE, _NO_PLAN_SHARE = 1 / 3, 1 / 10


def put_together(rows: Sequence[ChatRow], total: int | None, seed: int) -> tuple[list[ChatRow], Counter[str]]:
    """Mix the rows that neither repeat nor contradict; count the others."""
    kept, inconsistent = consistent_rows(rows)
    mixed = mix(kept, total, seed)
    dropped = Counter(row.label for row in kept) - Counter(row.label for row in mixed)
    left_out = Counter({f"rows of '{label}' beyond their share": count for label, count in dropped.items()})
    return mixed, left_out + inconsistent


def mix(rows: Sequence[ChatRow], total: int | None, seed: int) -> list[ChatRow]:
    """Return rows in the shares they are trained in, shuffled by the seed.

    A third of the readings is not found, and a tenth of the plans is none. With a `total`, 55 % of it are readings,
    27 % plans, 10 % guesses and 8 % last readings and re-plans, as far as there are so many; large data sets are cut
    first.
    """
    by_label = {label: [row for row in rows if row.label == label] for label in {row.label for row in rows}}
    chosen: list[ChatRow] = []
    for kind, share in _SHARES.items():
        labels = [label for label in by_label if _KINDS.get(label, "other") == kind]
        row_count = round(total * share) if total else sum(len(by_label[label]) for label in labels)
        if kind in ("guess", "other"):
            chosen += _split(by_label, sorted(labels), row_count, seed)
            continue
        few, share_of_few = ("not found", _NOT_FOUND_SHARE) if kind == "reading" else ("no plan", _NO_PLAN_SHARE)
        many = [row for label in labels if label != few for row in by_label[label]]
        kept = draw(many, round(row_count * (1 - share_of_few)) if total else row_count, seed)
        ratio = share_of_few / (1 - share_of_few)
        # Where there is nothing else, as in a set of questions of one hop alone, the few are all there is.
        allowed = ceil(len(kept) * ratio) if kept else row_count
        candidates = by_label.get(few, [])
        if kept and kind == "reading":  # at most `ratio` times as many of each data set
            by_source = {
                source: [row for row in candidates if row.source == source] for source in {r.source for r in kept}
            }
            counts = Counter(row.source for row in kept)
            candidates = [row for source, n in counts.items() for row in draw(by_source[source], ceil(n * ratio), seed)]
        chosen += kept + draw(candidates, allowed, seed)
    return sorted(chosen, key=_rank(seed))


def _split(by_label: dict[str, list[ChatRow]], labels: Sequence[str], row_count: int, seed: int) -> list[ChatRow]:
    """Return rows of several labels in equal shares, as far as there are."""
    chosen: list[ChatRow] = []
    for place, label in enumerate(sorted(labels, key=lambda label: len(by_label[label]))):
        share = (row_count - len(chosen)) // (len(labels) - place)
        chosen += draw(by_label[label], share, seed)
    return chosen


def draw(rows: Sequence[ChatRow], count: int, seed: int) -> list[ChatRow]:
    """Return `count` rows drawn by the seed, evenly from all data sets."""
    ranked: dict[str, list[ChatRow]] = {}
    for row in sorted(rows, key=_rank(seed)):
        ranked.setdefault(row.source, []).append(row)
    chosen: list[ChatRow] = []
    sources = sorted(ranked.values(), key=len)
    for place, candidates in enumerate(sources):
        share = (count - len(chosen)) // (len(sources) - place)
        chosen += candidates[:share]
    return chosen


def _rank(seed: int) -> Callable[[ChatRow], tuple[bytes, str]]:
    return lambda row: (seeded_rank(seed, row.id), row.id)
