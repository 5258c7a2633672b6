"""Plans that a question's own words tell: a small planner copies its examples, or asks for other facts than were asked.

Comparisons have a branch for each thing compared, and things that are described inside one another a chain.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from hoptree.engine.context import Context
from hoptree.methods.steps.conditions import may_list
from hoptree.methods.steps.decompose import tell_plan
from hoptree.text.comparison_plans import PERSON_WORDS, expected_answer_type, plan_comparison
from hoptree.text.comparison_questions import detect_comparison
from hoptree.text.operands import is_name
from hoptree.text.question_tree import Node, Plan, nest_plan

_NEGATED = re.compile(r"\b(?:not|never|neither|nor|cannot)\b|n['’]t\b")
"""In lower case: "Not Fade Away" is a name."""
_P_BE = "(?:is|was|were|are)"
_P_DO = "(?:did|does|do|will|would|can|could|has|have|had)"
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
    f"(?!(?:did|does|do|will|would|could)\\b)(?:{_P_BE}|has|had|have|can|{_VERB}|[a-z]{{2,}}ed|[a-z]{{2,}}[^\\Wsu]s|began|became|bought|brought|came|gave|got|"
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
            rf" {_P_BE} \{{\}}",
        ),
        (r"how \w+|how many .*|where", rf" {_P_BE} \{{\}}"),
        (rf"how \w+ {_P_BE}|how many .* {_P_BE}", r" (?!\{\}).+ \{\}"),
        # Where was {} born? What movement was {} a proponent for? But not: When was the version of {}?
        (rf".*\b{_P_BE}", rf"(?: .*)? \{{\}} (?:{_PARTICIPLE}|from|in|an? \w+)(?: \w+){{0,2}}"),
        (rf"(?:when|where) {_P_BE} the (?:\w+ ){{0,3}}?{_EVENTS}", r" .+ \{\}"),
        (rf"(?:when|where|why|how) {_P_BE} .*\b(?:[a-z]+ed|[a-z]+ing|held|met|sold)", rf" {_TO} (?:.* )?\{{\}}"),
        # When did {} die? Where did {} go to college? When will {} be played? But not: When did {} technology die?
        (rf".*\b{_P_DO}", rf" \{{\}} (?:be {_PARTICIPLE}|{_VERB}(?: \w+){{0,3}}|(?!{_TO}\b)[a-z]+(?<!s)(?<!ed))"),
        # Why did she leave {}? When did the war end on {}? But not: When did the party in {}?
        (
            rf".*\b{_P_DO}",
            rf" (?:they |you |we )?(?:[^\s,]+ )+?(?<!the )(?<!an )(?<! a )(?<!of ){_VERB}(?: .+)? \{{\}}",
        ),
        # Who founded {}? What company succeeded {}? How many students attend {}? But not: Which of {}?
        (r"who|what", rf" (?!{_TO}\b){_FINITE}\b(?: .+)? \{{\}}"),
        (
            rf"(?:in |on )?(?:what|which|how many|how much) (?!{_TO}\b).+",
            rf" (?!{_P_BE} \{{\}}){_FINITE}\b(?! of\b)(?: .+)? \{{\}}",
        ),
        # Which country {} is from?
        (r"(?:what|which) [a-z ]+", rf" \{{\}} {_P_BE} {_TO}"),
        # What is the species which {} was named after?
        (rf"(?:who|what) {_P_BE} .+ {_CLAUSE}", rf" \{{\}} {_P_BE} {_PARTICIPLE}(?: {_TO})?"),
    )
)
"""How what is asked of the thing before may be worded."""
_NO_END = re.compile(
    rf"\b(?:{_CLAUSE}|when|while|starring|{_CLAUSE} {_P_BE}|(?:caus|lett|mak)(?:es?|ed|ing)) \{{\}}\?|"
    rf"\bwhere (?:(?!{_FINITE}\b)\S+ )*\{{\}}\?|"
    rf"(?i:\A(?:in|during) (?:what|which) (?:year|month|decade|century)) "
    rf"{_P_BE}(?: (?!{_PARTICIPLE} )\S+)* \{{\}}\?|"
    rf"\b(?:did|does) {_P_BE}\b|,\s+(?!in \{{\}}\?)[a-z]"
)
"""Behind these, more belongs to {} than stands there; nor is what a comma sets apart known to be whole."""
_DESCRIPTION = re.compile(
    r"(?:Who|What) is the (?P<noun>[a-z][a-z -]*?) "
    rf"(?P<joint>of|{_CLAUSE}|{_TO} (?:which|whom)|[a-z]+ing|[a-z]+ed {_TO}) (?P<told>.+)\?"
)
_PLURAL = re.compile(r"(?!(?:headquarters|series|species|premises)$)[a-z-]*[^siu]s")
_BY_OTHERS = re.compile(r"\b(?:same|other|another|next|previous)\b")
_CHOSEN = re.compile(r"\b(?:first|last|[a-z]{3,}est)\b")
_P_NAMING = re.compile(
    r"(?:city|state|county|town|village|province|region|district|country|republic|kingdom|island|river|lake|university|"
    r"borough|municipality|parish|duchy|continent)"
)
"""What "of" only names: the city of Bath."""
_YEAR = re.compile(r"\b(?:in|since|during|by|until|after|before|as of)\s+(?:the\s+)?\d{3,4}s?$")
_HELPED = re.compile(rf"\b(?:{_P_BE}|{_P_DO})\b(?:\s+(?:be|been|have|had)\b)?")
_MARKED = re.compile(rf"\b(?:{_CLAUSE}|when|while|after|before|because|and|but|than)\b")
_RUNS_ON = re.compile(
    rf"(?<!\bto )(?<!\band )\b(?:gain|take|become|hold|declare|change|reference|begin|lose|die|host)\b|"
    rf"{_NAME}\s+[a-z]+ed(?!\s+{_TO}\b)(?:\s|$)|\b(?:best|most) known (?!for|as|by)"
)
"""A verb behind a description that has its own, or words that go with neither."""
_TAIL = re.compile(rf"(?:.*\s)?{_NAME}(?P<tail>(?:\s+[a-z][a-z'’-]*)*)")
_CLAUSE_END = re.compile(
    rf"(?:{_P_BE}|had|has|can|could)(?: (?:also|now|currently|most|originally|first|be|been))*"
    rf"(?: (?:{_PARTICIPLE}|part|in|from|(?:an?|the)(?: (?!{_TO}\b)[a-z'’-]+){{1,4}})(?: {_TO})?"
    rf"(?: to [a-z]+(?: {_TO})?)?)?|"
    rf"(?!{_P_BE}).*"
)
_WITH_VERB = re.compile(
    rf"(?:(?:who|that|which) (?!the\b|an?\b|{_P_BE}\b|{_P_DO}\b)[a-z]|[a-z]+ing |"
    rf"[a-z]+ed {_TO} (?!which\b|whom\b)).*"
)
"""A description that begins with its verb."""
_NO_CLAUSE = re.compile(rf"\b(?:the|an?|{_TO})\b|{_NAME}|\W")
_CLAUSE_VERB = re.compile(rf"\s*(?:(?:{_P_BE}|has|had)\s+)?(?:{_PARTICIPLE}|[a-z]+s)\b(?:\s+{_TO}(?=\s))?")
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
        named = _P_NAMING.fullmatch(head) and not told.startswith("{}")
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
    return bool(PERSON_WORDS.search(head) or _THINGS.fullmatch(head) or _PEOPLE.fullmatch(head))


def _is_told(told: str) -> bool:
    """Whether what describes a thing holds a name that it can be found by, and nothing beside it."""
    return bool(_NAMED.search(told)) and not re.search(r"['’]s$|[,;]$|,\s+[a-z]", told)


def _asked(thing: str, noun: str, joint: str, before: str, after: str) -> tuple[str, str] | None:
    outer = f"{before}{_BEFORE}{after}"
    if _NOTHING_MORE.fullmatch(outer):
        return None
    person = joint in ("who", "whom") or PERSON_WORDS.search(noun) or _PEOPLE.fullmatch(noun.split()[-1])
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


def plan_by_words(ctx: Context, question: str, *, under: Node | None = None) -> Plan | None:
    """The plan that the words tell, beneath a node if the question is that node's; None where they tell none."""
    chains = plan_comparison(question) or tuple(filter(None, (chain_of(question),)))
    if not chains:
        return None
    nodes: list[Node] = []
    for chain in chains:
        nodes += _branch(chain, len(nodes))
    plan = nest_plan(Plan(tuple(nodes)), under) if under else Plan(tuple(nodes))
    tell_plan(ctx, plan, under=under)
    return plan


