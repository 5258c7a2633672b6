"""The sentence for an answer, its citations, and how well it is supported."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hoptree.core.lazy import lazy_re
from hoptree.core.values import Level, Passage

if TYPE_CHECKING:
    from hoptree.engine.result import TreeNode
    from hoptree.text.grounding import Quote

Chance = tuple[float, str]  # a probability, and what it was calibrated on
MAX_VALUE_CHARS, MAX_LINE_CHARS = 80, 200


def shorten(text: object, max_chars: int = MAX_LINE_CHARS) -> str:
    """Return a text on one line, cut where it is long."""
    line = " ".join(str(text).split())
    return line if len(line) <= max_chars else f"{line[:max_chars]}…"


OWN_KNOWLEDGE = "the model answered from its own knowledge, and nothing that was read says so"
NOT_SAID = "nothing that was read says so"


class _Frame(NamedTuple):
    """The words around an answer in one language; {} is an answer, number or reason."""

    stated: str = "The answer is {}"
    yes: str = "Yes"
    no: str = "No"
    quote: str = "{}: “{}”"
    stop: str = "."
    possibly: str = "Possibly {}: {}."
    own_knowledge: str = OWN_KNOWLEDGE
    not_said: str = NOT_SAID
    none: str = "No answer was found."
    none_in_passage: str = "No answer was found in the passage that was read."
    none_in: str = "No answer was found in the {} passages that were read."


_FRAMES = {
    "german": _Frame(
        "Die Antwort lautet {}",
        *("Ja", "Nein", "{}: „{}“", ".", "Vielleicht {}: {}."),
        "das Modell hat aus eigenem Wissen geantwortet, und nichts Gelesenes sagt es",
        "nichts Gelesenes sagt es",
        "Es wurde keine Antwort gefunden.",
        "In der gelesenen Stelle wurde keine Antwort gefunden.",
        "In den {} gelesenen Stellen wurde keine Antwort gefunden.",
    ),
    "chinese": _Frame(
        "答案是{}",
        *("是", "否", "{}：“{}”", "。", "可能是{}：{}。"),
        "模型凭自身知识回答，读过的内容都没有这样说",
        "读过的内容都没有这样说",
        "没有找到答案。",
        "在读过的段落中没有找到答案。",
        "在读过的 {} 个段落中没有找到答案。",
    ),
}
"""In any other language the sentence is the bare answer, and remarks are in English."""


def frame_of(question: str, answer: str = "", language: str = "") -> _Frame:
    from hoptree.text.tokens import language_of

    unclear = "german" if answer.casefold() in ("ja", "nein") else language or "english"  # "War Ada Schweizerin?"
    return _Frame() if _ENGLISH.search(question) else _FRAMES.get(language_of(question, unclear), _Frame())


def _is_english(question: str) -> bool:
    """Return whether a question is in English; "was" alone is also German and Dutch."""
    from hoptree.text.tokens import language_of

    return bool(_ENGLISH.search(question)) or (
        _WAS_ALONE.search(question) is not None and language_of(question) == "english"
    )


class Confidence(NamedTuple):
    """How well an answer is supported, with the reason in words."""

    level: Level
    reason: str
    probability: float | None = None  # that the answer is right; only calibrated methods give one
    calibrated_on: str = ""  # the questions of the calibration

    @property
    def is_in_sentence(self) -> bool:
        """Whether the answer's sentence gives the reason: "Possibly A: nothing … says so"."""
        return self.reason in (OWN_KNOWLEDGE, NOT_SAID)

    def as_dict(self) -> dict[str, Any]:
        measured = {"probability": self.probability, "calibrated_on": self.calibrated_on}
        return {"level": self.level, "reason": self.reason, **(measured if self.probability is not None else {})}


