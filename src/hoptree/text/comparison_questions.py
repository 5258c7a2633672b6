"""Detect, by grammar, questions that compare or that list several conditions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hoptree.core.lazy import lazy_re
from hoptree.text import comparison_words as words
from hoptree.text.comparison_words import About, Comparative, Event, Of, Wanted
from hoptree.text.names import name_spans
from hoptree.text.parse import question_key
from hoptree.text.quantities import date_spans

Kind = Literal["choice", "which", "same", "both", "relation"]
_MAX_OPERAND_WORDS = 16  # a longer operand is a clause, not a name


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a question compares.

    A "choice" asks which operand comes first in the `wanted` order, "which" asks which operand has a property; "same",
    "both" and "relation" ("is A older than B") are yes-no questions. `of` is the kind of fact to compare, "" if
    unknown. `event` is birth or death for dates, `about` country or place for names, `claim` the predicate of "both".
    """

    kind: Kind
    operands: tuple[str, ...]
    wanted: Wanted
    of: Of = ""
    event: Event = ""
    about: About = ""
    claim: str = ""


_ASKING = lazy_re(r"^(?:and\s+|so\s+)?(?:which|what|who|whose|who['’]s)\b", re.IGNORECASE)
_OPEN = lazy_re(r"^(?:what|who)\s+(?:is|was|are|were)\s+(?:the|a|an|his|her)\b", re.IGNORECASE)
_HELPING = lazy_re(r"^(is|are|was|were|do|does|did|has|have|had|will|would|can|could)\s+", re.IGNORECASE)
_NOT_PLAIN = lazy_re(r"\b(?:not|neither|never|or)\b|n['’]t\b", re.IGNORECASE)
_CLAUSE = lazy_re(r",\s+(?:when|where|who|which|that|if|but|at\s+the\s+time)\s")  # "Bob Ray, when they died"
_NEGATION = r"(?:\b(?:not|neither|nor|never|cannot)|n['’]t)\b"
_NOT_IN_A_NAME = lazy_re(rf"(?<![A-Z]){_NEGATION}(?!\s+[A-Z])")
_TURNED = lazy_re(
    rf"{_NEGATION}|\b(?:before|earlier|sooner|older|more|[a-z]+er)\s+or\s+(?:after|later|less|fewer|[a-z]+er)\b"
)
_POOL = lazy_re(r"^(?:in\s+between|between|out\s+of|among|of|from)\s+", re.IGNORECASE)
_POOLED = lazy_re(r"\b(?:out of|in between|between|among|amongst)\s+(?:the\s+two\s+)?(?=\S)", re.IGNORECASE)
_TWO_OF = lazy_re(r"\s+of\s+(?:the\s+)?(?=[A-Z\"“])")
_BREAK = lazy_re(r"\s*[,:;]\s*|\s+[-–—]+\s+|\s*(?:--|—)\s*")
_SAME = lazy_re(
    r"\b(?:(?P<same>(?:the|a|that|this)\s+same|same|a\s+common|identical)|(?P<different>(?:a\s+)?different))\s+(?P<what>.+)$"
    r"|\bshare[ds]?\s+(?:a|an|their|the|any)?\s*(?P<shared>.+)$"
)
_THAN = lazy_re(r"\s+than\s+")
_BEFORE = lazy_re(
    r"\s+(?P<verb>born|die|died|founded|built|made|written|formed|begun|begin|start|open|come out|\w+ed)\s+"
    r"(?P<word>before|after|prior to)\s+"
)


def detect_comparison(question: str) -> Comparison | None:
    """Return what a question compares; None if it compares nothing or is unclear."""
    text = question.strip()
    text = text[:-1].rstrip() if text.endswith(("?", "？", ".")) else text
    if not text or len(text) > 1000:
        return None
    if not _ASKING.match(text):
        comparison = _pooled_first(text)
    else:
        comparison = None if _asks_for_more(text) else _listed_last(text) or _listed_inside(text)
    if comparison is None and (helping := _HELPING.match(text)):
        wording = text[helping.end() :]
        comparison = _relation(wording) or _same(wording) or _both(wording) or _either(wording)
    return comparison if comparison and _sound(comparison.operands) and not _turned(text, comparison.operands) else None


