"""Whether what was cut out of a question can be asked by itself.

A plan by words is final, so one that reads as no question is worse than none: what the forms below do not know is
refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["clause_verb", "is_description", "is_negated", "is_question"]

_NEGATED = re.compile(r"\b(?:not|never|neither|nor|cannot)\b|n['’]t\b")
"""In lower case: "Not Fade Away" is a name."""
_BE = "(?:is|was|were|are)"
_DO = "(?:did|does|do|will|would|can|could|has|have|had)"
_TO = "(?:of|in|on|at|by|for|from|with|to|as|after|into|under|near)"
_CLAUSE = "(?:who|whom|that|which|where|whose)"
_NAME = r"(?:[^\W\d_a-z]\S*|\d\S*|\S*[\"”]|\{\})"
_PARTICIPLE = "(?:[a-z]+ed|born|made|held|built|won|written|found|set|shot|known)"
_VERB = (
    "(?:achieve|acquire|act|appear|arrive|attend|become|begin|belong|build|buy|call|cease|close|come|compete|create|"
    "declare|defeat|depart|design|die|direct|draw|earn|end|enter|establish|expand|fall|fight|film|finish|form|found|gain|"
    "get|give|go|graduate|grow|happen|help|hold|invade|invent|join|launch|lead|leave|lie|live|lose|make|marry|meet|merge|"
    "move|occur|open|operate|originate|own|perform|play|produce|publish|reach|receive|record|release|remain|represent|"
    "resign|retire|rule|run|score|sell|serve|share|sign|sing|speak|stand|start|stay|stop|study|succeed|take|teach|tour|"
    "travel|use|visit|wear|win|work|write)"
)
"""As it stands behind "did"."""
_FINITE = (
    f"(?!(?:did|does|do|will|would|could)\\b)(?:{_BE}|has|had|have|can|{_VERB}|[a-z]{{2,}}ed|[a-z]{{2,}}[^\\Wsu]s|began|became|bought|brought|came|gave|got|"
    "held|led|left|lost|made|met|ran|sang|saw|sold|took|went|won|wrote)"
)
_EVENTS = (
    "(?:day|date|end|beginning|start|birth|death|opening|founding|release|time|premiere|debut|birthday|place|birthplace|"
    "headquarters|grave|tomb|home|source|mouth|seat|site)"
)
_ATTRIBUTES = (
    "(?:nationality|religion|ethnicity|genre|colou?r|language|type|kind|size|age|citizenship|denomination|gender|"
    "occupation|profession)"
)
_FORMS = tuple(
    re.compile(rf"(?i:{asking}){rest}\?")
    for asking, rest in (
        # What is the capital of {}? Who was married to {}? But not: What was {}?
        (r"(?:who|what)(?:['’]s| is| was| are| were)", r" (?!\{\}).+ \{\}"),
        # In which county is {}? How long is {}? But not: What school was {}?
        (
            rf"(?:in|on|at|from|for|to|by|during) (?:what|which)\b.*|(?:what|which) (?:\w+ )?{_ATTRIBUTES}",
            rf" {_BE} \{{\}}",
        ),
        (r"how \w+|how many .*|where", rf" {_BE} \{{\}}"),
        (rf"how \w+ {_BE}|how many .* {_BE}", r" (?!\{\}).+ \{\}"),
        # Where was {} born? What movement was {} a proponent for? But not: When was the version of {}?
        (rf".*\b{_BE}", rf"(?: .*)? \{{\}} (?:{_PARTICIPLE}|from|in|an? \w+)(?: \w+){{0,2}}"),
        (rf"(?:when|where) {_BE} the (?:\w+ ){{0,3}}?{_EVENTS}", r" .+ \{\}"),
        (rf"(?:when|where|why|how) {_BE} .*\b(?:[a-z]+ed|[a-z]+ing|held|met|sold)", rf" {_TO} (?:.* )?\{{\}}"),
        # When did {} die? Where did {} go to college? When will {} be played? But not: When did {} technology die?
        (rf".*\b{_DO}", rf" \{{\}} (?:be {_PARTICIPLE}|{_VERB}(?: \w+){{0,3}}|(?!{_TO}\b)[a-z]+(?<!s)(?<!ed))"),
        # Why did she leave {}? When did the war end on {}? But not: When did the party in {}?
        (rf".*\b{_DO}", rf" (?:they |you |we )?(?:[^\s,]+ )+?(?<!the )(?<!an )(?<! a )(?<!of ){_VERB}(?: .+)? \{{\}}"),
        # Who founded {}? What company succeeded {}? How many students attend {}? But not: Which of {}?
        (r"who|what", rf" (?!{_TO}\b){_FINITE}\b(?: .+)? \{{\}}"),
        (
            rf"(?:in |on )?(?:what|which|how many|how much) (?!{_TO}\b).+",
            rf" (?!{_BE} \{{\}}){_FINITE}\b(?! of\b)(?: .+)? \{{\}}",
        ),
        # Which country {} is from?
        (r"(?:what|which) [a-z ]+", rf" \{{\}} {_BE} {_TO}"),
        # What is the species which {} was named after?
        (rf"(?:who|what) {_BE} .+ {_CLAUSE}", rf" \{{\}} {_BE} {_PARTICIPLE}(?: {_TO})?"),
    )
)
"""How what is asked of the thing before may be worded."""
_NO_END = re.compile(
    rf"\b(?:{_CLAUSE}|when|while|starring|{_CLAUSE} {_BE}|(?:caus|lett|mak)(?:es?|ed|ing)) \{{\}}\?|"
    rf"\bwhere (?:(?!{_FINITE}\b)\S+ )*\{{\}}\?|"
    rf"(?i:\A(?:in|during) (?:what|which) (?:year|month|decade|century)) {_BE}(?: (?!{_PARTICIPLE} )\S+)* \{{\}}\?|"
    rf"\b(?:did|does) {_BE}\b|,\s+(?!in \{{\}}\?)[a-z]"
)
"""Behind these, more belongs to {} than stands there; nor is what a comma sets apart known to be whole."""
_DESCRIPTION = re.compile(
    r"(?:Who|What) is the (?P<noun>[a-z][a-z -]*?) "
    rf"(?P<joint>of|{_CLAUSE}|{_TO} (?:which|whom)|[a-z]+ing|[a-z]+ed {_TO}) (?P<told>.+)\?"
)
_PLURAL = re.compile(r"(?!(?:headquarters|series|species|premises)$)[a-z-]*[^siu]s")
_BY_OTHERS = re.compile(r"\b(?:same|other|another|next|previous)\b")
_CHOSEN = re.compile(r"\b(?:first|last|[a-z]{3,}est)\b")
_NAMING = re.compile(
    r"(?:city|state|county|town|village|province|region|district|country|republic|kingdom|island|river|lake|university|"
    r"borough|municipality|parish|duchy|continent)"
)
"""What "of" only names: the city of Bath."""
_YEAR = re.compile(r"\b(?:in|since|during|by|until|after|before|as of)\s+(?:the\s+)?\d{3,4}s?$")
_HELPED = re.compile(rf"\b(?:{_BE}|{_DO})\b(?:\s+(?:be|been|have|had)\b)?")
_MARKED = re.compile(rf"\b(?:{_CLAUSE}|when|while|after|before|because|and|but|than)\b")
_RUNS_ON = re.compile(
    rf"(?<!\bto )(?<!\band )\b(?:gain|take|become|hold|declare|change|reference|begin|lose|die|host)\b|"
    rf"{_NAME}\s+[a-z]+ed(?!\s+{_TO}\b)(?:\s|$)|\b(?:best|most) known (?!for|as|by)"
)
"""A verb behind a description that has its own, or words that go with neither."""
_TAIL = re.compile(rf"(?:.*\s)?{_NAME}(?P<tail>(?:\s+[a-z][a-z'’-]*)*)")
_CLAUSE_END = re.compile(
    rf"(?:{_BE}|had|has|can|could)(?: (?:also|now|currently|most|originally|first|be|been))*"
    rf"(?: (?:{_PARTICIPLE}|part|in|from|(?:an?|the)(?: (?!{_TO}\b)[a-z'’-]+){{1,4}})(?: {_TO})?"
    rf"(?: to [a-z]+(?: {_TO})?)?)?|"
    rf"(?!{_BE}).*"
)
_WITH_VERB = re.compile(
    rf"(?:(?:who|that|which) (?!the\b|an?\b|{_BE}\b|{_DO}\b)[a-z]|[a-z]+ing |[a-z]+ed {_TO} (?!which\b|whom\b)).*"
)
"""A description that begins with its verb."""
_NO_CLAUSE = re.compile(rf"\b(?:the|an?|{_TO})\b|{_NAME}|\W")
_CLAUSE_VERB = re.compile(rf"\s*(?:(?:{_BE}|has|had)\s+)?(?:{_PARTICIPLE}|[a-z]+s)\b(?:\s+{_TO}(?=\s))?")
_PLAYED = re.compile(r"\b(?:plays?|played|portray\w*|voice[sd]?)(?: by)? \{\}\?")


def is_negated(question: str) -> bool:
    """Whether a question says not: no chain finds what a thing is not."""
    return bool(_NEGATED.search(question))


def clause_verb(joint: str, told: str, after: str) -> str:
    """The verb that a clause has not got yet, at the beginning of what follows its name: "where Ada Moor" + "lived"."""
    if joint not in ("that", "which", "who", "whom", "where") and not joint.endswith((" which", " whom")):
        return ""
    found = None if _NO_CLAUSE.sub("", told) else _CLAUSE_VERB.match(after)
    return found[0] if found else ""


def is_question(asked: str, *, before: Sequence[str]) -> bool:
    """Whether what is asked of {} at last is a question; `before` it the things were asked for.

    "Who was played by {}?" behind "Who is the director of A in B?" lacks where.
    """
    if _NO_END.search(asked) or (_PLAYED.search(asked) and " in " in " ".join(before) and " in " not in asked):
        return False
    return any(form.fullmatch(asked) for form in _FORMS)


def is_description(asked: str) -> bool:
    """Whether a question for a described thing describes one, and no more; other shapes are left as they are."""
    found = _DESCRIPTION.fullmatch(asked)
    if _NO_END.search(asked):
        return False
    if found is None:
        return True
    noun, joint, told = found["noun"], found["joint"], found["told"]
    head = noun.split()[-1]
    if _PLURAL.fullmatch(head) or re.fullmatch(_PARTICIPLE, head) or _BY_OTHERS.search(noun):
        return False
    if joint == "of":
        named = _NAMING.fullmatch(head) and not told.startswith("{}")
        return not (named or _YEAR.search(told) or (_CHOSEN.search(noun) and " and " in told))
    return _is_clause(joint, told)


def _is_clause(joint: str, told: str) -> bool:
    """Whether what tells of a thing has one verb, and nothing behind it that goes with another one."""
    marked, helped = len(_MARKED.findall(told)), len(_HELPED.findall(told))
    if re.search(r"\bth(?:is|ese)\b", told):
        return False
    if _WITH_VERB.fullmatch(f"{joint} {told}"):
        return helped <= marked and (marked > 0 or not _RUNS_ON.search(told))
    tail = _TAIL.fullmatch(told)
    ends = tail["tail"].strip() if tail else ""
    return helped <= marked + 1 and bool(_NO_CLAUSE.sub("", told)) and bool(_CLAUSE_END.fullmatch(ends))
