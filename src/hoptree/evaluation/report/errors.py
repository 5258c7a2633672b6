"""What went wrong where an answer is wrong, guessed by rules (TreeQA, Figure 6)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from hoptree.evaluation.judge import Verdict
from hoptree.evaluation.judgements import Judgements, read_judgements
from hoptree.evaluation.metrics import contains, normalise
from hoptree.evaluation.report.gold import answer_shown, gold_found, named, plain_name
from hoptree.evaluation.report.hypotheses import HypothesisTree, corrects, trees_of
from hoptree.evaluation.report.measures import scores_of
from hoptree.evaluation.report.runs import DataGroup, Run
from hoptree.evaluation.report.stopped import stopped_note
from hoptree.evaluation.report.tables import Number, Table, TableRow
from hoptree.evaluation.run_folder import Row

__all__ = ["CLASSES", "errors_of", "errors_table", "misplaced"]

CLASSES = ("retrieval", "string match", "tree structure", "ambiguous", "model", "failed")
_NOTES = (
    "A guess by rules, of all answers without an exact match; the first rule that fits, in the order below, counts. "
    "Nobody looked at them, as the paper's authors did. Shares in %, with counts.",
    "Failed: the question has no outcome but an error. String match: the judge that judged last says yes, an accepted "
    "answer stands in the answer as whole words, or all words of one of them (two or more) stand in the other. "
    "Retrieval: a gold page that some node names in its question or hypothesis was shown to none; where the data set "
    "tells ids alone, a gold passage was shown to none; where it tells no gold, no passage or fact that was shown has "
    "an accepted answer in it. Tree structure: a gold page was shown to no node and none names it, or a node still "
    "asks about a hypothesis that was struck out elsewhere than above it. Ambiguous: a judge said neither yes nor no, "
    "judges differ, or two accepted answers have no word in common. Model: all else.",
)


def errors_of(run: Run) -> dict[str, list[str]]:
    """The ids of the questions in each class; empty for a method that validates no hypotheses."""
    trees = trees_of(run)
    if not corrects(trees):
        return {}
    judges = read_judgements(run.folder)
    right = {name for name, score in scores_of(run, "em").items() if score == 1}
    found: dict[str, list[str]] = {name: [] for name in CLASSES}
    for row in run.rows:
        if row.id not in right:
            found[_class_of(row, trees.get(row.id), _verdicts(judges, row))].append(row.id)
    return found


def _verdicts(judges: Iterable[Judgements], row: Row) -> list[Verdict]:
    """What judges said of an answer, the last one at the end; blank answers are judged by none."""
    said = [one.on(row) for one in judges]
    return [verdict for verdict in said if verdict is not None and verdict.asked]


def _class_of(row: Row, tree: HypothesisTree | None, verdicts: Sequence[Verdict]) -> str:
    if row.error:
        return "failed"
    if (verdicts and verdicts[-1].correct) or _same_words(row):
        return "string match"
    if tree is None:
        return "model"
    gold = gold_found(row, tree)
    if gold is not None and gold.missing:
        by_title = bool(row.gold_titles)  # an id is named by nobody
        return "retrieval" if not by_title or named(gold.missing, tree.planned) else "tree structure"
    if gold is None and not answer_shown(row, tree):
        return "retrieval"
    if misplaced(row, tree):
        return "tree structure"
    return "ambiguous" if _undecided(verdicts) or _unlike(row.answers) else "model"


def _same_words(row: Row) -> bool:
    """Whether an accepted answer stands in the answer, or all words of one of them in the other."""
    if contains(row.answer, row.answers):
        return True
    said = set(normalise(row.answer).split())
    golds = [set(normalise(gold).split()) for gold in row.answers]
    return any(len(gold & said) >= 2 and (gold <= said or said <= gold) for gold in golds)


def misplaced(row: Row, tree: HypothesisTree) -> bool:
    """Whether a struck hypothesis lives on in the question of a node that does not hang below the one it was struck at.

    Parent and child were drawn as siblings then, so that the correction did not reach all that rests on it. What the
    question itself names is no such sign.
    """
    for node in tree.nodes:
        for struck in node.struck:
            if not plain_name(struck) or named([struck], [row.question]):
                continue
            others = [other.question for other in tree.nodes if node.id not in (*other.path, other.id)]
            if named([struck], others):
                return True
    return False


def _undecided(verdicts: Sequence[Verdict]) -> bool:
    return any(not one.clear for one in verdicts) or len({one.correct for one in verdicts}) > 1


def _unlike(answers: Sequence[str]) -> bool:
    words = [set(normalise(answer).split()) for answer in answers]
    return any(one.isdisjoint(other) for one, other in combinations(words, 2))


def errors_table(group: DataGroup) -> Table | None:
    """One row a run that validates hypotheses and has wrong answers."""
    rows, runs = [], []
    for run in group.runs:
        found = errors_of(run)
        wrong = sum(map(len, found.values()))
        if wrong:
            shares = [Number(100 * len(ids) / wrong, after=f"({len(ids):,})") for ids in found.values()]
            rows.append(TableRow(run.named, run.id, (Number(wrong, digits=0), *shares)))
            runs.append(run)
    columns = ("No exact match", *(f"{name.capitalize()}, %" for name in CLASSES))
    notes = (*_NOTES, *stopped_note(runs))
    return Table(f"{group.name}: what went wrong, guessed", columns, tuple(rows), notes) if rows else None
