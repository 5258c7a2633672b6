"""Parse replies: answers, refusals, conclusions and questions; never raises."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from hoptree.core.lazy import lazy_re
from hoptree.core.values import Answer
from hoptree.text.loose_json import MAX_REPLY_CHARS, parse_json, read_json
from hoptree.text.names import sentence_spans
from hoptree.text.tokens import UNSPACED, Span

# The verb is in lower case, or all is in capitals: "The Answer Is You" is a title.
_STAR = r"\*(?!\*{0,2}[a-z_][^*\n]{0,200}(?:\n|\Z))"  # no sign of an identifier, such as *args
_LEAD = lazy_re(
    r"\b(?:[Aa]nswer(?:\s{1,9}is\b|\s{0,9}:)|ANSWER(?:\s{1,9}IS\b|\s{0,9}:))"
    rf"(?:[\s:]|{_STAR})*"
)
_ABBREVIATED = lazy_re(
    r"(?:(?<!\A[-−@$%&\\#])(?<!\s[-−@$%&\\#])\b(?:[^\W\d_]\.)+|\b(?:Jr|Sr|Inc|Ltd|Co|Corp|St|Bros|etc|vol)\.)\Z",
    re.IGNORECASE,
)
# A list begins at 1; "12. May 1950" is a date, and "1. FC Köln" and "1. Bundesliga" are names.
_BULLET = lazy_re(
    r"^(?:[-*•]\s+|1\)\s+|1\.\s+(?!(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)|\d"
    r"|[A-ZÄÖÜ]{2,4}[a-z]?[A-Z]?\b|(?i:(?:bundes)?liga?|divis\w+|deild|klasse)\b))"
)
_ANY_BULLET = lazy_re(r"^(?:[-*•]|1[.)])\s+")
_NEXT_IN_LIST = lazy_re(r"\n[ \t]{0,9}2[.)]\s")
_QUOTES = "\"'“”‘’«»`*"
_BOLD = lazy_re(rf"(?<!\S){_STAR}\*(?=\S)|(?<=\S)\*\*(?!\w)")
_MAX_LIST_ITEMS = 8
MAX_ANSWER_CHARS = 1_000  # longer answers are cut


def extract_conclusion(text: str) -> str:
    """Return the text after the last "answer is" or "answer:", or else all of it."""
    text = text[:MAX_REPLY_CHARS].strip()
    end = 0
    for lead in _LEAD.finditer(text):
        end = lead.end()
    return text[end:].strip() or text


def clean_answer(text: str) -> str:
    """Return the bare answer of a reply's first line."""
    text = text[:MAX_REPLY_CHARS].strip()
    if listed := _listed(text):
        return listed
    lines = extract_conclusion(text).splitlines()
    line = lines[0].strip()[:MAX_ANSWER_CHARS] if lines else ""
    bullet = _ANY_BULLET if _NEXT_IN_LIST.search(text) else _BULLET
    line = _BOLD.sub("", bullet.sub("", line)).strip()
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


_IDENTIFIER = lazy_re(r"\brag[\s\\_-]*required", re.IGNORECASE)
# In lower case: "I Don't Know How to Love Him" and "I Don't Have the Heart" are songs.
_SOFT_REFUSAL = lazy_re(
    r"\b[Ii](?:\s+am|['’]m)\s+(?:unsure|uncertain|unable)\b"
    r"|\b[Ii](?:\s+(?:do\s+not|don['’]t|cannot|can['’]t|am\s+not)|['’]m\s+not)\b[^.]{0,40}"
    r"\b(?:know|sure|certain|able|answer|aware|familiar|have|provide)"
)


_BARE_REFUSAL = lazy_re(
    r"(?:sorry,? ?)?(?:not sure|unsure|uncertain|no idea|not certain|(?:i )?(?:don['’]t|do not) know|i have no idea)"
)


def retrieval_trigger(reply: str) -> str:
    """Return why a reply asks for retrieval: "hard", "soft" or ""."""
    if not reply.strip() or _IDENTIFIER.search(reply):
        return "hard"
    bare = reply.strip(" .!\"'“”`*\n")
    soft = _is_unknown(bare) or _BARE_REFUSAL.fullmatch(bare.casefold()) or _SOFT_REFUSAL.search(_uncapitalised(reply))
    return "soft" if soft else ""


