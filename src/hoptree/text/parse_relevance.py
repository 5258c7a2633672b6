"""Parse which passages a reply calls relevant; the functions accept any text and never raise."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hoptree.core.patterns import lazy_re
from hoptree.text.loose_json import MAX_REPLY_CHARS

_LOW = (
    r"\brelevance\b[^.:;,\[\n]{0,40}?\b(?:is|was|seems|appears|remains)\s+(?:to\s+be\s+)?"
    r"(?:(?:very|quite|rather|too|only)\s+)?(?:low|limited|minimal|little|slight|weak|poor|negligible|none|nil|zero"
    r"|doubtful|not\s+(?:very\s+)?(?:high|clear|given))\b"
)
"""A sentence about the degree: "The relevance of this passage is rather low"."""
_IRRELEVANT = lazy_re(
    r"irrelevan|unrelated|\b(?:not|no|never|hardly|neither|lacks?)\b[^.\n]{0,40}\brelevan|n['’]t\b[^.\n]{0,40}\brelevan"
    r"|\b(?:little|low|limited|minimal|barely|scarcely|less|least)\s+(?:(?:direct|real|or\s+no)\s+)?relevan"
    r"|\brelevan(?:t|ce)\b\W{0,5}(?:no|none|not|(?:very\s+)?low|false)\b"
    r"(?!\s+(?:further|more|other|additional|explanation))"
    rf"|{_LOW}|\A\W*(?:no|not|none|false)\b",
    re.IGNORECASE,
)
_RELEVANT = lazy_re(r"\brelevan(?:t|ce)\b|\A\W*(?:yes|true)\b", re.IGNORECASE)


def read_relevance(text: str) -> bool:
    """Whether a reply calls a passage relevant; the negative is tried first, and is the default."""
    text = text[:MAX_REPLY_CHARS]
    return not _IRRELEVANT.search(text) and bool(_RELEVANT.search(text))


def judges_relevance(text: str) -> bool:
    """Whether a reply calls anything relevant or irrelevant at all."""
    text = text[:MAX_REPLY_CHARS]
    return any(pattern.search(text) for pattern in (_IRRELEVANT, _RELEVANT)) or _NONE.match(text) is not None


_NUMBER = r"\d{1,4}"
_TO = r"\s*(?:[-‐‑–—]|(?:up\s+)?to|through|thru)\s*"
_LIST = rf"{_NUMBER}(?:(?:{_TO}|(?:\s*(?:,|&|and|or))+\s*){_NUMBER})*"
_BRACKETED = rf"\[\s*{_LIST}\s*\](?:{_TO}\[\s*{_NUMBER}\s*\])*"
_CHAIN = lazy_re(rf"{_NUMBER}(?:{_TO}{_NUMBER})*", re.IGNORECASE)
_NOT = (
    r"(?:\b(?:not|no)|n['’]t)\s+(?!less\b)(?:\w+\s+)?relevan(?:t|ce)\b|irrelevan\w*|\bunrelated\b|\bneither\b"
    r"|\b(?<!no )(?<!not )(?<!n['’]t )(?:less|least|hardly|barely|scarcely)\s+relevant\b"
    rf"|\b(?:little|low|limited|minimal)\s+relevance\b|{_LOW}"
    r"|\b(?:is|are)(?:\s+not|n['’]t)(?=\s*(?:[.,)]|\Z))|(?<=\])[\s:]{1,3}no(?=\s*(?:[.,\[]|\Z))|\A\W{0,4}nothing\b"
)
_JUDGED = lazy_re(
    rf"(?P<numbers>{_BRACKETED})|(?P<against>{_NOT})|\brelevan(?:t|ce)\b|(?<=\])[\s:]{{1,3}}yes\b", re.IGNORECASE
)
_HEADS_A_LIST = lazy_re(r"[^\[\]:\n]{0,40}:[\s*_]*(?:\[|none\b|\Z)", re.IGNORECASE)
_NONE = lazy_re(r"[\s*\"']*(?:no|none)(?![^\W\d_]|['’][^\W\d_])", re.IGNORECASE)
_LINE_END = lazy_re(r"[\n;]|(?<=\.)\s+(?=[A-Z\[])")
_BARE = lazy_re(
    rf"[^\d\[\]]{{0,40}}?(?P<list>{_LIST})\s*(?:(?:is|are)\s+(?:\w+\s+)?relevant[^\d\[\]]{{0,80}})?\.?", re.IGNORECASE
)
_HEADED = lazy_re(
    rf"(?P<heading>(?:relevant|\bunrelated)\b[^\d\[\]:]{{0,40}}:[\s*_]*)(?P<list>{_LIST})(?=\s*(?:[.,]|\Z))",
    re.IGNORECASE,
)
_HEADS_RELEVANT = lazy_re(
    r"\W{0,6}(?:(?:all|and|most|more|only|the|directly|highly|very)\s+){0,3}relevant\b"
    r"(?![^\[\]:]{0,40}\b(?:no|not|none|nothing|neither)\b)[^\[\]:]{0,40}:",
    re.IGNORECASE,
)
_JUDGES = lazy_re(r"relevant\b|\bunrelated\b", re.IGNORECASE)


def read_numbers(text: str, count: int) -> tuple[int, ...]:
    """Return the passages, numbered from 1, that a reply calls relevant; "No" names none.

    A list of irrelevant ones goes on until a line begins with "Relevant:" again. A range ("[1] to [3]", "1-3") names
    all numbers in it up to `count`.
    """
    text = text[:MAX_REPLY_CHARS].strip()
    if _NONE.match(text):
        return ()
    numbers: dict[int, None] = {}
    lines = [text] if _BARE.fullmatch(text) else _LINE_END.split(text)
    of_others = False
    for line in lines:
        if of_others and not _HEADS_RELEVANT.match(line):
            continue
        named, of_others = _named(_with_brackets(line, alone=len(lines) == 1), count)
        numbers |= dict.fromkeys(named)
    return tuple(number for number in numbers if 0 < number <= count)


def _with_brackets(line: str, *, alone: bool) -> str:
    """Put brackets around listed numbers; numbers in a sentence stay as they are."""
    if "[" in line:
        return line
    bare = _BARE.fullmatch(line)
    if bare and (alone or _JUDGES.search(line)):
        return f"{line[: bare.start('list')]}[{bare['list']}]{line[bare.end('list') :]}"
    return _HEADED.sub(r"\g<heading>[\g<list>]", line)


def _named(line: str, count: int) -> tuple[list[int], bool]:
    """Return the numbers a line calls relevant, and whether a list of irrelevant ones goes on after it.

    A verdict is about the numbers before it ("[1] is relevant"), else about those after it ("Relevant: [1]").
    """
    named: list[int] = []
    waiting: list[int] = []
    heading: bool | None = None
    bare = listed = False
    for match in _JUDGED.finditer(line):
        if match["numbers"]:
            bare = False
            waiting += _numbers(match["numbers"], count)
            continue
        verdict = match["against"] is None
        heads = _HEADS_A_LIST.match(line, match.end()) is not None
        heads = heads or (heading is not None and line.startswith(" [", match.end()))
        if heading is not False and (verdict or heads):
            named += waiting
        if heads or not waiting:
            heading, listed, bare = verdict and (heads or heading is not False), heads, True
        waiting = []
    against = heading is False
    return named + ([] if against else waiting), against and (listed or bare)


def _numbers(written: str, count: int) -> Iterator[int]:
    """Yield the numbers of a list and its ranges up to `count`; three joined by dashes are no range."""
    for chain in _CHAIN.finditer(written.replace("[", "").replace("]", "")):
        numbers = [int(number) for number in re.findall(r"\d+", chain[0])]
        if len(numbers) == 2:
            first, last = (min(number, count + 1) for number in numbers)
            yield from range(first, last + 1) if first <= last else range(first, last - 1, -1)
        else:
            yield from numbers
