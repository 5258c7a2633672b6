"""Formats of single-hop data sets, and BEIR's folders."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote_plus

from hoptree.core.errors import InputError
from hoptree.evaluation.datasets.examples import Example, passage_name
from hoptree.evaluation.datasets.rows import Fields, distinct, read_question_rows, spaced

_DESCRIPTION = re.compile(r'\(description (?:"((?:[^"\\]|\\.)*)"|([^"()]+))\)')
_ESCAPED = re.compile(r"\\(.)")
_PAGE_ADDRESS = re.compile(r"(?:[?&]title=|/wiki/)([^&?#]+)")
_TAG = re.compile(r"</?[A-Za-z][^>]*>")


def nq(row: Fields, position: int) -> Iterator[Example]:
    """Natural Questions in the open form: a question and a list of answers, as JSON Lines or a table."""
    yield Example(
        id=row.text("id", "_id") or f"nq-{position}",
        question=row.question("question"),
        answers=distinct(row.texts("answer")),
        hops=1,
        dataset="nq",
    )


def nq_annotated(row: Fields, position: int) -> Iterator[Example]:
    """Natural Questions with its pages: short answers and yes or no of all annotators, and the first long answer.

    `document_tokens` of the original and `document_text` of the simplified files are read. A question without a short
    answer has no answers.
    """
    words = page_words(row)
    given = row.parts("annotations")
    spans = [span for annotation in given for span in annotation.parts("short_answers")]
    verdicts = [annotation.text("yes_no_answer").lower() for annotation in given]
    long = [span_text(words, annotation.part("long_answer")) for annotation in given]
    title = page_title(row)
    gold = next(filter(None, long), "")
    yield Example(
        id=row.text("example_id") or f"nq-{position}",
        question=row.question("question_text"),
        answers=distinct(
            (span_text(words, span) for span in spans), (text for text in verdicts if text in ("yes", "no"))
        ),
        hops=1,
        dataset="nq",
        supporting_ids=(passage_name(title, gold),) if gold else (),
        supporting_titles=distinct([title]) if gold else (),
    )


def page_title(row: Fields) -> str:
    """Return the title of a question's page, from its address where it has no other."""
    address = unquote_plus(row.text("document_url"))
    match = _PAGE_ADDRESS.search(address)
    return spaced(row.text("document_title") or (match[1].replace("_", " ") if match else ""))


def page_words(row: Fields) -> list[str]:
    """Return the tokens of a question's page, tags among them."""
    text = row.row.get("document_text")
    return text.split(" ") if isinstance(text, str) else [part.text("token") for part in row.parts("document_tokens")]


def span_text(words: Sequence[str], span: Fields) -> str:
    """Return the text of a span of tokens without tags; "" for the span that stands for none."""
    start, end = span.row.get("start_token"), span.row.get("end_token")
    if type(start) is not int or type(end) is not int or not 0 <= start < end <= len(words):
        return ""
    return spaced(" ".join(word for word in words[start:end] if not _TAG.fullmatch(word)))


def triviaqa(row: Fields, position: int) -> Iterator[Example]:
    """TriviaQA: the answer's `Value` first, then its aliases, as written and in TriviaQA's normal form."""
    answer = row.part("Answer")
    value = [answer.text("Value")]
    yield Example(
        id=row.text("QuestionId") or f"triviaqa-{position}",
        question=row.question("Question"),
        answers=distinct(value, answer.texts("Aliases"), answer.texts("NormalizedAliases")),
        hops=1,
        dataset="triviaqa",
    )


def popqa(row: Fields, position: int) -> Iterator[Example]:
    """PopQA: `possible_answers` is a list, in JSON within a text; the subject's page is the one to find."""
    accepted = row.texts("possible_answers")
    main = row.text("obj")
    yield Example(
        id=row.text("id") or f"popqa-{position}",
        question=row.question("question"),
        answers=distinct([main] if main in accepted else [], accepted),
        type=row.text("prop"),
        hops=1,
        dataset="popqa",
        supporting_titles=distinct([spaced(row.text("s_wiki_title"))]),
    )


def webquestions(row: Fields, position: int) -> Iterator[Example]:
    """WebQuestions: the answers stand in `targetValue` as (list (description "…") (description …))."""
    target = row.text("targetValue")
    answers = [_ESCAPED.sub(r"\1", quoted) or plain for quoted, plain in _DESCRIPTION.findall(target)]
    if target and "".join(_DESCRIPTION.sub("", target).split()) != "(list)":
        raise row.wrong(': "targetValue" is no list of descriptions')
    yield Example(
        id=row.text("id") or f"webquestions-{position}",
        question=row.question("utterance"),
        answers=distinct(text.strip() for text in answers),
        dataset="webquestions",
    )


def bamboogle(row: Fields, position: int) -> Iterator[Example]:
    """Bamboogle: columns Question and Answer."""
    yield Example(
        id=row.text("id", "ID") or f"bamboogle-{position}",
        question=row.question("Question"),
        answers=distinct([row.text("Answer")]),
        hops=2,
        dataset="bamboogle",
    )


