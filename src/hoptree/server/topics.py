"""Suggest topics for questions, from names, definitions and headings of passages."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Literal

from typing_extensions import TypedDict

from hoptree.core.lazy import lazy_re
from hoptree.core.values import CONTENTS, Passage
from hoptree.corpus.document import BETWEEN_HEADINGS
from hoptree.corpus.files import stem
from hoptree.retrieval.index.links import capitalised_names
from hoptree.text.names import word_set
from hoptree.text.tokens import language_of

Kind = Literal["question", "who", "what", "link", "heading", "name"]
Language = Literal["en", "de", "zh"]


class Topic(TypedDict):
    """What a question could be about.

    `kind` says what `title` is: a heading that is a question, a name that a passage explains (who or what), a title
    whose passage mentions another title (`mentions`), a heading (of `document`), or a name in several passages.
    `language` is that of the passages, or null if it is unclear, or another.
    """

    title: str
    mentions: str | None
    document: str | None
    kind: Kind
    language: Language | None


_TEXT_CHARS = 2_000  # of a passage, as each is searched for every title
_MAX_TOPICS, _ENOUGH = 6, 3  # with fewer than enough, names are suggested as well
_MIN_CHARS, _MAX_CHARS, _MAX_WORDS, _MAX_NAME_WORDS = 3, 60, 7, 4
_USUAL_DOCUMENTS = 3  # with the same heading, which then says little
_MIN_QUESTION_WORDS, _MAX_QUESTION_CHARS = 4, 120
_LANGUAGES: dict[str, Language] = {"english": "en", "german": "de", "chinese": "zh"}
_MEANING = r"(?: \([^()]{1,60}\))?"
_NAME = r"(?P<name>[^\W\d_][\w'’+-]*(?: [\w'’+-]+){0,4})"
_DEFINED = {
    "en": lazy_re(rf"(?:The |An? )?{_NAME}{_MEANING} (?:is|was) (?:an?|the|one of) (?P<rest>.{{0,200}})"),
    "de": lazy_re(
        rf"(?:Der |Die |Das |Eine? )?{_NAME}{_MEANING} (?:ist|war) (?:eine?|der|die|das) (?P<rest>.{{0,200}})"
    ),
    "zh": lazy_re(r"(?P<name>(?![如这那它其此本因所只])[\w+ .-]{2,16}?)\s?是(?:一|指|由|用)(?P<rest>.{0,100})"),
}
_COMMAND = lazy_re(r"(?P<name>[a-z][\w.+-]{1,40}) [-–—] \S.{4,200}")
_PERSON = lazy_re(r"\bborn\b|\bdied\b|\bgeboren\b|\bgestorben\b|出生|逝世|\b(?:1\d|20)\d\d\s?[–-]\s?(?:1\d|20)\d\d")
_PART = "part|chapter|section|appendix|kapitel|abschnitt|anhang"
_LIST_MARK = lazy_re(r"\A(?:[-–—•*·▪◦‣+]+\s+)+")
_NUMBERED = lazy_re(
    rf"\A(?:(?:(?:{_PART})\s)?(?:[A-Z](?:\.\d+)*[.:]|[IVX]+\.|\d+(?:\.\d+)*[.:]?)\s+|第\s?[\d.]+\s?[章节]\s*)",
    re.IGNORECASE,
)
_FOLLOW_UP = lazy_re(r"(?:and|but|or|so|und|aber|oder)\b|(?:how|what) about\b|那么?", re.IGNORECASE)
_PREPOSITION = lazy_re(r" (?:in|on|for|at) (?:the )?")
_SEVERAL_WORDS = lazy_re(r"\S[\s-]+\S|[\u3040-\u30ff\u4e00-\u9fff]{2}")
_FILE_LIKE = lazy_re(r"[/\\_]|\.\w{1,5}\Z|\A[\W\d]+\Z")
_POINTING = word_set(
    "this that these those it he she they there here what which who each one another such its his her their i we "
    "you if when where why how no not a an the and or but for in on at by of as to from with note example first "
    "second next default also only both all some any every following above below purpose result reason name "
    "value option command es er sie dies diese dieser dieses das der die was wer wie wo hier dort man ich wir "
    "jede jeder jedes 如下 这 那 如果 oder and or darauf antwort 它 他 她 其 此 本"
)
_USUAL = word_set(
    "alphabetical-list-of-documents site-map permuted-index commands variables "
    "introduction warning caution scope tip important "
    "overview synopsis description options option parameters notes note example examples see-also "
    "name names author authors bugs history files environment contents index preface summary conclusion "
    "references abstract usage compatibility outputs configuration appendix background discussion general "
    "license copyright changelog readme faq limitations caveats requirements installation foreword "
    "table-of-contents navigation next-topic previous-topic quick-search this-page revision-history change-history "
    "revision-history-and-acknowledgements inhaltsverzeichnis nächstes-thema vorheriges-thema "
    "acknowledgements other miscellaneous syntax functions einleitung übersicht beschreibung optionen beispiele "
    "beispiel anmerkungen siehe-auch inhalt vorwort anhang zusammenfassung dateien autoren 简介 概述 介绍 说明 "
    "示例 选项 注意 参见 目录 前言 附录 总结 参考"
)


def suggest_topics(passages: Iterable[Passage]) -> list[Topic]:
    """Suggest topics of all folders, languages and kinds; names if others are few."""
    texts = (passage for passage in passages if CONTENTS not in passage.metadata)
    in_order = [_prepared(passage) for passage in texts]
    stride = max(1, len(in_order) // _MAX_TOPICS)  # from all over the corpus
    read = [passage for start in range(stride) for passage in in_order[start::stride]]
    kinds = (_questions(read), _links(read), _definitions(read), _headings(read))
    in_turn = [pair for row in zip_longest(*kinds) for pair in row if pair is not None]
    chosen = _spread(in_turn)
    for topic in _names(read):
        if len(chosen) < _ENOUGH and topic["title"].casefold() not in " ".join(chosen):
            chosen[topic["title"].casefold()] = topic
    return list(chosen.values())


def _prepared(passage: Passage) -> Passage:
    """Return a passage with less text, and with its language, "" if that is unclear."""
    text = passage.text[:_TEXT_CHARS]
    language = dict(passage.metadata).get("language") or language_of(text, "")
    return replace(passage, text=text, metadata=(("language", language),))


def _spread(in_turn: Sequence[tuple[str, Topic]]) -> dict[str, Topic]:
    """Choose topics by title, each of the folder, language and file with the fewest."""
    folders = _top_folders({file for file, _ in in_turn})
    chosen: dict[str, Topic] = {}
    counts: Counter[str] = Counter()
    left = list(in_turn)
    while left and len(chosen) < _MAX_TOPICS:
        file, topic = min(left, key=lambda pair: tuple(counts[part] for part in _parts(pair, folders)))
        chosen[topic["title"].casefold()] = topic
        counts.update(_parts((file, topic), folders))
        titles = " ".join(chosen)
        left = [pair for pair in left if pair[1]["title"].casefold() not in titles]
    return chosen


def _parts(pair: tuple[str, Topic], folders: Mapping[str, str]) -> tuple[str, str, str]:
    """Return folder, language and file of a topic as distinct keys."""
    file, topic = pair
    return f"folder {folders[file]}", f"language {topic['language']}", f"file {file}"


def _top_folders(files: Collection[str]) -> dict[str, str]:
    """Return the folder, or name, of each file below the folders they all share."""
    paths = {file: file.split("/") for file in files}
    common = 0
    while len({path[common] for path in paths.values()}) == 1 and all(
        len(path) > common + 1 for path in paths.values()
    ):
        common += 1
    return {file: path[common] for file, path in paths.items()}


def _file(passage: Passage) -> str:
    """Return the file of a passage; "" for rows of passage files, which are documents."""
    return "" if passage.id == passage.document else passage.document.partition("#")[0]


def _language(passage: Passage) -> Language | None:
    return _LANGUAGES.get(dict(passage.metadata).get("language", ""))


def _topic(
    passage: Passage, title: str, kind: Kind, *, mentions: str | None = None, document: str | None = None
) -> tuple[str, Topic]:
    """Return a topic in the language of a passage, with the passage's file."""
    topic = Topic(title=title, mentions=mentions, document=document, kind=kind, language=_language(passage))
    return _file(passage), topic


