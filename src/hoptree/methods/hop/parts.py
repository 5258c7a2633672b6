"""hop's parts of a question: how its words combine them, and their answers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from typing import Literal, NamedTuple

from hoptree.core.lazy import lazy_re
from hoptree.core.values import Answer, Passage
from hoptree.engine.context import Context
from hoptree.engine.schedule import in_order
from hoptree.methods.hop.candidates import COMPARED, LISTS, Operator, echoes, is_stated, mean_the_same
from hoptree.methods.hop.lists import Items, ListReader, intersect
from hoptree.methods.hop.reading import (
    READ_OR_REFUSE_PROMPT,
    READ_PROMPT,
    TRAINED_GUESS_PROMPT,
    TRAINED_READ_PROMPT,
    read_passages,
)
from hoptree.methods.steps.decompose import record_plan
from hoptree.retrieval.retriever import TITLE
from hoptree.text.answer_fit import explain_type_mismatch
from hoptree.text.comparison_questions import detect_comparison, expected_answer_type, may_list, named_spans
from hoptree.text.grounding import grounded, holding
from hoptree.text.parse import question_key, read_yes_no
from hoptree.text.quantities import countries, date_spans
from hoptree.text.question_tree import Node, Plan, resolve

_REFERENCE_PAGES = 2  # references of a part for whose answers the own page is read
_LAST_READING_FACTOR = 2  # times as many passages, for the last reading, by a reader that may refuse
_SHARED_PASSAGES = 1  # passages of the main question whose title a part names
_PLACEHOLDER = "{}"  # the answer to the previous question, in a planned question
_PREPOSITION = r"(?:in|on|at|for|from|of|by|with|to)"
_ASKS_WHICH = rf"(?:^|[.:;]\s)\W{{0,8}}(?:{_PREPOSITION}\s+)?(?:which|who|whom|what|list|name)\b"
_NO_NOUN = rf"(?:is|was|were|are|did|does|do|has|had|have|who|whose|which|where|that|{_PREPOSITION})\b|[\w-]+['’]s\b"
_NOUN_WORD = rf"(?!{_NO_NOUN})[\w'’.&-]+"
_PLURAL_NOUN = r"(?!(?:was|has|does|shares|series|species|years)\b)(?:[a-z]+[^\Wsui]s|people|men|women|children)"
_PLURAL_WORD = lazy_re(_PLURAL_NOUN)  # tried first, since `_IS_PLURAL` takes long to compile
_PLURAL_VERB = (
    r"(?:do|did|have|had|were|are|can|[a-z]+ed|made|won|sang|wrote|led|went|took|came|appear|border|share|play|star|belong"
    r"|lie|live|work|contain|include|feature|hold|use|speak|come|go|run|own|produce|compete|form|cross|serve|take|win"
    r"|(?:has|does|is|was)\s+(?:[A-Z#]\w*|it|he|she|they))"
)
_IS_PLURAL = lazy_re(
    rf"(?:^|[.:;]\s)\W*(?:(?:list|name|who\s+(?:are|were))\s+(?:{_NOUN_WORD}\s+){{0,4}}?(?-i:{_PLURAL_NOUN})\b|"
    rf"(?:{_PREPOSITION}\s+)?(?:which|what)\s+(?:of\s+)?(?:{_NOUN_WORD}\s+){{0,4}}?(?-i:{_PLURAL_NOUN}\s+"
    rf"(?:(?:of|from|in|by|with|on|at|who|whom|that|which|where|[a-z]+ing)\s(?:(?!\b(?:is|was|has|does)\b).)*?\b)??"
    rf"{_PLURAL_VERB})\b)",
    re.IGNORECASE,
)
MAY_BE_SEVERAL = lazy_re(r"\W*(?:(?:who|what|which)\s+(?:are|were)\b|who\s+(?!(?:is|was|has)\b)[a-z]+)", re.IGNORECASE)
"""Questions such as "who did it?", whose answer may be one or several."""


def asks_for_several(question: str) -> bool:
    """Return whether a question asks for several things, by plural noun and verb."""
    return _PLURAL_WORD.search(question) is not None and _IS_PLURAL.search(question) is not None


SetOperation = Literal["intersect", "union", "difference"]


class SetQuestion(NamedTuple):
    """A question for each of two things, and the set operation on their answers."""

    operation: SetOperation = "intersect"
    asked: tuple[str, ...] = ()


_WORDS_BEFORE = rf"(?:{_PREPOSITION}\s+)?(?:(?:[a-z][\w-]*|@\d+@)\s+){{0,4}}?"
_THING = rf"{_WORDS_BEFORE}@\d+@(?:\s+in\s+@\d+@|\s+\(@\d+@\))?"
_PLACED = rf"{_PREPOSITION}\s+(?:(?:the|an?)\s+)?(?:[a-z][\w-]*\s+){{0,2}}?@\d+@"
_BARE = r"(?:(?:the|his|her)\s+[a-z-]+\s+)?@\d+@"
_AND_ALSO = r"(?:,?\s+and\s+(?:also|again|later|still)|\s+as\s+well\s+as)"
_SET_OPERATIONS: tuple[tuple[SetOperation, re.Pattern[str]], ...] = (
    ("intersect", lazy_re(rf"\bboth\s+(?P<one>{_THING})\s+and\s+(?P<two>{_THING})")),
    ("intersect", lazy_re(rf"(?P<one>{_BARE})\s+and\s+(?P<two>{_BARE})(?:\s+both\b|(?=\s+have\s+in\s+common\b))")),
    ("intersect", lazy_re(rf"(?P<one>{_PLACED}){_AND_ALSO}\s+(?P<two>{_THING})")),
    ("union", lazy_re(rf"\beither\s+(?P<one>{_THING})\s+or\s+(?P<two>{_THING})")),
    ("difference", lazy_re(rf"(?P<one>{_PLACED}|{_BARE}),?\s+but\s+not\s+(?P<two>{_THING})")),
)  # how questions join two things; names are replaced by numbers, so that their words do not match
_NUMBER = lazy_re(r"@(\d+)@")
_BEHIND = lazy_re(r"(?:\s+[a-z'’-]+)*\W*")
"""What may follow the second of two things: words about both."""


def split_by_words(question: str) -> SetQuestion:
    """Split a question that asks the same of two things; into none if unclear."""
    if _NUMBER.search(question):
        return SetQuestion()  # it has a mark such as ours
    dates, masked = frozenset(date_spans(question)), question
    spans = [span for span in named_spans(question) if span not in dates]
    names = [question[start:end] for start, end in spans]
    for number, (start, end) in reversed(list(enumerate(spans))):
        masked = f"{masked[:start]}@{number}@{masked[end:]}"
    for operation, pattern in _SET_OPERATIONS:
        if (match := pattern.search(masked)) and _BEHIND.fullmatch(masked, match.end()):
            before, behind = masked[: match.start()], masked[match.end() :].replace(" have in common", " have")
            texts = (f"{before}{match[name]}{behind}" for name in ("one", "two"))
            asked = tuple(_NUMBER.sub(lambda place: names[int(place[1])], text) for text in texts)
            return SetQuestion(operation, asked)
    return SetQuestion()


_MAX_CHARS = 2000  # of a question; the rest does not change its form
_HOW_MANY = lazy_re(
    r"^\W*(?:how many(?!\s+(?:more|fewer|less|(?:\w+\s+)?(?:years|months|weeks|days|hours|minutes|decades))\b)|"
    r"what (?:is|was) the number of)\b",
    re.IGNORECASE,
)  # of things that can be listed, not of a difference or a length of time
_FULFILS_BOTH = lazy_re(
    rf"\bboth\b|\bin common\b|\bsome of the same\b|{_ASKS_WHICH}(?:\s+of\s+(?:the|these|those)\b|.*?"
    r"(?-i:\balso\b(?!\s+(?:known|called))|\bas well\b|"
    r"\band\s+(?:later|again|still|one|in|had|has|have|was|were|is|are|[a-z]+ed|won|sang|wrote|made|led)\b))",
    re.IGNORECASE | re.DOTALL,
)  # signs that one thing fulfils two conditions: "both", "in common", "and also", "and later", "and studied"


def operator_of(question: str) -> Operator:
    """Return how a question's words combine facts; "lookup" if they do not."""
    question = question[:_MAX_CHARS]
    if comparison := detect_comparison(question):
        return "both" if comparison.kind == "both" else "compare"
    if _HOW_MANY.match(question):
        return "count"
    if expected_answer_type(question) == "yes or no":
        return "yes_no"
    several = asks_for_several(question)
    if several and (split := split_by_words(question)).operation != "intersect":
        return split.operation
    # Two names alone may mean one thing.
    if (several or _FULFILS_BOTH.search(question)) and may_list(question):
        return "intersect"
    return "list" if several and may_list(question, names=1) else "lookup"


