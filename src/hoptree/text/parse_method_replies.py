"""Parse replies of Search-R1, GenGround, CompAct, CoK and DyPlan."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Literal

from hoptree.core.values import Answer, Passage
from hoptree.text.loose_json import MAX_REPLY_CHARS, read_json
from hoptree.text.names import sentence_spans
from hoptree.text.parse import MAX_ANSWER_CHARS, clean_answer, gives_answer, looks_unanswered, question_key
from hoptree.text.parse_dialogue import DialogueTurn, first_line, read_answer, read_dialogue
from hoptree.text.uncertainty import agreement

_MAX_ACTION_CHARS = 500
_TAG = re.compile(r"<\s*+(?P<close>/?)\s*+(?P<name>search|answer|information)\s*+>", re.IGNORECASE)
_ANY_TAG = re.compile(r"<(?=\s*+/?\s*+(?:search|answer|information|think)\s*+>)", re.IGNORECASE)
_THOUGHT_END = "</think>"
_PLACEHOLDERS = {"search": "query", "answer": "answer"}  # the words that the instructions have inside the tags


@dataclass(frozen=True, slots=True)
class Action:
    """What a model does next; not `closed` if the closing tag is missing."""

    kind: Literal["search", "answer", "none"] = "none"
    text: str = ""
    end: int = 0
    closed: bool = True

    def within(self, reply: str) -> str:
        """Return a reply up to the end of the action, with the tag that closes it."""
        return reply[: self.end].rstrip() + ("" if self.closed else f"</{self.kind}>")


def read_action(text: str) -> Action:
    """Return the first action in a reply; of several answers in a row the last.

    It is searched for after the thoughts first, then within them. An unclosed tag reaches to the next tag, or to the
    end of its line. Other tags inside an action are dropped. Empty actions, and the example of the instructions
    (<search> query </search>), do not count.
    """
    text = text[:MAX_REPLY_CHARS]
    thought_end = text.rfind(_THOUGHT_END)
    action = _first_action(text, thought_end + len(_THOUGHT_END)) if thought_end >= 0 else Action()
    return action if action.kind != "none" else _first_action(text, 0)


def _first_action(text: str, place: int) -> Action:
    answer = Action(end=len(text))
    while tag := _TAG.search(text, place):
        place = tag.end()
        name = tag["name"].casefold()
        if name == "information":  # the model invents search results
            return answer if answer.text else Action(end=tag.start())
        if tag["close"]:
            continue
        action = _action_at(text, name, place)
        place = action.end
        if action.text and name == "search":
            return answer if answer.text else action
        answer = action if action.text else answer
    return answer


def _action_at(text: str, name: str, start: int) -> Action:
    """Return the action after an opening tag."""
    nested = 0
    for tag in _TAG.finditer(text, start):
        if tag["name"].casefold() == "information":
            break
        same = tag["name"].casefold() == name
        if same and not tag["close"]:  # begun again
            start, nested = tag.end(), 0
        elif not tag["close"]:
            nested += 1
        elif same:
            return _make_action(name, text[start : tag.start()], tag.end(), closed=True)
        elif not nested:
            break
    following = _TAG.search(text, start)
    inside = text[start : following.start() if following else len(text)]
    line_start = start + len(inside) - len(inside.lstrip())
    line = text[line_start : start + len(inside)].split("\n", 1)[0]
    return _make_action(name, line, line_start + len(line), closed=False)


def _make_action(name: str, inside: str, end: int, *, closed: bool) -> Action:
    content = " ".join(_TAG.sub(" ", inside).split())[:_MAX_ACTION_CHARS].strip()
    if content.rstrip(".").casefold() == _PLACEHOLDERS[name]:
        content = ""
    return Action("search" if name == "search" else "answer", content, end, closed)


def break_tags(text: str) -> str:
    """Return a text from outside with its tags made harmless."""
    return _ANY_TAG.sub("‹", text)


_MAX_ANSWER_WORDS = 20  # a longer text is not a bare answer
_LABEL = re.compile(r"\b(?P<name>answer|citation)(?:(?P<quoted>\"\s{0,3})|[\s*]{0,4}):", re.IGNORECASE)
_OBJECT_MARKS = '",}]` '  # between the text of one name and the next one, or at the object's end
PROSE = ("prose",)
_NO_ANSWER = frozenset(("", "none", "null", "nothing"))  # unless a citation supports the word
_INSUFFICIENT = re.compile(
    r"\b(?:insufficient|(?:no|not)\s+(?:enough|sufficient))\s+(?:information|evidence)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """An answer and its sentence; all empty if the documents hold no answer."""

    answer: str = ""
    citation: str = ""
    repairs: tuple[str, ...] = ()
    error: str = ""


def read_cited(text: str, *, bare: bool = False) -> CitedAnswer:
    """Read answer and citation; with `bare`, prose and long answers are errors."""
    text = text[:MAX_REPLY_CHARS].strip()
    fields, repairs = _fields(text)
    answer, citation = clean_answer(fields.get("answer", "")), fields.get("citation", "")
    if _INSUFFICIENT.search(answer or text) or (text and looks_unanswered(answer or text)):
        return CitedAnswer()
    if "answer" in fields and "bare" not in repairs and not citation and question_key(answer) in _NO_ANSWER:
        return CitedAnswer()
    if bare and repairs == PROSE:
        return CitedAnswer(error="there is no object in it", repairs=PROSE)
    if not any(char.isalnum() for char in answer):
        return CitedAnswer(error="there is no answer in it", repairs=repairs)
    if bare and (count := len(answer.split())) > _MAX_ANSWER_WORDS:
        return CitedAnswer("", citation, repairs=repairs, error=f"the answer has {count} words")
    return CitedAnswer(answer, citation, repairs=repairs)


def _fields(text: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the fields of a reply by name, and the repairs."""
    reading = read_json(text)
    value = reading.value[0] if isinstance(reading.value, list) and len(reading.value) == 1 else reading.value
    if isinstance(value, dict):
        return {str(name).casefold(): _as_text(part) for name, part in value.items()}, reading.repairs
    if fields := _labelled(text):
        return fields, ()
    if "{" in text:
        return {}, ()
    if len(text.split()) <= _MAX_ANSWER_WORDS:
        return {"answer": first_line(text)}, ("bare",)
    first = next((text[start:end] for start, end in sentence_spans(text)), "")
    return {"answer": first, "citation": " ".join(text.split())[:MAX_ANSWER_CHARS]}, PROSE


