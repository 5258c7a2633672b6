"""Tables about methods that state and correct hypotheses (TreeQA)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from hoptree.evaluation.judge import Verdict, read_judgements
from hoptree.evaluation.metrics import contains, normalise
from hoptree.evaluation.report import hypothesis_trees, measures
from hoptree.evaluation.report.hypothesis_trees import HypothesisTree, Spent
from hoptree.evaluation.report.measures import DataGroup, Run
from hoptree.evaluation.report.tables import NOTES, Cell, Number, Table, TableRow, count, make_table, percent
from hoptree.evaluation.run_folder import Row

CLASSES = ("retrieval", "string match", "tree structure", "ambiguous", "model", "failed")
_VERDICTS = ("supported", "refuted", "unknown")
_SPLIT = {"em": "EM", "f1": "F1", "hits@1": "Hits@1"}


def _stopped_note(runs: Iterable[Run]) -> tuple[str, ...]:
    """Return a note on the stopped questions of each run; () without any."""
    counts = [(run, sum(bool(row.stopped_by) for row in run.rows)) for run in runs]
    stopped = ", ".join(f"{run.named} {number:,} of {len(run.rows):,}" for run, number in counts if number)
    if not stopped:
        return ()
    return (
        f"Stopped by their budget: {stopped}. They count as far as they came: nodes without a verdict by then are left "
        "out, and where nothing was concluded the answer is the draft that nothing was held against, or none.",
    )


def errors_of(run: Run) -> dict[str, list[str]]:
    """Return the ids of wrong answers by class; {} without validated hypotheses."""
    trees = hypothesis_trees.trees_of(run)
    if not hypothesis_trees.validates(trees):
        return {}
    judges, right = read_judgements(run.folder), measures.exact_ids(run)
    ids: dict[str, list[str]] = {name: [] for name in CLASSES}
    for row in run.rows:
        if row.id not in right:
            verdicts = [judgements.on(row) for judgements in judges]
            asked = [verdict for verdict in verdicts if verdict is not None and verdict.asked]
            ids[_error_class(row, trees.get(row.id), asked)].append(row.id)
    return ids


def _error_class(row: Row, tree: HypothesisTree | None, verdicts: Sequence[Verdict]) -> str:
    if row.error:
        return "failed"
    words, golds = set(normalise(row.answer).split()), [set(normalise(answer).split()) for answer in row.answers]
    # One of the two has all words of the other.
    alike = any(len(gold & words) >= 2 and (gold <= words or words <= gold) for gold in golds)
    if (verdicts and verdicts[-1].correct) or contains(row.answer, row.answers) or alike:
        return "string match"
    if tree is None:
        return "model"
    gold = hypothesis_trees.gold_found(row, tree)
    if gold is not None and gold.missing:
        by_title = bool(row.gold_titles)  # no node names an id
        return "retrieval" if not by_title or hypothesis_trees.named(gold.missing, tree.planned) else "tree structure"
    if gold is None and not hypothesis_trees.answer_shown(row, tree):
        return "retrieval"
    if _is_misplaced(row, tree):
        return "tree structure"
    undecided = any(not verdict.clear for verdict in verdicts) or len({verdict.correct for verdict in verdicts}) > 1
    unlike = any(first.isdisjoint(second) for first, second in combinations(golds, 2))
    return "ambiguous" if undecided or unlike else "model"


def _is_misplaced(row: Row, tree: HypothesisTree) -> bool:
    """Return whether a question outside a node's branch names its struck hypothesis.

    The node should have been a child then: as a sibling, it was not corrected. Names in the whole question do not
    count.
    """
    for node in tree.nodes:
        others = [other.question for other in tree.nodes if node.id not in (*other.path, other.id)]
        for struck in node.struck:
            if (
                hypothesis_trees.plain_name(struck)
                and not hypothesis_trees.named([struck], [row.question])
                and hypothesis_trees.named([struck], others)
            ):
                return True
    return False


def errors_table(group: DataGroup) -> Table | None:
    """Return the table of wrong answers by class of error."""
    runs = [run for run in group.runs if any(errors_of(run).values())]
    notes = (*NOTES["error_classes"], *_stopped_note(runs))

    def cells(run: Run) -> dict[str, Cell]:
        counts = {name: len(ids) for name, ids in errors_of(run).items()}
        wrong = sum(counts.values())
        shares = {f"{name.capitalize()}, %": Number(100 * n / wrong, after=f"({n:,})") for name, n in counts.items()}
        return {"No exact match": count(wrong), **shares}

    return measures.run_table(f"{group.name}: what went wrong, guessed", runs, cells, *notes)


def hypothesis_tables(group: DataGroup) -> list[Table | None]:
    """Return the tables about runs with hypotheses; None without such runs."""
    runs = [run for run in group.runs if hypothesis_trees.trees_of(run)]
    validating = [run for run in runs if hypothesis_trees.validates(hypothesis_trees.trees_of(run))]
    stopped = _stopped_note(validating)
    trees = (*NOTES["hypothesis_trees"], *stopped)
    gold = (*NOTES["gold"], *stopped)
    parts = coverage(group)
    covered_rows = [
        run.row(measures.mean_score(run, metric, ids) for metric in _SPLIT for ids in parts.values())
        for run in group.runs
        if parts
    ]
    columns = [f"{title}, {part} (n={len(ids):,})" for title in _SPLIT.values() for part, ids in parts.items()]
    return [
        measures.run_table(f"{group.name}: verdicts and updates", validating, _tree_cells, *trees),
        _stages(group, runs),
        measures.run_table(f"{group.name}: gold found and answers", validating, _gold_cells, *gold),
        make_table(f"{group.name}: by what the graph covers", columns, covered_rows, *NOTES["coverage"]),
    ]


def _tree_cells(run: Run) -> dict[str, Cell]:
    """Return TreeQA's Table 7, and the counts behind it."""
    trees = [tree for tree in hypothesis_trees.trees_of(run).values() if tree.planned]
    updates = [tree.updates for tree in trees]
    verdicts = Counter(node.verdict for tree in trees for node in tree.nodes)
    return {
        "Trees": count(len(trees)),
        "Updates a tree": measures.mean_figure(updates, 2),
        "Trees updated, %": percent(sum(map(bool, updates)), len(trees)),
        "Most updates": count(max(updates)),
        "Nodes": measures.mean_figure([len(tree.nodes) for tree in trees], 1),
        "Validations": measures.mean_figure([sum(node.attempts for node in tree.nodes) for tree in trees], 1),
        "Clues": measures.mean_figure([sum(node.clues for node in tree.nodes) for tree in trees], 1),
        **{f"{name.capitalize()}, %": percent(verdicts[name], verdicts.total()) for name in _VERDICTS},
    }