_SOURCES = r"(?:documents?|passages?|texts?|context|sources?|articles?|excerpts?|paragraphs?|evidence)"
_NEGATION = lazy_re(r"\b(?:not|no|cannot|unable|without|none|neither|nor)\b|\b[a-z]+n['’]t\b")
# Words about the sources, not the world: "provide", but not "Providence"; "specify", but not "a specific gravity".
_MISSING = lazy_re(
    r"\bmention\w*|\bprovid(?:e[sd]?|ing)\b|\bspecif(?:y|ied|ies|ying)\b|\bindicat(?:e[sd]?|ion|ing)\b|\binformation\b"
    r"|\bdetermin(?:e[sd]?|able)\b|\bstated\b|(?:\bnot|n['’]t)\s+(?:[a-z]+ly\s+)?state\b|"
    rf"\b{_SOURCES}\s+states?\b|\bspecific\s+(?:answer|details?|mention)\b"
)
# Words that may also be about the world ("He was not found guilty", "It does not contain gluten").
_LACKING = lazy_re(r"\b(?:found|find|contain(?:s|ed|ing)?|includ(?:e[sd]?|ing)|given|available|answer(?:s|ed|able)?)\b")
_OF_THE_SEARCH = lazy_re(
    rf"\b(?:{_SOURCES}|[Ii]|we|information|(?:the|this|that|an|no)\s+(?:answer|question))\b"
    r"|\A\W{0,9}it\s+(?:does|is)(?:\s+not|n['’]t)\s+[a-z]+(?=\W*\Z|\s+(?:the|any|this|that|an?|here|in)\b)"
    r"|\A\W{0,9}(?:could|can|did|do)(?:\s+not|n['’]t|not)\s+find\b"
    r"|\A\W{0,9}not\s+(?:[a-z]+ly\s+)?(?:found|given|available|included|contained)\b(?!\s+guilty)"
    r"|\b(?:cannot|can['’]?t|can\s+not|could\s+not|couldn['’]t)\s+be\s+(?:answered|found)\b"
    r"|\b(?:found|given|available|answered)\W{0,9}\Z"
)
_SENTENCE = lazy_re(r"(?<=[.!?;])\s+|\n+")
_QUOTED_SPAN = lazy_re(r"\"[^\"\n]{2,}\"|“[^”\n]{2,}”|«[^»\n]{2,}»")
# "the answer is not there", "there is no answer: …"; but "The answer is Not Fade Away", "The answer is not Rome".
_NO_CONCLUSION = lazy_re(r"\b(?:[Nn]o|[Nn]ot an|[Ww]ithout an)\s+answer\b|\banswer\s+is\s+not\b(?=\s+[a-z]|\W*\Z)")
_UNKNOWN = frozenset(("unknown", "n/a", "na", "none given", "unanswerable"))
_UNKNOWN |= {f"not {verb}" for verb in ("found", "available", "mentioned", "specified", "provided")}
_UNKNOWN |= {f"not {verb}" for verb in ("stated", "given", "known", "told")}
_SYMBOL = "Na"  # sodium


# Refusals that assistants are trained to write; but "I'm Sorry" and "Sorry, I'm a Lady" are songs.
_DECLINED = lazy_re(
    r"\b[Ss]orry,?\s+(?:but\s+)?I\s*(?:can(?:not|['’]t|\s+not)|(?:a|['’])m\s+(?:un|not\b)|(?:do|could)(?:\s+not|n['’]t)|won['’]t"
    r"|have\s+no)|"
    r"\bI\s*(?:can(?:no|['’])t|am\s+(?:un|not\s+)able\s+to|['’]m\s+(?:un|not\s+)able\s+to|won['’]t)\s+"
    r"(?:assist|comply|fulfil|answer|help\s+(?:you\s+)?with)"
)