MAX_QUOTE_CHARS, _MAX_WORD_CHARS = 300, 30  # longer words are cut apart, since Chinese has no spaces
_MAX_CITATIONS = 4  # enough for a comparison of two things in two steps each
_MAX_SPAN_WORDS, _MAX_SPAN_CHARS = 12, 200  # a longer answer is a sentence itself
_PREPOSITIONS = "in|at|on|from|to|for|with|by|under|of|near|after|about|into|as"
_VERBS = (
    "die|live|work|study|graduate|marry|teach|serve|win|lose|move|settle|retire|begin|start|premiere|debut|occur|happen"
    "|attend|found|discover|invent|write|direct|compose|paint|create|join|leave|grow up|take place"
)
_PAST = {"grow up": "grew up", "take place": "took place", "win": "won", "lose": "lost", "leave": "left"} | dict(
    re.findall(r"(\w+)/(\w+)", "study/studied marry/married teach/taught begin/began write/wrote")
)
_PARTICIPLES = (
    "born|buried|founded|built|located|situated|published|released|set|based|raised|educated|formed|created|signed"
    "|filmed|held|killed|made|established|written|recorded|produced|composed|painted|introduced|discovered|invented"
    "|crowned|elected|opened|completed|directed|married|awarded"
)
_COMPARED = r"(?:more|less|closer|further|older|younger|[a-z]+ier|larger|longer|shorter|taller|higher|lower|bigger)"
_COMMA = lazy_re(r",\s")
_CLAUSE = lazy_re(r"\A(?:The|An?|It|He|She|They|There)\s.*\b(?:is|are|was|were|has|have|had)\s")
_RIVAL = lazy_re(r"\bor\s(?!\?)")
_ENGLISH = lazy_re(
    r"\b(?:who|whom|whose|what|which|where|when|why|how|is|are|were|did|does|do|has|have|had|can)\b", re.IGNORECASE
)
_WAS_ALONE = lazy_re(r"\bwas\b", re.IGNORECASE)
_DID = lazy_re(rf"(?P<subject>.+?)\s(?P<verb>{_VERBS})(?P<rest>(?:\s.+)?)", re.DOTALL)
_WAS = lazy_re(rf"(?P<verb>is|was|are|were)\s(?P<subject>.+)\s(?P<part>{_PARTICIPLES})(?P<rest>(?:\s.+)?)", re.DOTALL)
_NO_SUBJECT = lazy_re(r"\b(?:the|an?|of|his|her|its|their|this|that|first|last|being)\Z", re.IGNORECASE)
_LONG_REST = lazy_re(rf"\d|\b(?:who|whose|which|that|prior|before|after|while|(?:{_PREPOSITIONS})\Z)\b|(?:\s\S+){{6}}")
"""Words after the verb that are too long to stand between it and the answer."""
_PLACE = lazy_re(r"(?:where|when|(?:(?P<given>in|at|on)\s(?:which|what)(?:\s[a-z]+){1,3}?))\s", re.IGNORECASE)
_IDENTITY = lazy_re(r"(?:who|what)\s(?P<verb>is|was|are|were)\s(?P<subject>(?:the\s|[A-Z]).+)", re.IGNORECASE)
_HAS = r"(?:has|had)\b(?!\s(?:(?-i:[A-Z])|s?he\b|they\b|it\b))"  # in "Who has Ada met?" the answer is not a subject
_PREDICATE = rf"(?:is|was)\s(?:{_PARTICIPLES}|{_COMPARED})\b|{_HAS}|(?:won|came)\b"
_WHO = lazy_re(rf"who\s(?P<verb>{_PREDICATE}|wrote\b|(?!is\b|was\b|does\b|has\b)[a-z]+(?:ed|s)\b)", re.IGNORECASE)
_WHICH = lazy_re(rf"(?:which|what)\s(?:(?!who|that)[a-z-]+\s){{1,3}}?(?P<verb>{_PREDICATE})", re.IGNORECASE)
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_DAY = lazy_re(rf"\d{{1,2}}(?:st|nd|rd|th)?\s(?:of\s)?(?:{_MONTHS})\b.*|(?:{_MONTHS})\s\d{{1,2}}\b(?!\d).*")
_YEAR = lazy_re(rf"(?:(?:{_MONTHS}),?\s)?(?:the\s)?\d{{3,4}}s?(?:\s(?:BC|AD|BCE|CE))?")
_AT = lazy_re(r".*\b(?:University|College|School|Institute|Academy|Hospital|Stadium|Airport|Museum|Theat(?:re|er))\b.*")
_LED = lazy_re(rf"(?:{_PREPOSITIONS})\s", re.IGNORECASE)
CITATIONS = lazy_re(r"(?<!\S)(?:\[\d+\])+")  # not in argv[1]; the page's words.js has the same pattern


