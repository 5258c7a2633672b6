"""Hypotheses and their verdicts, read from the traces of runs.

For TreeQA's Tables 5 to 7 and Figure 6; only methods count whose plans state hypotheses.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from functools import lru_cache
from operator import add

from hoptree.engine.events import Event, Finished, NodeSettled, NodeStarted, Planned
from hoptree.engine.trace import EntitiesFound, FactsFound, ModelCalled, Retrieved
from hoptree.evaluation.metrics import contains, normalise
from hoptree.evaluation.report.measures import Run, fold_traces
from hoptree.evaluation.run_folder import Row

_STAGE_OF_STEP = {
    **dict.fromkeys(("build", "expand", "direct"), "build"),
    **dict.fromkeys(("mentions", "entities", "relations"), "linking"),
    **dict.fromkeys(("validate", "reason"), "validation"),
    "final": "final",
    "clue": "clue",
    "rebuild": "rebuild",
}
_FINAL, _OTHER, _RETRIEVAL = "final", "other", "retrieval"
STAGES = ("build", "linking", _RETRIEVAL, "validation", "clue", "rebuild", _FINAL, _OTHER)
"""In order. Retrieval calls no model; "other" are steps that the paper does not have."""
_LOOKUPS = (Retrieved, FactsFound, EntitiesFound)
_EVENTS = (Planned, NodeStarted, NodeSettled, ModelCalled, Finished, *_LOOKUPS)
_MAX_VERDICT_CHARS = 40


@dataclass(frozen=True, slots=True)
class Spent:
    """Model calls with their tokens, look-ups, and the seconds of both."""

    calls: int = 0
    tokens: int = 0
    look_ups: int = 0
    seconds: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class CheckedNode:
    """The final state of a node."""

    id: int
    question: str
    hypothesis: str
    verdict: str
    struck: tuple[str, ...]
    path: tuple[int, ...]  # the ids of its ancestors, from the question, 0, on
    attempts: int  # validations
    clues: int
    rebuilt: bool


@dataclass(frozen=True, slots=True)
class HypothesisTree:
    """The tree of one question."""

    nodes: tuple[CheckedNode, ...]
    planned: tuple[str, ...]  # questions and hypotheses of all nodes below the root, including replaced ones
    passages: Mapping[str, tuple[str, str]]  # title and text by id, of the passages that were shown
    facts: tuple[str, ...]
    updates: int  # rebuilt sub-trees
    stages: Mapping[str, Spent] = field(default_factory=dict)
    begun: bool = False  # validation began, even if a budget ended it before the first verdict


def trees_of(run: Run) -> dict[str, HypothesisTree]:
    """Return the trees by question id; {} without hypotheses or traces."""
    if not any(fold_traces(run, (Planned,), _states_hypotheses).values()):
        return {}
    return fold_traces(run, _EVENTS, _tree)


def _states_hypotheses(plans: Sequence[Event]) -> bool:
    return any("hypothesis" in node for plan in plans if isinstance(plan, Planned) for node in plan.nodes)


def validates(trees: Mapping[str, HypothesisTree]) -> bool:
    """Return whether the validation of hypotheses began in any tree."""
    return any(tree.nodes or tree.begun for tree in trees.values())


def _tree(events: Sequence[Event]) -> HypothesisTree:
    nodes = tuple(map(_checked_node, _final_records(events)))
    plans = [event for event in events if isinstance(event, Planned)]
    below = [node for plan in plans for node in plan.nodes if node["id"] != 0]
    planned = [(str(node.get("question", "")), str(node.get("hypothesis", ""))) for node in below]
    planned += [(node.question, node.hypothesis) for node in nodes]
    ended = {event.id: event for event in events if isinstance(event, NodeSettled)}
    attempts = [attempt for record in ended.values() for attempt in record.details.get("attempts", ())]
    # For the question itself, and for a node without recorded attempts, all results were shown.
    open_nodes = {None, *(node for node, record in ended.items() if "attempts" not in record.details)}
    cited = {str(name) for attempt in attempts for name in attempt.get("passages", ())}
    passages = {
        str(passage["id"]): (sys.intern(str(passage["title"])), sys.intern(str(passage["text"])))
        for event in events
        if isinstance(event, Retrieved)
        for passage in event.passages
        if event.node in open_nodes or str(passage["id"]) in cited
    }
    facts = [str(fact) for attempt in attempts for fact in attempt.get("facts", ())]
    looked_up = (event for event in events if isinstance(event, FactsFound) and event.node in open_nodes)
    facts += [str(fact) for event in looked_up for fact in event.facts]
    fixes = ended[0].details.get("fixes") if 0 in ended else None
    return HypothesisTree(
        nodes,
        tuple(dict.fromkeys(text for pair in planned for text in pair)),
        passages,
        tuple(dict.fromkeys(facts)),
        fixes if type(fixes) is int else sum(node.rebuilt for node in nodes),
        _stages(events),
        any(isinstance(event, NodeStarted | NodeSettled) and event.id != 0 for event in events),
    )


def _final_records(events: Iterable[Event]) -> list[NodeSettled]:
    """Return the last record with a verdict of each node in the final tree."""
    parents: dict[int, int | None] = {}
    records: dict[int, NodeSettled] = {}
    for event in events:
        if isinstance(event, Planned):
            if event.under is None:
                parents, records = {}, {}
            elif event.rebuilt:
                for node in [node for node in parents if event.under in _ancestors(node, parents)]:
                    del parents[node]
                    records.pop(node, None)
            parents |= {node["id"]: node["parent"] for node in event.nodes}
        elif isinstance(event, NodeSettled) and isinstance(event.verdict, str):
            records[event.id] = event
    return [record for node, record in records.items() if node in parents]


def _ancestors(node: int, parents: Mapping[int, int | None]) -> set[int]:
    """Return the nodes above a node; a damaged trace may have cycles."""
    ancestors: set[int] = set()
    above = parents.get(node)
    while above is not None and above not in ancestors:
        ancestors.add(above)
        above = parents.get(above)
    return ancestors


def _checked_node(record: NodeSettled) -> CheckedNode:
    details = record.details
    return CheckedNode(
        int(record.id),
        str(record.question),
        str(record.hypothesis or ""),
        str(record.verdict)[:_MAX_VERDICT_CHARS],
        tuple(map(str, record.struck or ())),
        tuple(map(int, details.get("path", ()))),
        len(details.get("attempts", ())),
        len(details.get("clues", ())),
        details.get("rebuilt") is True,
    )


def _stages(events: Sequence[Event]) -> dict[str, Spent]:
    """Return the costs of each stage; every call belongs to one stage.

    The last conclusion is the question's. Earlier ones are conclusions for nodes, which the paper does not draw.
    """
    stages: dict[str, Spent] = {}
    conclusions = [event for event in events if isinstance(event, ModelCalled) and event.step == _FINAL]
    for event in events:
        if isinstance(event, ModelCalled):
            stage = _STAGE_OF_STEP.get(event.step, _OTHER)
            if stage == _FINAL and event is not conclusions[-1]:
                stage = _OTHER
            spent = Spent(1, int(event.prompt_tokens + event.completion_tokens), 0, float(event.seconds))
        elif isinstance(event, _LOOKUPS):
            stage, spent = _RETRIEVAL, Spent(0, 0, 1, float(event.seconds))
        else:
            continue
        stages[stage] = stages.get(stage, Spent()) + spent
    return stages


_IN_BRACKETS = re.compile(r"(?:\s*\([^()]*\))+\s*$")
_CLOSED_ANSWERS = frozenset({"yes", "no"})


@dataclass(frozen=True, slots=True)
class GoldFound:
    """The gold pages of a question, by title, or by passage id without titles."""

    wanted: tuple[str, ...]
    in_text: frozenset[str]
    in_facts: frozenset[str]

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(name for name in self.wanted if name not in self.in_text | self.in_facts)

    def share(self, names: Collection[str] | None = None) -> float:
        """Return the share of gold pages that were found, or are in `names`."""
        return len(self.in_text | self.in_facts if names is None else names) / len(self.wanted)


def plain_name(name: str) -> str:
    """Return the normal form of a name without brackets at its end ("Ran (film)")."""
    return normalise(_IN_BRACKETS.sub("", name)) or normalise(name)


@lru_cache(1 << 16)
def sides(fact: str) -> tuple[str, str]:
    """Return the plain names of both sides of "SUBJECT | RELATION | VALUE (…)"."""
    parts = fact.split(" | ")
    return plain_name(parts[0]), plain_name(parts[-1])


def named(names: Iterable[str], texts: Iterable[str]) -> bool:
    """Return whether a text contains one of the names as whole words."""
    wanted = [plain_name(name) for name in names]
    return any(contains(text, wanted) for text in texts)


def gold_found(row: Row, tree: HypothesisTree | None) -> GoldFound | None:
    """Return the gold pages that were shown, in text or facts; None without gold."""
    passages = tree.passages if tree else {}
    if row.gold_titles:
        titles = {normalise(title) for title, _ in passages.values()}
        names = _sides_of(tree)
        in_text = frozenset(title for title in row.gold_titles if normalise(title) in titles)
        in_facts = frozenset(title for title in row.gold_titles if plain_name(title) in names)
        return GoldFound(row.gold_titles, in_text, in_facts)
    return GoldFound(row.gold, frozenset(passages.keys() & set(row.gold)), frozenset()) if row.gold else None


def answer_shown(row: Row, tree: HypothesisTree) -> bool:
    """Return whether a shown passage or fact contains an accepted answer."""
    texts = [f"{title} {text}" for title, text in tree.passages.values()]
    return any(contains(text, row.answers) for text in (*texts, *tree.facts))


def covered(row: Row, tree: HypothesisTree) -> bool:
    """Return whether a shown fact has a gold title or accepted answer on a side."""
    wanted = {plain_name(name) for name in (*row.gold_titles, *row.answers)} - _CLOSED_ANSWERS
    return not wanted.isdisjoint(_sides_of(tree))


def _sides_of(tree: HypothesisTree | None) -> set[str]:
    return {side for fact in tree.facts for side in sides(fact)} if tree else set()
