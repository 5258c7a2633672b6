"""Parse labels, relevance, scores and reflection tokens."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from hoptree.core.lazy import lazy_re
from hoptree.core.values import Answer, Token
from hoptree.text.loose_json import MAX_REPLY_CHARS
from hoptree.text.parse import question_key
from hoptree.text.parse_dialogue import read_answer

_WORD = re.compile(r"[^\W_]+")
_MIN_STEM_CHARS = 4  # "fully" means "full", and "Retrieve" means "Retrieval"; but "now" does not mean "no"
_SYNONYMS = {"none": "no", "not": "no", "nothing": "no"}
_LEAD = re.compile(
    r"\b(?:strategy|answer|label|class|category|choice|choose|option|level)\b\W{0,3}(?:is|should\s+be|would\s+be|[:=])",
    re.IGNORECASE,
)
_BEFORE_NOUN = re.compile(r"\s+(?!(?:is|because|since|as|for)\b)[a-z]")
_MARKED = re.compile(r"[).:\]*]|\s*\Z|\n")


def label_shares(text: str, tokens: Sequence[Token], labels: Sequence[str]) -> dict[str, float]:
    """Return the labels' shares of the probability of a reply's first word."""
    label = read_label(text, labels)
    if not label:
        return {}
    first = next((token for token in tokens if _WORD.search(token.text)), None)
    if first is None or _label_of(first.text, labels, partial=True) != label:
        return {label: 1.0}
    shares = dict.fromkeys(labels, 0.0)
    for alternative, logprob in {**dict(first.top), first.text: first.logprob}.items():
        if name := _label_of(alternative, labels, partial=True):
            shares[name] += math.exp(logprob)
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items()} if total else {label: 1.0}


def read_label(text: str, labels: Sequence[str]) -> str:
    """Return the label that a reply begins with, or the only one that it names."""
    words = _WORD.findall(text[:MAX_REPLY_CHARS])
    if words and (label := _label_of(words[0], labels)):
        return label
    named = {label for word in words if (label := _label_of(word, labels))}
    return named.pop() if len(named) == 1 else ""


def _label_of(text: str, labels: Sequence[str], *, partial: bool = False) -> str:
    """Return the label that a word begins with."""
    match = _WORD.search(text)
    word = match[0].casefold() if match else ""
    for label in labels:
        if label in (word, _SYNONYMS.get(word)) or (word.startswith(label) and len(label) >= _MIN_STEM_CHARS):
            return label
    begun = [label for label in labels if word and label.startswith(word)]
    return begun[0] if len(begun) == 1 and partial else ""


def likeliest_label(tokens: Sequence[Token], labels: Sequence[str]) -> str:
    """Return the likeliest label by the first token's alternatives."""
    first = next((token for token in tokens if token.text.strip()), None)
    if first is None:
        return ""
    alternatives = [(text.strip(), logprob) for text, logprob in ((first.text, first.logprob), *first.top)]
    labelled = (pair for pair in alternatives if pair[0] in labels)
    return max(labelled, key=lambda pair: pair[1], default=("", 0.0))[0]


def read_choice(text: str, names: Sequence[str]) -> str:
    """Return the only name that a reply chooses, in any form; or ""."""
    text = text[:MAX_REPLY_CHARS]
    for place in (0, *(lead.end() for lead in reversed(list(_LEAD.finditer(text))))):
        if name := _name_at(text, place, names):
            return name
    words = list(_WORD.finditer(text))
    long_names = [name for name in names if len(name) != len("no")]  # "no" is also part of other phrases
    exact = {name for name in long_names for word in words if word[0] == name and _is_name(text, word, name)}
    named = exact or {name for name in long_names for word in words if _is_name(text, word, name)}
    return named.pop() if len(named) == 1 else ""


def _name_at(text: str, place: int, names: Sequence[str]) -> str:
    """Return the name at the next word, in any form."""
    word = _WORD.search(text, place)
    if word is None:
        return ""
    if same := [name for name in names if _is_name(text, word, name)]:
        return same[0]
    folded = word[0].casefold()
    stems = {name: name[: max(_MIN_STEM_CHARS, len(name) - 2)].casefold() for name in names}
    alike = [name for name in names if len(name) >= _MIN_STEM_CHARS and folded.startswith(stems[name])]
    return alike[0] if len(alike) == 1 else ""


def _is_name(text: str, word: re.Match[str], name: str) -> bool:
    if word[0].casefold() != name.casefold():
        return False
    if len(name) > 1:
        return True
    if name == "A" and _BEFORE_NOUN.match(text, word.end()):
        return False
    return word[0] == name or _MARKED.match(text, word.end()) is not None


