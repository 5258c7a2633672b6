"""Parse replies: answers, refusals, conclusions and numbers; never raises."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from hoptree.core.lazy import lazy_re
from hoptree.core.values import Answer
from hoptree.text.loose_json import MAX_REPLY_CHARS, parse_json, read_json
from hoptree.text.names import sentence_spans
from hoptree.text.tokens import Span

_LEAD = lazy_re(r"\banswer(?:\s{1,9}is\b|\s{0,9}:)[\s:*]*", re.IGNORECASE)
_ABBREVIATED = lazy_re(r"(?:\b(?:[^\W\d_]\.)+|\b(?:Jr|Sr|Inc|Ltd|Co|Corp|St|Bros|etc|vol)\.)\Z", re.IGNORECASE)
# A list begins at 1; "12. May 1950" is a date.
_BULLET = lazy_re(r"^(?:[-*•]\s+|1[.)]\s+(?!jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|\d))", re.IGNORECASE)
_QUOTES = "\"'“”‘’«»`*"
_BOLD = lazy_re(r"(?<!\S)\*\*(?=\S)|(?<=\S)\*\*(?!\w)")
_LOOSE = " \t\r\n.,:;!?)]–—-*"
"""Characters between a yes and what follows it."""
_MAX_LIST_ITEMS = 8
MAX_ANSWER_CHARS = 1_000
"""Characters of an answer that are kept."""


def extract_conclusion(text: str) -> str:
    """Return what follows the last "answer is" or "answer:"; the whole reply without one."""
    text = text[:MAX_REPLY_CHARS].strip()
    end = 0
    for lead in _LEAD.finditer(text):
        end = lead.end()
    return text[end:].strip() or text


def clean_answer(text: str) -> str:
    """Return the bare answer: first line after the last "answer is", without quotes and full stop."""
    text = text[:MAX_REPLY_CHARS].strip()
    if listed := _listed(text):
        return listed
    lines = extract_conclusion(text).splitlines()
    line = lines[0].strip()[:MAX_ANSWER_CHARS] if lines else ""
    line = _BOLD.sub("", _BULLET.sub("", line)).strip()
    previous = None
    while line != previous:
        previous = line
        line = line.strip()
        ends = line[:1] + line[-1:]
        if len(line) > 1 and set(ends) <= set(_QUOTES) and not set(ends) & set(line.strip(ends)):
            line = line[1:-1]
        if line.endswith(".") and not line.endswith("..") and not _ABBREVIATED.search(line):
            line = line[:-1]
    return line


def _listed(text: str) -> str:
    """Return a JSON list of names as "a, b and c", or ""."""
    if not text.startswith("["):
        return ""
    value = parse_json(text).value
    if not isinstance(value, list) or not value or not all(isinstance(item, str | int | float) for item in value):
        return ""
    items = [str(item) for item in value[:_MAX_LIST_ITEMS]]
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


_IDENTIFIER = lazy_re(r"rag[\s\\_-]*required", re.IGNORECASE)
_SOFT_REFUSAL = lazy_re(
    r"\bi(?:\s+am|['’]m)\s+(?:unsure|uncertain|unable)\b"
    r"|\bi(?:\s+(?:do\s+not|don['’]t|cannot|can['’]t|am\s+not)|['’]m\s+not)\b[^.]{0,40}"
    r"\b(?:know|sure|certain|able|answer|aware|familiar|have|provide)",
    re.IGNORECASE,
)


_BARE_REFUSAL = lazy_re(r"(?:sorry,? ?)?(?:not sure|unsure|uncertain|no idea|not certain|don['’]t know|i have no idea)")


def retrieval_trigger(reply: str) -> str:
    """Return why a Confident QA reply asks for retrieval: "hard" (identifier or empty), "soft" (refusal) or ""."""
    if not reply.strip() or _IDENTIFIER.search(reply):
        return "hard"
    bare = reply.strip(" .!\"'“”`*\n").casefold()
    return "soft" if bare in _UNKNOWN or _BARE_REFUSAL.fullmatch(bare) or _SOFT_REFUSAL.search(reply) else ""


_NEGATION = lazy_re(r"\b(?:not|no|cannot|unable|without|none|neither|nor)\b|n['’]t\b", re.IGNORECASE)
_MISSING = lazy_re(
    r"\b(?:found|find|mention\w*|provid\w*|contain\w*|specif\w*|includ\w*|indicat\w*|given|available|information|"
    r"answer\w*|determin\w*)\b",
    re.IGNORECASE,
)
# "United States" is a place: only the verb counts.
_STATED = lazy_re(r"\bstat(?:e|ed|es)\b")
_SENTENCE = lazy_re(r"(?<=[.!?;])\s+|\n+")
# "the answer is not there", "there is no answer: …"; but "The answer is Not Fade Away".
_NO_CONCLUSION = lazy_re(r"\b(?:[Nn]o|[Nn]ot an|[Ww]ithout an)\s+answer\b|\banswer\s+is\s+not\b")
_UNKNOWN = frozenset(("unknown", "n/a", "na", "none given", "unanswerable"))
_UNKNOWN |= {f"not {verb}" for verb in ("found", "available", "mentioned", "specified", "provided")}
_UNKNOWN |= {f"not {verb}" for verb in ("stated", "given", "known", "told")}


# What assistants are trained to say; but "I'm Sorry" is a song.
_DECLINED = lazy_re(
    r"\bsorry,?\s+(?:but\s+)?I\s*(?:can|am|['’]m|do|won)\w*|"
    r"\bI\s*(?:can(?:no|['’])t|am\s+(?:un|not\s+)able\s+to|['’]m\s+(?:un|not\s+)able\s+to|won['’]t)\s+"
    r"(?:assist|comply|fulfil|answer|help\s+(?:you\s+)?with)",
    re.IGNORECASE,
)


_SOURCES = r"(?:documents?|passages?|texts?|context|sources?|articles?|excerpts?|paragraphs?|evidence)"
_TELLS = (
    r"(?:say|says|tell|tells|told|name|names|list|lists|give|gives|show|shows|reveal|reveals|explain|explains|describe|"
    r"describes|discuss|discusses|address|identify|identifies|confirm|confirms|know|cover|covers)"
)
# In the words of whoever has read: "I Can't Tell You Why" is a song, and "She did not tell her husband" an answer.
_OWN_WORDS = lazy_re(
    rf"\b{_SOURCES}\b(?:\s+[a-z]+){{0,4}}?\s+(?:do(?:es)?|did|can|could)(?:\s+not|n['’]t|not)\s+{_TELLS}\b|"
    rf"\bit\s+does(?:\s+not|n['’]t)\s+{_TELLS}\b|"
    rf"\b(?:[Nn]one\s+of\s+the|[Nn]o|[Nn]either|[Nn]othing\s+in\s+the)(?:\s+[a-z]+)?\s+{_SOURCES}\s+{_TELLS}\b|"
    rf"(?:\b[Nn]ot|n['’]t)\s+(?:[a-z]+\s+)?in\s+(?:any\s+of\s+)?(?:the|these|those|this|any)\s+(?:[a-z]+\s+)?{_SOURCES}\b|"
    r"\bI\s+(?:can['’]t|cannot|(?:can|could|do|did)(?:\s+not|n['’]t))\s+(?:tell|say|know)\b|"
    r"\bI(?:\s+a|['’])m\s+not\s+(?:sure|certain)\b|"
    r"\A\W*(?:[Cc]annot|[Cc]an['’]t)\s+(?:tell|say)\b\W*\Z|\A\W*[Ii]t\s+is\s+not\s+known\b\W*\Z"
)


def find_refusal(text: str) -> str:
    """Return the words by which a reply says that there is no answer, or "".

    A bare "No" or "None" is an answer, and so is "Not Fade Away": a negation and a word such as "found" must stand in
    one sentence of three words or more, or the sources be said not to tell. After "the answer is …" only the rest
    counts.
    """
    text = text[:MAX_REPLY_CHARS].strip()
    if not text:
        return "empty"
    if refusal := _IDENTIFIER.search(text):
        return refusal[0]
    if refusal := _NO_CONCLUSION.search(text) or _DECLINED.search(text):
        return refusal[0]
    text = extract_conclusion(text)
    bare = text.strip(" .!\"'“”`*").casefold()
    if bare in _UNKNOWN:
        return bare
    for sentence in _SENTENCE.split(text) if len(text.split()) > 2 else ():
        negation = _NEGATION.search(sentence)
        if negation and (missing := _MISSING.search(sentence) or _STATED.search(sentence)):
            return f"{negation[0]} … {missing[0]}"
    own = _OWN_WORDS.search(text)
    return own[0] if own else ""


def looks_unanswered(text: str) -> bool:
    """Whether a reply says that it holds no answer; the rule of all methods."""
    return bool(find_refusal(text))


# But "Unknown Pleasures" and "The Unknown Soldier".
_NOT_KNOWN = lazy_re(
    r"(?:(?:it|this|that|the answer)(?:\s+is|\s+was|['’]s)\s+)?(?:currently\s+|still\s+|yet\s+)?"
    r"(?:(?:unknown|undetermined|unclear|uncertain|unspecified)(?=\W*\Z|\s*[(\[,;.–—]|\s+-|\s+(?:based|from|at|in|as|"
    r"because|since|given|whether|without)\b)"
    r"|(?:not\s+(?:known|sure|certain|clear|determined|applicable|available)|to\s+be\s+(?:determined|confirmed|announced)|"
    r"tb[da]|no\s+idea|unsure)\W*\Z)",
    re.IGNORECASE,
)
# As a sentence has it: "I Don't Know How to Love Him" is a song.
_I_DO_NOT = lazy_re(r"(?:sorry,? (?:but )?)?[Ii] (?:do not|don['’]t|cannot|can['’]t|am not|have no|am un\w+)\b")
_OF_WHAT_WAS_GIVEN = lazy_re(
    r"\b(?:information|evidence|passages?|texts?|context|knowledge|provided|given|determin\w+|answer)\b", re.IGNORECASE
)


def says_unknown(text: str) -> bool:
    """Whether an answer says that none is known; longer ones must say so of what they were given.

    That something is missing may be the answer: "The documents were never found".
    """
    text = " ".join(text[:MAX_ANSWER_CHARS].split())
    bare = extract_conclusion(text).strip(" .!\"'“”`*")
    if _NOT_KNOWN.match(bare) or _BARE_REFUSAL.fullmatch(bare.casefold()) or _I_DO_NOT.match(bare):
        return True
    return bool(text) and looks_unanswered(text) and (len(text.split()) < 4 or bool(_OF_WHAT_WAS_GIVEN.search(text)))


_YES = lazy_re(r"^\W*(?:yes|true|correct|yeah|yep|indeed)\b", re.IGNORECASE)
_NO = lazy_re(r"^\W*(?:no|false|incorrect|not|nope)\b(?!\s*\.?\s*\d)", re.IGNORECASE)
UNSURE = lazy_re(
    r"\b(?:unknown|unclear|not (?:known|sure|stated|mentioned|given|clear)|no (?:information|mention|evidence))\b", re.I
)
"""What an answer says that is neither yes nor no."""


def read_yes_no(text: str) -> bool | None:
    """Return whether a text begins with yes or no; None if it says neither or both."""
    if UNSURE.search(text):
        return None
    if _YES.match(text):
        return None if re.search(r"\byes\b.{0,12}\bno\b", text[:40], re.IGNORECASE) else True
    return False if _NO.match(text) else None


_KNOW = frozenset(("yes", "know", "known"))
_FIRST_WORD = lazy_re(r"\W*([^\W\d_]+)(?!['’][^\W\d_])[^\w\s]*", re.DOTALL)
_EITHER = lazy_re(r"\W*yes\s*(?:/|\bor\b)\s*no\b", re.IGNORECASE)
# What says no more than yes: "I can answer that from my own knowledge.", "sure", "I know that" before what is known.
_ABILITY = lazy_re(
    r"(?:and\s+)?(?:"
    r"i\s+(?:do\s+)?(?:know|think|believe|recall|remember)\s+(?:that\s+)?"
    r"(?=(?:it|he|she|they|there)\s+(?:is|was|are|were|has|had)\b|(?<=that\s)(?-i:[A-ZÀ-ÞĀ-Ž\d]))"
    r"|(?:using|based\s+on|from|with|to)\s+my\b[^.!?:,\n]*(?:[.!?:,\n]+\s*|\Z)"
    r"|(?:sure|certainly|definitely|absolutely|of\s+course|indeed|i\s+(?:do|am|can|think\s+so|believe\s+so)"
    r"|(?:it|this|that)(?:\s+is|['’]s)\s+(?:known|correct|right))"
    r"(?:[.!?:,\n]+\s*|\Z)"
    r"|(?:i\s+(?:do\s+)?(?:know|recall|remember|can|could|have|need|am\s+(?:able|aware|certain|confident|familiar|sure))\b"
    r"|i['’](?:m\s+(?:able|aware|certain|confident|familiar|sure)|ve)\b"
    r"|(?:it|this|that)(?:\s+is|['’]s)\s+(?:possible|something\s+i)\b"
    r"|(?:it|that|(?:this|the)(?:\s+question)?)\s+can\s+be\s+answered\b)"
    r"[^.!?:\n]*?(?:[.!?:\n]+\s*|,\s*(?=(?:it|he|she|they)\s+(?:is|was|are|were)\b)|\Z)"
    r")",
    re.IGNORECASE,
)
_NEXT_QUESTION = lazy_re(r"(?:\A|\n)\W{0,4}question\b[^:\n]{0,9}:", re.IGNORECASE)
_TAKEN_BACK = lazy_re(r"(?:but|however|although|though)\b", re.IGNORECASE)
_DOUBTFUL = lazy_re(r"\b(?:not|no|never|neither|only|different|but|however|although)\b|n['’]t\b", re.IGNORECASE)
_ASKS_YES_NO = lazy_re(
    r"\W*(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|may|might|must)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class SelfKnowledge:
    """Whether a model says it knows, its answer, and its least token probability."""

    known: bool
    answer: str = ""
    confidence: float | None = None


def read_self_knowledge(text: str, question: str = "") -> SelfKnowledge:
    """Read the reply of a self-knowledge model: a first word "yes" or "know" means known.

    For a yes-no question the yes is part of the answer. If what follows makes it doubtful that more was meant than
    "yes, I know", no answer is taken, so that it is asked for again.
    """
    text = text[:MAX_REPLY_CHARS].strip()
    first = _FIRST_WORD.match(text)
    if first is None or first[1].casefold() not in _KNOW or _EITHER.match(text):
        return SelfKnowledge(False)
    answer = _answer_after_yes(text[first.end() :])
    key = question_key(answer)
    if not _ASKS_YES_NO.match(question):
        return SelfKnowledge(True, "" if key in ("yes", "no") else answer)
    if not key or key.split()[0] in ("yes", "no"):
        return SelfKnowledge(True, answer)
    if first[1].casefold() != "yes" or _DOUBTFUL.search(answer):
        return SelfKnowledge(True)
    return SelfKnowledge(True, f"Yes{'. ' if answer[0].isupper() else ', '}{answer}")


def cut_at_next_question(text: str) -> str:
    """Cut off the next question, which small models go on to ask and answer."""
    following = _NEXT_QUESTION.search(text)
    return text[: following.start()] if following else text


def _answer_after_yes(text: str) -> str:
    """Return the answer that follows a yes, or ""."""
    rest = extract_conclusion(cut_at_next_question(text)).lstrip(_LOOSE)
    while ability := _ABILITY.match(rest):
        rest = rest[ability.end() :].lstrip(_LOOSE)
    if not any(char.isalnum() for char in rest) or _TAKEN_BACK.match(rest):
        return ""
    answer = clean_answer(" ".join(rest.split()))
    return "" if looks_unanswered(answer) or retrieval_trigger(answer) else answer


_MAX_LINES = 100
_ASKING = (
    r"(?:(?:in|on|at|of|for|to|by|from|with|under|during)\s+)?(?:who|whom|whose|what|which|when|where|why|how)\b"
    r"|(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)\b"
)
_ASKS = lazy_re(_ASKING, re.IGNORECASE)
# "C. S. Lewis" is a name: a letter with a full stop marks an item only before the words of a question.
_ITEM = lazy_re(
    r"^\s*(?:[-*•]\s+|\W{0,4}(?:q(?:uestion)?\s*|sub-?question\s*|step\s*)?\d{1,2}\s*[.):]\s*"
    rf"|\W{{0,4}}(?:[a-z]|[ivx]{{1,4}})(?:\)\s*|\.\s+(?={_ASKING})))+",
    re.IGNORECASE,
)
_NEXT_ITEM = lazy_re(r"(?<=\?)\s+(?=(?:step\s)?\d{1,2}[.):]\s|\(?[a-z]\)\s)", re.IGNORECASE)
_ITS_ANSWER = lazy_re(r"(?<=\?)\W{0,5}a(?:nswer)?\W{0,3}:.*", re.IGNORECASE)
_MARKS = "\"'“”‘’`*_ \t"


def read_questions(text: str) -> tuple[str, ...]:
    """Return the questions in a reply, each once: from a list, JSON, or its lines."""
    text = text[:MAX_REPLY_CHARS]
    value = read_json(text).value
    lines = _strings(value) if isinstance(value, dict | list) else []
    if not lines:
        # Models whose vocabulary has no line breaks, such as T5, write their list on one line.
        written = [part for line in text.splitlines() for part in _NEXT_ITEM.split(line)][:_MAX_LINES]
        lines = [line for line in written if _ITEM.match(line)]
        lines = lines or [part for line in written for part in re.split(r"(?<=\?)\s+", line)]
    questions: dict[str, str] = {}
    for line in lines:
        question = " ".join(_ITS_ANSWER.sub("", _ITEM.sub("", line.strip(_MARKS))).strip(_MARKS).split())
        if question.endswith("?") or (_ASKS.match(question) and not question.endswith(":")):
            questions.setdefault(question_key(question), question[:MAX_ANSWER_CHARS])
    return tuple(question for key, question in questions.items() if key)


def _strings(value: Any) -> list[str]:
    """Return the texts in nested lists and objects, in order."""
    texts: list[str] = []
    waiting = [value]
    while waiting and len(texts) < _MAX_LINES:
        item = waiting.pop()
        if isinstance(item, str):
            texts.append(item)
        elif isinstance(item, dict | list):
            waiting.extend(reversed(list(item.values()) if isinstance(item, dict) else item))
    return texts


def question_key(question: str) -> str:
    """Return the words of a question without case and punctuation, to compare spellings."""
    return " ".join(re.findall(r"\w+", question.casefold()))


# "the answer is not clear", "… is Unknown."; but "The answer is Not Fade Away".
_NO_ANSWER = (
    r"\W{0,9}(?:(?:still|also|therefore|currently|simply)\s+)?\W{0,4}(?-i:"
    r"(?:not|unclear|unknown|uncertain|undetermined|unspecified|unavailable|unanswerable)\b"
    r"|(?:Unknown|Unclear|Uncertain|N/A)(?=[^\w\s]+(?:\s|\Z)|\s*\Z))"
)
_ANSWER_PHRASE = lazy_re(rf"\banswer\s+is\b(?!{_NO_ANSWER})[\s:]*+(?=\W*+\w)", re.IGNORECASE)
_BOXED = lazy_re(r"\$?\\boxed\{(?:\\text\{)?([^{}]*)\}{1,2}\$?")  # as models trained on arithmetic write it
_ASKS_FOR_VERDICT = lazy_re(
    r"\W*(?:is|are|am|was|were|do|does|did|has|have|had|can|could|will|would|shall|should|may|might|must)\b"
    r"|\W*(?:is|are|was|were|do|does|did|has|have|had|ca|could|wo|would|should)n['’]t\b",
    re.IGNORECASE,
)
# "yes, because …", "no it is not"; but "No Country for Old Men".
_YES_NO = lazy_re(
    r"(yes|no)\b(?=\s*[,;:.!(–—-]|\s+(?:because|since|as|but|it|he|she|they|there|both|neither)\b)", re.IGNORECASE
)
_CONCLUSION_LEAD = "So the answer is"
_CONCLUDES = lazy_re(
    r"\W*(?:thus|so|therefore|hence|consequently|accordingly|in conclusion|this means|that means|it follows)\b",
    re.IGNORECASE,
)
# "1946 - 1937 = 9", "12 + 3", "1937 is before 1946"; not "from 1914-1918".
_CALCULATES = lazy_re(
    r"=\s{0,9}-?\d|\d\s{0,9}[<>+*×÷]\s{0,9}\d"
    r"|\A\W{0,9}\d[\d.,]{0,20}\s{1,9}(?:is|was|comes|came)\s{1,9}(?:\w{1,20}\s{1,9})?"
    r"(?:before|after|earlier|later|less|more|greater|smaller|larger|higher|lower|bigger|equal)\b"
    r"(?:\s{1,9}(?:than|to))?[^A-Za-z]*\Z",
    re.IGNORECASE,
)


def gives_answer(text: str) -> bool:
    """Whether a text says "the answer is" with an answer behind it."""
    return _ANSWER_PHRASE.search(text) is not None


def read_conclusion(text: str, question: str = "") -> Answer:
    """Return the answer in the sentence of the last "the answer is"."""
    rest = ""
    for phrase in _ANSWER_PHRASE.finditer(text):
        rest = text[phrase.end() :]
    rest = _BOXED.sub(r"\1", rest.replace("**", "")).strip()
    spans = sentence_spans(rest)
    answer = clean_answer(clean_answer(rest[: spans[0][1]]).strip("{} ")) if spans else ""
    if _ASKS_FOR_VERDICT.match(question) and (short := _YES_NO.match(answer)):
        answer = short[1]
    known = bool(answer) and not looks_unanswered(answer)
    return Answer(answer if known else "", text, "answered" if known else "unknown", "synthesis")


def answer_sentence(text: str) -> Span | None:
    """Return the place of the last sentence that gives an answer: it replaces earlier ones."""
    return next((span for span in reversed(sentence_spans(text)) if _ANSWER_PHRASE.search(text, *span)), None)


def before_answer(text: str) -> str:
    """Return a text without the sentence that gives its answer, and what follows it."""
    span = answer_sentence(text)
    return text[: span[0]].rstrip() if span else text


def led_to_answer(text: str) -> str:
    """Return a text that ends with "So the answer is", in place of the answer it gives."""
    return f"{before_answer(text)} {_CONCLUSION_LEAD}".strip()


def states_fact(sentence: str) -> bool:
    """Whether a sentence says something that documents may, and is no conclusion or calculation."""
    return not (_CONCLUDES.match(sentence) or _CALCULATES.search(sentence))