def plan_by_words(ctx: Context, question: str, operator: Operator) -> Plan | None:
    """Return a plan with a branch for each thing compared or joined, or None."""
    chains: tuple[tuple[str, ...], ...] = ()
    if operator in COMPARED:
        from hoptree.text.comparison_plans import plan_comparison  # not needed for most questions

        chains = plan_comparison(question) or ()
    elif operator in LISTS:
        chains = tuple((branch,) for branch in split_by_words(question).asked)
    if not chains:
        return None
    nodes: list[Node] = []
    for first, *later in chains:
        nodes.append(Node(len(nodes) + 1, first))
        for asked in later:  # each needs the answer to the previous one
            above = nodes[-1]
            text = asked.replace(_PLACEHOLDER, f"#query{above.id}")
            nodes.append(Node(above.id + 1, text, above.id, above.depth + 1, (above.id,)))
    plan = Plan(tuple(nodes))
    record_plan(ctx, plan)
    return plan


@dataclass(frozen=True, slots=True)
class AnsweredPart:
    """The resolved question of a part, and its answer or list of `items`."""

    asked: str
    answer: Answer
    supported: bool = False
    items: Items = ()

    @property
    def as_reference(self) -> str:
        """The answer, or the question in quotes."""
        quoted = self.asked.replace('"', "'")
        return self.answer.text if self.answer.known else f'the answer to "{quoted}"'


