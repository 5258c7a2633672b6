"""Things that a question names by a description, asked for one after the other, the innermost first.

"Where was the director of the film X born?" asks who the director of the film X is, and where that person was born. Its
own words say so, and no planner has to be asked that may copy an example.
"""

from __future__ import annotations

import re

from hoptree.comparing.asking import PERSON
from hoptree.comparing.operands import is_name
from hoptree.steps.planning.proper import clause_verb, is_description, is_negated, is_question

__all__ = ["chain_of"]

_MOST = 4
"""Questions of a chain."""
_LONGEST = 1000
"""Letters: what is longer is a text with a question in it."""
_BEFORE = "{}"
_ASKING = re.compile(
    r"(?:(?:in|on|at|from|for|to|by|during)\s+)?(?:who|whom|whose|what|which|where|when|why|how)\b", re.IGNORECASE
)
_THE = re.compile(r"\bthe\s+(?=[a-z])")
_DESCRIBED = re.compile(
    r"the\s+(?P<noun>(?:[a-z][a-z-]*\s+){0,2}?(?P<head>[a-z][a-z-]*))\s+"
    r"(?P<joint>of|who|whom|that|which|where|whose|(?:in|on|at|by|for|from|with|to)\s+(?:which|whom)|[a-z]{2,}ing|"
    r"[a-z]{2,}ed\s+(?:by|in|to|for))\s+(?P<told>\S.*)"
)
_HELPERS = "is|was|were|are|did|does|do|has|have|had|will|would|can|could"
_PREPOSITIONS = "of|in|on|at|by|for|from|with|to|as|and|or|than|under|near|during"
_NO_NOUN = re.compile(
    rf"\b(?:{_HELPERS}|{_PREPOSITIONS}|who|whom|that|which|where|whose|the|an?|against|between|within)\b"
)
_THINGS = re.compile(
    r"(?:film|movie|song|album|book|novel|band|group|company|label|network|team|club|party|league|country|state|city|"
    r"county|town|village|province|region|district|capital|birthplace|hometown|headquarters|manufacturer|maker|owner|"
    r"operator|publisher|distributor|employer|university|school|college|river|lake|island|organi[sz]ation|developer)s?"
)
_PEOPLE = re.compile(
    r"(?:star|lead|winner|leader|head|host|narrator|inventor|discoverer|architect|designer|painter|artist|performer|"
    r"chairman|editor|lyricist|screenwriter|cinematographer|captain|coach|governor|mayor|emperor|sibling)s?"
)
"""What "the … of X" can be asked for by itself, beside people; "the end of X" cannot."""
_CLAUSES = frozenset(("who", "whom", "that", "which", "where", "whose"))
_NAMING = re.compile(r"(?:^|(?<=[\s(\"“'‘]))(?:[^\W\d_a-z]|\d|#|\"|“|\{\})\S*")
_NAMED = re.compile(r"[^\W\d_a-z]|[\"“]|\{\}")
_BE, _DO = re.compile(r"\b(?:is|was|were|are)\s+$", re.IGNORECASE), re.compile(rf"\b(?:{_HELPERS})\s+$", re.IGNORECASE)
_DONE = re.compile(r"(?:\w+ed|born|from|made|held|built|won|written|found|set|shot|known|in)\b")
_OWN_VERB = re.compile(rf"(?:{_HELPERS}|{_PREPOSITIONS})\b")
_IN_CLAUSE = re.compile(r"\b(?:who|whom|that|which|where)\s+$")
_LONGEST_END = 3
"""Words between a description and the end of its question."""
_JOINED = re.compile(r"(?:,|\b(?:and|or|between|besides|with))\s*$", re.IGNORECASE)
_SEVERAL = re.compile(
    rf",\s+(?:and|or)\b|\b(?:and|or)\s+the\b|\b(?:what|how)\b|\b(?:{_HELPERS}),?\s+\{{\}}|\b(?:is|was|are|were)\s+\w+ed\s+"
    rf"(?!(?:{_PREPOSITIONS})\b)[a-z]+$"
)
"""Things side by side, a question within, or the verb of what is asked inside a description: no chain."""
_NOTHING_MORE = re.compile(
    r"(?:(?:who|what|which|where)(?:['’]s|\s+(?:is|was|are|were))?|(?:when|why|how)\s+(?:is|was|are|were)|.*\b(?:did|does|"
    r"do|has|have|had|will|would|can|could))\s+(?:the\s+names?\s+of\s+)?\{\}",
    re.IGNORECASE,
)
"""What is left is no question, or the same one."""
_RELATED = (
    "father|mother|parent|husband|wife|spouse|son|daughter|child|brother|sister|sibling|director|author|writer|composer|"
    "performer|singer|producer|founder|creator|birthplace|hometown"
)
_OWNED = re.compile(
    rf"(?P<before>(?:\w+\s+)?(?:[a-z][a-z-]*\s+)*)(?P<owner>[^\W\d_a-z].*?|\{{\}})(?:['’]s|(?<=s)['’])\s+"
    rf"(?P<noun>{_RELATED})(?P<after>(?:\s+[a-z]+){{0,{_LONGEST_END}}})"
)
_KIN = {
    "paternal grandfather": ("father", "father"),
    "paternal grandmother": ("father", "mother"),
    "maternal grandfather": ("mother", "father"),
    "maternal grandmother": ("mother", "mother"),
    "father-in-law": ("spouse", "father"),
    "mother-in-law": ("spouse", "mother"),
    "child-in-law": ("child", "spouse"),
    "son-in-law": ("daughter", "husband"),
    "daughter-in-law": ("son", "wife"),
    "sibling-in-law": ("spouse", "sibling"),
    "stepmother": ("father", "wife"),
    "stepfather": ("mother", "husband"),
    "stepchild": ("spouse", "child"),
}
"""Relatives by way of another one."""
_RELATIVE = re.compile(
    rf"who\s+(?:is|was)\s+(?:(?:the\s+)?(?P<kin>{'|'.join(_KIN)})\s+of\s+(?P<of>\S.*)|"
    rf"(?P<owner>\S.*?)(?:['’]s|(?<=s)['’])\s+(?P<owned>{'|'.join(_KIN)}))",
    re.IGNORECASE,
)