def _turned(text: str, operands: tuple[str, ...]) -> bool:
    """Return whether a negation reverses the question, or it asks for the order."""
    for operand in sorted(operands, key=len, reverse=True):
        if _NOT_IN_A_NAME.search(operand):
            return True
        text = text.replace(operand, " ")
    return _TURNED.search(text) is not None


def _sound(operands: tuple[str, ...]) -> bool:
    names = [" ".join(operand.casefold().split()) for operand in operands]
    return (
        len(set(names)) == len(names) >= 2
        and all(re.search(r"\w", name) and len(name.split()) <= _MAX_OPERAND_WORDS for name in names)
        and not any(map(_CLAUSE.search, operands))
    )


def _chosen(operands: tuple[str, ...] | None, word: Comparative | None) -> Comparison | None:
    if operands is None:
        return None
    if word:
        return Comparison("choice", operands, word.wanted, word.of, word.event)
    return Comparison("which", operands, "holds") if words.is_named(operands) else None


def _asks_for_more(text: str) -> bool:
    """Return whether the answer is not an operand ("What is the year in which …")."""
    opening = _OPEN.match(text)
    word = words.find_comparative(text) if opening else None
    return opening is not None and (word is None or text[opening.end() : word.start].strip() != "")


def _listed_last(text: str) -> Comparison | None:
    """Read "Which …, A or B?" and its variants."""
    word = words.find_comparative(text)
    if word:
        pool = _POOLED.search(text, word.end) or _TWO_OF.match(text, word.end)
        if pool and " which " not in text[pool.end() :]:
            operands = words.split_all(text[pool.end() :], "and", several=word.several) or words.split_all(
                text[pool.end() :], "or", several=word.several
            )
            if operands and all(map(words.is_name, operands)):
                return _chosen(operands, word)
        return _chosen(_list_after(text, word), word)
    for gap in _BREAK.finditer(text):
        tail = text[gap.end() :]
        if words.strip_lead(tail)[1] and len(words.strip_lead(tail)[0].split()) <= 3:
            operands = words.split_all(tail, "or", several="no")
            if operands and words.is_named(operands):
                return _chosen(operands, None)
    return None


def _list_after(text: str, word: Comparative) -> tuple[str, ...] | None:
    """Return the list that ends a question after its comparing word."""
    after = text[word.end :]
    bare = re.match(r"\s+(?=[\"“'(A-Z\d])", after)
    ordering = word.of == "date" or bool(re.search(r"er$", text[word.start : word.end]))
    if bare and ordering:
        operands = words.split_all(after, "or", several=word.several)
        if operands and all(map(words.is_name, operands)):
            return operands
    for gap in _BREAK.finditer(after):
        tail = after[gap.end() :]
        if word.several == "open" and words.is_unclear(tail, "or"):
            return None
        operands = words.split_all(tail, "or", several=word.several)
        if operands is None and re.fullmatch(r"(?:\s+\w+){0,2}", after[: gap.start()]):
            operands = words.split_all(tail, "and", several=word.several)
        if operands and all(
            words.is_name(name) or words.strip_lead(name)[1] or len(name.split()) <= 4 for name in operands
        ):
            return operands
    lead, name = words.strip_lead(after)
    if name and not re.search(r"\b(?:of|in|at|on|as|by|for|to|from|with|than)\s+(?:the\s+)?$", lead):
        operands = words.split_all(name, "or", several=word.several)
        if operands and all(map(words.is_name, operands)):
            return operands
    return None