_TELLS = (
    r"(?:say|says|tell|tells|told|name|names|list|lists|give|gives|show|shows|reveal|reveals|explain|explains|describe|"
    r"describes|discuss|discusses|address|identify|identifies|confirm|confirms|know|cover|covers)"
)
# A reader's words about the sources: "I Can't Tell You Why" is a song, and "She did not tell her husband" an answer.
_OWN_WORDS = lazy_re(
    rf"\b{_SOURCES}\b(?:\s+[a-z]+){{0,4}}?\s+(?:do(?:es)?|did|can|could)(?:\s+not|n['’]t|not)\s+{_TELLS}\b|"
    rf"\bit\s+does(?:\s+not|n['’]t)\s+{_TELLS}\b|"
    rf"\b(?:[Nn]one\s+of\s+the|[Nn]o|[Nn]either|[Nn]othing\s+in\s+the)(?:\s+[a-z]+)?\s+{_SOURCES}\s+{_TELLS}\b|"
    rf"(?:\b[Nn]ot|n['’]t)\s+(?:[a-z]+\s+)?in\s+(?:any\s+of\s+)?(?:the|these|those|this|any)\s+(?:[a-z]+\s+)?{_SOURCES}\b|"
    r"\bI\s+(?:can['’]t|cannot|(?:can|could|do|did)(?:\s+not|n['’]t))\s+(?:tell|say|know)\b|"
    r"\bI(?:\s+a|['’])m\s+not\s+(?:sure|certain)\b|"
    r"\A\W*(?:[Cc]annot|[Cc]an['’]t)\s+(?:tell|say)\b\W*\Z|\A\W*[Ii]t\s+is\s+not\s+known\b\W*\Z"
)
_SMALL_WORD = lazy_re(r"an?|and|as|at|but|by|for|from|if|in|into|nor|of|off|on|or|over|the|to|up|with")
_IN_TITLE = lazy_re(rf"\b{_SOURCES}\b|\binformation\b|\b(?:mention|provid|specif)\w*", re.IGNORECASE)
_ANSWER_LINE = lazy_re(r"\W*(?!(?:yes|no|none|not|unknown|answer|sorry)\b)[^\W_][^\n]*[^\s:,]", re.IGNORECASE)
_MAX_ANSWER_LINE_WORDS = 6
_MAX_TITLE_CHARS = 200


def find_refusal(text: str) -> str:
    """Return the words by which a reply says that there is no answer, or "".

    A bare "No" or "None" is an answer, and so is "Not Fade Away": a refusal has a negation and a word such as "found"
    in one sentence of three words or more, or says that the sources do not tell. Capitals matter: "Can't Find My Way
    Home" is a title, as is a text in quotation marks. After "the answer is …" only the rest counts; if the first of
    several lines is a short answer, only that line does.
    """
    text = text[:MAX_REPLY_CHARS].strip()
    if not text:
        return "empty"
    if refusal := _IDENTIFIER.search(text):
        return refusal[0]
    if refusal := _NO_CONCLUSION.search(text) or _DECLINED.search(text):
        return refusal[0]
    text = extract_conclusion(text)
    first, *others = text.splitlines()
    if others and len(first.split()) <= _MAX_ANSWER_LINE_WORDS and _ANSWER_LINE.fullmatch(first.strip()):
        text = first
    bare = text.strip(" .!\"'“”`*")
    match = _NOT_KNOWN.match(_uncapitalised(bare))
    not_known = match and not any(char.isalnum() for char in bare[match.end() :])
    if _is_unknown(bare) or _BARE_REFUSAL.fullmatch(_uncapitalised(bare)) or not_known:
        return bare.casefold()
    if is_title(text):
        if not _IN_TITLE.search(text):
            return ""
        text = text.strip(' .*_"“”«»').lower()
    for sentence in _SENTENCE.split(text) if len(text.split()) > 2 else ():
        if words := _refusal_in(_uncapitalised(_QUOTED_SPAN.sub('""', sentence))):
            return words
    own = _OWN_WORDS.search(text) or _SOFT_REFUSAL.search(_uncapitalised(text))
    return own[0] if own else ""


def _refusal_in(sentence: str) -> str:
    """Return the negation of a sentence and the word for what is missing, or ""."""
    negation = _NEGATION.search(sentence)
    if not negation:
        return ""
    missing = _MISSING.search(sentence)
    if missing is None and _OF_THE_SEARCH.search(sentence):
        missing = _LACKING.search(sentence)
    return f"{negation[0]} … {missing[0]}" if missing else ""


def _is_unknown(bare: str) -> bool:
    return bare.casefold() in _UNKNOWN and bare != _SYMBOL


def _uncapitalised(text: str) -> str:
    """Return a text with its first word in lower case."""
    return text.lower() if text.isupper() else text[:1].lower() + text[1:]


def is_title(text: str) -> bool:
    text = text[: _MAX_TITLE_CHARS + 1].strip(" .*_")
    if len(text) > _MAX_TITLE_CHARS:
        return False
    if _QUOTED_SPAN.fullmatch(text):
        return True
    words = re.findall(r"[^\W_][\w'’.-]*", text)
    return (
        len(words) > 1
        and not text.isupper()
        and all(not word[0].islower() or _SMALL_WORD.fullmatch(word) for word in words)
    )


