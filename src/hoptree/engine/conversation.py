"""Rewrite a follow-up question so that it can be understood alone.

A small model may repeat an earlier question, alone or before the follow-up, and leave the pronoun in. The repetition
is then dropped, and the pronoun is replaced by the person or thing that the conversation is about. Of "What about B?"
it may make a question of its own; then the last question is asked with B in the place of what it is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hoptree.core.lazy import lazy_re
from hoptree.core.values import Passage, Question
from hoptree.engine.answer_sentence import shorten
from hoptree.engine.prompts import prompt_for
from hoptree.engine.trace import QuestionRewritten
from hoptree.text.grounding import covers, stems
from hoptree.text.names import CLOSED, name_spans, word_set
from hoptree.text.tokens import function_words, language_of

if TYPE_CHECKING:
    from hoptree.engine.context import Context

_MAX_TURNS = 6  # earlier questions that the model sees
_MAX_REWRITTEN_TOKENS = 120
_MAX_ADDED_STEMS = 2  # word stems that neither the conversation nor the question has; with more it is another question
_WORD = lazy_re(r"[a-z0-9]+|[^\W\d_a-z]")
_JOINED = lazy_re(r"(?:and|but|so|und|aber)\s+", re.IGNORECASE)
_BETWEEN = lazy_re(r"\b(?:and|or|but|und|oder|aber)\b", re.IGNORECASE)
_PERSON = lazy_re(
    r"\b(?:(?P<of>his|her(?!\s*(?:[?.!,]|$)|\s(?:in|on|at|to|for|with|from|by|as)\b)|seine[rnms]?)|he|she|him|her|er|ihn|ihm)\b",
    re.IGNORECASE,
)
_THING = lazy_re(r"\b(?:(?P<of>its)|it(?! (?:\w+ ){1,2}(?:to|that|if|whether)\b))\b", re.IGNORECASE)
_ODD_NAME = lazy_re(r"(?<!\S)(?:[A-Za-z]+[\d_][\w.+-]*\w|[A-Za-z]+\d|[./~]*/[\w./+-]*\w)")
"""bzip2, libz.so.1, snake_case, /usr/share"""
_ASKS_FOR_PERSON = lazy_re(r"\b(?:who|whom|wer|wen|wem)\b", re.IGNORECASE)
_CHINESE_PERSON = lazy_re(r"(?<![其吉])[他她](?!们)")
_CHINESE_WHO = lazy_re(r"谁|哪位|哪个人")
_CHINESE_NAME = lazy_re(r"(?:答案是|可能是)?(?P<name>[\u4e00-\u9fff][\u4e00-\u9fff·]{1,19})(?:[：。（(].*)?", re.DOTALL)
_DETERMINERS = "the|a|an|der|die|das|dem|den|des|ein|eine|einem|einen|einer"
_WHAT_ABOUT = lazy_re(
    r"(?:(?:and|but|so|und|aber)\s+)?(?:(?:what|how)\s+about|was\s+ist\s+mit|wie\s+(?:ist|steht)\s+es\s+mit)\s+"
    r"(?P<topic>.+?)\s*\?*",
    re.IGNORECASE,
)
_GENITIVE = lazy_re(r"\b(?P<noun>[A-ZÄÖÜ][a-zäöüß]+?)e?s\b")
"""Gasthauses, Falkensteins; English sets an apostrophe."""
_AND = lazy_re(rf"(?:[Aa]nd|[Uu]nd)\s+(?P<topic>(?:(?:{_DETERMINERS})\s+\S|[^\Wa-zäöüß]).*?)\s*\?*")
_DETERMINED = lazy_re(rf"(?:{_DETERMINERS})\s+", re.IGNORECASE)
_ONLY_THING = lazy_re(r"\b(?:the|an?)\s+(?P<noun>[a-z-]+)(?:\s+(?P<next>\w+))?", re.IGNORECASE)
_MAX_TOPIC_WORDS = 6
_GERMAN = lazy_re(r"\b(?:welche[mnrs]?|wer|wen|wem|wo|wann|wie|hat|ist|wurde|warum)\b", re.IGNORECASE)
_CLAUSE = word_set(
    "who whom whose what which where when why how is are was were be did do does has have had can must will wer wen "
    "wem was welche welcher welches wo wann warum wie ist sind war waren hat haben kann muss wird"
)
"""Words that make a question of "And B"."""
_OF_PERSON = lazy_re(
    r"\b(?:born|die[ds]?|death|live[ds]?|marr\w+|wife|husband|spouse|mother|father|sons?|daughters?|child\w*|stud\w+"
    r"|geboren|gestorben|starb|lebte|verheiratet|frau|mann|mutter|vater|sohn|tochter|kinder|stud\w+)\b",
    re.IGNORECASE,
)

Turn = tuple[str, str]  # a question and its answer


async def rewrite_question(asked: Question, ctx: Context) -> Question:
    """Return a follow-up question that can be understood alone.

    Calls the model once, unless the question stands alone already.
    A reply is rejected if it has no word of the question, a name that neither the question nor the conversation has, or
    too many new words.
    """
    if stands_alone(asked.text):
        return replace(asked, history=())
    turns = [(shorten(question), shorten(answer)) for question, answer in asked.history[-_MAX_TURNS:]]
    history = "\n".join(f"Question: {question}\nAnswer: {answer or 'none was found'}" for question, answer in turns)
    prompt = prompt_for("chat", "standalone").fill(history=history, question=asked.text)
    reply = (await ctx.generate("rewrite", prompt, max_tokens=_MAX_REWRITTEN_TOKENS, stop=("\n",))).text
    text = " ".join(reply.removeprefix("Next question:").split())
    text = re.sub(r'\A["“„]([^"“”„]*)["”“]\Z', r"\1", text)  # the quotes of a title at the beginning stay
    text = _without_earlier(text, turns)
    person = _last_chinese_person(turns) if _CHINESE_PERSON.search(asked.text) else ""
    accepted = _is_rewriting(text, asked.text, history) and person in text
    topic = _topic(asked.text)
    if topic and turns and not (accepted and _asks_alike(text, turns[-1][0])):
        replaced = _with_topic(turns[-1][0], topic)
        text, accepted = replaced or asked.text, bool(replaced)
    text = resolve_pronoun(text if accepted else asked.text, turns)
    if not accepted and text == asked.text:
        if not _names_its_subject(text):
            message = "The question was read by itself, without the questions before it."
            ctx.warn("not_rewritten", message)
        return asked
    if text != asked.text:
        ctx.trace.emit(QuestionRewritten(question=text))
    return replace(asked, text=text, history=())


def _without_earlier(text: str, turns: Sequence[Turn]) -> str:
    """Return the text without an earlier question at its beginning."""
    for question, _ in turns:
        if text.casefold().startswith(question.casefold()) and (rest := text[len(question) :].strip()):
            return rest
    return text


def _is_rewriting(text: str, asked: str, history: str) -> bool:
    """Return whether a text asks the same question, in the words of the conversation."""
    wanted = stems(_THING.sub("", _PERSON.sub("", asked))) or _words(asked)
    kept = wanted & (stems(text) | _words(text))
    known = f"{history}\n{asked}"
    words = set(re.findall(r"\w+", known))
    text = _GENITIVE.sub(lambda noun: noun["noun"] if noun["noun"] in words else noun[0], text)
    language = language_of(text)
    of_no_content = {*_CLAUSE, *function_words().get(language, ())}
    added = stems(text) - stems(f"{known} {' '.join(of_no_content)}")
    named = _SCRIPT_CHANGE.sub(" ", text)
    if _GERMAN.search(text):  # no name is "Besitzer der Burg" or "Werk in Ulm"
        named = _GERMAN_LINK.sub(",", named)
    if not covers(named, [Passage("", "", known)]):
        return False
    of_history = language_of(history)
    is_named = text not in history and any(name in history for name in _names(named))  # all that languages share
    is_about = kept or (is_named and language_of(asked, of_history) != language)
    return bool(is_about) and (len(added) <= _MAX_ADDED_STEMS or (is_named and language != of_history))


def _topic(asked: str) -> str:
    """Return B of "What about B?" and "And B?"; "" if B has a pronoun, or is a clause."""
    match = _WHAT_ABOUT.fullmatch(asked.strip()) or _AND.fullmatch(asked.strip())
    topic = match["topic"] if match else ""
    words = _DETERMINED.sub("", topic, count=1).split()
    is_phrase = len(words) <= _MAX_TOPIC_WORDS and not any(word.strip("?,").casefold() in _CLAUSE for word in words)
    return "" if not is_phrase or _PERSON.search(topic) or _THING.search(topic) else topic


def _plain(names: Iterable[str]) -> set[str]:
    """Return the names that are none of German's capitalised nouns."""
    return {name for name in names if " " in name or any(map(str.isdigit, name))}


