"""What went wrong where an answer is wrong, guessed by rules (TreeQA, Figure 6)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from hoptree.evaluation.judge import Judgements, Verdict, read_judgements
from hoptree.evaluation.metrics import contains, normalise
from hoptree.evaluation.report.hypothesis_trees import (
    STAGES,
    GoldFound,
    HypothesisTree,
    Spent,
    answer_shown,
    corrects,
    covered,
    gold_found,
    named,
    plain_name,
    trees_of,
)
from hoptree.evaluation.report.measures import DataGroup, Run, mean_figure, mean_score, scores_of
from hoptree.evaluation.report.tables import Cell, Number, Table, TableRow
from hoptree.evaluation.run_folder import Row


def stopped_note(runs: Iterable[Run]) -> tuple[str, ...]:
    """How many questions of each run were stopped, in one note; none where none was."""
    counts = [(run, sum(bool(row.stopped_by) for row in run.rows)) for run in runs]
    told = ", ".join(f"{run.named} {count:,} of {len(run.rows):,}" for run, count in counts if count)
    if not told:
        return ()
    return (
        f"Stopped by their budget: {told}. They count as far as they came: nodes without a verdict by then are left "
        "out, and where nothing was concluded the answer is the draft that nothing was held against, or none.",
    )


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


Trees = Mapping[Path, Mapping[str, HypothesisTree]]
"""The trees of runs by question id."""
_VERDICTS = ("supported", "refuted", "unknown")
_SPLIT = {"em": "EM", "f1": "F1", "hits@1": "Hits@1"}
_TREES_NOTE = (
    "Of the questions that got a tree; means with 95 % intervals. Updates: refuted nodes that were rebuilt with all "
    "below them, or beyond the paper corrected in place. Verdicts: the last one on each node that is in the tree in "
    "the end, in shares of all of them; a node that was rebuilt counts as refuted, and is not validated again. Clues: "
    "new things to search for, after a verdict of unknown."
)
_STAGES_NOTE = (
    "Means of one question, failed ones included; every call and every token is in one stage, also those spent on "
    "nodes that were validated ahead and then given up. Build: the tree with its hypotheses; linking: entities and "
    "relations; retrieval: look-ups in corpus and graph, of names too, which ask no model; validation: verdicts and "
    "their reasons; other: what the paper does not have. Seconds: of all these put end to end, so that what went on "
    "at once counts each; how long a question took is in the first table."
)
_GOLD_NOTE = (
    "Gold recall: the share of a question's supporting titles that some node was shown for its validation, or that the "
    "question itself found where it is read too, in a passage with that title or in a fact with that title on one "
    "side, as a whole (in facts without what stands in brackets behind it, as in Ran (film)). Where the data set tells "
    "passage ids only, those count, in text alone. It stands for what the paper counts by hand. Hits@1: an accepted "
    "answer stands in the answer as whole words."
)
_COVERED_NOTE = (
    "Covered: in a run of this table that asked a graph, a fact that some node was shown has, on one side and as a "
    "whole, a supporting title or an accepted answer other than yes and no (in normal form, without what stands in "
    "brackets behind it). All other questions are not covered. The questions are the same in every row."
)


def correction_tables(group: DataGroup) -> list[Table]:
    """The tables about the runs of a data set that guess hypotheses; none where there is no such run."""
    known = {run.folder: trees for run in group.runs if (trees := trees_of(run))}
    runs = [run for run in group.runs if run.folder in known]
    if not runs:
        return []
    correcting = [run for run in runs if corrects(known[run.folder])]
    tables = [_trees(group, correcting, known), _stages(group, runs, known), _gold(group, correcting, known)]
    return [table for table in (*tables, _covered(group)) if table is not None]


def _trees(group: DataGroup, runs: Sequence[Run], known: Trees) -> Table | None:
    """Table 7, and what it rests on."""
    rows = []
    for run in runs:
        trees = [tree for tree in known[run.folder].values() if tree.planned]
        updates = [tree.updates for tree in trees]
        verdicts = Counter(node.verdict for tree in trees for node in tree.nodes)
        nodes = verdicts.total()
        cells: tuple[Cell, ...] = (
            Number(len(trees), digits=0),
            mean_figure(updates, 2),
            Number(100 * sum(map(bool, updates)) / len(trees)),
            Number(max(updates), digits=0),
            mean_figure([len(tree.nodes) for tree in trees], 1),
            mean_figure([sum(node.attempts for node in tree.nodes) for tree in trees], 1),
            mean_figure([sum(node.clues for node in tree.nodes) for tree in trees], 1),
            *(Number(100 * verdicts[name] / nodes) if nodes else None for name in _VERDICTS),
        )
        rows.append(TableRow(run.named, run.id, cells))
    shares = tuple(f"{name.capitalize()}, %" for name in _VERDICTS)
    columns = ("Trees", "Updates a tree", "Trees updated, %", "Most updates", "Nodes", "Validations", "Clues", *shares)
    notes = (_TREES_NOTE, *stopped_note(runs))
    return Table(f"{group.name}: verdicts and updates", columns, tuple(rows), notes) if rows else None


def _stages(group: DataGroup, runs: Sequence[Run], known: Trees) -> Table:
    """Table 5 by stage: a row for each stage of a run, and one for all of them."""
    rows = []
    for run in runs:
        trees = list(known[run.folder].values())
        spent = {stage: [tree.stages.get(stage, Spent()) for tree in trees] for stage in STAGES}
        total = [sum(some, Spent()) for some in zip(*spent.values(), strict=True)]
        tokens = sum(one.tokens for one in total)
        for stage, some in {**spent, "all": total}.items():
            if any(one.calls or one.look_ups for one in some):
                rows.append(TableRow(f"{run.named}: {stage}", run.id, _spent(some, tokens)))
    columns = ("Calls", "Tokens", "Share of tokens, %", "Look-ups", "Seconds")
    return Table(f"{group.name}: costs by stage", columns, tuple(rows), (_STAGES_NOTE,))


def _spent(some: Sequence[Spent], tokens: int) -> tuple[Cell, ...]:
    return (
        mean_figure([one.calls for one in some], 1),
        mean_figure([one.tokens for one in some], 0),
        Number(100 * sum(one.tokens for one in some) / tokens) if tokens else None,
        mean_figure([one.look_ups for one in some], 1),
        mean_figure([one.seconds for one in some], 2),
    )


def _gold(group: DataGroup, runs: Sequence[Run], known: Trees) -> Table | None:
    """Table 6: was the gold there, and was the answer right?"""
    rows = []
    for run in runs:
        trees = known[run.folder]
        found = {row.id: gold for row in run.rows if (gold := gold_found(row, trees.get(row.id)))}
        if not found:
            continue
        whole = {name for name, gold in found.items() if not gold.missing}
        cells: tuple[Cell, ...] = (
            *_recalls(run, list(found.values())),
            mean_score(run, "em"),
            mean_score(run, "hits@1"),
            mean_score(run, "hits@1", whole),
            mean_score(run, "hits@1", found.keys() - whole),
        )
        rows.append(TableRow(run.named, run.id, cells))
    columns = ("Gold recall", "in text", "in facts", "EM", "Hits@1", "Hits@1, all gold found", "Hits@1, not all")
    notes = (_GOLD_NOTE, *stopped_note(runs))
    return Table(f"{group.name}: gold found and answers", columns, tuple(rows), notes) if rows else None


def _recalls(run: Run, found: Sequence[GoldFound]) -> tuple[Number, ...]:
    shares = (
        [gold.share() for gold in found],
        [gold.share(gold.in_text) for gold in found],
        [gold.share(gold.in_facts) for gold in found],
    )
    fewer = len(found) if len(found) < len(run.rows) else None
    return tuple(replace(mean_figure([100 * one for one in some], 1), questions=fewer) for some in shares)


def coverage(group: DataGroup) -> dict[str, set[str]]:
    """The ids of the questions that the graph covers, and of all others; nothing where no run was shown any fact."""
    asked = {row.id for run in group.runs for row in run.rows}
    there: set[str] = set()
    any_fact = False
    for run in group.runs:
        trees = trees_of(run)
        any_fact = any_fact or any(tree.facts for tree in trees.values())
        there |= {row.id for row in run.rows if row.id in trees and covered(row, trees[row.id])}
    return {"covered": there, "not covered": asked - there} if any_fact else {}


def _covered(group: DataGroup) -> Table | None:
    parts = coverage(group)
    if not parts:
        return None
    rows = [
        TableRow(run.named, run.id, tuple(mean_score(run, metric, ids) for metric in _SPLIT for ids in parts.values()))
        for run in group.runs
    ]
    columns = tuple(f"{title}, {part} (n={len(ids):,})" for title in _SPLIT.values() for part, ids in parts.items())
    return Table(f"{group.name}: by what the graph covers", columns, tuple(rows), (_COVERED_NOTE,))


def tables_by_data(groups: Sequence[DataGroup], everywhere: Mapping[str, Sequence[Run]]) -> list[Table]:
    """Tables 2 and 7 as the paper prints them, data set by data set, for what was run on all of them."""
    updates = _updates(groups, everywhere)
    return [_hits(groups, everywhere), updates] if updates else []


def _hits(groups: Sequence[DataGroup], everywhere: Mapping[str, Sequence[Run]]) -> Table:
    rows = [
        TableRow(label, " ".join(run.id for run in runs), tuple(mean_score(run, "hits@1") for run in runs))
        for label, runs in everywhere.items()
    ]
    return Table("Hits@1 by data set", tuple(group.name for group in groups), tuple(rows))


def _updates(groups: Sequence[DataGroup], everywhere: Mapping[str, Sequence[Run]]) -> Table | None:
    rows = []
    for label, runs in everywhere.items():
        known = [trees_of(run) for run in runs]
        if not all(map(corrects, known)):
            continue
        updates = [[tree.updates for tree in trees.values() if tree.planned] for trees in known]
        means = [mean_figure(some, 2) for some in updates]
        average = Number(math.fsum(one.value for one in means) / len(means), digits=2)
        rows.append(TableRow(label, " ".join(run.id for run in runs), (*means, average)))
    columns = (*(group.name for group in groups), "Average")
    note = "Means of one tree with 95 % intervals; each data set counts the same in the average."
    return Table("Updates a tree by data set", columns, tuple(rows), (note,)) if rows else None
