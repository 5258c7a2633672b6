"""Turn the steps of a data set into plans in TAIKC's form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from hoptree.evaluation.metrics import normalise
from hoptree.graph.relation_linking import FUNCTION_WORDS
from hoptree.text.names import name_spans
from hoptree.text.parse import clean_answer
from hoptree.text.question_tree import Node, Plan, make_plan, resolve
from hoptree.training.plans.sub_questions import (
    REFERENCE,
    LeftOut,
    Source,
    Step,
    answers_it,
    as_question,
    as_statement,
    is_named,
    references,
    stated,
    steps_of,
)
from hoptree.training.questions import TrainingQuestion

_POINTING = re.compile(r"\b(?:this|these|those|she|he|they)\b", re.IGNORECASE)
_WITHIN = "located in the administrative territorial entity"
_STEM_CHARS = 4  # equal first letters of words with one stem: "directed" and "director"
_MIN_FOREIGN_WORDS = 4  # content words that the question lacks, from which a step is not a paraphrase
_KIND = re.compile(r"\b(film|movie|song|album|novel|book|magazine|opera)s?\b", re.IGNORECASE)
_OF_WORKS = frozenset(
    ("director", "performer", "composer", "producer", "screenwriter", "author", "publication date", "country of origin")
)
_RELEASED = frozenset(("film", "movie", "song", "album"))
_WORDS = re.compile(r"(#?)(\w+)")
_LOOSE = " \t,;:"


def packaged_plans() -> dict[str, Mapping[str, Any]]:
    """Return the plans written by hand (PLANS.md), by data set and id."""
    text = (files("hoptree.training.plans") / "plans.jsonl").read_text(encoding="utf-8")
    return {f"{row['dataset']}/{row['id']}": row["plan"] for row in map(json.loads, text.splitlines())}


def with_written_steps(questions: Iterable[TrainingQuestion]) -> list[TrainingQuestion]:
    """Add steps written by hand (PLANS.md) to questions without steps."""
    text = (files("hoptree.training.plans") / "steps.jsonl").read_text(encoding="utf-8")
    steps = {f"{row['dataset']}/{row['id']}": row["steps"] for row in map(json.loads, text.splitlines())}
    return [_with_steps(question, steps.get(question.key, ())) for question in questions]


def _with_steps(question: TrainingQuestion, steps: Sequence[Mapping[str, str]]) -> TrainingQuestion:
    example = question.example
    if not steps or example.decomposition:
        return question
    id_of = dict(zip(example.supporting_titles, example.supporting_ids, strict=False))
    example = replace(
        example,
        decomposition=tuple(step["question"] for step in steps),
        decomposition_answers=tuple(step["answer"] for step in steps),
        hop_ids=tuple((id_of[step["title"]],) if step["title"] in id_of else () for step in steps),
    )
    return replace(question, example=example)


@dataclass(frozen=True, slots=True)
class GoldStep:
    """A sub-question with its gold answer."""

    id: int
    asked: str  # with answers in place of references
    answer: str
    states: str  # both as a clause; "" if that makes no good English
    place: int  # index among the steps of the data set


@dataclass(frozen=True, slots=True)
class GoldTree:
    """A plan, its source, and its steps by id, if answers are known."""

    plan: Mapping[str, Any]
    read: Plan
    source: Source
    steps: Mapping[int, GoldStep]

    @property
    def paths(self) -> list[list[GoldStep]]:
        """The steps along every path from the top to a leaf."""
        return [[self.steps[node.id] for node in path] for path in self.read.paths()] if self.steps else []


def gold_tree(question: TrainingQuestion) -> GoldTree:
    """Return the tree of a question's steps or facts, or raise `LeftOut`."""
    steps, source = steps_of(question)
    text = question.example.question
    for step in steps:
        _check(step, text)
    if sum(step.relation == _WITHIN for step in steps) > 1:
        raise LeftOut("two steps that ask for an area without saying which")
    kinds = {match[1].casefold() for match in _KIND.finditer(text)}  # of the works that the question is about
    kind = kinds.pop() if len(kinds) == 1 else ""
    steps = [_with_kind(step, kind) if step.relation else _recased(step, text) for step in steps]
    plan, places = arranged(steps)
    read = carried_out(plan, text)
    given = question.example.decomposition_answers if source == "steps" else ()
    answers = [_tidy(answer) for answer in given or (fact[2] for fact in question.facts)][: len(steps)]
    fit = all(answers_it(step.relation, answer) for step, answer in zip(steps, answers, strict=False))
    if len(answers) < len(steps) or not all(answers) or not fit:
        return GoldTree(plan, read, source, {})
    by_number = {number: answers[place] for number, place in enumerate(places, 1)}
    gold = {}
    for number, place in enumerate(places, 1):
        asked = resolve(read[number].question, by_number)
        gold[number] = GoldStep(number, asked, answers[place], _states(steps[place], answers, asked, place), place)
    return GoldTree(plan, read, source, gold)


def facts_alone(question: TrainingQuestion) -> list[GoldStep]:
    """Return the facts of a question, each asked for by itself."""
    steps = []
    for place, (subject, relation, value) in enumerate(question.facts):
        answer, asked = _tidy(value), as_question(relation, subject)
        if asked and answer and subject and answers_it(relation, answer):
            states = as_statement(relation, subject, answer)
            steps.append(GoldStep(place + 1, asked, answer, states, place))
    return steps