def state_answer(question: str, answer: str) -> str:
    """Put an answer into a sentence of its question's words, without a full stop.

    Only safe forms are inverted; else it is "The answer is …", in German and Chinese too, or the bare answer.
    """
    from hoptree.text.comparison_questions import asks_twice
    from hoptree.text.grounding import read_verdict
    from hoptree.text.names import CLOSED

    asked, answer = " ".join(_without_rivals(question).split()).rstrip(" ?"), " ".join(answer.split())
    frame = frame_of(question, answer)
    if (verdict := read_verdict(answer)) and (answer.casefold() == verdict or frame != _Frame()):
        return frame.yes if verdict == "yes" else frame.no
    if len(answer.split()) > _MAX_SPAN_WORDS or len(answer) > _MAX_SPAN_CHARS or _CLAUSE.search(answer):
        return answer.rstrip(".。")
    answer = answer.rstrip(".。") if not re.search(r"\b\w\.\Z", answer) else answer
    is_english = frame == _Frame() and _is_english(asked)
    if not is_english or asks_twice(asked):
        return answer if frame == _Frame() and not is_english else frame.stated.format(answer)
    stated = _state_place(asked, answer) or _state_identity(asked, answer) or _state_subject(asked, answer)
    if stated[:1].islower() and stated.split()[0] not in CLOSED:  # maybe an identifier, which keeps its letters
        stated = ""
    return stated[:1].upper() + stated[1:] if stated else f"The answer is {answer}"


def _without_rivals(question: str) -> str:
    """Remove ", A or B?" from the end of a question."""
    begin = question.rstrip().rstrip("?").rfind("?") + 1
    comma = _COMMA.search(question, begin)
    if not question.rstrip().endswith("?") or comma is None or not _RIVAL.search(question, comma.end() + 1):
        return question
    return question[: comma.start()]


def _state_place(asked: str, answer: str) -> str:
    """Invert where, when and "in which": X died in A."""
    head = _PLACE.match(asked)
    if head is None:
        return ""
    rest, when = asked[head.end() :], asked[:4].casefold() == "when"
    before = _preposition(answer, when=when, given=head["given"] or "")
    if not before and not _LED.match(answer):
        return ""
    ended = f"{before} {answer}".strip()
    if rest.startswith("did ") and (did := _DID.fullmatch(rest, 4)):
        verb = did["verb"]
        again = re.search(rf"\b(?:{_VERBS})\b", did["rest"])
        if again or _NO_SUBJECT.search(did["subject"]) or _LONG_REST.search(did["rest"]):
            return ""
        past = _PAST.get(verb, f"{verb}d" if verb.endswith("e") else f"{verb}ed")
        return f"{did['subject']} {past}{did['rest']} {ended}"
    was = _WAS.fullmatch(rest)
    if was and not _NO_SUBJECT.search(was["subject"]) and not _LONG_REST.search(was["rest"]):
        return f"{was['subject']} {was['verb']} {was['part']}{was['rest']} {ended}"
    return ""


def _preposition(answer: str, *, when: bool, given: str) -> str:
    """Return the preposition before a place or time; "" if none is certain or needed."""
    if _LED.match(answer):
        return ""
    if given and not _DAY.fullmatch(answer):
        return given.lower()
    if _DAY.fullmatch(answer):
        return "on"
    if when:
        return "in" if _YEAR.fullmatch(answer) else ""
    return "at" if _AT.fullmatch(answer) else "in"


def _state_identity(asked: str, answer: str) -> str:
    """Invert "Who is the X of Y": the X of Y is A."""
    match = _IDENTITY.fullmatch(asked)
    if match is None or re.search(rf"\b(?:{_PREPOSITIONS}|{_PARTICIPLES}|called|known|named|like)\Z", asked):
        return ""
    subject = match["subject"]
    if not subject.startswith("the ") and not re.match(r"[^\s]+(?:\s[A-Z]\S*)*['’]s\s", subject):
        return ""
    return f"{subject} {match['verb']} {answer}"