def _readable(title: str, passage: Passage) -> str:
    """Return a heading without its number; "" for file names and usual headings."""
    title = _NUMBERED.sub("", _LIST_MARK.sub("", " ".join(title.split())), 1)
    named_by_file = title.casefold() in (passage.document.casefold(), stem(passage.document).casefold())
    usual = title.casefold().replace(" ", "-").rstrip(":") in _USUAL
    long = len(title) > _MAX_CHARS or len(title.split()) > _MAX_WORDS
    least = 2 if _language(passage) == "zh" else _MIN_CHARS
    return "" if named_by_file or usual or long or len(title) < least or _FILE_LIKE.search(title) else title


def _path(passage: Passage) -> tuple[str, str]:
    """Return the readable titles of a passage's document and last heading, else ""."""
    first, _, rest = passage.title.partition(BETWEEN_HEADINGS)
    return _readable(first, passage), _readable(rest.rpartition(BETWEEN_HEADINGS)[2], passage) if rest else ""


def _questions(passages: Sequence[Passage]) -> Iterator[tuple[str, Topic]]:
    """Yield headings that are complete questions, as in an FAQ, with their files."""
    for passage in passages:
        heading = " ".join(passage.title.rpartition(BETWEEN_HEADINGS)[2].split())
        asked = _NUMBERED.sub("", _LIST_MARK.sub("", heading), 1).rpartition(" -- ")[2]
        long_enough = len(asked.split()) >= _MIN_QUESTION_WORDS or not asked.isascii()
        if (
            asked.endswith(("?", "？"))
            and not _FOLLOW_UP.match(asked)
            and long_enough
            and len(asked) <= _MAX_QUESTION_CHARS
            and asked.count("?") < 2
        ):
            yield _topic(passage, asked, "question")