@dataclass(slots=True)
class _OpenPart:
    """A part without an answer so far, the ids of the passages read, and the last reading."""

    asked: str
    node: Node
    references: Sequence[AnsweredPart]
    read: set[str] = field(default_factory=set)
    not_found: bool = False
    wrong_type: bool = False


class Parts:
    """Solves the nodes of plans; `seen` is every passage that was found."""

    def __init__(self, ctx: Context, main_passages: tuple[Passage, ...], *, k: int, prompt: str, cut: bool) -> None:
        """Read first with `prompt`, then with one that may refuse."""
        self._ctx, self._main_passages, self._k, self._cut = ctx, main_passages, k, cut
        self._first_prompt = prompt
        self._second_prompt = READ_OR_REFUSE_PROMPT if prompt == READ_PROMPT else prompt
        self._guesses: dict[int, Answer] = {}
        self._lists: Collection[int] = ()
        self.seen: dict[str, Passage] = {passage.id: passage for passage in main_passages}

    @cached_property
    def reader(self) -> ListReader:
        """The reader of lists."""
        forced = self._first_prompt in (READ_PROMPT, TRAINED_READ_PROMPT)
        return ListReader(self._ctx, self.seen, k=self._k, forced=forced)

    async def solve_all(self, plan: Plan, operator: Operator, *, complete: bool) -> dict[int, AnsweredPart]:
        """Answer the parts of a plan; `complete` checks lists against each other."""
        ends = plan.ends()
        several = [node for node in plan.nodes if asks_for_several(node.question)]
        counted = [node for node in ends if MAY_BE_SEVERAL.match(node.question)]
        wanted = (*several, *ends) if operator in LISTS else (*several, *counted) if operator == "count" else ()
        self._lists = {node.id for node in wanted}
        solved = await in_order(plan, self.solve, parallel=True)
        lists = {solved[end.id].asked: solved[end.id].items for end in ends}
        if operator == "intersect" and len(lists) > 1 and (complete or not intersect(list(lists.values()))):
            lists = await self.reader.complete(lists)
            for end in ends:
                if part := _listed(solved[end.id].asked, lists[solved[end.id].asked]):
                    solved[end.id] = replace(part, supported=all(solved[ref].supported for ref in end.refs))
        return solved

    async def solve(self, node: Node, done: Mapping[int, AnsweredPart]) -> AnsweredPart:
        """Answer a node; an answer that depends on an unsupported one is unsupported too."""
        references = [done[ref] for ref in node.refs]
        asked = resolve(node.question, {ref: done[ref].as_reference for ref in node.refs})
        self._ctx.begin_node(node, asked)
        answerable = all(part.answer.known for part in references)
        read = self._read_list if node.id in self._lists else self._read
        solved = await read(asked, node, references) if answerable else None
        if solved is None:  # an unsupported reading is kept as a guess
            guess = self._guesses.get(node.id, Answer("", status="unknown"))
            solved = AnsweredPart(asked, replace(guess, source="fallback", support=()))
        if not all(part.supported for part in references):
            solved = replace(solved, supported=False)
        self._ctx.end_node(node, solved.answer, supported=solved.supported)
        return solved

    async def _read(self, asked: str, node: Node, references: Sequence[AnsweredPart]) -> AnsweredPart | None:
        """Read up to three sets of passages; return a supported answer or None."""
        part = _OpenPart(asked, node, references)
        return await self._first_reading(part) or await self._second_reading(part) or await self._wide_reading(part)

    async def _first_reading(self, part: _OpenPart) -> AnsweredPart | None:
        """Read what the question itself finds."""
        passages = await self._gather(part, part.asked)
        return await self._read_supported(part, passages, self._first_prompt)

    async def _second_reading(self, part: _OpenPart) -> AnsweredPart | None:
        """Search with the references' questions too, whose words their pages may use."""
        query = " ".join([part.asked, *(reference.asked for reference in part.references)])
        gathered = self._gather_unread(part, query, self._k) if part.not_found else self._gather(part, query)
        return await self._read_supported(part, await gathered, self._second_prompt)

    async def _wide_reading(self, part: _OpenPart) -> AnsweredPart | None:
        """Read more passages if the reader may refuse, and did so in the last reading."""
        if not part.not_found or self._first_prompt != READ_OR_REFUSE_PROMPT:
            return None
        passages = await self._gather_unread(part, part.asked, _LAST_READING_FACTOR * self._k)
        return await self._read_supported(part, passages, self._second_prompt)

    async def _read_supported(self, part: _OpenPart, passages: tuple[Passage, ...], prompt: str) -> AnsweredPart | None:
        """Return a supported answer from passages, or None; keep another as a guess."""
        ids = {passage.id for passage in passages}
        if not passages or (ids <= part.read and not part.wrong_type):
            return None  # the same passages would give the same reading
        reading = await read_passages(self._ctx, part.asked, passages, prompt=prompt, node=part.node, cut=self._cut)
        is_first = not part.read
        part.read |= ids
        part.not_found = not reading.answer.known
        if part.not_found and is_first and prompt == TRAINED_READ_PROMPT:
            guess = await self._guess_after_not_found(part, passages)
            if guess:
                return AnsweredPart(part.asked, guess, True)
        answer = self._ground(reading.answer, part.asked, passages)
        part.wrong_type = bool(explain_type_mismatch(part.asked, answer.text))
        if part.wrong_type:
            return None  # a date for "where" is not even kept as a guess
        if answer.known and self._is_supported(part.asked, answer, passages, reading.copied):
            return AnsweredPart(part.asked, answer, True)
        if reading.answer.known:
            self._guesses.setdefault(part.node.id, reading.answer)
        return None

    def _ground(self, answer: Answer, asked: str, passages: Sequence[Passage]) -> Answer:
        """Return a known answer as passages spell it, or unknown if they do not have it."""
        if not answer.known:
            return answer
        # A forced answer may be to another question, so that a passage must also have a name of this one.
        stated = grounded(answer, asked if self._first_prompt == READ_PROMPT else "", passages)
        if not stated.known and self._first_prompt == READ_OR_REFUSE_PROMPT:
            return _stated_otherwise(answer, passages)
        return stated

    async def _guess_after_not_found(self, part: _OpenPart, passages: Sequence[Passage]) -> Answer | None:
        """Have a trained model guess after NOT FOUND; None unless a sentence states it.

        It says NOT FOUND too often: for nearly all two-hop questions with an unanswered part, the passage was there.
        """
        asked, node = part.asked, part.node
        reading = await read_passages(self._ctx, asked, passages, prompt=TRAINED_GUESS_PROMPT, node=node, cut=self._cut)
        answer = grounded(reading.answer, asked, passages) if reading.answer.known else reading.answer
        if not answer.known or read_yes_no(answer.text) is not None or explain_type_mismatch(asked, answer.text):
            return None
        return answer if is_stated(asked, answer.text, passages) else None

    async def _read_list(self, asked: str, node: Node, references: Sequence[AnsweredPart]) -> AnsweredPart | None:
        """Read all stated answers for a part and its references; None without any."""
        among = [item.text for part in references for item in part.items]
        single = {ref: part.answer.text for ref, part in zip(node.refs, references, strict=True) if not part.items}
        about = resolve(node.question, single)
        return _listed(asked, await self.reader.list_all(asked, about, self._main_passages, among, node))

    def _is_supported(self, asked: str, answer: Answer, passages: Sequence[Passage], copied: str) -> bool:
        """Return whether a sentence states an answer, or the reader could have refused."""
        if read_yes_no(answer.text) is not None:
            return True
        if self._first_prompt != READ_PROMPT:
            return not echoes(asked, answer.text)
        return is_stated(asked, answer.text, passages, copied=copied)

    async def _gather(self, part: _OpenPart, query: str) -> tuple[Passage, ...]:
        """Return pages of referenced answers, results, and a main passage if it fits."""
        pages = await self._reference_pages(part)
        searched = await self._ctx.search(query, k=self._k, node=part.node)
        return self._note_seen([*pages, *searched, *self._named_passages(part.asked)])

    async def _gather_unread(self, part: _OpenPart, query: str, size: int) -> tuple[Passage, ...]:
        """Return the first passages not read before, by the query and the question."""
        pages = await self._reference_pages(part)
        searched = await self._ctx.search(query, k=2 * size, node=part.node)
        if query != part.asked:
            by_question = await self._ctx.search(part.asked, k=2 * size, node=part.node)
            searched = tuple(passage for pair in zip_longest(by_question, searched) for passage in pair if passage)
        gathered = [*pages, *searched, *self._named_passages(part.asked)]
        return self._note_seen([passage for passage in gathered if passage.id not in part.read], size)

    async def _reference_pages(self, part: _OpenPart) -> list[Passage]:
        """Return the best passage of the page of each referenced answer."""
        pages: list[Passage] = []
        for reference in part.references[:_REFERENCE_PAGES]:
            if reference.answer.known:
                title = reference.answer.text
                pages += await self._ctx.search(f"{part.asked} {title}", k=1, where={TITLE: title}, node=part.node)
        return pages

    def _named_passages(self, asked: str) -> list[Passage]:
        """Return a passage of the main question whose title a part names."""
        key = f" {question_key(asked)} "
        named = [passage for passage in self._main_passages if f" {question_key(passage.title)} " in key]
        return named[:_SHARED_PASSAGES]

    def _note_seen(self, gathered: Sequence[Passage], size: int | None = None) -> tuple[Passage, ...]:
        """Return the first different passages, and note that they were seen."""
        passages = list({passage.id: passage for passage in gathered}.values())[:size]
        self.seen |= {passage.id: passage for passage in passages}
        return tuple(passages)