def _asks_alike(text: str, last: str) -> bool:
    """Return whether a rewriting asks what the last question asks, or about its names."""
    names = _names(last)
    wanted = stems(last) - stems(" ".join(names))
    if names and stems(" ".join(names)) <= stems(text):
        return True
    return 2 * len(wanted & stems(text)) >= len(wanted)


def _with_topic(last: str, topic: str) -> str:
    """Ask the last question of a topic, in place of its only name or thing; or ""."""
    names, topics = set(_names(last)), _names(f"about {topic}")
    if not (_plain(topics) if _DER.match(topic) else topics):
        return ""
    if len(names) > 1 and _GERMAN.search(last):
        names = _plain(names)
    if len(names) == 1:
        name = re.escape(names.pop())
        bare = _DETERMINED.sub("", topic, count=1)
        phrase = rf"\b(?:[Tt]he|[Aa]n?)\s+(?:(?!(?:of|in|at|on|to|for|by|from)\b)[a-z-]+\s+){{0,2}}{name}"
        if bare != topic and (noun_phrase := re.search(phrase, last)):
            return f"{last[: noun_phrase.start()]}{topic}{last[noun_phrase.end() :]}"
        has_own = re.search(rf"\b(?:{_DETERMINERS})\s+{name}", last, re.IGNORECASE)
        return re.sub(name, lambda _: bare if has_own else topic, last, count=1)
    things = list(_ONLY_THING.finditer(last))
    if names or len(things) != 1 or (things[0]["next"] or "be").casefold() not in CLOSED:
        return ""
    return f"{last[: things[0].start()]}{topic}{last[things[0].end('noun') :]}"