def _branch(chain: Sequence[str], after: int) -> list[Node]:
    """Questions of which each needs the answer to the one before, numbered from `after` on."""
    first, *later = chain
    nodes = [Node(after + 1, first)]
    for asked in later:
        above = nodes[-1]
        told = asked.replace("{}", f"#query{above.id}")
        nodes.append(Node(above.id + 1, told, above.id, above.depth + 1, (above.id,)))
    return nodes


Operator = Literal["lookup", "chain", "compare", "both", "intersect", "count", "yes_no"]

_HOW_MANY = re.compile(
    r"^\W*(?:how many(?!\s+(?:more|fewer|less|(?:\w+\s+)?(?:years|months|weeks|days|hours|minutes|decades))\b)|"
    r"what (?:is|was) the number of)\b",
    re.IGNORECASE,
)
"""Things that can be listed: a difference or a length of time is told or computed."""
_OP_ASKING = r"(?:^|[.:;]\s)\W*(?:(?:in|on|at|for|from|of|by|with|to)\s+)?(?:which|who|whom|what|list|name)\b"
_TWICE = re.compile(
    rf"\bboth\b|\bin common\b|\bsome of the same\b|{_OP_ASKING}.*?(?-i:\balso\b(?!\s+(?:known|called))|"
    r"\bas well\b|"
    r"\band\s+(?:later|again|still|one|in|had|has|have|was|were|is|are|[a-z]+ed|won|sang|wrote|made|led)\b)",
    re.IGNORECASE | re.DOTALL,
)
"""Signs that one thing fulfils two conditions: "both", "in common", "and also", "and later", "and studied"."""
_NOUN = r"(?!(?:is|was|were|are|did|does|do|has|had|have|of)\b)"
_OP_SEVERAL = re.compile(
    rf"{_OP_ASKING}\s+(?:of\s+(?:the|these|those)\b|(?:{_NOUN}[\w'’.&-]+\s+){{0,4}}?"
    rf"(?-i:{_NOUN}[a-z]+[^\Wsu]s|people|men|women|children)\s+"
    r"(?-i:of|from|in|by|with|who|whom|that|which|where|did|have|were|are|[a-z]+ed|[a-z]+ing|made|had)\b)",
    re.IGNORECASE,
)
"""Which of several things are asked for, by a condition at the least: two names are of two then."""


def operator_of(question: str) -> Operator:
    """The operator of a question: one fact is looked up unless its words say that facts are put together.

    A comparison is one only where what is compared can be told; things that are described inside one another are
    looked up in a chain, and what is said to fulfil several conditions is intersected.
    """
    if comparison := detect_comparison(question):
        return "both" if comparison.kind == "both" else "compare"
    if _HOW_MANY.match(question):
        return "count"
    if expected_answer_type(question) == "yes or no":
        return "yes_no"
    if chain_of(question):
        return "chain"
    return "intersect" if may_list(question) and _fulfils_several(question) else "lookup"


def _fulfils_several(question: str) -> bool:
    """Whether words say that what is asked for fulfils several conditions: two names alone may be of one thing."""
    return bool(_TWICE.search(question) or _OP_SEVERAL.search(question))
