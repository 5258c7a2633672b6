"""Plans from a question's own words: small planners copy their examples, or ask for other facts than were asked.

Comparisons have a branch for each thing compared, and things that are described inside one another a chain.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from hoptree.core.lazy import lazy_re
from hoptree.engine.context import Context
from hoptree.methods.steps.decompose import record_plan
from hoptree.text.comparison_plans import PERSON_WORDS, expected_answer_type, plan_comparison
from hoptree.text.comparison_questions import detect_comparison
from hoptree.text.comparison_words import is_name
from hoptree.text.question_tree import Node, Plan

_NEGATED = lazy_re(r"\b(?:not|never|neither|nor|cannot)\b|n['’]t\b")
"""In lower case: "Not Fade Away" is a name."""
_BE_FORM = "(?:is|was|were|are)"
_AUXILIARY = "(?:did|does|do|will|would|can|could|has|have|had)"
_PREPOSITION = "(?:of|in|on|at|by|for|from|with|to|as|after|into|under|near)"
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
    f"(?!(?:did|does|do|will|would|could)\\b)(?:{_BE_FORM}|has|had|have|can|{_VERB}|[a-z]{{2,}}ed|[a-z]{{2,}}[^\\Wsu]s|began|became|bought|brought|came|gave|got|"
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
_QUESTION_FORMS = tuple(
    lazy_re(rf"(?i:{asking}){rest}\?")
    for asking, rest in (
        # What is the capital of {}? Who was married to {}? But not: What was {}?
        (r"(?:who|what)(?:['’]s| is| was| are| were)", r" (?!\{\}).+ \{\}"),
        # In which county is {}? How long is {}? But not: What school was {}?
        (
            rf"(?:in|on|at|from|for|to|by|during) (?:what|which)\b.*|(?:what|which) (?:\w+ )?{_ATTRIBUTES}",
            rf" {_BE_FORM} \{{\}}",
        ),
        (r"how \w+|how many .*|where", rf" {_BE_FORM} \{{\}}"),
        (rf"how \w+ {_BE_FORM}|how many .* {_BE_FORM}", r" (?!\{\}).+ \{\}"),
        # Where was {} born? What movement was {} a proponent for? But not: When was the version of {}?
        (rf".*\b{_BE_FORM}", rf"(?: .*)? \{{\}} (?:{_PARTICIPLE}|from|in|an? \w+)(?: \w+){{0,2}}"),
        (rf"(?:when|where) {_BE_FORM} the (?:\w+ ){{0,3}}?{_EVENTS}", r" .+ \{\}"),
        (
            rf"(?:when|where|why|how) {_BE_FORM} .*\b(?:[a-z]+ed|[a-z]+ing|held|met|sold)",
            rf" {_PREPOSITION} (?:.* )?\{{\}}",
        ),
        # When did {} die? Where did {} go to college? When will {} be played? But not: When did {} technology die?
        (
            rf".*\b{_AUXILIARY}",
            rf" \{{\}} (?:be {_PARTICIPLE}|{_VERB}(?: \w+){{0,3}}|(?!{_PREPOSITION}\b)[a-z]+(?<!s)(?<!ed))",
        ),
        # Why did she leave {}? When did the war end on {}? But not: When did the party in {}?
        (
            rf".*\b{_AUXILIARY}",
            rf" (?:they |you |we )?(?:[^\s,]+ )+?(?<!the )(?<!an )(?<! a )(?<!of ){_VERB}(?: .+)? \{{\}}",
        ),
        # Who founded {}? What company succeeded {}? How many students attend {}? But not: Which of {}?
        (r"who|what", rf" (?!{_PREPOSITION}\b){_FINITE}\b(?: .+)? \{{\}}"),
        (
            rf"(?:in |on )?(?:what|which|how many|how much) (?!{_PREPOSITION}\b).+",
            rf" (?!{_BE_FORM} \{{\}}){_FINITE}\b(?! of\b)(?: .+)? \{{\}}",
        ),
        # Which country {} is from?
        (r"(?:what|which) [a-z ]+", rf" \{{\}} {_BE_FORM} {_PREPOSITION}"),
        # What is the species which {} was named after?
        (rf"(?:who|what) {_BE_FORM} .+ {_CLAUSE}", rf" \{{\}} {_BE_FORM} {_PARTICIPLE}(?: {_PREPOSITION})?"),
    )
)
"""How what is asked of the thing before may be worded."""
_INCOMPLETE = lazy_re(
    rf"\b(?:{_CLAUSE}|when|while|starring|{_CLAUSE} {_BE_FORM}|(?:caus|lett|mak)(?:es?|ed|ing)) \{{\}}\?|"
    rf"\bwhere (?:(?!{_FINITE}\b)\S+ )*\{{\}}\?|"
    rf"(?i:\A(?:in|during) (?:what|which) (?:year|month|decade|century)) "
    rf"{_BE_FORM}(?: (?!{_PARTICIPLE} )\S+)* \{{\}}\?|"
    rf"\b(?:did|does) {_BE_FORM}\b|,\s+(?!in \{{\}}\?)[a-z]"
)
"""Behind these, more belongs to {} than stands there; nor is what a comma sets apart known to be whole."""
_DESCRIPTION = lazy_re(
    r"(?:Who|What) is the (?P<noun>[a-z][a-z -]*?) "
    rf"(?P<joint>of|{_CLAUSE}|{_PREPOSITION} (?:which|whom)|[a-z]+ing|[a-z]+ed {_PREPOSITION}) (?P<description>.+)\?"
)
_PLURAL = lazy_re(r"(?!(?:headquarters|series|species|premises)$)[a-z-]*[^siu]s")
_BY_OTHERS = lazy_re(r"\b(?:same|other|another|next|previous)\b")
_SUPERLATIVE = lazy_re(r"\b(?:first|last|[a-z]{3,}est)\b")
_PLACE_KINDS = lazy_re(
    r"(?:city|state|county|town|village|province|region|district|country|republic|kingdom|island|river|lake|university|"
    r"borough|municipality|parish|duchy|continent)"
)
"""What "of" only names: the city of Bath."""
_YEAR = lazy_re(r"\b(?:in|since|during|by|until|after|before|as of)\s+(?:the\s+)?\d{3,4}s?$")
_VERB_GROUP = lazy_re(rf"\b(?:{_BE_FORM}|{_AUXILIARY})\b(?:\s+(?:be|been|have|had)\b)?")
_CLAUSE_MARKER = lazy_re(rf"\b(?:{_CLAUSE}|when|while|after|before|because|and|but|than)\b")
_RUNS_ON = lazy_re(
    rf"(?<!\bto )(?<!\band )\b(?:gain|take|become|hold|declare|change|reference|begin|lose|die|host)\b|"
    rf"{_NAME}\s+[a-z]+ed(?!\s+{_PREPOSITION}\b)(?:\s|$)|\b(?:best|most) known (?!for|as|by)"
)
"""A verb behind a description that has its own, or words that go with neither."""
_TAIL = lazy_re(rf"(?:.*\s)?{_NAME}(?P<tail>(?:\s+[a-z][a-z'’-]*)*)")
_CLAUSE_END = lazy_re(
    rf"(?:{_BE_FORM}|had|has|can|could)(?: (?:also|now|currently|most|originally|first|be|been))*"
    rf"(?: (?:{_PARTICIPLE}|part|in|from|(?:an?|the)(?: (?!{_PREPOSITION}\b)[a-z'’-]+){{1,4}})(?: {_PREPOSITION})?"
    rf"(?: to [a-z]+(?: {_PREPOSITION})?)?)?|"
    rf"(?!{_BE_FORM}).*"
)
_WITH_VERB = lazy_re(
    rf"(?:(?:who|that|which) (?!the\b|an?\b|{_BE_FORM}\b|{_AUXILIARY}\b)[a-z]|[a-z]+ing |"
    rf"[a-z]+ed {_PREPOSITION} (?!which\b|whom\b)).*"
)
"""A description that begins with its verb."""
_NO_CLAUSE = lazy_re(rf"\b(?:the|an?|{_PREPOSITION})\b|{_NAME}|\W")
_CLAUSE_VERB = lazy_re(rf"\s*(?:(?:{_BE_FORM}|has|had)\s+)?(?:{_PARTICIPLE}|[a-z]+s)\b(?:\s+{_PREPOSITION}(?=\s))?")
_PLAYED = lazy_re(r"\b(?:plays?|played|portray\w*|voice[sd]?)(?: by)? \{\}\?")
_MAX_CHAIN_QUESTIONS = 4
_MAX_QUESTION_CHARS = 1000
"""What is longer is a text with a question in it."""
_PLACEHOLDER = "{}"
_ASKING = lazy_re(
    r"(?:(?:in|on|at|from|for|to|by|during)\s+)?(?:who|whom|whose|what|which|where|when|why|how)\b", re.IGNORECASE
)
_THE = lazy_re(r"\bthe\s+(?=[a-z])")
_DESCRIBED_THING = lazy_re(
    r"the\s+(?P<noun>(?:[a-z][a-z-]*\s+){0,2}?(?P<head>[a-z][a-z-]*))\s+"
    r"(?P<joint>of|who|whom|that|which|where|whose|(?:in|on|at|by|for|from|with|to)\s+(?:which|whom)|[a-z]{2,}ing|"
    r"[a-z]{2,}ed\s+(?:by|in|to|for))\s+(?P<description>\S.*)"
)
_HELPERS = "is|was|were|are|did|does|do|has|have|had|will|would|can|could"
_PREPOSITIONS = "of|in|on|at|by|for|from|with|to|as|and|or|than|under|near|during"
_NOT_IN_NOUN = lazy_re(
    rf"\b(?:{_HELPERS}|{_PREPOSITIONS}|who|whom|that|which|where|whose|the|an?|against|between|within)\b"
)
_THING_NOUNS = lazy_re(
    r"(?:film|movie|song|album|book|novel|band|group|company|label|network|team|club|party|league|country|state|city|"
    r"county|town|village|province|region|district|capital|birthplace|hometown|headquarters|manufacturer|maker|owner|"
    r"operator|publisher|distributor|employer|university|school|college|river|lake|island|organi[sz]ation|developer)s?"
)
_PERSON_NOUNS = lazy_re(
    r"(?:star|lead|winner|leader|head|host|narrator|inventor|discoverer|architect|designer|painter|artist|performer|"
    r"chairman|editor|lyricist|screenwriter|cinematographer|captain|coach|governor|mayor|emperor|sibling)s?"
)
"""What "the … of X" can be asked for by itself, beside people; "the end of X" cannot."""
_RELATIVE_PRONOUNS = frozenset(("who", "whom", "that", "which", "where", "whose"))
_NAME_WORD = lazy_re(r"(?:^|(?<=[\s(\"“'‘]))(?:[^\W\d_a-z]|\d|#|\"|“|\{\})\S*")
_HAS_NAME = lazy_re(r"[^\W\d_a-z]|[\"“]|\{\}")
_ENDS_WITH_BE = lazy_re(r"\b(?:is|was|were|are)\s+$", re.IGNORECASE)
_ENDS_WITH_HELPER = lazy_re(rf"\b(?:{_HELPERS})\s+$", re.IGNORECASE)
_PREDICATE = lazy_re(r"(?:\w+ed|born|from|made|held|built|won|written|found|set|shot|known|in)\b")
_VERB_OR_PREPOSITION = lazy_re(rf"(?:{_HELPERS}|{_PREPOSITIONS})\b")
_ENDS_WITH_RELATIVE = lazy_re(r"\b(?:who|whom|that|which|where)\s+$")
_MAX_TAIL_WORDS = 3
"""Words between a description and the end of its question."""
_ENDS_WITH_JOIN = lazy_re(r"(?:,|\b(?:and|or|between|besides|with))\s*$", re.IGNORECASE)
_SIDE_BY_SIDE = lazy_re(
    rf",\s+(?:and|or)\b|\b(?:and|or)\s+the\b|\b(?:what|how)\b|\b(?:{_HELPERS}),?\s+\{{\}}|\b(?:is|was|are|were)\s+\w+ed\s+"
    rf"(?!(?:{_PREPOSITIONS})\b)[a-z]+$"
)
"""Things side by side, a question within, or the verb of what is asked inside a description: no chain."""
_NO_QUESTION_LEFT = lazy_re(
    r"(?:(?:who|what|which|where)(?:['’]s|\s+(?:is|was|are|were))?|(?:when|why|how)\s+(?:is|was|are|were)|.*\b(?:did|does|"
    r"do|has|have|had|will|would|can|could))\s+(?:the\s+names?\s+of\s+)?\{\}",
    re.IGNORECASE,
)
"""What is left is no question, or the same one."""
_RELATION_NOUNS = (
    "father|mother|parent|husband|wife|spouse|son|daughter|child|brother|sister|sibling|director|author|writer|composer|"
    "performer|singer|producer|founder|creator|birthplace|hometown"
)
_POSSESSIVE = lazy_re(
    rf"(?P<before>(?:\w+\s+)?(?:[a-z][a-z-]*\s+)*)(?P<owner>[^\W\d_a-z].*?|\{{\}})(?:['’]s|(?<=s)['’])\s+"
    rf"(?P<noun>{_RELATION_NOUNS})(?P<after>(?:\s+[a-z]+){{0,{_MAX_TAIL_WORDS}}})"
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
"""Relatives through another one."""
_RELATIVE = lazy_re(
    rf"who\s+(?:is|was)\s+(?:(?:the\s+)?(?P<kin>{'|'.join(_KIN)})\s+of\s+(?P<of>\S.*)|"
    rf"(?P<owner>\S.*?)(?:['’]s|(?<=s)['’])\s+(?P<owned>{'|'.join(_KIN)}))",
    re.IGNORECASE,
)


def chain_of(question: str) -> tuple[str, ...]:
    """Return what to ask one after the other, with {} for the answer before; () where the words give no chain."""
    text = " ".join(question.split()).rstrip("?. ")
    # A negated question has no chain: none finds what a thing is not.
    if _PLACEHOLDER in text or len(text) > _MAX_QUESTION_CHARS or not _ASKING.match(text) or _NEGATED.search(text):
        return ()
    if relative := _RELATIVE.fullmatch(text):
        first, second = _KIN[(relative["kin"] or relative["owned"]).lower()]
        return (
            f"Who is the {first} of {relative['of'] or relative['owner']}?",
            f"Who is the {second} of {_PLACEHOLDER}?",
        )
    asked: list[str] = []
    while len(asked) < _MAX_CHAIN_QUESTIONS - 1 and (pair := _take_innermost(text)):
        inner, text = pair
        asked.append(inner)
    last = f"{text}?"
    proper = asked and _is_question(last, before=asked) and all(map(_is_description, asked))
    return (*asked, last) if proper else ()


def _take_innermost(text: str) -> tuple[str, str] | None:
    """Return a question for the thing that is described last, and the text with {} in its place."""
    for place in reversed(list(_THE.finditer(text))):
        before, rest = text[: place.start()], text[place.start() :]
        described = _DESCRIBED_THING.fullmatch(rest)
        if described is None or _NOT_IN_NOUN.search(described["noun"]):
            continue
        noun, joint = described["noun"], described["joint"]
        after = _question_tail(before, rest, joint, described.start("description"))
        end = len(rest) - len(after)
        thing, description = rest[:end], rest[described.start("description") : end]
        is_known = description.startswith(_PLACEHOLDER) or is_name(description)
        if joint == "of" and not (_can_be_asked_for(noun) and is_known):
            continue
        # It must hold a name that the thing can be found by, and nothing beside it.
        findable = _HAS_NAME.search(description) and not re.search(r"['’]s$|[,;]$|,\s+[a-z]", description)
        if not findable or _ENDS_WITH_JOIN.search(before) or _SIDE_BY_SIDE.search(thing):
            return None
        return _ask_for(thing, noun, joint, f"{before}{_PLACEHOLDER}{after}")
    if (owned := _POSSESSIVE.fullmatch(text)) and (is_name(owned["owner"]) or owned["owner"] == _PLACEHOLDER):
        outer = f"{owned['before']}{_PLACEHOLDER}{owned['after']}"
        return _ask_for(f"{owned['owner']}'s {owned['noun']}", owned["noun"], "of", outer)
    return None


def _can_be_asked_for(noun: str) -> bool:
    """Return whether "the … of X" is something to look up by itself."""
    head = noun.split()[-1]
    return bool(PERSON_WORDS.search(head) or _THING_NOUNS.fullmatch(head) or _PERSON_NOUNS.fullmatch(head))


def _ask_for(thing: str, noun: str, joint: str, outer: str) -> tuple[str, str] | None:
    if _NO_QUESTION_LEFT.fullmatch(outer):
        return None
    person = joint in ("who", "whom") or PERSON_WORDS.search(noun) or _PERSON_NOUNS.fullmatch(noun.split()[-1])
    return f"{'Who' if person else 'What'} is {thing}?", outer


def _question_tail(before: str, rest: str, joint: str, description: int) -> str:
    """Return the end of the question that belongs to what is asked, not to the description: "… born", "… is from"."""
    names = list(_NAME_WORD.finditer(rest))
    after = rest[names[-1].end() :] if names else ""
    after = after[len(_clause_verb(joint, rest[description : len(rest) - len(after)], after)) :]
    words = after.strip()
    if not words or len(words.split()) > _MAX_TAIL_WORDS:
        return ""
    if _ENDS_WITH_BE.search(before):
        return after if _PREDICATE.match(words) else ""
    if _ENDS_WITH_HELPER.search(before):
        return after if not _VERB_OR_PREPOSITION.match(words) else ""
    helped, inside = re.match(r"(?:is|was|are|were)\b", words), _ENDS_WITH_RELATIVE.search(before)
    of_asked = (joint == "of" and (helped or inside)) or (joint in _RELATIVE_PRONOUNS and helped and inside)
    return after if of_asked else ""


def _clause_verb(joint: str, description: str, after: str) -> str:
    """Return the verb that a clause lacks, at the beginning of what follows its name: "where Ada Moor" + "lived"."""
    if joint not in ("that", "which", "who", "whom", "where") and not joint.endswith((" which", " whom")):
        return ""
    match = None if _NO_CLAUSE.sub("", description) else _CLAUSE_VERB.match(after)
    return match[0] if match else ""


def _is_question(asked: str, *, before: Sequence[str]) -> bool:
    """Return whether what is asked of {} at last is a question; `before` are the questions for the things.

    "Who was played by {}?" behind "Who is the director of A in B?" lacks where.
    """
    if _INCOMPLETE.search(asked) or (_PLAYED.search(asked) and " in " in " ".join(before) and " in " not in asked):
        return False
    return any(form.fullmatch(asked) for form in _QUESTION_FORMS)


def _is_description(asked: str) -> bool:
    """Return whether a question for a described thing describes one, and no more; other shapes pass."""
    match = _DESCRIPTION.fullmatch(asked)
    if _INCOMPLETE.search(asked):
        return False
    if match is None:
        return True
    noun, joint, description = match["noun"], match["joint"], match["description"]
    head = noun.split()[-1]
    if _PLURAL.fullmatch(head) or re.fullmatch(_PARTICIPLE, head) or _BY_OTHERS.search(noun):
        return False
    if joint != "of":
        return _is_clause(joint, description)
    named = _PLACE_KINDS.fullmatch(head) and not description.startswith("{}")
    return not (named or _YEAR.search(description) or (_SUPERLATIVE.search(noun) and " and " in description))


def _is_clause(joint: str, description: str) -> bool:
    """Return whether a description has one verb, and nothing behind it that goes with another one."""
    markers, verbs = len(_CLAUSE_MARKER.findall(description)), len(_VERB_GROUP.findall(description))
    if re.search(r"\bth(?:is|ese)\b", description):
        return False
    if _WITH_VERB.fullmatch(f"{joint} {description}"):
        return verbs <= markers and (markers > 0 or not _RUNS_ON.search(description))
    tail = _TAIL.fullmatch(description)
    end = tail["tail"].strip() if tail else ""
    return verbs <= markers + 1 and bool(_NO_CLAUSE.sub("", description)) and bool(_CLAUSE_END.fullmatch(end))


def plan_by_words(ctx: Context, question: str, *, chains: bool = True) -> Plan | None:
    """Return the plan that the words give; None where they give none."""
    asked_in_turn = plan_comparison(question) or (tuple(filter(None, (chain_of(question),))) if chains else ())
    if not asked_in_turn:
        return None
    nodes: list[Node] = []
    for first, *later in asked_in_turn:
        nodes.append(Node(len(nodes) + 1, first))
        for asked in later:  # each needs the answer to the one before
            above = nodes[-1]
            text = asked.replace(_PLACEHOLDER, f"#query{above.id}")
            nodes.append(Node(above.id + 1, text, above.id, above.depth + 1, (above.id,)))
    plan = Plan(tuple(nodes))
    record_plan(ctx, plan)
    return plan


Operator = Literal["lookup", "chain", "compare", "both", "intersect", "count", "yes_no"]

_HOW_MANY = lazy_re(
    r"^\W*(?:how many(?!\s+(?:more|fewer|less|(?:\w+\s+)?(?:years|months|weeks|days|hours|minutes|decades))\b)|"
    r"what (?:is|was) the number of)\b",
    re.IGNORECASE,
)
"""Things that can be listed: a difference or a length of time is told or computed."""
_ASKS_WHICH = r"(?:^|[.:;]\s)\W*(?:(?:in|on|at|for|from|of|by|with|to)\s+)?(?:which|who|whom|what|list|name)\b"
_FULFILS_BOTH = lazy_re(
    rf"\bboth\b|\bin common\b|\bsome of the same\b|{_ASKS_WHICH}.*?(?-i:\balso\b(?!\s+(?:known|called))|"
    r"\bas well\b|"
    r"\band\s+(?:later|again|still|one|in|had|has|have|was|were|is|are|[a-z]+ed|won|sang|wrote|made|led)\b)",
    re.IGNORECASE | re.DOTALL,
)
"""Signs that one thing fulfils two conditions: "both", "in common", "and also", "and later", "and studied"."""
_NO_VERB = r"(?!(?:is|was|were|are|did|does|do|has|had|have|of)\b)"
_ASKS_FOR_SEVERAL = lazy_re(
    rf"{_ASKS_WHICH}\s+(?:of\s+(?:the|these|those)\b|(?:{_NO_VERB}[\w'’.&-]+\s+){{0,4}}?"
    rf"(?-i:{_NO_VERB}[a-z]+[^\Wsu]s|people|men|women|children)\s+"
    r"(?-i:of|from|in|by|with|who|whom|that|which|where|did|have|were|are|[a-z]+ed|[a-z]+ing|made|had)\b)",
    re.IGNORECASE,
)
"""Which of several things are asked for, by a condition at the least: two names are of two then."""


def operator_of(question: str) -> Operator:
    """Return the operator of a question: one fact is looked up unless its words say that facts are put together.

    A comparison is one only where the things compared can be identified; things that are described inside one another
    are looked up in a chain, and what is said to fulfil several conditions is intersected.
    """
    if comparison := detect_comparison(question):
        return "both" if comparison.kind == "both" else "compare"
    if _HOW_MANY.match(question):
        return "count"
    if expected_answer_type(question) == "yes or no":
        return "yes_no"
    if chain_of(question):
        return "chain"
    # Two names alone may be of one thing.
    several = _FULFILS_BOTH.search(question) or _ASKS_FOR_SEVERAL.search(question)
    if not several:
        return "lookup"
    from hoptree.methods.steps.conditions import may_list  # loads the steps of lists, which few questions need

    return "intersect" if may_list(question) else "lookup"