_ASKS = lazy_re(r"\b(?:who|whom|whose|what|which|when|where|how|why)\b|\A(?:is|are|was|were|does|did)\b", re.IGNORECASE)
_REFERS = lazy_re(
    r"\A(?:and|but|so|or|then|also|what about|how about|und|aber|oder|also|dann|sowie|was ist mit)\b|\.\.\.|…"
    r"|\b(?:he|she|it|they|him|her|hers|his|its|them|their|theirs|this|these|those|ones?|others?|another|else|same"
    r"|such|both|either|neither|former|latter|there|here|then|too|again|instead|previous|above"
    r"|er|sie|es|ihn|ihm|ihnen|ihr\w*|seine?[mnrs]?|dies\w*|jene\w*|dort|da|hier|dann|damals|auch|noch|sonst|beide\w*"
    r"|andere\w*|weitere\w*|solche\w*|selbe\w*|ebenso"
    r"|(?:da|hier|wo)(?:r?a[nu][fs]?|rin|rüber|bei|mit|von|zu|für|durch|gegen|nach|vor))\b"
    r"|\b(?:is|was|are|were|did|does|do|of|in|on|at|for|from|by|with|like|after|before|since|about|to) that\b"
    r"|\A(?:why|when|how|warum|wieso|wann) (?:not|only|in|on|at|for|from|with|nicht|nur|bei|für|aus|mit)\b"
    r"|(?<![\w.])so\b|\A(?:which|welche[rs]?) (?:is|are|was|were|has|had|came|ist|sind|war|waren|wurden?|hat|kam)\b"
    r"(?!.*\b(?:or|oder)\b)"
    r"|\A(?:why )?(?:is|are|was|were) the [\w-]+ (?:in|on|at|for|from|by|to|with)\b"
    r"|\A(?:warum )?(?:ist|sind|war|waren) (?:der|die|das) [\w-]+ (?:in|im|am|auf|aus|bei|für|mit|von|vom)\b"
    r"|[他她它其此该这那呢]",
    re.IGNORECASE,
)
"""Words that may mean something in an earlier question, as in "Why not in A?" and "Is the captain from A?"."""
_COMPARES = lazy_re(r"\b(?:more|less|\w{2,}er|mehr|weniger)\s*(?:\?|\Z)", re.IGNORECASE)
_THE = lazy_re(r"\bthe\b", re.IGNORECASE)
_DER = lazy_re(r"\b(?:der|die|das|dem|den|des|im|am|zum|zur|vom|beim)\b", re.IGNORECASE)
_GERMAN_LINK = lazy_re(
    rf"\b(?:der|die|das|dem|den)\s+(?-i:[A-ZÄÖÜ][a-zäöüß]+)(?=\s+(?:von|des|der)\b)|{_DER.pattern}|\b(?:in|von)\b",
    re.IGNORECASE,
)
"""Words that no German name has: "die Frau" of "die Frau von Ada", articles, in and von."""
_SCRIPT_CHANGE = lazy_re(r"(?<=[\u4e00-\u9fff])(?=[A-Za-z])|(?<=[^\W\d_\u4e00-\u9fff])(?=[\u4e00-\u9fff])")
_ANCHORED = lazy_re(
    r"[\w-]+ (?:(?:[a-zäöüß-]+ ){0,2}(?:of|von|des)\b|(?:der |die |das |dem |den )?[\"“„'«‘(A-ZÄÖÜ\d]"
    r"|(?:in|at|on|for|from|by|to|with|between|during|that|who|whose|which|where|when|vom|der|im|am|auf|aus|für|mit"
    r"|zwischen|zu|zur|zum)\b)"
)
"""What makes a definite thing known: "the director OF a film", "the film Solaris", "der Autor DES Faust"."""
_PLAIN_NAME = lazy_re(r"\w \w|\d|\w[A-Z]|\W")


