"""Decide whether passages hold an answer."""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple

from hoptree.core.lazy import lazy_re
from hoptree.core.values import Answer, Passage
from hoptree.text.names import name_spans, sentence_spans, word_set
from hoptree.text.parse import join_words, question_key, read_yes_no
from hoptree.text.quantities import countries, date_spans, plain_numbers
from hoptree.text.tokens import UNSPACED, after_german_noun, keep_signs, overlaps

PartKind = Literal["name", "date"]
_NUMBER_AFTER, _ANY_NUMBER_AFTER = lazy_re(r"[ -]\d{1,3}\b"), lazy_re(r"[ -](\d+(?:[.,]\d+)*)\b")
_FIGURES = lazy_re(r"(?<![\w#.,-])\d+(?:[.,]\d+)*(?![\w-])")
_WORD = lazy_re(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+")
# Letters that Unicode does not decompose into a base and an accent.
_LETTERS = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "ß": "ss", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d", "ı": "i"})
_BETWEEN = lazy_re(r"[,;]\s+(?:(?:and|und)\s+)?|\s+(?:and|und|&)\s+")
_POSSESSIVE = lazy_re(r"['’]s\b")
_POSSESSIVE_END = lazy_re(r"['’]s\Z")
_ARTICLES = r"(?:(?:[Tt]he|[Aa]n?|in|at|on|by|from) ){0,2}"
_SMALL = lazy_re(_ARTICLES)
# Kinds are in lower case: "City of God" is a film.
_OF_KIND = lazy_re(rf"{_ARTICLES}(?:city|town|village|state|country|county|province|region|district|island) of ")
_KIND = lazy_re(
    rf"{_OF_KIND.pattern}|{_ARTICLES}(?:(?:film|movie|novel|book|play|song|album|band|magazine|city|town|village|actor|"
    r"actress|author|composer|director|singer|writer|[Ss]ir|[Dd]ame|[Dd]r|[Mm]rs?|[Pp]resident|[Kk]ing|[Qq]ueen|"
    r"[Pp]rince(?:ss)?|[Ee]mperor|[Pp]ope) ){1,2}"
)
_KIND_AFTER = lazy_re(
    r" (?:[Cc]emetery|[Ff]ilm|[Mm]ovie|[Nn]ovel|[Bb]ook|[Ss]ong|[Aa]lbum|[Bb]and|[Mm]agazine|[Nn]ewspaper|[Cc]ity|"
    r"[Tt]own|[Vv]illage|people|inhabitants)\Z"
)

_MAY_VARY = lazy_re(
    r"\d|\A\W*[^\W\d_][+#]*\W*\Z|[零〇一二三四五六七八九十百千万亿两]|\b(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twel|thir|fi[fv]"
    r"|twent|hundred|thousand|dozen|million|first|second|zw|drei|vier|fünf|sech|sieb|acht|neun|zehn|elf\b|may\b|march|aug)",
    re.IGNORECASE,
)
_SIGN = lazy_re(r"\A(?:[-−+±]|[$€£¥₹₽₩]\s?)\d|\d\s?[%‰°$€£¥₹₽₩]\Z")  # beside words, so that spans of words lack it


_VERDICTS = {"yes": "yes", "no": "no", "ja": "yes", "nein": "no"} | {
    "是": "yes",
    "是的": "yes",
    "否": "no",
    "不是": "no",
}


def read_verdict(answer: str) -> str:
    """Return "yes" or "no" for an answer that is only that, also in German or Chinese."""
    return _VERDICTS.get(question_key(answer).replace(" ", ""), "")


def grounded(answer: Answer, question: str, passages: Sequence[Passage]) -> Answer:
    """Return the answer as the passages spell it, or unknown.

    A passage supports an answer if it has the answer's words in a row and a name of the question: the cemetery of
    somebody else is not evidence. For a question without names the words are enough; for yes and no, which passages do
    not say, the name is. An answer that begins or ends with the sign of a number ("30%", "-5") stays as it is.
    """
    spelling = ""
    support = []
    for passage in passages:
        if spelled := _supported(answer.text, question, passage.title, passage.text):
            support.append(passage.id)
            as_given = answer.text in f"{passage.title}. {passage.text}" or bool(_SIGN.search(answer.text))
            spelling = answer.text if as_given else spelling or spelled
    if not support:
        return replace(answer, status="unknown", support=())
    return replace(answer, text=spelling, support=tuple(support))


def _supported(answer: str, question: str, title: str, text: str, *, likely: bool = False) -> str:
    """Return an answer as a passage spells it; "" if that does not support it."""
    if not _is_about(question, title, text):
        return ""
    ways, held = _ways(answer), folded_passage(title, text)
    if read_verdict(answer):
        return answer
    form = _find_form(answer, f"{title}. {text}", likely=likely)
    if form == "" or (form and form != answer):
        return form
    spelled = _spelled(ways, f"{title}. {text}", held)
    return keep_signs(answer, spelled) if spelled else form or ""


@lru_cache(maxsize=256)
def _varies(answer: str) -> bool:
    """Return whether an answer may have other forms, or is a letter."""
    return bool(_MAY_VARY.search(answer)) or answer.strip(" .").casefold().removeprefix("the ") in countries().by_name


def _find_form(answer: str, text: str, *, likely: bool = False) -> str | None:
    """Return an answer if a text has an equal form, "" if not, None if words decide."""
    if not _varies(answer):
        return None
    from hoptree.text.equal_forms import find_form  # late, here and below: few answers need it

    return find_form(answer, text, likely=likely)


@lru_cache(maxsize=1024)  # many spellings are searched for in the same passages
def _is_about(question: str, title: str, text: str) -> bool:
    """Return whether a passage has a name of the question, or the question has none."""
    names, held = names_in(question), folded_passage(title, text)
    return not names or any(name.stands_in(held) for name in names)


def has_names(question: str) -> bool:
    """Return whether a question has names that passages can be searched for."""
    return bool(names_in(question))


def covers(question: str, passages: Sequence[Passage]) -> bool:
    """Return whether the passages hold every name of the question."""
    texts = (folded_passage(passage.title, passage.text).strip() for passage in passages)
    held = f" {' '.join(filter(None, texts))} "
    return bool(passages) and all(name.stands_in(held) for name in names_in(question))


def share_of_names(question: str, text: str, *, without: str = "") -> float:
    """Return the share of a question's names that a text has."""
    held, left_out = f" {_folded(text)} ", _folded(without)
    names = [name for name in names_in(question) if name.full != left_out]
    return sum(name.stands_in(held) for name in names) / len(names) if names else 1.0


def guess_unless_supported(answer: Answer, passages: Sequence[Passage]) -> Answer:
    """Return the answer, marked as a guess if no passage supports it."""
    if not answer.known or supports_answer(answer.text, passages):
        return answer
    return replace(answer, source="fallback", support=())


def supports_answer(answer: str, passages: Sequence[Passage]) -> bool:
    """Return whether passages hold an answer or its parts; yes and no need none."""
    if read_yes_no(answer) is not None or read_verdict(answer):
        return True
    return _is_held(answer, *_read(passages)) or bool(held_parts(answer, passages))


def is_stated(answer: str, passages: Sequence[Passage]) -> bool:
    """Return whether passages hold an answer, or a word of it is only misspelt."""
    return supports_answer(answer, passages) or correct_spelling(answer, "", passages) != answer


def held_parts(answer: str, passages: Sequence[Passage]) -> tuple[str, ...]:
    """Return the parts of an answer if passages hold all of them, else ().

    Parts are its names and dates, or else its list items. Items must occur to the letter, ignoring capitals: a path is
    more than its words.
    """
    texts, folded = _read(passages)
    if _find_form(answer, "") == "":
        return ()  # an amount or a day has no parts
    names, listed = parts_of(answer), _listed(answer)
    figures = () if date_spans(answer) else _FIGURES.findall(answer)
    if names and all(_is_held(part, texts, folded) for part in (*names, *figures)):
        return names
    stands = (any(plain_numbers(part).casefold() in text.casefold() for _, text in texts) for part in listed)
    return listed if len(listed) > 1 and all(stands) and all(_is_held(part, texts, folded) for part in listed) else ()


def _read(passages: Sequence[Passage]) -> tuple[list[tuple[str, str]], list[str]]:
    """Return titles and texts, and the folded form of both."""
    texts = [(passage.title, plain_numbers(passage.text)) for passage in passages]
    return texts, [folded_passage(*text) for text in texts]


def _is_held(words: str, texts: Sequence[tuple[str, str]], folded: Sequence[str]) -> bool:
    written = [f"{title}. {text}" for title, text in texts]
    forms = (_find_form(words, text, likely=True) for text in written)
    wanted = [f" {' '.join(way)} " for way in _ways(plain_numbers(words)) if way]
    if any(
        form or (form is None and any(way in text for way in wanted)) for form, text in zip(forms, folded, strict=True)
    ):
        return True
    return any(_dates_within(plain_numbers(words), written))


def _dates_within(answer: str, texts: Sequence[str]) -> Iterable[str]:
    """Return the spellings of an answer's date in texts."""
    if not _varies(answer):
        return ()
    from hoptree.text.equal_forms import dates_within

    return dates_within(answer, texts)


def _listed(answer: str) -> tuple[str, ...]:
    """Return the items between the commas and "and"s of an answer."""
    return tuple(filter(_WORD.search, (part.strip(" `").rstrip(".") for part in _BETWEEN.split(answer))))


def holding(answer: str, question: str, passages: Sequence[Passage]) -> set[str]:
    """Return the ids of passages with an answer, or its date, and a question's name."""
    texts = [plain_numbers(passage.text) for passage in passages]
    spellings = dict.fromkeys((answer, *_dates_within(plain_numbers(answer), texts)))
    return {
        passage.id
        for passage, text in zip(passages, texts, strict=True)
        if any(_supported(spelling, question, passage.title, text, likely=True) for spelling in spellings)
    }


@lru_cache(maxsize=256)
def parts_of(text: str) -> tuple[str, ...]:
    """Return the names and dates in an answer."""
    return tuple(part for _, part in typed_parts(text))


def typed_parts(text: str) -> Iterator[tuple[PartKind, str]]:
    """Yield the dates in a text, then its names."""
    yield from (("date", text[start:end]) for start, end in date_spans(text))
    yield from (
        ("name", text[start:end]) for start, end in numbered_names(text) if read_yes_no(text[start:end]) is None
    )


def numbered_names(text: str) -> list[tuple[int, int]]:
    """Return the spans of names other than dates, each with a number that follows."""
    dates = date_spans(text)
    return [
        (start, numbered.end() if (numbered := _NUMBER_AFTER.match(text, end)) else end)
        for start, end in name_spans(text)
        if end - start > 1 and not overlaps((start, end), dates)
    ]


class Name(NamedTuple):
    """A folded name, its parts around a possessive, and a number behind it."""

    full: str
    sides: tuple[str, ...]
    number: str = ""

    def stands_in(self, held: str) -> bool:
        """Return whether a folded text between spaces has the name or all its sides."""
        return f" {self.full} " in held or all(f" {side} " in held for side in self.sides)


_MAX_NAMES = 64  # of a question; each is searched for in every passage


@lru_cache(maxsize=256)
def names_in(question: str) -> tuple[Name, ...]:
    """Return the first names in a question, without possessive endings."""
    first = re.match(r"\W*\w+", question)
    spans = name_spans(question, first.end() if first else 0)
    dates, names = date_spans(question), []
    for start, end in spans[:_MAX_NAMES]:
        name = _POSSESSIVE_END.sub("", question[after_german_noun(question, start, end) : end])
        is_date = any(first < end and start < last for first, last in dates)
        behind = None if is_date else _ANY_NUMBER_AFTER.match(question, end)
        number = _folded(behind[1]) if behind else ""
        if name:
            names.append(Name(_folded(name), tuple(map(_folded, _POSSESSIVE.split(name))), number))
    return tuple(names)


@lru_cache(maxsize=256)
def _ways(answer: str) -> tuple[tuple[str, ...], ...]:
    """Return the folded words of an answer, with and without its kind.

    Models write "Père Lachaise Cemetery" or "the city of Łódź" where passages have the name alone. The rest must still
    have a name or a number, and more than one word unless it follows "of".
    """
    words = _WORD.findall(answer)
    phrase = " ".join(words)
    rests = [phrase[match.end() :] for match in (_SMALL.match(phrase), _KIND.match(phrase)) if match]
    texts = [*rests, *(_KIND_AFTER.sub("", rest) for rest in rests)]
    kept = [text.split() for text in texts if " " in text or _OF_KIND.match(phrase)]
    telling = (part for part in kept if any(word[0].isupper() or word[0].isdigit() for word in part))
    return tuple(dict.fromkeys(tuple(_fold(word) for word in part) for part in (words, *telling)))


def _spelled(ways: Sequence[tuple[str, ...]], text: str, held: str) -> str:
    """Return the first of `ways` that occurs, as the text spells it; or ""."""
    ways = [part for part in ways if part and f" {' '.join(part)} " in held]
    if not ways:
        return ""
    starts, ends, folded = _folded_words(text)
    for part in ways:
        if (at := folded.find(_spaced(part))) >= 0:
            first = folded.count(" ", 0, at)
            return " ".join(text[starts[first] : ends[first + len(part) - 1]].split())
    return ""


@lru_cache(maxsize=64)  # many names are searched for in the same passages
def _folded_words(text: str) -> tuple[array[int], array[int], str]:
    """Return where the words of a text start and end, and the folded words."""
    words = list(_WORD.finditer(text))
    starts, ends = (array("L", map(place, words)) for place in (re.Match.start, re.Match.end))
    return starts, ends, _spaced(_fold(word[0]) for word in words)


def _spaced(words: Iterable[str]) -> str:
    """Join words with spaces on both sides."""
    return f" {' '.join(word.replace(' ', '') for word in words)} "


@lru_cache(maxsize=1024)
def folded_passage(title: str, text: str) -> str:
    """Return the folded words of a passage, each between spaces."""
    return f" {_folded(f'{title}. {text}')} "


def _folded(text: str) -> str:
    """Return the words of a text, folded, with a space between them."""
    return join_words(text, fold_words)


def fold_words(text: str) -> list[str]:
    """Return the words of a text, folded."""
    return [_fold(word.lower()) for word in _WORD.findall(text)]


def _fold(word: str) -> str:
    if word.isascii():
        return word.lower()
    plain = unicodedata.normalize("NFKD", word.casefold().translate(_LETTERS))
    return "".join(char for char in plain if not unicodedata.combining(char))


_MIN_MISSPELT_CHARS, _MIN_SUBSTITUTED_CHARS = 6, 8  # shorter ones are often other words: Iran, Iraq; Francis, Frances


def correct_spelling(answer: str, question: str, passages: Sequence[Passage]) -> str:
    """Return a misspelt name as passages spell it, or the unchanged answer.

    No passage may hold the answer or the misspelt word, and all candidates must agree. Only one word may differ: a long
    one, no number, with one inner letter too many, too few or out of place (Branden for Braden). First and last letter
    must be the same, since endings distinguish names: Johann and Johanna, Christian and Christina.
    """
    words = _WORD.findall(answer)
    if not words or read_yes_no(answer) is not None or supports_answer(answer, passages):
        return answer
    wanted = [_fold(word) for word in words]
    folded = [f" {_folded(question)} ", *(folded_passage(passage.title, passage.text) for passage in passages)]
    unheld = [
        place for place, word in enumerate(wanted) if word.isalpha() and not any(f" {word} " in t for t in folded)
    ]
    if len(unheld) != 1 or len(wanted[unheld[0]]) < _MIN_MISSPELT_CHARS or not words[unheld[0]][0].isupper():
        return answer
    spellings: dict[str, str] = {}
    for passage in passages:
        for near, spelling in _spelled_nearly(wanted, unheld[0], f"{passage.title}. {passage.text}"):
            spellings.setdefault(near, spelling)
    return keep_signs(answer, next(iter(spellings.values()))) if len(spellings) == 1 else answer


def _spelled_nearly(wanted: Sequence[str], wrong: int, text: str) -> Iterator[tuple[str, str]]:
    """Yield occurrences with another spelling of the `wrong` word: folded, as written."""
    matches = list(_WORD.finditer(text))
    folded = [_fold(word[0]) for word in matches]
    before, after = list(wanted[:wrong]), list(wanted[wrong + 1 :])
    for place in range(wrong, len(matches) - len(after)):
        if not _is_misspelt(wanted[wrong], folded[place]) or not matches[place][0][0].isupper():
            continue
        first, end = place - wrong, place + 1 + len(after)
        if folded[first:place] == before and folded[place + 1 : end] == after:
            spelling = text[matches[first].start() : matches[end - 1].end()]
            yield " ".join(folded[first:end]), " ".join(spelling.split())


def _is_misspelt(word: str, right: str) -> bool:
    """Return whether a word differs from another by one inner letter."""
    if min(len(word), len(right)) < _MIN_MISSPELT_CHARS or not (word.isalpha() and right.isalpha()):
        return False
    if word[0] != right[0] or word[-1] != right[-1]:
        return False
    if len(word) == len(right):
        places = [place for place, pair in enumerate(zip(word, right, strict=True)) if pair[0] != pair[1]]
        if len(places) == 1:
            return len(word) >= _MIN_SUBSTITUTED_CHARS
        swapped = len(places) == 2 and places[1] == places[0] + 1
        return swapped and word[places[0]] == right[places[1]] and word[places[1]] == right[places[0]]
    long, short = sorted((word, right), key=len, reverse=True)
    return len(long) == len(short) + 1 and any(long[:place] + long[place + 1 :] == short for place in range(len(long)))


_STEM_CHARS = 5  # words with the same beginning count as one: director, directed; nationality, national
_FUNCTION_WORDS = word_set(
    "a an and are as at be been by can could did do does for from had has have he her his how if in into is it its "
    "me name of on or she so than that the their them there these they this those to was were what when where "
    "which who whom whose why will with would you your also both same given called known"
)


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence of a passage."""

    passage: str
    text: str

    def as_dict(self) -> dict[str, str]:
        return {"passage": self.passage, "text": self.text}


def find_quote(answer: str, question: str, passages: Sequence[Passage], *, copied: str = "") -> Quote | None:
    """Return the sentence that supports an answer, or None.

    A sentence that the model `copied` comes first; else, of the sentences that hold the answer or whose title does, the
    first with most words of the question (the title's words count too). A bare yes or no is supported only by a copy.
    """
    wanted = question_key(answer)
    asked, copy = stems(question), question_key(copied)
    only_copies = bool(read_verdict(answer))
    if not wanted or (only_copies and not copy):
        return None

    def stands(text: str) -> bool:
        form = _find_form(answer, text, likely=True)
        return bool(form) or (form is None and f" {wanted} " in f" {question_key(text)} ")

    best: tuple[tuple[bool, int, bool], Quote] | None = None
    for passage in passages:
        named = stands(passage.title)
        if not (copy or named or stands(passage.text)):
            continue  # without the answer in the text, no sentence need be searched
        title = stems(passage.title)
        for start, end in sentence_spans(passage.text):
            sentence = passage.text[start:end]
            key = question_key(sentence)
            is_copy = bool(copy and key) and (f" {copy} " in f" {key} " or f" {key} " in f" {copy} ")
            holds = stands(sentence)
            if not is_copy and (only_copies or not (holds or named)):
                continue
            rank = (is_copy, len(asked & (stems(sentence) | title)), holds)
            if best is None or rank > best[0]:
                best = (rank, Quote(passage.id, sentence))
    return best[1] if best else None


def stems(text: str) -> frozenset[str]:
    """Return the stems of content words."""
    words = join_words(text, lambda part: [word.casefold() for word in _WORD.findall(part)]).split()
    return frozenset([word[:_STEM_CHARS] for word in words if word not in _FUNCTION_WORDS])