def _listed_inside(text: str) -> Comparison | None:
    """Read "Which film, A or B, came out first?" and "Which of A and B is older?"."""
    opening = re.match(r"^\w+\s+of\s+(?:the\s+\w+\s+|these\s+\w+\s+)?(?=[A-Z\"“])", text)
    joint = "and" if opening else "or"
    if opening is None:
        opening = re.match(r"^(?:which|what)(?:\s+[\w'’-]+){1,5},\s+(?=\S+.*\sor\s)", text, re.IGNORECASE)
    if opening is None:
        opening = re.match(
            r"^(?:which|what|who|whose)(?:\s+[\w'’-]+){0,4}?\s*(?:,\s*|\s+)(?=[A-Z\"“\d])", text, re.IGNORECASE
        )
    if opening is None:
        return None
    subject, wording = _subject_pair(text[opening.end() :], joint)
    word = words.find_comparative(wording)
    operands = (
        words.split_all(subject, joint, several=word.several if word else "no") if subject and wording.strip() else None
    )
    return _chosen(operands, word)


def _subject_pair(text: str, joint: str) -> tuple[str, str]:
    """Return "A and B" at a text's beginning, and the rest; "" before a third name."""
    for match in re.finditer(rf"(?<=[\s,]){joint}\s+", text):
        lead = words.strip_lead(text[match.end() :])[0]
        end = words.name_end(text, match.end() + len(lead))
        left, right = words.tidy(text[: match.start()]), words.tidy(text[match.end() : end])
        if right and len(lead.split()) <= 2 and words.is_name(left) and words.is_name(right):
            wording = text[end:].lstrip(" ,")
            return ("", "") if re.match(rf"{joint}\b", wording) else (text[:end], wording)
    return "", ""


def _pooled_first(text: str) -> Comparison | None:
    """Read "Between A and B, who …?"."""
    pool = _POOL.match(text)
    asking = re.search(r"(?:,\s*|\s+)(?=(?:which|who|what|whose|who['’]s)\b)", text, re.IGNORECASE)
    if pool is None or asking is None or asking.start() <= pool.end():
        return None
    inside, asked = text[pool.end() : asking.start()], text[asking.end() :]
    operands = words.split_pair(inside, "and") or words.split_pair(inside, "or")
    if operands is None or not all(map(words.is_name, operands)) or _asks_for_more(asked):
        return None
    return _chosen(operands, words.find_comparative(asked))


def _either(wording: str) -> Comparison | None:
    """Read "Was A or B born first?"."""
    subject, predicate = _subject_pair(wording, "or")
    word = words.find_comparative(predicate)
    operands = words.split_all(subject, "or", several=word.several if word else "no") if subject and predicate else None
    return _chosen(operands, word)


def _same(wording: str) -> Comparison | None:
    """Read "Are A and B of the same country?" and "Does A have the same name as B?"."""
    match = _SAME.search(wording)
    if match is None:
        return None
    what = match["what"] or match["shared"] or ""
    subject = re.sub(r"^both(?:\s+of)?(?:\s+the)?\s+", "", wording[: match.start()])
    wanted: Wanted = "different" if match["different"] else "same"
    other = re.search(r"\s(?:as|from|than)\s+(?=\S)", what)
    if other and " and " not in subject:
        lead, name = words.strip_lead(subject)
        left, right = words.tidy(name[: words.name_end(name)]), words.tidy(what[other.end() :])
        pair = (left, right) if left and len(lead.split()) <= 2 and words.is_name(right) else None
        what = what[: other.start()]
    else:
        clause = wording[len(wording[: match.start()]) - len(subject) :]
        pair = words.split_pair(subject[: words.cut_at(clause)], "and")
    if pair is None or not words.is_named(pair):
        return None
    of, about = words.kind_of_noun(what)
    return Comparison("same", pair, wanted, of, words.event_in(wording), about)


def _both(wording: str) -> Comparison | None:
    """Read "Are both A and B …?" and "Are A and B both …?"."""
    first = re.match(r"^both\s+(?:of\s+)?(?:the\s+)?", wording)
    if first:
        subject = wording[first.end() :]
        end = words.cut_at(subject)
        predicate = subject[end:]
        subject = subject[:end]
    else:
        subject, middle, predicate = wording.partition(" both ")
        if not middle:
            return None
        subject = re.sub(r"\s+been$", "", subject)
    pair = words.split_pair(subject, "and")
    claim = predicate.strip(" ,")
    if (
        pair is None
        or not claim
        or not words.is_named(pair)
        or _NOT_PLAIN.search(wording)
        or any("," in operand for operand in pair)
    ):
        return None
    return Comparison("both", pair, "both", claim=claim)