def _stages(group: DataGroup, runs: Sequence[Run]) -> Table | None:
    """Return TreeQA's Table 5: the costs of each stage, and of all stages."""
    rows = []
    for run in runs:
        trees = hypothesis_trees.trees_of(run).values()
        spent = {stage: [tree.stages.get(stage, Spent()) for tree in trees] for stage in hypothesis_trees.STAGES}
        spent["all"] = [sum(stages, Spent()) for stages in zip(*spent.values(), strict=True)]
        tokens = sum(question.tokens for question in spent["all"])
        for stage, questions in spent.items():
            if any(question.calls or question.look_ups for question in questions):
                cells = (
                    measures.mean_figure([question.calls for question in questions], 1),
                    measures.mean_figure([question.tokens for question in questions], 0),
                    percent(sum(question.tokens for question in questions), tokens),
                    measures.mean_figure([question.look_ups for question in questions], 1),
                    measures.mean_figure([question.seconds for question in questions], 2),
                )
                rows.append(run.row(cells, stage))
    columns = ("Calls", "Tokens", "Share of tokens, %", "Look-ups", "Seconds")
    return make_table(f"{group.name}: costs by stage", columns, rows, *NOTES["stages"])


def _gold_cells(run: Run) -> dict[str, Cell]:
    """Return TreeQA's Table 6: recall of gold passages, and scores of answers."""
    trees = hypothesis_trees.trees_of(run)
    gold = {row.id: pages for row in run.rows if (pages := hypothesis_trees.gold_found(row, trees.get(row.id)))}
    if not gold:
        return {}
    fewer = len(gold) if len(gold) < len(run.rows) else None

    def recall(shares: Iterable[float]) -> Number:
        return replace(measures.mean_figure([100 * share for share in shares], 1), questions=fewer)

    complete = {name for name, pages in gold.items() if not pages.missing}
    return {
        "Gold recall": recall(pages.share() for pages in gold.values()),
        "in text": recall(pages.share(pages.in_text) for pages in gold.values()),
        "in facts": recall(pages.share(pages.in_facts) for pages in gold.values()),
        "EM": measures.mean_score(run, "em"),
        "Hits@1": measures.mean_score(run, "hits@1"),
        "Hits@1, all gold found": measures.mean_score(run, "hits@1", complete),
        "Hits@1, not all": measures.mean_score(run, "hits@1", gold.keys() - complete),
    }


def coverage(group: DataGroup) -> dict[str, set[str]]:
    """Return the ids of questions by coverage by the graph; {} without facts."""
    asked = {row.id for run in group.runs for row in run.rows}
    inside: set[str] = set()
    any_fact = False
    for run in group.runs:
        trees = hypothesis_trees.trees_of(run)
        any_fact = any_fact or any(tree.facts for tree in trees.values())
        inside |= {row.id for row in run.rows if row.id in trees and hypothesis_trees.covered(row, trees[row.id])}
    return {"covered": inside, "not covered": asked - inside} if any_fact else {}


def hypothesis_tables_by_data(groups: Sequence[DataGroup], everywhere: Mapping[str, Sequence[Run]]) -> list[Table]:
    """Return TreeQA's Tables 2 and 7 by data set, for runs on all of them."""
    names = tuple(group.name for group in groups)
    hits = [
        measures.row_of_runs(label, runs, (measures.mean_score(run, "hits@1") for run in runs))
        for label, runs in everywhere.items()
    ]
    rows: list[TableRow] = []
    for label, runs in everywhere.items():
        trees = [hypothesis_trees.trees_of(run) for run in runs]
        if all(map(hypothesis_trees.validates, trees)):
            means = [
                measures.mean_figure([tree.updates for tree in known.values() if tree.planned], 2) for known in trees
            ]
            average = Number(sum(mean.value for mean in means) / len(means), digits=2)
            rows.append(measures.row_of_runs(label, runs, (*means, average)))
    note = "Means of one tree with 95 % intervals; each data set counts the same in the average."
    updates = make_table("Updates a tree by data set", (*names, "Average"), rows, note)
    return [Table("Hits@1 by data set", names, tuple(hits)), updates] if updates else []