def _is_name(title: str) -> bool:
    """Return whether a title is a name: short, with capitals at all long words."""
    words = title.split()
    return 1 < len(words) <= _MAX_NAME_WORDS and all(
        word[0].isupper() for word in words if len(word) > 3 or len(words) < 3
    )


def _links(passages: Sequence[Passage]) -> Iterator[tuple[str, Topic]]:
    """Yield titles that are names, with the longest other title in their passage."""
    by_title: dict[str, Passage] = {}
    for passage in passages:
        for title in filter(None, _path(passage)):
            if _is_name(title):
                by_title.setdefault(title, passage)
    for title, passage in by_title.items():
        own = set(title.casefold().split())
        others = (other for other in by_title if other in passage.text and not own & set(other.casefold().split()))
        if other := max(others, key=len, default=""):
            yield _topic(passage, title, "link", mentions=other)


def _definitions(passages: Sequence[Passage]) -> Iterator[tuple[str, Topic]]:
    """Yield names that a passage explains at its beginning."""
    for passage in passages:
        language = _language(passage)
        command = _COMMAND.fullmatch(passage.text.strip())
        if command and command["name"] in passage.title:  # the first line of a manual page
            yield _topic(passage, command["name"], "what")
        match = _DEFINED[language or "en"].match(passage.text)
        name = match["name"] if match else ""
        known = name and (name[0].isupper() or language == "zh") and _readable(name, passage)
        if match and known and not any(word in _POINTING for word in name.casefold().split()):
            yield _topic(passage, name, "who" if _PERSON.search(match[0]) else "what")


def _headings(passages: Sequence[Passage]) -> Iterator[tuple[str, Topic]]:
    """Yield headings with the title of their document, those of a single word last."""
    documents: defaultdict[str, set[str]] = defaultdict(set)
    for passage in passages:
        documents[_path(passage)[1]].add(passage.document)
    paths = [(passage, *_path(passage)) for passage in passages]
    for passage, document, heading in sorted(paths, key=lambda path: not _SEVERAL_WORDS.search(path[2])):
        if len(documents[heading]) >= _USUAL_DOCUMENTS or not heading or heading[-1] in "?？":
            continue
        if heading not in document and _SEVERAL_WORDS.search(passage.text):
            yield _topic(passage, heading, "heading", document=document if document not in heading else None)


def _names(passages: Sequence[Passage]) -> Iterator[Topic]:
    """Yield the most frequent names of several words, and titles of documents."""
    counts: Counter[str] = Counter()
    languages: dict[str, Language | None] = {}
    for passage in passages:
        spans = sorted(capitalised_names(passage.text))
        for name in (part for span in spans for part in _PREPOSITION.split(span)):
            if " " in name and _readable(name, passage) and name.casefold().split()[0] not in _POINTING:
                counts[name] += 1
                languages.setdefault(name, _language(passage))
    for passage in passages:
        if title := _path(passage)[0]:
            counts[title] += 1
            languages.setdefault(title, _language(passage))
    for name, _ in counts.most_common(_MAX_TOPICS * 2):
        yield Topic(title=name, mentions=None, document=None, kind="name", language=languages[name])