def looks_unanswered(text: str) -> bool:
    """Return whether a reply says that it has no answer, in all methods alike."""
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
# In lower case: "I Don't Know How to Love Him" is a song.
_I_DO_NOT = lazy_re(r"(?:sorry,? (?:but )?)?[Ii] (?:do not|don['’]t|cannot|can['’]t|am not|have no|am un\w+)\b")
_OF_WHAT_WAS_GIVEN = lazy_re(
    r"\b(?:information|evidence|passages?|texts?|context|knowledge|provided|given|determin\w+|answer)\b", re.IGNORECASE
)


def says_unknown(text: str) -> bool:
    """Return whether an answer says that it is unknown."""
    text = " ".join(text[:MAX_ANSWER_CHARS].split())
    bare = extract_conclusion(text).strip(" .!\"'“”`*")
    if _NOT_KNOWN.match(bare) or _BARE_REFUSAL.fullmatch(bare.casefold()) or _I_DO_NOT.match(bare):
        return True
    return bool(text) and looks_unanswered(text) and (len(text.split()) < 4 or bool(_OF_WHAT_WAS_GIVEN.search(text)))


# "No Time to Die", "True Grit" and "False widow spider" are names: a capital or a noun follows.
_GOES_ON = (
    r"(?=\W*\Z|\s*[^\w\s(]|\s+(?:\((?!album|song|film)|[a-z]|(?:He|She|It|They|The|This|That|There|Both|Neither|I)\b))"
)
_THEN_STOPS = lazy_re(r"\W*\w+\s*[,.;:!–—-]")
_YES = lazy_re(rf"^\W*(?:(?i:yes|yeah|yep|indeed|correct)|(?i:true)(?!\s+[a-z]+\W*\Z))\b{_GOES_ON}")
_NO = lazy_re(
    r"^\W*(?:(?i:no)(?!\s*\.?\s*\d)(?!\s+(?:more|less|fewer)\s+than\b)|(?i:incorrect|not|nope)(?!\s*\.?\s*\d)"
    rf"|(?i:false)(?!\s+[a-z]+))\b{_GOES_ON}"
)
UNSURE = lazy_re(
    r"\b(?:unknown|unclear|not (?:known|sure|stated|mentioned|given|clear)|no (?:information|mention|evidence))\b", re.I
)  # words of an answer that is neither yes nor no


def read_yes_no(text: str) -> bool | None:
    """Return whether a text begins with yes or no; None if it says neither or both."""
    if UNSURE.search(text) or (is_title(text) and not _THEN_STOPS.match(text)):
        return None
    if _YES.match(text):
        return None if re.search(r"\byes\b.{0,12}\bno\b", text[:40], re.IGNORECASE) else True
    return False if _NO.match(text) else None


_NEXT_QUESTION = lazy_re(r"(?:\A|\n)\W{0,4}question\b[^:\n]{0,9}:", re.IGNORECASE)


def cut_at_next_question(text: str) -> str:
    """Cut off a next question, since small models go on to ask and answer one."""
    following = _NEXT_QUESTION.search(text)
    return text[: following.start()] if following else text


_MAX_LINES = 100
_ASKING = (
    r"(?:(?:in|on|at|of|for|to|by|from|with|under|during)\s+)?(?:who|whom|whose|what|which|when|where|why|how)\b"
    r"|(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)\b"
)
_ASKS = lazy_re(_ASKING, re.IGNORECASE)
# "Identify the director of Jaws."; but "List of questions", "Find the answers to these:".
_DEMANDS = lazy_re(
    r"(?:(?:first|second|third|then|next|finally|lastly)\b[,:]?\s+)?"
    r"(?i:identify|find(?:\s+out)?|determine|name|list|give|state|specify|establish|locate|look\s+up|check|verify|confirm|compare"
    r"|calculate|count|describe|explain|recall|search\s+for)\s+"
    r"(?:(?:the|all|each|both|any|an?|his|her|its|their|whether|if|who|whom|whose|what|which|when|where|why|how)\b|[A-Z\d\"“'#])"
)
_OF_THE_TASK = lazy_re(r"\b(?:sub-?questions?|answers?\s+to\s+(?:the|these|each|all))\b", re.IGNORECASE)
# A letter with a full stop marks an item only before the words of a question: "C. S. Lewis" is a name.
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
        # Models without line breaks in their vocabulary, such as T5, write a list on one line.
        written = [part for line in text.splitlines() for part in _NEXT_ITEM.split(line)][:_MAX_LINES]
        lines = [line for line in written if _ITEM.match(line)]
        lines = lines or [part for line in written for part in re.split(r"(?<=\?)\s+", line)]
    questions: dict[str, str] = {}
    for line in lines:
        question = " ".join(_ITS_ANSWER.sub("", _ITEM.sub("", line.strip(_MARKS))).strip(_MARKS).split())
        # A question or an order may lack the question mark; but "Find Me Guilty" is a title.
        ordered = _DEMANDS.match(question) and not _OF_THE_TASK.search(question) and not is_title(question)
        if question.endswith("?") or ((_ASKS.match(question) or ordered) and not question.endswith(":")):
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


