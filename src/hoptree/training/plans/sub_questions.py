"""Turn the steps or facts that a data set gives for a question into sub-questions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from hoptree.evaluation.datasets.examples import Example
from hoptree.evaluation.metrics import normalise
from hoptree.methods.steps.decompose import MAX_SUB_QUESTIONS
from hoptree.training.plans.relations import as_phrase, as_question, name_of, phrase_of, when_of
from hoptree.training.questions import Fact, TrainingQuestion

Source = Literal["steps", "facts"]

REFERENCE = re.compile(r"(?:\bthe\s+)?#\s?(\d{1,2})(?!\d)", re.IGNORECASE)
"""How the steps of data sets refer to an earlier one by its number."""
_RELATION = re.compile(r"(.+?)\s*>>\s*(.+)")
_BEFORE_MARK = re.compile(r"\s+(?=[?,.!;:)]|['’]s\b)")
_POSSESSIVE = re.compile(r"(?<=\w)['’]s\b", re.IGNORECASE)
_ADDITION = re.compile(r"\s\([^()]+\)$")
_ASKS = re.compile(r"\b(?:who|whom|whose|what|which|when|where|why|how)\b", re.IGNORECASE)
_YES_NO = re.compile(
    r"(?:is|are|was|were|do|does|did|can|could|would|will|has|have|had|should|may|might|must)\b", re.IGNORECASE
)


class Decomposed(NamedTuple):
    """The sub-questions of a question in order, and what they were made from."""

    questions: tuple[str, ...]
    source: Source


class LeftOut(Exception):
    """The reason why no sub-questions can be made of a question's steps."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step as a question and, if there is one, as a name for its answer; both may refer to earlier steps.

    `relation` and `subject` are what it was made from; "" if it was a question already.
    """

    question: str
    phrase: str = ""
    relation: str = ""
    subject: str = ""


def decomposed(question: TrainingQuestion, *, linked: bool) -> Decomposed:
    """Return the sub-questions of a question, or raise `LeftOut`.

    Each is self-contained: a reference to an earlier step becomes the name of what that one asks for ("the director of
    X"), and that step is not asked itself. With `linked`, steps that cannot be put so are kept, one depending on the
    other: a reference becomes "that person". In both forms a last yes-or-no step that only combines answers is left
    to the method, which answers the question from its sub-answers.
    """
    steps, source = steps_of(question)
    parent = question.example.question
    try:
        return Decomposed(_check_list(_self_contained(steps), parent), source)
    except LeftOut:
        if not linked:
            raise
    return Decomposed(_check_list(_linked(steps), parent), source)


def steps_of(question: TrainingQuestion) -> tuple[list[Step], Source]:
    """Return the steps that a data set gives for a question, in words, and what they were made from.

    A last yes-or-no step that only combines two or more answers is dropped.
    """
    steps, source = _in_words(question)
    for place, step in enumerate(steps):
        if any(not 1 <= number <= place for number in references(step.question)):
            raise LeftOut("a reference to no earlier step")
    closing = len(steps) > 1 and _YES_NO.match(steps[-1].question) and len(set(references(steps[-1].question))) > 1
    return (steps[:-1] if closing else steps), source


def _in_words(question: TrainingQuestion) -> tuple[list[Step], Source]:
    example, facts = question.example, question.facts
    if example.decomposition:
        steps = [_step(text) for text in example.decomposition]
        answers = example.decomposition_answers
        if not answers and len(facts) == len(steps):
            answers = tuple(fact[2] for fact in facts)
        steps = _without_answers(steps, answers, example.question)
        if len(facts) == len(steps):
            _check_subjects(steps, facts, example.question)
        return steps, "steps"
    if facts:
        return _from_facts(facts, example), "facts"
    raise LeftOut("want of steps and facts")


def _step(text: str) -> Step:
    text = " ".join(_BEFORE_MARK.sub("", text).split())
    if relation := _RELATION.fullmatch(text):
        return _relation_step(relation[2].strip(" ?"), relation[1].strip())
    if not _ASKS.search(text) and not _YES_NO.match(text):
        raise LeftOut("a step that is no question")
    asked = text[0].upper() + text[1:].rstrip(" .?") + "?"
    return Step(asked, phrase_of(asked))


def _relation_step(relation: str, subject: str) -> Step:
    question = as_question(relation, subject)
    if not question:
        raise LeftOut("a relation that is no question")
    return Step(question, as_phrase(relation, subject), relation, subject)


def _from_facts(facts: Sequence[Fact], example: Example) -> list[Step]:
    """Return a step for each fact, whose subject is named in the question or is the value of an earlier fact."""
    steps: list[Step] = []
    for place, (subject, name, _) in enumerate(facts):
        earlier = [n for n, fact in enumerate(facts[:place], 1) if _same(fact[2], subject)]
        about = f"#{earlier[-1]}" if earlier else _called(subject, example)
        if not about:
            about = _left_over(place, facts, example, [step.subject for step in steps])
        steps.append(_relation_step(name, about))
    return steps


def _same(value: str, subject: str) -> bool:
    """Whether a fact's value is another's subject, which may be the title of a page: "David Zucker (director)"."""
    return normalise(value) in (normalise(subject), normalise(_ADDITION.sub("", subject)))


def _called(subject: str, example: Example) -> str:
    """Return what the question calls a subject: its title if that is longer and in the question; "" if nothing."""
    if not is_named(subject, example.question):
        return ""
    return max((title for title in _titles(example) if is_named(subject, title)), key=len, default=subject)


def _titles(example: Example) -> list[str]:
    """Return the titles of gold pages that the question names."""
    return [title for title in example.supporting_titles if is_named(title, example.question)]


def _left_over(place: int, facts: Sequence[Fact], example: Example, given: Sequence[str]) -> str:
    """Return what a fact is about whose subject is written differently, by what no other fact accounts for.

    That is the only page that the question names, or, if it names no other, the only answer that nothing depends on.
    `given` is what the facts before it are about.
    """
    subjects = [subject for number, (subject, _, _) in enumerate(facts) if number != place]
    pages = [title for title in _titles(example) if not any(is_named(name, title) for name in (*subjects, *given))]
    if len(pages) == 1:
        return pages[0]
    values = [
        number
        for number, fact in enumerate(facts[:place], 1)
        if f"#{number}" not in given
        and not when_of(fact[2])
        and not any(_same(fact[2], subject) for subject in subjects)
    ]
    later = [subject for subject, _, _ in facts[place + 1 :] if not is_named(subject, example.question)]
    known = all(any(_same(fact[2], subject) for fact in facts) for subject in later)
    if pages or len(values) != 1 or not known:
        raise LeftOut("a step about what the question does not name")
    return f"#{values[0]}"


def _without_answers(steps: Sequence[Step], answers: Sequence[str], question: str) -> list[Step]:
    """Replace answers of earlier steps by references to them.

    Some data sets put answers into their steps; a model trained on those would learn to make them up.
    """
    kept: list[Step] = []
    for place, step in enumerate(steps):
        for number, answer in enumerate(answers[:place], 1):
            if len(answer) > 2 and not is_named(answer, question):
                name = re.compile(rf"(?<!\w){re.escape(answer)}(?!\w)", re.IGNORECASE)
                texts = {field: getattr(step, field) for field in ("question", "phrase", "subject")}
                step = replace(step, **{field: name.sub(f"#{number}", text) for field, text in texts.items()})
        kept.append(step)
    return kept


def _check_subjects(steps: Sequence[Step], facts: Sequence[Fact], question: str) -> None:
    """Refuse a later step about what only the answer of an earlier one could have named."""
    for step, (subject, _, _) in zip(steps[1:], facts[1:], strict=True):
        if is_named(subject, step.question) and not is_named(subject, question):
            raise LeftOut("a step about what the question does not name")


def _self_contained(steps: Sequence[Step]) -> list[str]:
    """Replace references by names; a step that is named in a later one is not asked itself."""
    phrases: list[str] = []
    questions: list[str] = []
    named: set[int] = set()
    for step in steps:
        numbers = references(step.question)
        if any(not phrases[number - 1] for number in numbers):
            raise LeftOut("a step that rests on the answer of another")
        named.update(numbers)
        questions.append(_filled(step.question, phrases))
        phrases.append(REFERENCE.sub(lambda match: phrases[int(match[1]) - 1], step.phrase))
    return [question for number, question in enumerate(questions, 1) if number not in named]


def _linked(steps: Sequence[Step]) -> list[str]:
    """Replace references by "that …", if it is clear which answer is meant."""
    names = [name_of(step.question) for step in steps]
    for place, step in enumerate(steps):
        meant = [names[number - 1] for number in sorted(set(references(step.question)))]
        if not all(meant) or any(names[:place].count(name) > 1 for name in meant):
            raise LeftOut("a step that rests on an answer without a name of its own")
    return [_filled(step.question, names) for step in steps]


def _filled(text: str, names: Sequence[str]) -> str:
    filled = REFERENCE.sub(lambda match: names[int(match[1]) - 1], text)
    return filled[:1].upper() + filled[1:]


def references(text: str) -> list[int]:
    """Return the numbers of the steps that a text refers to, as often as it does."""
    return [int(number) for number in REFERENCE.findall(text)]


def _check_list(questions: Sequence[str], parent: str) -> tuple[str, ...]:
    normal = [normalise(question) for question in questions]
    if normalise(parent) in normal:
        raise LeftOut("a sub-question that is the question itself")
    if len(set(normal)) < len(normal):
        raise LeftOut("a sub-question twice")
    if len(questions) < 2:
        raise LeftOut("fewer than two sub-questions")
    if len(questions) > MAX_SUB_QUESTIONS:
        raise LeftOut(f"more than {MAX_SUB_QUESTIONS} sub-questions")
    return tuple(questions)


def is_named(name: str, text: str) -> bool:
    """Whether a text has the words of a name, one after the other; "Mary of Teck's father" names Mary of Teck."""
    return f" {_words(name)} " in f" {_words(text)} "


def _words(text: str) -> str:
    return normalise(_POSSESSIVE.sub(" ", text))