def arranged(steps: Sequence[Step]) -> tuple[dict[str, Any], list[int]]:
    """Return the steps as nested JSON, and the index of each entry's step."""
    below: dict[int | None, list[int]] = {None: []}
    for place, step in enumerate(steps):
        below[place] = []
        order = _downwards(below, None)
        needs = [number - 1 for number in references(step.question)]
        above = max(needs, key=order.index) if needs else None
        below[above].append(place)
    places = _downwards(below, None)
    number_of = {place: number for number, place in enumerate(places, 1)}

    def entry(place: int) -> dict[str, Any]:
        asked = REFERENCE.sub(lambda match: f"#query{number_of[int(match[1]) - 1]}", steps[place].question)
        children = {f"query{number_of[child]}": entry(child) for child in below[place]}
        return {"question": asked, **({"children": children} if children else {})}

    return {f"query{number_of[place]}": entry(place) for place in below[None]}, places


def carried_out(plan: Mapping[str, Any], question: str) -> Plan:
    """Return the plan as TAIKC reads it; raise `LeftOut` if it needs repairs."""
    read = make_plan(plan, question)
    if read.issues:
        raise LeftOut(f"a tree that would be mended ({read.issues[0].kind})")
    if len(read.nodes) < 2:
        raise LeftOut("fewer than two sub-questions")
    asked = [normalise(node.question) for node in read.nodes]
    if normalise(question) in asked:
        raise LeftOut("a sub-question that is the question itself")
    if len(set(asked)) < len(asked):
        raise LeftOut("a sub-question twice")
    return read


def written(plan: Mapping[str, Any]) -> str:
    """Return the plan in the form of TAIKC's demonstrations."""
    return json.dumps(plan, ensure_ascii=False)


def _downwards(below: Mapping[int | None, Sequence[int]], top: int | None) -> list[int]:
    return [place for child in below[top] for place in (child, *_downwards(below, child))]


def _check(step: Step, question: str) -> None:
    """Raise `LeftOut` for a step that is not a sub-question of the question."""
    numbers = references(step.subject)
    if numbers and not REFERENCE.fullmatch(step.subject.strip()):
        raise LeftOut("a step that adds words to a reference")
    if step.subject and not numbers and not is_named(step.subject, question):
        raise LeftOut("a step about what the question does not name")
    if _POINTING.search(step.question) and not _POINTING.search(question):
        raise LeftOut("a step that points at what is not there")
    if not step.subject:
        first = len(step.question.split(maxsplit=1)[0])
        names = [step.question[start:end] for start, end in name_spans(step.question, first)]
        if not all(is_named(name.removesuffix("'s").removesuffix("’s"), question) for name in names):
            raise LeftOut("a step about what the question does not name")
        if len(_stems(step.question) - _stems(question)) >= _MIN_FOREIGN_WORDS:
            raise LeftOut("a step in words that the question does not have")


def _stems(text: str) -> set[str]:
    """Return the first letters of a text's content words, without references."""
    words = (word.casefold() for mark, word in _WORDS.findall(text) if not mark)
    return {word[:_STEM_CHARS] for word in words if word not in FUNCTION_WORDS}


def _with_kind(step: Step, kind: str) -> Step:
    """Return the step about "the film X" if it says only "X"."""
    if not kind or step.relation not in _OF_WORKS or references(step.subject) or is_named(kind, step.subject):
        return step
    subject = f"the {kind} {step.subject}"
    asked = as_question(step.relation, subject)
    return replace(step, question=_released(asked, kind) if asked else step.question, subject=subject)


def _recased(step: Step, question: str) -> Step:
    """Return the step with names capitalised as in the question."""
    first, *others = [word for _, word in _WORDS.findall(question)] or [""]
    names = {word.casefold(): word for word in others if word[0].isupper()}
    for word in (first.casefold(), *others, *FUNCTION_WORDS):  # titles have function words in capitals
        names.pop(word, None)

    def named(match: re.Match[str]) -> str:
        return f"{match[1]}{names.get(match[2], match[2])}"

    asked = _WORDS.sub(named, step.question)
    return replace(step, question=asked[:1].upper() + asked[1:])


def _released(text: str, kind: str) -> str:
    """Replace "published" by "released" for films, songs and the like."""
    return re.sub(r"\bpublished(?=\?$| (?:on|in) [\w ,]+$)", "released", text) if kind in _RELEASED else text


def _tidy(answer: str) -> str:
    return clean_answer(answer.strip(_LOOSE)).strip(_LOOSE)


def _states(step: Step, answers: Sequence[str], asked: str, place: int) -> str:
    if not step.relation:
        return stated(asked, answers[place])
    subject = REFERENCE.sub(lambda match: answers[int(match[1]) - 1], step.subject)
    states = as_statement(step.relation, subject, answers[place])
    return _released(states, "film") if asked.endswith(" released?") else states


def write_plan(plan: Plan, question: str) -> str:
    """Return a plan as JSON; "" if that would be read as another plan."""

    def entry(node: Node) -> Any:
        children = {f"query{child.id}": entry(child) for child in plan.nodes if child.parent == node.id}
        return {"question": node.question, "children": children} if children else node.question

    nested = {f"query{node.id}": entry(node) for node in plan.nodes if node.parent is None}
    read = make_plan(nested, question)
    meant, understood = (
        [(node.id, node.question, node.parent, node.refs) for node in either.nodes] for either in (plan, read)
    )
    return json.dumps(nested, ensure_ascii=False) if meant == understood and not read.issues else ""
