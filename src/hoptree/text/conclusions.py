"""Which sentence of a chain of thought gives the answer, and which ones state facts."""

from __future__ import annotations

import re

from hoptree.core.values import Answer
from hoptree.text.parse import clean_answer, looks_unanswered
from hoptree.text.sentences import sentence_spans
from hoptree.text.tokens import Span

# "the answer is not clear", "… is Unknown."; but "The answer is Not Fade Away".
_NO_ANSWER = (
    r"\W{0,9}(?:(?:still|also|therefore|currently|simply)\s+)?\W{0,4}(?-i:"
    r"(?:not|unclear|unknown|uncertain|undetermined|unspecified|unavailable|unanswerable)\b"
    r"|(?:Unknown|Unclear|Uncertain|N/A)(?=[^\w\s]+(?:\s|\Z)|\s*\Z))"
)
_ANSWER_PHRASE = re.compile(rf"\banswer\s+is\b(?!{_NO_ANSWER})[\s:]*+(?=\W*+\w)", re.IGNORECASE)
_BOXED = re.compile(r"\$?\\boxed\{(?:\\text\{)?([^{}]*)\}{1,2}\$?")  # as models trained on arithmetic write it
_ASKS_YES_NO = re.compile(
    r"\W*(?:is|are|am|was|were|do|does|did|has|have|had|can|could|will|would|shall|should|may|might|must)\b"
    r"|\W*(?:is|are|was|were|do|does|did|has|have|had|ca|could|wo|would|should)n['’]t\b",
    re.IGNORECASE,
)
# "yes, because …", "no it is not"; but "No Country for Old Men".
_YES_NO = re.compile(
    r"(yes|no)\b(?=\s*[,;:.!(–—-]|\s+(?:because|since|as|but|it|he|she|they|there|both|neither)\b)", re.IGNORECASE
)
_LEAD = "So the answer is"
_CONCLUDES = re.compile(
    r"\W*(?:thus|so|therefore|hence|consequently|accordingly|in conclusion|this means|that means|it follows)\b",
    re.IGNORECASE,
)
# "1946 - 1937 = 9", "12 + 3", "1937 is before 1946"; not "from 1914-1918".
_CALCULATES = re.compile(
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
    """Return the answer behind a text's last "the answer is", up to the end of that sentence.

    A yes-no question is answered by yes or no alone, without the reason that may follow.
    """
    rest = ""
    for phrase in _ANSWER_PHRASE.finditer(text):
        rest = text[phrase.end() :]
    rest = _BOXED.sub(r"\1", rest.replace("**", "")).strip()
    spans = sentence_spans(rest)
    answer = clean_answer(clean_answer(rest[: spans[0][1]]).strip("{} ")) if spans else ""
    if _ASKS_YES_NO.match(question) and (short := _YES_NO.match(answer)):
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
    return f"{before_answer(text)} {_LEAD}".strip()


def states_fact(sentence: str) -> bool:
    """Whether a sentence says something that documents may, and is no conclusion or calculation."""
    return not (_CONCLUDES.match(sentence) or _CALCULATES.search(sentence))