def webqsp(row: Fields, position: int) -> Iterator[Example]:
    """WebQSP: the answers of all `Parses` that the annotators call good and complete, where they say so."""
    parses, answers = [], []
    for parse in row.parts("Parses"):
        status = parse.part("AnnotationStatus")
        if (status.text("QuestionQuality"), status.text("ParseQuality")) in (("Good", "Complete"), ("", "")):
            parses.append(parse)
            for answer in parse.parts("Answers"):
                argument = answer.text("AnswerArgument")
                answers.append(distinct([answer.text("EntityName") or argument], row.aliases(argument)))
    yield Example(
        id=row.text("QuestionId") or f"webqsp-{position}",
        question=row.question("RawQuestion", "ProcessedQuestion"),
        answers=distinct(*answers),
        hops=len(parses[0].texts("InferentialChain")) if parses else 0,
        dataset="webqsp",
    )


def qald10(row: Fields, position: int) -> Iterator[Example]:
    """QALD-10: the English question, and the values bound in `answers`.

    Answers that are entities have only ids there: give a file of aliases to have their names instead.
    """
    asked = [part.text("string") for part in row.parts("question") if part.text("language") == "en"]
    if not any(asked):
        raise row.wrong("holds no question in English")
    answers = [text for part in row.parts("answers") for text in _bindings(part)]
    yield Example(
        id=row.text("id") or f"qald10-{position}",
        question=next(filter(None, asked)),
        answers=distinct(answers),
        dataset="qald10",
    )


def _bindings(part: Fields) -> Iterator[str]:
    value = part.get("boolean")
    if isinstance(value, bool):
        yield "yes" if value else "no"
    for binding in part.part("results").parts("bindings"):
        for name in binding.row:
            bound = binding.part(name)
            text = bound.text("value")
            if bound.text("type") == "uri":
                text = text.rstrip("/").rpartition("/")[2]
                yield from part.aliases(text) or (text,)
            else:
                yield text


def simplequestions(row: Fields, position: int) -> Iterator[Example]:
    """SimpleQuestions, on Freebase or Wikidata: subject, relation, object, question; the object is the answer.

    It is an id: give a file of aliases to have its names instead. The type is the relation; on Wikidata R19 is P19 the
    other way round.
    """
    answer = _short(row.text("object"))
    yield Example(
        id=row.text("id") or f"simplequestions-{position}",
        question=row.question("question"),
        answers=distinct(row.aliases(answer) or (answer,)),
        type=_short(row.text("relation")),
        hops=1,
        dataset="simplequestions",
    )


def _short(name: str) -> str:
    """Return a Freebase id without its address: www.freebase.com/m/04whkz5 is m.04whkz5."""
    host, slash, path = name.removeprefix("http://").removeprefix("https://").partition("/")
    return path.replace("/", ".") if slash and "freebase" in host else name


_QUERIES = ("queries.jsonl", "queries.jsonl.gz")
_SPLITS = ("test", "dev", "train")
_SCORE = re.compile(r"-?\d{1,9}")
_JUDGED = ("query-id", "corpus-id", "score")


@dataclass(frozen=True, slots=True)
class BeirFiles:
    """A folder in BEIR's form."""

    folder: Path
    queries: Path
    judgements: Path


def find_beir(path: Path) -> BeirFiles | None:
    """Return the files that belong together, if `path` is such a folder, its queries or one of its qrels.

    A folder stands for its test split, else for dev or train.
    """
    if path.is_dir():
        folder, tables = path, _tables(path)
    elif path.name in _QUERIES:
        folder, tables = path.parent, _tables(path.parent)
    elif path.is_file() and path.resolve().parent.name == "qrels":
        folder, tables = path.resolve().parent.parent, [path]
    else:
        return None
    queries = [folder / name for name in _QUERIES if (folder / name).is_file()]
    if queries and tables:
        return BeirFiles(folder, queries[0], tables[0])
    if not path.is_dir():
        return None
    raise InputError(
        f"{path} is a folder without BEIR's queries.jsonl and qrels.",
        "Give a file of questions, or a folder with them.",
    )


def _tables(folder: Path) -> list[Path]:
    named = [folder / "qrels" / f"{split}.tsv{packed}" for split in _SPLITS for packed in ("", ".gz")]
    return [table for table in named if table.is_file()]


def with_relevant(examples: Sequence[Example], files: BeirFiles) -> Iterator[Example]:
    """Yield the examples that were judged, with the passages relevant to them; others belong to another split."""
    relevant: dict[str, dict[str, None]] = {}
    places: dict[str, str] = {}
    for line, row in read_question_rows(files.judgements):
        where = f"Line {line} of {files.judgements.name}"
        fields = Fields(row, where, "beir")
        query, passage, score = (fields.text(name) for name in _JUDGED)
        if not query or not passage or not _SCORE.fullmatch(score):
            raise fields.wrong("is no judgement with query-id, corpus-id and a whole score")
        places.setdefault(query, where)
        passages = relevant.setdefault(query, {})
        if int(score) > 0:
            passages[passage] = None
    known = {example.id for example in examples}
    if unknown := [query for query in relevant if query not in known]:
        raise InputError(
            f"{places[unknown[0]]} judges the query '{unknown[0]}', which is not in {files.queries.name}.",
            "Give files that belong together.",
        )
    for example in examples:
        if example.id in relevant:
            yield replace(example, supporting_ids=tuple(relevant[example.id]))
