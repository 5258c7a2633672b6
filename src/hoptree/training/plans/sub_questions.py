"""Turn the steps and relations of a data set into sub-questions."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from hoptree.evaluation.datasets.examples import Example
from hoptree.evaluation.metrics import normalise
from hoptree.methods.steps.decompose import MAX_SUB_QUESTIONS
from hoptree.training.questions import Fact, TrainingQuestion

_WORDS: dict[str, Any] = json.loads((files(__package__) / "relations.json").read_text(encoding="utf-8"))
_NOUNS = (*_WORDS["people"], *_WORDS["things"])
_QUESTIONS: dict[str, str] = {
    **{relation: f"Who is the {relation} of {{}}?" for relation in _WORDS["people"]},
    **{relation: f"What is the {relation} of {{}}?" for relation in _WORDS["things"]},
    **_WORDS["questions"],
    **_WORDS["plain_questions"],
}
_PHRASES: dict[str, str] = {**{relation: f"{relation} of {{}}" for relation in _NOUNS}, **_WORDS["phrases"]}
_STATEMENTS: dict[str, str] = {
    **{relation: f"the {relation} of {{}} is {{}}" for relation in _NOUNS},
    **_WORDS["statements"],
}
_MONTH = r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_DAY = re.compile(rf"\d{{1,2}} {_MONTH},? \d{{3,4}}|{_MONTH} \d{{1,2}},? \d{{3,4}}")
_YEAR = re.compile(rf"(?:{_MONTH} )?\d{{3,4}}(?: (?:AD|BC))?")
# Endings of "X is …": 2WikiMultihopQA gives countries as its passages do, by adjective or name.
_ADJECTIVE = re.compile(
    r"(?:\S+ )?\S*(?:[a-z](?:ian|can|ish|ese)|German|French|Dutch|Greek|Czech|Swiss|Argentine|Filipino|Italian|Welsh)"
)
_COUNTRY = re.compile("|".join(_WORDS["countries"]))
_COUNTRY_WITH_ARTICLE = re.compile(
    r"United States|United Kingdom|United States of America|U\.S\.|US|USA|UK|Netherlands|Philippines|Soviet Union|"
    r"(?:[A-Z]\w+ )+(?:Empire|Republic|Dynasty|dynasty|Commonwealth|Federation)|Kingdom of [A-Z]\w+"
)
_PLACES = ("place of birth", "place of death", "place of burial")
_BY_NAME = re.compile(
    r"(?:who|what|which) (is|was|are|were) (the [^?]+? (?:of|for|in) [^?]+|[^?]+?['’]s [^?]+)\??", re.IGNORECASE
)
_WHO_DID = re.compile(
    r"(?:Who|(?:What|Which) (?:company|band|team|label|person|actor|actress|artist|singer))"
    r" ((?!(?:is|was|has|does|its|this) )(?:[a-z]+ed|[a-z]+[^s\W]s|wrote|won|sang|built|led|made) [^?]+)\??"
)
_IN_PLACE = re.compile(
    r"(?:in (?:which|what) [a-z]+|where|(?:which|what) (?:country|city|town|state|county|province|region)) (is|was) "
    r"([^?]+?) (located|situated|formed|founded|from)(?: in)?\??",
    re.IGNORECASE,
)
_PUBLISHED = re.compile(r"When was ([^?]+) (released|published|founded|established|formed)\??")
_PROPER_PLACE = re.compile(r"[A-Z][\w.'’-]*(?:[ ,]+[\w.'’-]+){0,5}")
_MAX_NAME_WORDS = 6  # longer answers are sentences, and cannot follow "is"
_AUXILIARY = "is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|may|might|must"
_NOUN = re.compile(
    r"\b(?:what|which)\s+(?:(?:kind|type|name)\s+of\s+)?"
    rf"(?!(?:{_AUXILIARY}|been|being|other|else)\b)"
    rf"([a-z-]{{3,}}(?:\s+[a-z-]+){{0,2}}?(?=\s+(?:{_AUXILIARY})\b)|[a-z-]{{3,}}(?=\s+(?!of\b)))",
    re.IGNORECASE,
)
_HEAD = re.compile(r"(?:the|an?)\s+((?:[a-z-]+\s+){0,2}?[a-z-]+)\s+(?:of|for|in|that)\b", re.IGNORECASE)
_PRONOUNS = (("whom?", "person"), ("where", "place"), ("when", "time"))


def as_question(relation: str, subject: str) -> str:
    """Return the question for the value of a property, or ""."""
    return _QUESTIONS.get(relation, "").format(subject)


def as_phrase(relation: str, subject: str) -> str:
    """Return a noun phrase for the value of a property, or ""."""
    return f"the {_PHRASES[relation].format(subject)}" if relation in _PHRASES else ""


def as_statement(relation: str, subject: str, value: str) -> str:
    """Return a fact as a clause, or ""."""
    if relation in _WORDS["dated_statements"]:
        when = when_of(value)
        return f"{_WORDS['dated_statements'][relation].format(subject)} {when}" if when else ""
    if not answers_it(relation, value):
        return ""
    if relation in _WORDS["origins"]:
        if _COUNTRY.fullmatch(value) or _COUNTRY_WITH_ARTICLE.fullmatch(value):
            country = value if _COUNTRY.fullmatch(value) else f"the {value}"
            return str(_WORDS["origins"][relation].format(subject, country))
        return f"{subject} is {value}" if relation != "country" and _ADJECTIVE.fullmatch(value) else ""
    return _STATEMENTS.get(relation, "").format(subject, value)


def answers_it(relation: str, value: str) -> bool:
    """Return whether a value can answer the question for its property."""
    return relation not in _PLACES or not _ADJECTIVE.fullmatch(value) or _COUNTRY.fullmatch(value) is not None


def stated(question: str, answer: str) -> str:
    """Return a simple question and its answer as a clause, or ""."""
    text = question.strip()
    for relation, asks in _WORDS["plain_questions"].items():
        before, _, after = asks.partition("{}")
        if text.startswith(before) and text.endswith(after):
            return as_statement(relation, text[len(before) : len(text) - len(after)], answer)
    if dated := _PUBLISHED.fullmatch(text):
        when = when_of(answer)
        return f"{dated[1]} was {dated[2]} {when}" if when else ""
    if placed := _IN_PLACE.fullmatch(text):
        how = placed[3] if placed[3] == "from" else f"{placed[3]} in"
        with_article = f"the {answer}" if _COUNTRY_WITH_ARTICLE.fullmatch(answer) else ""
        is_place = _PROPER_PLACE.fullmatch(answer) and not _ADJECTIVE.fullmatch(answer)
        return f"{placed[2]} {placed[1]} {how} {with_article or answer}" if with_article or is_place else ""
    if len(answer.split()) > _MAX_NAME_WORDS:
        return ""
    if (by_name := _BY_NAME.fullmatch(text)) and by_name[1].casefold() in ("is", "was"):
        return f"{by_name[2]} {by_name[1]} {answer}"
    if did := _WHO_DID.fullmatch(text):
        return f"{answer} {did[1]}"
    return ""


def when_of(value: str) -> str:
    """Return a date or year with its preposition, or ""."""
    return f"on {value}" if _DAY.fullmatch(value) else f"in {value}" if _YEAR.fullmatch(value) else ""


def phrase_of(question: str) -> str:
    """Return the noun phrase that a question asks about, or ""."""
    match = _BY_NAME.fullmatch(question.strip())
    return match[2].strip() if match else ""


def name_of(question: str) -> str:
    """Return how a later question may refer to the answer, or ""."""
    if head := _HEAD.match(phrase_of(question)):
        return f"that {head[1].lower()}"
    if noun := _NOUN.search(question):
        return f"that {noun[1].lower()}"
    names = (name for word, name in _PRONOUNS if re.search(rf"\b{word}\b", question, re.IGNORECASE))
    return next((f"that {name}" for name in names), "")


Source = Literal["steps", "facts"]

REFERENCE = re.compile(r"(?:\bthe\s+)?#\s?(\d{1,2})(?!\d)", re.IGNORECASE)
"""A reference to an earlier step by its number, as in the data sets."""
_RELATION = re.compile(r"(.+?)\s*>>\s*(.+)")
_BEFORE_MARK = re.compile(r"\s+(?=[?,.!;:)]|['’]s\b)")
_POSSESSIVE = re.compile(r"(?<=\w)['’]s\b", re.IGNORECASE)
_ADDITION = re.compile(r"\s\([^()]+\)$")
_ASKS = re.compile(r"\b(?:who|whom|whose|what|which|when|where|why|how)\b", re.IGNORECASE)
_YES_NO = re.compile(rf"(?:{_AUXILIARY})\b", re.IGNORECASE)


class Decomposed(NamedTuple):
    """The sub-questions of a question in order, and their source."""

    questions: tuple[str, ...]
    source: Source


class LeftOut(Exception):
    """The reason why no sub-questions can be made of a question's steps."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step as a question and as a noun phrase for its answer."""

    question: str
    phrase: str = ""
    relation: str = ""
    subject: str = ""