def chain_of(question: str) -> tuple[str, ...]:
    """What to ask one after the other, with {} for the answer before; nothing where the words tell of no chain."""
    text = " ".join(question.split()).rstrip("?. ")
    if _BEFORE in text or len(text) > _LONGEST or not _ASKING.match(text) or is_negated(text):
        return ()
    if relative := _RELATIVE.fullmatch(text):
        first, second = _KIN[(relative["kin"] or relative["owned"]).lower()]
        return f"Who is the {first} of {relative['of'] or relative['owner']}?", f"Who is the {second} of {_BEFORE}?"
    asked: list[str] = []
    while len(asked) < _MOST - 1 and (found := _innermost(text)):
        inner, text = found
        asked.append(inner)
    last = f"{text}?"
    proper = asked and is_question(last, before=asked) and all(map(is_description, asked))
    return (*asked, last) if proper else ()


def _innermost(text: str) -> tuple[str, str] | None:
    """A question for the thing that is described last, and the text with {} in its place."""
    for place in reversed(list(_THE.finditer(text))):
        before, rest = text[: place.start()], text[place.start() :]
        described = _DESCRIBED.fullmatch(rest)
        if described is None or _NO_NOUN.search(described["noun"]):
            continue
        joint = described["joint"]
        after = _after(before, rest, joint, described.start("told"))
        thing, told = rest[: len(rest) - len(after)], described["told"][: len(described["told"]) - len(after)]
        if joint == "of" and not (_is_thing(described["noun"]) and (told.startswith(_BEFORE) or is_name(told))):
            continue
        if not _is_told(told) or _JOINED.search(before) or _SEVERAL.search(thing):
            return None
        return _asked(thing, described["noun"], joint, before, after)
    if (owned := _OWNED.fullmatch(text)) and (is_name(owned["owner"]) or owned["owner"] == _BEFORE):
        return _asked(f"{owned['owner']}'s {owned['noun']}", owned["noun"], "of", owned["before"], owned["after"])
    return None


def _is_thing(noun: str) -> bool:
    """Whether "the … of X" is something to look up by itself."""
    head = noun.split()[-1]
    return bool(PERSON.search(head) or _THINGS.fullmatch(head) or _PEOPLE.fullmatch(head))


def _is_told(told: str) -> bool:
    """Whether what describes a thing holds a name that it can be found by, and nothing beside it."""
    return bool(_NAMED.search(told)) and not re.search(r"['’]s$|[,;]$|,\s+[a-z]", told)


def _asked(thing: str, noun: str, joint: str, before: str, after: str) -> tuple[str, str] | None:
    outer = f"{before}{_BEFORE}{after}"
    if _NOTHING_MORE.fullmatch(outer):
        return None
    person = joint in ("who", "whom") or PERSON.search(noun) or _PEOPLE.fullmatch(noun.split()[-1])
    return f"{'Who' if person else 'What'} is {thing}?", outer


def _after(before: str, rest: str, joint: str, told: int) -> str:
    """The end of the question that belongs to what is asked, not to the description: "… born", "… is from"."""
    names = list(_NAMING.finditer(rest))
    after = rest[names[-1].end() :] if names else ""
    after = after[len(clause_verb(joint, rest[told : len(rest) - len(after)], after)) :]
    words = after.strip()
    if not words or len(words.split()) > _LONGEST_END:
        return ""
    if _BE.search(before):
        return after if _DONE.match(words) else ""
    if _DO.search(before):
        return after if not _OWN_VERB.match(words) else ""
    helped, inside = re.match(r"(?:is|was|are|were)\b", words), _IN_CLAUSE.search(before)
    return after if (joint == "of" and (helped or inside)) or (joint in _CLAUSES and helped and inside) else ""