def _state_subject(asked: str, answer: str) -> str:
    """Put the answer in the place of "who" or "which …"."""
    match = _WHO.match(asked) or _WHICH.match(asked)
    several = re.search(r",|\band\b", answer) is not None
    if match is None or several or re.search(rf"\bor\b|\b(?:{_PREPOSITIONS})\Z", asked[match.start("verb") :]):
        return ""
    return answer + " " + asked[match.start("verb") :]


def cite_answer(
    question: str,
    answer: str,
    places: Sequence[int],
    passages: Sequence[Passage],
    *,
    asked: str = "",
    quoted: bool = True,
) -> str:
    """Return the sentence for an answer, with a quotation and numbers of passages.

    `places`, from 0, are those of the passages to cite, in ascending order. Of the sentences that state the answer, the
    one nearest to `asked`, the last sub-question, is quoted; the number of its passage follows it.
    """
    stated, cited = state_answer(question, answer), sorted(places[:_MAX_CITATIONS])
    frame = frame_of(question, answer)
    from hoptree.text.answer_fit import quote_from

    quote = quote_from([passages[place] for place in places], answer, asked or question) if quoted else None
    if quote is None:
        return f"{stated}{_marks(cited)}{frame.stop}"
    place = next(place for place in places if passages[place].id == quote.passage)
    before, after = [other for other in cited if other < place], [other for other in cited if other > place]
    words = _shown_words(quote, question, answer)
    return f"{frame.quote.format(f'{stated}{_marks(before)}', words)}{_marks([place, *after])}"


def cite_steps(
    question: str, answer: str, steps: Sequence[TreeNode], places: Sequence[int], passages: Sequence[Passage]
) -> str:
    """Return the sentence for an answer that follows from steps, which it quotes.

    Of `places`, those of all steps, the ones that are not quoted are cited too.
    """
    from hoptree.text.answer_fit import quote_from

    numbers = {passage.id: place for place, passage in enumerate(passages)}
    quotations: dict[tuple[int, str], None] = {}
    for step in steps[:_MAX_CITATIONS]:
        read = [passages[numbers[name]] for name in step.evidence if name in numbers]
        if quote := quote_from(read, step.answer, step.resolved or step.question):
            words = _shown_words(quote, step.resolved or step.question, step.answer)
            quotations[numbers[quote.passage], words] = None
    quoted = {place for place, _ in quotations}
    others = sorted({*places} - quoted)[: _MAX_CITATIONS - len(quoted)]
    frame = frame_of(question, answer)
    text = stated = f"{state_answer(question, answer)}{_marks(others)}"
    for place, words in quotations:
        quoted_words = frame.quote.format(text, words)
        text = quoted_words if text == stated else f"{text} {quoted_words[len(text) :].lstrip(':： ')}"
        text += _marks([place])
    return text if quotations else f"{text}{frame.stop}"


def _shown_words(quote: Quote, question: str, answer: str) -> str:
    """Return a quoted sentence, cut around the answer, without citations of its own."""
    from hoptree.text.answer_fit import shorten_row

    return cut_around(shorten_row(CITATIONS.sub("[…]", quote.text), question, answer), answer, MAX_QUOTE_CHARS)


def _marks(places: Sequence[int]) -> str:
    return f" {''.join(f'[{place + 1}]' for place in places)}" if places else ""


def cut_around(text: str, answer: str, max_chars: int, asked: str = "") -> str:
    """Return a text on one line, cut around the answer and the words `asked` for."""
    if "\n" in text:
        from hoptree.text.line_breaks import drop_mail_head

        text = drop_mail_head(text, answer)
    text = " ".join(text.split())
    if len(text) <= max_chars:
        return text
    from hoptree.text.answer_fit import best_stretch

    begin, stop = best_stretch(text, answer, f"{asked} {answer}", max_chars)
    start = max(0, min((begin + stop - max_chars) // 2, len(text) - max_chars))
    start = (text.find(" ", start, min(start + _MAX_WORD_CHARS, begin)) + 1 or start) if start else 0
    end = start + max_chars
    end = (max(text.rfind(" ", max(end - _MAX_WORD_CHARS, stop), end), 0) or end) if end < len(text) else len(text)
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