_KEY_WORD = lazy_re(rf"[{UNSPACED}]|[^\W{UNSPACED}]+")


def _ascii_words(also: str = "") -> bytes:
    kept = (byte if byte > 127 or chr(byte).isalnum() or chr(byte) in also else ord(" ") for byte in range(256))
    return bytes(range(256)).lower().translate(bytes(kept))


_LETTERS_AND_DIGITS, _WORD_CHARACTERS = _ascii_words(), _ascii_words("_")  # for `bytes.translate`


def join_words(text: str, split: Callable[[str], Iterable[str]], *, underscores: bool = False) -> str:
    """Return the words of a text in lower case with a space between them.

    ASCII words are found by translating bytes, ten times as fast as by a pattern; `split` is for the others.
    """
    table = _WORD_CHARACTERS if underscores else _LETTERS_AND_DIGITS
    plain = text.encode("utf-8", "surrogatepass").translate(table).decode("utf-8", "surrogatepass")
    words = plain.split()
    if plain.isascii():
        return " ".join(words)
    return " ".join(filter(None, [word if word.isascii() else " ".join(split(word)) for word in words]))


def question_key(question: str) -> str:
    """Return the folded words of a question."""
    return join_words(question, lambda part: _KEY_WORD.findall(part.casefold()), underscores=True)


# "the answer is not clear", "… is Unknown."; but "The answer is Not Fade Away".
_NO_ANSWER = (
    r"\W{0,9}(?:(?:still|also|therefore|currently|simply)\s+)?\W{0,4}(?-i:"
    r"not\b(?!\s+guilty\b)|(?:unclear|unknown|uncertain|undetermined|unspecified|unavailable|unanswerable)\b(?!\s+origin)"
    r"|(?:Unknown|Unclear|Uncertain|N/A)(?=[^\w\s]+(?:\s|\Z)|\s*\Z))"
)
_ANSWER_PHRASE = lazy_re(rf"\b(?:[Aa]nswer\s+is|ANSWER\s+IS)\b(?!(?i:{_NO_ANSWER}))[\s:]*+(?=\W*+\w)")
_BOXED = lazy_re(r"\$?\\boxed\{(?:\\text\{)?([^{}]*)\}{1,2}\$?")  # how models trained on arithmetic write an answer
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
    """Return whether a text says "the answer is" followed by an answer."""
    return _ANSWER_PHRASE.search(text) is not None


def read_conclusion(text: str, question: str = "") -> Answer:
    """Return the answer in the sentence of the last "the answer is"."""
    begin = len(text)
    for phrase in _ANSWER_PHRASE.finditer(text):
        begin = phrase.end()
    rest = text[begin:]
    rest = _BOXED.sub(r"\1", _BOLD.sub("", rest.removeprefix("** "))).strip()
    spans = sentence_spans(rest)
    answer = clean_answer(clean_answer(rest[: spans[0][1]]).strip("{} ")) if spans else ""
    if _ASKS_FOR_VERDICT.match(question) and (short := _YES_NO.match(answer)):
        answer = short[1]
    known = bool(answer) and not looks_unanswered(answer)
    return Answer(answer if known else "", text, "answered" if known else "unknown", "synthesis")


def answer_sentence(text: str) -> Span | None:
    """Return the span of the last sentence with "the answer is"."""
    return next((span for span in reversed(sentence_spans(text)) if _ANSWER_PHRASE.search(text, *span)), None)


def before_answer(text: str) -> str:
    """Return the text before the sentence that gives its answer."""
    span = answer_sentence(text)
    return text[: span[0]].rstrip() if span else text


def led_to_answer(text: str) -> str:
    """Return a text that ends with "So the answer is"."""
    return f"{before_answer(text)} {_CONCLUSION_LEAD}".strip()


def states_fact(sentence: str) -> bool:
    """Return whether a sentence states a fact, not a conclusion or calculation."""
    return not (_CONCLUDES.match(sentence) or _CALCULATES.search(sentence))