def _stated_otherwise(answer: Answer, passages: Sequence[Passage]) -> Answer:
    """Return the answer if passages have another form of its date or country."""
    from hoptree.text.comparison import countries_in  # rarely needed, since most answers are copied

    country = countries().by_name.get(answer.text.casefold(), "")
    people = {passage.id for passage in passages if country and country in countries_in(passage.text)}
    stating = people | holding(answer.text, "", passages)
    support = tuple(passage.id for passage in passages if passage.id in stating)
    return replace(answer, status="answered" if support else "unknown", support=support)


def answer_both_readings_agree_on(plan: Plan, solved: Mapping[int, AnsweredPart], reading: str) -> Answer | None:
    """Return the last answer if all parts are supported and a `reading` agrees."""
    end = supported_end(plan, solved)
    return end.answer if end and reading and mean_the_same(end.answer.text, reading) else None


def supported_end(plan: Plan, solved: Mapping[int, AnsweredPart]) -> AnsweredPart | None:
    """Return the only last part of a plan if all parts are supported, else None."""
    ends = plan.ends()
    return solved[ends[0].id] if len(ends) == 1 and all(part.supported for part in solved.values()) else None


def chain_lines(plan: Plan, solved: Mapping[int, AnsweredPart], *, guesses: bool) -> list[str]:
    """Return each path as a line of supported answers, or with `guesses` of all."""
    kept = [node.id for node in plan.nodes if solved[node.id].answer.known and (guesses or solved[node.id].supported)]
    paths = [[solved[node.id] for node in path if node.id in kept] for path in plan.paths()]
    return [" ".join(f"{part.asked} {part.answer.text}." for part in path) for path in paths if path]


def _listed(asked: str, items: Items) -> AnsweredPart | None:
    """Return a part that a list answers; None for an empty list."""
    support = dict.fromkeys(passage_id for item in items for passage_id in item.support)
    text = ", ".join(item.text for item in items)
    return AnsweredPart(asked, Answer(text, source="external", support=tuple(support)), True, items) if items else None