def decomposed(question: TrainingQuestion, *, linked: bool) -> Decomposed:
    """Return the sub-questions of a question, or raise `LeftOut`.

    Each is self-contained: a reference to an earlier step becomes a noun phrase for its answer ("the director of X"),
    and that step is not asked itself. With `linked`, if this is impossible, all steps are kept and a reference becomes
    "that person".
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
    """Return the steps of a question and their source."""
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
        later = zip(steps[1:], facts[1:], strict=True) if len(facts) == len(steps) else ()
        for step, (subject, _, _) in later:
            if is_named(subject, step.question) and not is_named(subject, example.question):
                raise LeftOut("a step about what the question does not name")
        return steps, "steps"
    if facts:
        return _from_facts(facts, example), "facts"
    raise LeftOut("want of steps and facts")


def _step(text: str) -> Step:
    text = " ".join(_BEFORE_MARK.sub("", text).split())
    if relation := _RELATION.fullmatch(text):
        return _relation_step(relation[2].strip(" ?"), relation[1].strip())
    if not _ASKS.search(text) and not _YES_NO.match(text):
        raise LeftOut("a step that is not a question")
    asked = text[0].upper() + text[1:].rstrip(" .?") + "?"
    return Step(asked, phrase_of(asked))


def _relation_step(relation: str, subject: str) -> Step:
    question = as_question(relation, subject)
    if not question:
        raise LeftOut("a relation that is not a question")
    return Step(question, as_phrase(relation, subject), relation, subject)


def _from_facts(facts: Sequence[Fact], example: Example) -> list[Step]:
    """Return a step for each fact, chained by subjects and values."""
    steps: list[Step] = []
    for place, (subject, name, _) in enumerate(facts):
        earlier = [n for n, fact in enumerate(facts[:place], 1) if _same(fact[2], subject)]
        about = f"#{earlier[-1]}" if earlier else _called(subject, example)
        if not about:
            about = _left_over(place, facts, example, [step.subject for step in steps])
        steps.append(_relation_step(name, about))
    return steps


def _same(value: str, subject: str) -> bool:
    """Return whether a fact's value is another's subject, or its page."""
    return normalise(value) in (normalise(subject), normalise(_ADDITION.sub("", subject)))


def _called(subject: str, example: Example) -> str:
    """Return what the question calls a subject, or ""."""
    if not is_named(subject, example.question):
        return ""
    return max((title for title in _titles(example) if is_named(subject, title)), key=len, default=subject)


def _titles(example: Example) -> list[str]:
    """Return the titles of gold pages that the question names."""
    return [title for title in example.supporting_titles if is_named(title, example.question)]


def _left_over(place: int, facts: Sequence[Fact], example: Example, given: Sequence[str]) -> str:
    """Return the name of a fact's subject if the question spells it differently.

    It is the only page that the question names, or, if it names no other, the only answer that no fact depends on.
    `given` are the subjects of the facts before it.
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
    """Replace answers of earlier steps by references, as a model cannot know them."""
    kept: list[Step] = []
    for place, step in enumerate(steps):
        for number, answer in enumerate(answers[:place], 1):
            if len(answer) > 2 and not is_named(answer, question):
                name = re.compile(rf"(?<!\w){re.escape(answer)}(?!\w)", re.IGNORECASE)
                texts = {field: getattr(step, field) for field in ("question", "phrase", "subject")}
                step = replace(step, **{field: name.sub(f"#{number}", text) for field, text in texts.items()})
        kept.append(step)
    return kept


def _self_contained(steps: Sequence[Step]) -> list[str]:
    """Replace references by names of what they refer to."""
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
    """Replace references by "that …"; raise `LeftOut` if that is ambiguous."""
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
    """Return the numbers of all references in a text, with repetitions."""
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
    """Return whether a text contains a name as consecutive words."""
    return f" {_words(name)} " in f" {_words(text)} "


def _words(text: str) -> str:
    return normalise(_POSSESSIVE.sub(" ", text))