def _relation(wording: str) -> Comparison | None:
    """Read "Is A older than B?" and "Was A born before B?"."""
    than = _THAN.search(wording)
    if than:
        left = wording[: than.start()]
        word = words.find_comparative(left, than=True)
        if word is None or word.start == 0:
            return None
        names = _subject(left[: word.start]), _object(wording[than.end() :])
        return Comparison("relation", names, word.wanted, word.of, word.event) if all(names) else None
    before = _BEFORE.search(wording)
    if before is None or before["verb"].startswith(("name", "call", "model")):
        return None
    names = _subject(wording[: before.start()]), _object(wording[before.end() :])
    if not all(names) or not all(map(words.is_name, names)):
        return None
    wanted: Wanted = "latest" if before["word"] == "after" else "earliest"
    return Comparison("relation", names, wanted, "date", words.event_in(wording))


def _subject(text: str) -> str:
    """Return the name that a relation begins with, or ""."""
    text = re.sub(r"\s+(?:much|far|significantly|a lot|a bit|slightly|also|really|even)\s*$", "", text.rstrip())
    lead, name = words.strip_lead(text)
    if not name or len(lead.split()) > 4:
        return ""
    end = words.name_end(name)
    complete = end >= len(name) or bool(re.match(r"\s+(?:have|has|had|be|born|released|\w+ed|grow|live)\b", name[end:]))
    if " of " in lead or re.search(r"\b(?:of|at|in)\s$", lead):
        return words.tidy(text[: len(lead) + end]) if complete else ""
    return words.tidy(name[:end]) if complete else ""


def _object(text: str) -> str:
    """Return the name that ends a relation; "" for a quantity or year."""
    text = re.sub(r"\s+(?:is|are|was|were|did|does|do|has|had)(?:\s+\w+)?$", "", text.strip())
    if re.fullmatch(r"(?:the\s+(?:year|age)\s+)?[\d.,]+(?:\s+\w+)?(?:\s+BCE?)?", text) or re.match(
        r"^(?:the other|any|most|average)\b", text
    ):
        return ""
    lead, name = words.strip_lead(text)
    if not name or len(lead.split()) > 5:
        return ""
    return words.tidy(text) if re.search(r"\b(?:of|at|in|one)\b", lead) else words.tidy(name)


_AT_FIRST = lazy_re(
    r"^(?:(?:and|so|then|also)\s+)?(?:(?:in|on|at|by|to|for|from|of|with|during|since|until)\s+)?", re.I
)
_ANSWER_TYPES = tuple(
    (kind, lazy_re(form, re.IGNORECASE))
    for kind, form in (
        ("date", r"when\b|(?:what|which)\s+(?:\w+\s+)?(?:year|date|day|month|decade|century)\b"),
        ("date", r"(?:what|which)\b.{0,80}\b(?-i:year|years|date|dates|birthday|birthdate|lifespan)\b"),
        ("number", r"how\s+(?!(?:do|does|did|is|are|was|were|has|have|had|can|could|come)\b)\w+"),
        ("person", r"who(?:m|se)?\b"),
        ("place", r"where\b|(?:what|which)\s+(?:countr|nation|cit|town|village|state|place|province|region|continent)"),
        ("yes or no", r"(?:is|are|was|were|do|does|did|has|have|had|will|would|can|could)\b"),
    )
)
_TWO_IN_ONE = lazy_re(r"\band\s+(?:in\s+)?(?:when|where|how|what|which|who)\b", re.IGNORECASE)


def expected_answer_type(asked: str) -> str:
    """Return the type of answer that a question asks for, or ""."""
    text = _AT_FIRST.sub("", asked.strip())
    if _TWO_IN_ONE.search(text):
        return ""
    return next((kind for kind, form in _ANSWER_TYPES if form.match(text)), "")