def stands_alone(text: str) -> bool:
    """Return whether a question plainly needs no earlier one.

    It names something itself, and has no word that may refer to anything else.
    """
    articles = (_DER if _GERMAN.search(text) else _THE).finditer(text)
    return _names_its_subject(text) and all(_is_anchored(text[match.end() :].lstrip()) for match in articles)


def _names_its_subject(text: str) -> bool:
    """Return whether a question has a name, and no word that may refer elsewhere."""
    if _REFERS.search(text) or _COMPARES.search(text):
        return False
    if re.search(r"[\u4e00-\u9fff]", text):
        return bool(re.search(r"《[^》]+》|[“「][^”」]+[”」]|[A-Za-z]{2}", text))
    is_german = _GERMAN.search(text) is not None
    if not is_german and not _ASKS.search(text):
        return False
    return any(not is_german or _PLAIN_NAME.search(name) for name in _names(text))


def _is_anchored(rest: str) -> bool:
    """Return whether what follows "the" is a name, or described by the question."""
    return _ANCHORED.match(rest) is not None or bool(name_spans(rest.split(maxsplit=1)[0] if rest else ""))


def resolve_pronoun(text: str, turns: Sequence[Turn]) -> str:
    """Replace a pronoun by the last person or thing, unless the question names one."""
    if (chinese := _CHINESE_PERSON.search(text)) is not None:
        name = _last_chinese_person(turns)
        return text if not name or name in text else f"{text[: chinese.start()]}{name}{text[chinese.end() :]}"
    bare = text[joined.end() :] if (joined := _JOINED.match(text)) else text
    pronoun = _PERSON.search(bare)
    if pronoun is not None:
        name, before = _last_person(turns), bare[: pronoun.start()]
    elif (pronoun := _THING.search(bare)) is not None:
        name, before = _last_thing(turns), bare
    if pronoun is None or not name or _names(before) or _BETWEEN.search(bare[: pronoun.start()]):
        return text
    before, rest, possessive = bare[: pronoun.start()], bare[pronoun.end() :], "'s" if pronoun["of"] else ""
    if not before and pronoun[0].casefold() in ("his", "her", "its"):
        before = "Who is " if _OF_PERSON.match(rest.lstrip()) else "What is "
    bare = f"{before}{name}{possessive}{rest}"
    return f"{bare[:1].upper()}{bare[1:]}"


def _last_person(turns: Sequence[Turn]) -> str:
    """Return the person of the latest question, or answer, about a person."""
    for question, answer in reversed(turns):
        if person := _person_of(question, answer):
            return person
        names = _names(question)
        if len(names) == 1 and _OF_PERSON.search(question):
            return names[0]
    return ""


def _last_chinese_person(turns: Sequence[Turn]) -> str:
    """Return the answer to the latest question of who, if it is a name in Chinese."""
    answers = (answer for question, answer in reversed(turns) if _CHINESE_WHO.search(question))
    match = _CHINESE_NAME.fullmatch(next(answers, ""))
    return match["name"] if match else ""


def _person_of(question: str, answer: str) -> str:
    """Return the name in the answer to "who", such as "Ada directed the film [1]"."""
    spans = name_spans(answer) if _ASKS_FOR_PERSON.search(question) else ()
    names = (answer[start:end] for start, end in spans)
    return next((name for name in names if name.casefold() not in CLOSED and name not in question), "")


def _last_thing(turns: Sequence[Turn]) -> str:
    """Return the only thing that the latest question with names is about, or ""."""
    named = next(((question, names) for question, _ in reversed(turns) if (names := _names(question))), None)
    if named is None or len(named[1]) > 1 or _OF_PERSON.search(named[0]):
        return ""
    people = {_person_of(question, answer) for question, answer in turns}
    return "" if named[1][0] in people else named[1][0]


def _names(text: str) -> list[str]:
    """Return the names after the first word, and the names of files and programs."""
    first = re.match(r"\W*\w+", text)
    spans = name_spans(text, first.end() if first else 0)
    odd = [match.span() for match in _ODD_NAME.finditer(text)]
    spans += [(start, end) for start, end in odd if all(end <= low or start >= high for low, high in spans)]
    return [re.sub(r"['’]s?$", "", text[start:end]) for start, end in sorted(spans)]


def _words(text: str) -> set[str]:
    """Return the words of a text, or the characters in scripts without spaces."""
    return set(_WORD.findall(text.casefold()))