def _labelled(text: str) -> dict[str, str]:
    """Return the text after the first occurrence of each label."""
    marks = list(_LABEL.finditer(text))
    fields: dict[str, str] = {}
    for mark, following in zip_longest(marks, marks[1:]):
        content = text[mark.end() : following.start() if following else len(text)]
        if mark["quoted"]:
            content = " ".join(content.split()).rstrip(_OBJECT_MARKS)
        fields.setdefault(mark["name"].casefold(), first_line(content))
    return fields


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(filter(None, map(_as_text, value)))
    return " ".join(str(value).split()) if isinstance(value, str | int | float) else ""


def cited_passage(cited: CitedAnswer, passages: Sequence[Passage]) -> Passage | None:
    """Return the passage with most words, at least half, of citation or else answer."""
    return _sharing(cited.citation, passages) or _sharing(cited.answer, passages)


def _sharing(words: str, passages: Sequence[Passage]) -> Passage | None:
    texts = [f"{passage.title} {passage.text}" for passage in passages]
    place = max(range(len(texts)), key=lambda place: agreement(words, texts[place]), default=None)
    wanted = set(question_key(words).split())
    if place is None or not wanted:
        return None
    shared = wanted & set(question_key(texts[place]).split())
    return passages[place] if 2 * len(shared) >= len(wanted) else None


_LINE_START = r"(?:part[ \t])?[ \t#*_\d.)–-]{0,20}"
_EVALUATION_NAME = r"evaluation(?:[ \t]of[ \t](?:the|this)[ \t]summary)?"
# A heading is followed by a colon or the tag, or is alone on its line.
_HEADING_END = r"[ \t*_]*(?::[\s*_]*|(?=\n|\[|\Z))"
_HEADING = re.compile(
    rf"(?:\A|\n){_LINE_START}(?:(?P<summary>summary)|question|(?:source )?documents|{_EVALUATION_NAME}){_HEADING_END}",
    re.IGNORECASE,
)
_EVALUATION = re.compile(
    rf"\b{_EVALUATION_NAME}[\s*_]*:[\s*_]*|(?:\A|\n){_LINE_START}{_EVALUATION_NAME}{_HEADING_END}", re.IGNORECASE
)
_SUMMARY_TAG = re.compile(r"\[\s*(?P<not>in|not )?complete\s*\]", re.IGNORECASE)
_EITHER = re.compile(r"[\s/|,]*(?:or\b)?\s*", re.IGNORECASE)
# Without brackets a tag counts only alone, in capitals, or as a predicate of the summary: "does not give complete
# details" is none.
_BARE_TAGS = (
    re.compile(r"\W*(?P<not>in|not )?complete\b(?=\s*(?:[.,:;!–—\n-]|\Z))", re.IGNORECASE),
    re.compile(r".*?\b(?P<not>IN|NOT |not )?COMPLETE\b", re.DOTALL),
    re.compile(r".*?\bsummary\s(?:is|seems|appears|looks)\s(?P<not>in|not )?complete\b", re.IGNORECASE | re.DOTALL),
)