_GERMAN_ASKING = (
    r"w(?:er|en|em|essen|ann|arum|oher|ohin|elche[mnrs]?|(?:as|ie|o)(?!\s(?:er|sie|es|man|d[aei][rs]?|ein)\b))\b"
)
_CHINESE_ASKING = "(?:谁|哪|什么|何时|何地|多少|几时|怎么|为什么)"
_ASKS_TWICE = lazy_re(  # "Who wrote it, and when was she born?"
    r"(?i:(?:[a-z]+\s)?wh[a-z]+|how)\b.*?\sand\s(?:[a-z]+\s)?"
    r"(?:(?:what|when|where|why|how|which(?=\s(?!(?:is|are|was|were|did|does|do|has|have|had)\b)))(?:\s[a-z]+){0,3}?"
    r"\s(?:is|are|was|were|did|does|do|has|have|had)\b"
    r"|(?:when|where|why|how|whom)\s*\??\Z"
    r"|who(?:se)?\s(?:[a-z]+\s)?(?:is|are|was|were)\s(?:its|his|her|their|it|he|she|they)\b"
    r"|(?:is|are|was|were|did|does|do|has|have|had)\s(?:it|he|she|they)\b)"
    # "Where is it and who leads it?", but "Who is the actor who lives there and who is Polish?"
    r"|(?i:(?:[a-z]+\s)?(?:wh(?:at|en|ere|y|o|om|ose)|how)|wh[a-z]+(?=[^?]*,\sand\swho))\b"
    r"(?>(?:(?!\s(?:who(?:m|se)?|which|that|and\swho(?:se)?)\b).)*),?\sand\swho(?:se)?\s(?!(?:it|he|she|they|we|you|i)\b)"
    r"|(?i:wh[a-z]+|how)\b[^?]*\?\s+(?i:and\s+)?(?i:(?:in\s)?wh[a-z]+|how)\s.*\?"
    rf"|(?i:(?:\w+\s)?{_GERMAN_ASKING}).*?\sund\s(?:\w+\s)?{_GERMAN_ASKING}"
    rf"|(?>.*?{_CHINESE_ASKING})(?>.*?[，,；;？?]).*?{_CHINESE_ASKING}",  # each search begins only once
    re.DOTALL,
)
_SEVERAL = lazy_re(r"[,;&/、，；在]|\b(?:and|in|by|und|im|am)\b")


def asks_twice(question: str) -> bool:
    """Return whether a question asks for two things, each with a word of its own."""
    return _ASKS_TWICE.match(question) is not None


def answers_half(question: str, answer: str) -> bool:
    """Return whether a question asks for two things, and its answer is one."""
    return asks_twice(question) and not _SEVERAL.search(answer)


