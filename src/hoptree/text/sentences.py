"""Split text into sentences, with abbreviations, initials and quotes."""

from __future__ import annotations

import re

from hoptree.core.patterns import lazy_re

_CLOSING = "\"'”’»)\\]*"
# What cannot begin in the middle of a run of marks or spaces is looked for once a run, however long that is.
_END = lazy_re(
    rf"(?<![.!?…।؟۔])[.!?…।؟۔]+[{_CLOSING}]*\s+(?=[\"'“‘«(\[¿¡*]*([^\W_]))"
    r"|(?<![。！？])[。！？]+[」』”’）]*\s*(?=[「『“‘（]*([^\W_]))"  # scripts without spaces need none here
    r"|(?<!\s)\s*\n\s*(?=(\S))"
)
_LINE_BREAK_GROUP = 3
_TITLE = lazy_re(
    r"(?:^|[\s(\[\"“‘'/-])(?:mr|mrs|ms|messrs|mme|mlle|dr|drs|prof|rev|fr|msgr|mons|bp|abp|gen|brig|maj|col|adm|cmdr|comdr|cdr"
    r"|capt|lt|lieut|ens|sgt|cpl|pvt|pfc|supt|insp|det|atty|gov|sen|rep|hon|pres|amb|wm|thos|chas|geo|jas|jos"
    r"|ste|mt|ft|vs|v|cf|viz|ca|approx|est|esp|incl|fl|op|e\.g|i\.e)\Z",
    re.IGNORECASE,
)
"""Abbreviations that always have something behind them."""
_SHORTENED = lazy_re(
    r"(?:^|[\s(\[\"“‘'.-])(?:[^\W\d_]|(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}|jr|sr|esq|inc|ltd|co|corp|bros|llc|etc|et al"
    r"|dept|univ|assn|st|ave|blvd"
    r"|(?-i:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec|Mon|Tues?|Wed|Thurs?|Fri|Sat|Sun))\Z",
    re.IGNORECASE,
)
"""Abbreviations that may end a sentence: they do if no name begins with the next word."""
_TITLED = lazy_re(r"\S\s+[^\W\d_a-z][\w'’-]*\s+[^\W\d_a-z][\w'’-]*\Z")
"""A name of several words, which may go on after an exclamation mark."""
_BEFORE_A_NUMBER = lazy_re(r"(?:^|[\s(])(?:nos?|vols?|pp?|ch|fig|figs|art|sec|chap|c|b|d|r|m)\Z", re.IGNORECASE)
_NUMBERED = lazy_re(r"\s*[(\[]?(?:\d{1,2}|[ivx]{1,4}|[a-h])\Z", re.IGNORECASE)
_MAX_ABBREVIATION_CHARS = 24
_BEGINS = lazy_re(
    r"[\"'“‘«(\[*]*(?:the|an?|this|that|these|those|he|she|it|they|we|you|i|his|her|its|their|our|my|there|here|in|on|at|by"
    r"|from|for|to|with|of|as|after|before|during|since|until|when|while|where|who|what|which|why|how|if|although"
    r"|though|because|but|and|or|so|yet|thus|hence|therefore|however|moreover|also|then|now|both|some|many|most|all"
    r"|no|not|one|two|another|each|was|were|is|are|did|does|do|has|have|had|according|first|second|finally|next)\b(?!\.)",
    re.IGNORECASE,
)


def sentence_spans(text: str) -> tuple[tuple[int, int], ...]:
    """Return the span of each sentence; only white space lies between them.

    A line break ends a sentence too: generated text has steps, lists and labels on lines of their own.
    """
    spans: list[tuple[int, int]] = []
    begin, stop = len(text) - len(text.lstrip()), len(text.rstrip())
    for end in _END.finditer(text, begin, stop):
        if end[_LINE_BREAK_GROUP] or _is_end(text, begin, end):
            spans.append((begin, end.start() + len(end[0].rstrip())))
            begin = end.end()
    return (*spans, (begin, stop)) if stop > begin else tuple(spans)


def sentences(text: str) -> tuple[str, ...]:
    """Return the sentences of a passage, whose line breaks mean nothing."""
    text = " ".join(text.split())
    return tuple(text[start:end] for start, end in sentence_spans(text))


def _is_end(text: str, begin: int, end: re.Match[str]) -> bool:
    """Whether a mark before a space ends the sentence that begins at `begin`."""
    following = end[1]
    if "\n" in end[0] or not following:
        return True
    if following.islower():
        return False
    before = text[max(begin, end.start() - _MAX_ABBREVIATION_CHARS) : end.start()]
    if end[0].rstrip() == "!" and _TITLED.search(before):
        return _BEGINS.match(text, end.end()) is not None
    if end[0].rstrip() != ".":  # a question mark, an ellipsis, a closing quote
        return True
    if _TITLE.search(before) or _NUMBERED.fullmatch(before):
        return False
    shortened = _SHORTENED.search(before) is not None
    if following.isdigit():
        return not shortened and not _BEFORE_A_NUMBER.search(before)
    return not shortened or _BEGINS.match(text, end.end()) is not None