@dataclass(frozen=True, slots=True)
class Compression:
    """A summary, its evaluation, and whether it is complete."""

    summary: str = ""
    evaluation: str = ""
    complete: bool = False

    @property
    def line(self) -> str:
        """Summary, evaluation and tag in one line, for people."""
        tag = "[COMPLETE]" if self.complete else "[INCOMPLETE]"
        return f"Summary: {self.summary or '(none)'} Evaluation: {self.evaluation or '(no reason)'} {tag}"


def read_compression(text: str) -> tuple[Compression, tuple[str, ...]]:
    """Return a reply's summary and evaluation, and the names of missing parts."""
    text = _flatten_object(text[:MAX_REPLY_CHARS].strip())
    heading = _HEADING.search(text)
    if heading and heading["summary"] and not _SUMMARY_TAG.search(text, 0, heading.start()):
        text = text[heading.end() :]
    split, tag = _EVALUATION.search(text), _SUMMARY_TAG.search(text)
    ends = [match.start() for match in (split, tag) if match]
    summary = _until_heading(text[: min(ends, default=len(text))])
    if not summary and (later := next((match for match in _HEADING.finditer(text) if match["summary"]), None)):
        summary = _until_heading(text[later.end() :])
    evaluation = _until_heading(text[split.end() :] if split else text[tag.start() :] if tag else "")
    verdict = _verdict(evaluation)
    reason = " ".join(_SUMMARY_TAG.sub(" ", evaluation).split()).lstrip(" .,:;*_–—-")
    parts = {"summary": summary, "evaluation": evaluation, "tag": verdict is not None, "reason": reason}
    compression = Compression(summary, reason, bool(verdict and summary))
    return compression, tuple(name for name, present in parts.items() if not present)


def _flatten_object(text: str) -> str:
    """Return a JSON reply as text with headings; others unchanged."""
    value = read_json(text).value if text.lstrip("`json \n").startswith("{") else None
    if not isinstance(value, dict):
        return text
    parts = {str(name).casefold(): part for name, part in value.items() if isinstance(part, str)}
    if "summary" not in parts:
        return text
    return f"Summary: {parts['summary']}\nEvaluation: {parts.get('evaluation', '')}"


def _verdict(evaluation: str) -> bool | None:
    """Return whether an evaluation calls the summary complete; None if it is unclear."""
    tags = list(_SUMMARY_TAG.finditer(evaluation))
    if len(tags) > 1 and _EITHER.fullmatch(evaluation, tags[0].end(), tags[1].start()):
        return None
    match = tags[0] if tags else next(filter(None, (bare.match(evaluation) for bare in _BARE_TAGS)), None)
    return None if match is None else not match["not"]


def _until_heading(text: str) -> str:
    following = _HEADING.search(text, 1)
    return " ".join((text[: following.start()] if following else text).strip("*_# \n\t").split())


_MAX_REPLY_CHARS = 10_000
_MAX_RATIONALE_CHARS = 600
_MAX_ADDED_CHARS = 200  # a corrected rationale may be this much longer than twice the original
_STEP_MARK = re.compile(
    r"\W{0,4}(?:(?:first|second|third|fourth|fifth|sixth|last|final)(?:ly)?|next|then)\s{0,3}[,:]\s*"
    r"|\W{0,4}(?:step|rationale)\s*\d{1,2}\s*[.:)]\s*|\W{0,4}\d{1,2}[.)]\s+(?=\D)",
    re.IGNORECASE,
)
_RATIONALE_LABEL = re.compile(
    r"\W{0,4}(?:(?:the\s+)?(?:edited|corrected|revised|mended|new)\s+)?(?:sentence|rationale|statement)s?\W{0,4}:\s*",
    re.IGNORECASE,
)
_NAMES_SOURCES = re.compile(r"\b(?:knowledge|information|texts?|facts?|documents?|passages?|sentence)\b", re.IGNORECASE)
_UNCHANGED = re.compile(
    r"\W*(?:(?:no|needs no|without)\s+(?:changes?|edits?|corrections?)\b.*|unchanged|same|correct|ok|none|n/a"
    r"|the (?:sentence|rationale|statement) (?:is|remains) (?:correct|unchanged|the same|right|accurate|true)\b.*)\W*",
    re.IGNORECASE | re.DOTALL,
)
_QUOTES = ' \t"“”`*'
_SENTENCE_ENDS = (".", "!", "?", "”", '"', ")")