Span = tuple[int, int]
_ASKING_WORD = lazy_re(r"\b(?:which|who|what|whom|list|name)\b", re.IGNORECASE)
_FIRST_WORD = lazy_re(r"\W*(\w+)")
_NEVER_A_NAME = lazy_re(
    r"which|who|what|whom|whose|when|where|why|how|list|name|in|at|for|on|of|by|with|from|to|the|an?|it|is|are|was|were"
    r"|did|do|does|has|have|had|among|along|besides|after|before|between|during|into|this|that|these|those|there",
    re.IGNORECASE,
)  # words that a question or a condition begins with, and no name does
_LIST_JOINT = lazy_re(r"\s*(?:,\s*(?:and|or)?|and|or)\s+(?=[A-ZÀ-ÖØ-ÞΑ-ΩА-Я])")
_BEFORE_RANK = lazy_re(r",\s+(?:the\s+)?(?P<ordinal>\d{1,3}(?:st|nd|rd|th)\s+)?", re.IGNORECASE)
_NOBLE = (
    r"(?:Grand\s+|Arch)?(?:Baron(?:ess|et)?|Duke|Duchess|Count(?:ess)?|Viscount(?:ess)?|Earl|Lord|Marque(?:ss|es|sa)"
    r"|Marquis|Marchioness|Margrave|Landgrave)\b"
)
_RANK = lazy_re(rf"(?:Jr|Sr|I{{2,3}}|IV)\b|{_NOBLE}\s+(?:of|von|de)\b", re.IGNORECASE)
_NUMBERED_RANK = lazy_re(_NOBLE, re.IGNORECASE)
_NOT_A_LISTING = lazy_re(
    r"\b(?:not|never|no|none|neither|nor|or|except|without|unless|instead|how many|how much|other than"
    r"|most|least|more|less|only|[a-z]{3,}est"
    r"|(?:what|which|who)(?:\s+is|\s+was|\s+are|\s+were|['’]s)\s+the)\b|n['’]t\b",
    re.IGNORECASE,
)
_BESIDES = lazy_re(
    r"\b(?:besides|apart from|aside from|excluding|except(?:ing)?)\s|\b(?:what|which|who|whom)\s+(?:other|else)\b",
    re.IGNORECASE,
)  # questions about others than the named; at the start of a sentence these words look like names
_WHO_ARE = lazy_re(r"^\W*who\s+(?:are|were)\s+the\s+", re.IGNORECASE)
# "his first … film" selects a film; a preamble, as in "… in the same year. Who was in both?", does not.
_CHOOSES = lazy_re(r"\bsame\b|\b(?:first|last)\b(?!\s+…)", re.IGNORECASE)
_PREAMBLE = lazy_re(r"\A.*[.:;]\s+(?=(?:which|who|what|whom)\b)", re.IGNORECASE | re.DOTALL)


def named_spans(text: str) -> list[Span]:
    """Return the spans of names and dates in a text.

    A name after a comma belongs to the one before it unless both are in a list: "Ann Low, Countess of Ghent", but
    "Ann Low, Bob High and Cora Lind". A rank is never an item: "Ann Low, 3rd Baroness Low and Bob High" are two.
    """
    first = _FIRST_WORD.match(text)
    begin = first.end() if first and _NEVER_A_NAME.fullmatch(first[1]) else 0
    spans: list[Span] = []
    for start, end in name_spans(text, begin):
        if _NEVER_A_NAME.fullmatch(text[start:end]):
            continue
        joined = spans and (_is_rank(text, spans[-1][1], start) or _continues_name(text, spans, (start, end)))
        spans.append((spans.pop()[0], end) if joined else (start, end))
    return sorted({*spans, *date_spans(text)})


def _continues_name(text: str, before: Sequence[Span], name: Span) -> bool:
    """Return whether a name after a comma continues the name before it."""
    if text[before[-1][1] : name[0]] != ", " or _LIST_JOINT.match(text, name[1]):
        return False
    return len(before) < 2 or not _LIST_JOINT.fullmatch(text, before[-2][1], before[-1][0])


def _is_rank(text: str, before: int, start: int) -> bool:
    """Return whether a name is a rank of the one before it: Jr., 3rd Baron Low."""
    comma = _BEFORE_RANK.fullmatch(text, before, start)
    return comma is not None and bool((_NUMBERED_RANK if comma["ordinal"] else _RANK).match(text, start))


def named(text: str) -> frozenset[str]:
    """Return the names and dates in a text, folded."""
    return frozenset(filter(None, (question_key(text[start:end]) for start, end in named_spans(text))))


def _mask_names(text: str) -> str:
    dates = set(date_spans(text))
    for start, end in reversed([span for span in named_spans(text) if span not in dates]):
        text = text[:start] + "…" + text[end:]
    return text


def may_list(question: str, *, names: int = 2) -> bool:
    """Return whether a question may ask for the thing that fulfils several conditions."""
    plain = _mask_names(question if names > 1 else _WHO_ARE.sub("which ", question))
    if not _ASKING_WORD.search(plain) or _NOT_A_LISTING.search(plain) or _BESIDES.search(question):
        return False
    if _CHOOSES.search(_PREAMBLE.sub("", plain)):
        return False
    return len(named(question)) >= names and detect_comparison(question) is None