_LOW = (
    r"\brelevance\b[^.:;,\[\n]{0,40}?\b(?:is|was|seems|appears|remains)\s+(?:to\s+be\s+)?"
    r"(?:(?:very|quite|rather|too|only)\s+)?(?:low|limited|minimal|little|slight|weak|poor|negligible|none|nil|zero"
    r"|doubtful|not\s+(?:very\s+)?(?:high|clear|given))\b"
)  # a sentence about the degree: "The relevance of this passage is rather low"
_IRRELEVANT = lazy_re(
    r"irrelevan|unrelated|\b(?:not|no|never|hardly|neither|lacks?)\b[^.\n]{0,40}\brelevan|n['’]t\b[^.\n]{0,40}\brelevan"
    r"|\b(?:little|low|limited|minimal|barely|scarcely|less|least)\s+(?:(?:direct|real|or\s+no)\s+)?relevan"
    r"|\brelevan(?:t|ce)\b\W{0,5}(?:no|none|not|(?:very\s+)?low|false)\b"
    r"(?!\s+(?:further|more|other|additional|explanation)|[ \t]+(?-i:[A-Z](?!he\b|his\b|hat\b|t\b)))"
    rf"|{_LOW}|\A\W*(?:no|not|none|false)\b",
    re.IGNORECASE,
)
_RELEVANT_WORD = lazy_re(r"\brelevan(?:t|ce)\b|\A\W*(?:yes|true)\b", re.IGNORECASE)


_DOUBLE_NEGATION = lazy_re(
    r"(?:\b(?:not|never|hardly|cannot\s+be\s+called)|n['’]t)\s+(?:(?!relevan)\w+\s+){0,2}?(?:irrelevant|unrelated)\b"
    r"|\bnot\s+without\s+(?:\w+\s+)?relevance\b",
    re.IGNORECASE,
)
_NO_NEGATION = lazy_re(
    r"\b(?:not\s+(?:only|just|merely|simply)|no\s+doubt|without\s+(?:a\s+)?doubt|no\s+less)\b(?=[^.\n]{0,40}\brelevan)",
    re.IGNORECASE,
)


def _without_double_negations(text: str) -> str:
    """Replace "not irrelevant" by "relevant"; drop "not only" before it."""
    return _NO_NEGATION.sub("", _DOUBLE_NEGATION.sub(" relevant", text[:MAX_REPLY_CHARS]))


def read_relevance(text: str) -> bool:
    """Return whether a reply calls a passage relevant."""
    text = _without_double_negations(text)
    return not _IRRELEVANT.search(text) and bool(_RELEVANT_WORD.search(text))


def judges_relevance(text: str) -> bool:
    """Return whether a reply judges relevance at all."""
    text = text[:MAX_REPLY_CHARS]
    return (
        any(pattern.search(text) for pattern in (_IRRELEVANT, _RELEVANT_WORD)) or _NONE_RELEVANT.match(text) is not None
    )


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
_NONE_RELEVANT = lazy_re(r"[\s*\"']*(?:no|none)(?![^\W\d_]|['’][^\W\d_])", re.IGNORECASE)
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
    """Return the numbers up to `count` that a reply calls relevant; expand ranges."""
    text = _without_double_negations(text).strip()
    if _NONE_RELEVANT.match(text):
        return ()
    numbers: dict[int, None] = {}
    lines = [text] if _BARE.fullmatch(text) else _LINE_END.split(text)
    of_others = False
    for line in lines:
        if of_others and not _HEADS_RELEVANT.match(line):
            continue
        named, of_others = _relevant_numbers(_with_brackets(line, alone=len(lines) == 1), count)
        numbers |= dict.fromkeys(named)
    return tuple(number for number in numbers if 0 < number <= count)


def _with_brackets(line: str, *, alone: bool) -> str:
    """Put brackets around listed numbers, but not around numbers in a sentence."""
    if "[" in line:
        return line
    bare = _BARE.fullmatch(line)
    if bare and (alone or _JUDGES.search(line)):
        return f"{line[: bare.start('list')]}[{bare['list']}]{line[bare.end('list') :]}"
    return _HEADED.sub(r"\g<heading>[\g<list>]", line)


def _relevant_numbers(line: str, count: int) -> tuple[list[int], bool]:
    """Return the numbers that a line calls relevant, and if it heads irrelevant ones."""
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
    """Yield the numbers and ranges of a list up to `count`."""
    for chain in _CHAIN.finditer(written.replace("[", "").replace("]", "")):
        numbers = [int(number) for number in re.findall(r"\d+", chain[0])]
        if len(numbers) == 2:
            first, last = (min(number, count + 1) for number in numbers)
            yield from range(first, last + 1) if first <= last else range(first, last - 1, -1)
        else:
            yield from numbers