def read_rationales(text: str) -> tuple[str, ...]:
    """Return the steps before the answer, by marks (First, Step 3, 4.) or sentences."""
    rationales: list[str] = []
    marked = False
    for start, end in sentence_spans(text[:_MAX_REPLY_CHARS]):
        sentence = text[start:end]
        if gives_answer(sentence):
            break
        mark = _STEP_MARK.match(sentence)
        content = " ".join(sentence[mark.end() if mark else 0 :].split())
        if not question_key(content):
            continue
        if marked and not mark:
            rationales[-1] = f"{rationales[-1]} {content}"
        else:
            rationales.append(content)
        marked = marked or bool(mark)
    return tuple(rationale[:_MAX_RATIONALE_CHARS] for rationale in rationales)


def read_corrected(reply: str, rationale: str, *, cut: bool = False) -> tuple[str, bool]:
    """Return the corrected rationale, and whether the reply could be read."""
    label = _RATIONALE_LABEL.match(reply[:_MAX_REPLY_CHARS])
    body = reply[label.end() if label else 0 : _MAX_REPLY_CHARS]
    lines = [line.strip() for line in body.splitlines() if question_key(line)]
    line = lines[0].strip(_QUOTES) if lines else ""
    if _UNCHANGED.fullmatch(line) or (looks_unanswered(line) and _NAMES_SOURCES.search(line)):
        return rationale, bool(line)
    sentences = [line[start:end] for start, end in sentence_spans(line)]
    if cut and len(lines) == 1 and sentences and not sentences[-1].endswith(_SENTENCE_ENDS):
        sentences = sentences[:-1]
    corrected = " ".join(read_rationales(" ".join(sentences)))
    too_long = len(corrected) > 2 * len(rationale) + _MAX_ADDED_CHARS
    if not corrected or len(set(sentences)) < len(sentences) or too_long:
        return rationale, False
    return (corrected if corrected.endswith(_SENTENCE_ENDS) else f"{corrected}."), True


_THOUGHT_LABELS = re.compile(
    r"(?P<final>\bFINISH(?:ED)?\b[\s*]{0,3}[\[({:]?|(?im:^)\W{0,4}(?i:finish)[\s*]{0,3}[\[({:]"
    r"|(?i:\bfinal\s+answer(?:\s+is\b[\s*]{0,3}:?|[\s*]{0,3}:)))"
    r"|(?P<ask>(?i:\bthought[\s*]{0,3}:|\b(?:thought|step|question)\s{0,3}\d{1,2}[\s*]{0,3}[:.)]))"
    r"|(?P<reply>(?i:\banswer[\s*]{0,3}:|\banswer\s{0,3}\d{1,2}[\s*]{0,3}[:.)]))"
)
_BRACKETS = {"]": "[", ")": "(", "}": "{"}


def read_deduced(text: str, asked: Sequence[str] = ()) -> DialogueTurn:
    """Read new thoughts with answers up to FINISH[answer]."""
    turn = read_dialogue(text, _THOUGHT_LABELS, {question_key(question) for question in asked})
    depth = dict.fromkeys(_BRACKETS.values(), 0)  # the answer may hold brackets in pairs
    for place, char in enumerate(turn.final):
        if char in depth:
            depth[char] += 1
        elif opening := _BRACKETS.get(char):
            if not depth[opening]:
                return replace(turn, final=turn.final[:place].strip(" \"'“”"))
            depth[opening] -= 1
    return turn


FINAL = "Final answer:"
_FINAL_LABEL = re.compile(re.escape(FINAL), re.IGNORECASE)


def read_final(text: str) -> Answer:
    """Read what follows the last "Final answer:"."""
    return replace(read_answer(split_final(text)[1]), raw=text)


def split_final(text: str) -> tuple[str, str]:
    """Split a reply at its last "Final answer:"."""
    *_, label = (None, *_FINAL_LABEL.finditer(text))
    before, final = (text[: label.start()], text[label.end() :]) if label else (text, "")
    return before.rstrip(), final if clean_answer(final) else ""


_CORRECT_QUERY = re.compile(r"(?<!in)correct query\s*:", re.IGNORECASE)
_WRONG_QUERY = re.compile(r"incorrect query\b", re.IGNORECASE)
_QUERY_TERM = re.compile(r"\b(wdt?|p|ps)\s?:\s?(?:/([^/\n]{1,200})/|([A-Za-z][\w-]{0,199}))")


def read_graph_query(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the things and relations that a SPARQL query names."""
    text = _WRONG_QUERY.split(_CORRECT_QUERY.split(text[:MAX_REPLY_CHARS])[-1])[0]
    terms: dict[bool, dict[str, None]] = {True: {}, False: {}}
    for kind, named, bare in _QUERY_TERM.findall(text):
        name = " ".join((named or bare.replace("_", " ")).split())
        if name:
            terms[kind == "wd"][name] = None
    return tuple(terms[True]), tuple(terms[False])