_MAX_REPLY_CHARS = 10_000
_MAX_NAME_CHARS = 400  # before a score, in which the scored name is searched for
_MAX_PIECES = 100
_LABELLED = re.compile(r"\bscore[^\w.]{0,5}(\d{1,3}(?:\.\d{1,9})?|\.\d{1,9})", re.IGNORECASE)
_AT_LINE_END = re.compile(r"[\]):=|–—-]\s{0,3}\(?(\d{1,2}(?:\.\d{1,9})?|\.\d{1,9})[\W_]*\Z")
_BARE_LIST = re.compile(r"[^\d.]{0,40}([\d.,;\s]{1,400})\W{0,9}")
_NUMBER_TAG = re.compile(r"\[(\d{1,4})\]")
_PIECE_START = re.compile(r"\n|(?=\[\d{1,4}\])")
_NONE = re.compile(r"\W*(?:no|none|0)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores from 0 to 1 by place, and repairs; `error` says why there are none."""

    by_place: Mapping[int, float]
    repairs: tuple[str, ...] = ()
    error: str = ""


def read_scores(reply: str, names: Sequence[Sequence[str]]) -> Scores:
    """Read the scores of items that each have several `names`.

    "{name (Score: 0.6)}" and "[2] 0.6" are read, on one line or several, as is a bare list with a score for each item.
    If items are only named, these share the score equally. Scores above 1 are read as marks up to 10 or 100.
    """
    text = reply[:_MAX_REPLY_CHARS]
    keys = [[key for name in synonyms if (key := question_key(name))] for synonyms in names]
    scores: dict[int, float] = {}
    for before, score in _scored(text):
        if (place := _place_of(before, keys)) is not None:
            scores.setdefault(place, score)
    if scores:
        return Scores(_to_unit(scores))
    bare = _BARE_LIST.fullmatch(text)
    listed = re.findall(r"\d{0,3}\.\d{1,9}|\d{1,3}", bare[1]) if bare else []
    if len(listed) == len(names) > 1 and any("." in score for score in listed):
        return Scores(_to_unit({place: float(score) for place, score in enumerate(listed)}), ("in order",))
    if chosen := _chosen(text, keys):
        return Scores(dict.fromkeys(chosen, 1 / len(chosen)), ("no scores",))
    return Scores({}) if _NONE.match(text) else Scores({}, error="no score" if text.strip() else "the reply is empty")


def _scored(text: str) -> Iterator[tuple[str, float]]:
    """Yield each score, with the text between it and the previous one."""
    end = 0
    for match in _LABELLED.finditer(text):
        yield text[max(end, match.start() - _MAX_NAME_CHARS) : match.start()].rpartition("\n")[2], float(match[1])
        end = match.end()
    if not end:
        for line in text.splitlines()[:_MAX_PIECES]:
            tail = line[-_MAX_NAME_CHARS:]
            if ending := _AT_LINE_END.search(tail):
                yield tail[: ending.start() + 1], float(ending[1])


def _chosen(text: str, keys: Sequence[Sequence[str]]) -> list[int]:
    """Return the items that a reply names, or gives by number."""
    pieces = _PIECE_START.split(text)[:_MAX_PIECES]
    if any(_named(piece, keys) is not None for piece in pieces):
        return list(dict.fromkeys(place for piece in pieces if (place := _place_of(piece, keys)) is not None))
    return [number - 1 for number in read_numbers(text, len(keys))]


def _place_of(text: str, keys: Sequence[Sequence[str]]) -> int | None:
    """Return the item that a text names, else the one of its last number."""
    place = _named(text, keys)
    tags = [int(tag) for tag in _NUMBER_TAG.findall(text)]
    return place if place is not None or not tags or not 0 < tags[-1] <= len(keys) else tags[-1] - 1


def _named(text: str, keys: Sequence[Sequence[str]]) -> int | None:
    """Return the item whose name comes last in a text."""
    words = f" {question_key(text)} "
    best: tuple[int, int] = (0, 0)
    place: int | None = None
    for number, synonyms in enumerate(keys):
        for key in synonyms:
            start = words.rfind(f" {key} ")
            if start >= 0 and (start + len(key), len(key)) > best:
                best, place = (start + len(key), len(key)), number
    return place


def _to_unit(scores: Mapping[int, float]) -> dict[int, float]:
    highest = max(scores.values())
    scale = 1.0 if highest <= 1 else 10.0 if highest <= 10 else 100.0 if highest <= 100 else highest
    return {place: score / scale for place, score in scores.items()}


RETRIEVE, NO_RETRIEVE = "[Retrieval]", "[No Retrieval]"
PARAGRAPH = "<paragraph>"  # begins a document, which the model may invent
_UTILITY_WEIGHTS = (-1.0, -0.5, 0.0, 0.5, 1.0)  # the weights of utilities from 1 to 5
_RELEVANT = ("[Relevant]", "[Irrelevant]")
_SUPPORT = ("[Fully supported]", "[Partially supported]", "[No support / Contradictory]")
_UTILITY = tuple(f"[Utility:{number}]" for number in range(1, 6))
_ALL = (RETRIEVE, NO_RETRIEVE, "[Continue to Use Evidence]", *_RELEVANT, *_SUPPORT, *_UTILITY)
_TOKENS = re.compile("|".join((*map(re.escape, _ALL), r"</?paragraph>", r"</?s>", "<unk>", "<pad>")), re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Critique:
    """Self-RAG's judgement of an answer from a passage."""

    relevant: float = 0.0
    supported: float = 0.0
    useful: float = 0.0
    likely: float = 0.0

    @classmethod
    def weighed(cls, shares: Sequence[Mapping[str, float]], labels: Sequence[Sequence[str]], likely: float) -> Critique:
        """Weigh the shares for relevance, support and utility."""
        relevant, support, utility = (
            [given.get(label, 0.0) for label in names] for given, names in zip(shares, labels, strict=True)
        )
        useful = sum(weight * share for weight, share in zip(_UTILITY_WEIGHTS, utility, strict=True))
        return cls(relevant[0], support[0] + 0.5 * support[1], useful, likely)

    def score(self, w_rel: float, w_sup: float, w_use: float) -> float:
        """Return the weighted sum by which Self-RAG ranks answers."""
        return self.likely + w_rel * self.relevant + w_sup * self.supported + w_use * self.useful


def retrieval_probability(text: str, tokens: Sequence[Token]) -> float | None:
    """Return P([Retrieval]) at the start of a reply, or None."""
    shares = _shares(text, tokens, (RETRIEVE, NO_RETRIEVE), at_start=True)
    return shares.get(RETRIEVE, 0.0) if shares else None


def read_critique(text: str, tokens: Sequence[Token]) -> tuple[Critique, tuple[str, ...]]:
    """Return a continuation's critique and its missing judgements, which count 0."""
    relevant = _shares(text, tokens, _RELEVANT, at_start=True)
    support = _shares(text, tokens, _SUPPORT)
    utility = _shares(text, tokens, _UTILITY)
    likely = math.exp(sum(token.logprob for token in tokens) / len(tokens)) if tokens else 0.0
    critique = Critique.weighed((relevant, support, utility), (_RELEVANT, _SUPPORT, _UTILITY), likely)
    judged = {"relevance": relevant, "support": support, "utility": utility}
    return critique, tuple(name for name, shares in judged.items() if not shares)


def strip_tokens(text: str) -> str:
    """Return a text without reflection tokens and paragraph marks."""
    return " ".join(_TOKENS.sub(" ", text).split())


def as_paragraph(title: str, shown: str) -> str:
    """Return a document in the form that a Self-RAG model was trained with."""
    text, title = strip_tokens(shown), " ".join(title.split())
    text = f"{title}\n{text.removeprefix(f'{title}: ')}" if text.startswith(f"{title}: ") else text
    return f"{RETRIEVE}<paragraph>{text}</paragraph>"


def read_reflected(text: str, tokens: Sequence[Token]) -> Answer:
    """Read the answer of a Self-RAG model, without its reflection tokens."""
    return replace(read_answer(strip_tokens(before_paragraph(text, tokens))), raw=text)


def before_paragraph(text: str, tokens: Sequence[Token]) -> str:
    """Return the text before a document that the model wrote itself."""
    before = list(takewhile(lambda token: token.text.strip() != PARAGRAPH, tokens))
    if len(before) == len(tokens):
        return text.partition(PARAGRAPH)[0]
    return "".join(token.text for token in before)


def _shares(text: str, tokens: Sequence[Token], labels: Sequence[str], *, at_start: bool = False) -> dict[str, float]:
    """Return the labels' shares at their token; else 1 for the first in the text."""
    first = tokens[0] if at_start and tokens else None
    token = next((token for token in tokens if token.text.strip() in labels), first)
    logprobs = (
        {} if token is None else {name.strip(): value for name, value in (*token.top, (token.text, token.logprob))}
    )
    shares = {label: math.exp(logprobs[label]) for label in labels if label in logprobs}
    if total := sum(shares.values()):
        return {label: share / total for label, share in shares.items()}
    places = [(place, label) for label in labels if (place := text.find(label)) >= 0]
    return {min(places)[1]: 1.0} if places else {}
