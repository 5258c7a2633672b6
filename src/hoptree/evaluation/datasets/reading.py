"""Read and select the examples of a question file or BEIR folder."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from hoptree.core.errors import ConfigError, InputError, did_you_mean, file_errors
from hoptree.core.files import atomic_write
from hoptree.corpus.document import Problems
from hoptree.corpus.files import open_bytes
from hoptree.corpus.json_rows import read_lines
from hoptree.evaluation.datasets.examples import DataSet, Example, digest_of
from hoptree.evaluation.datasets.formats import FORMS, Form, form_of
from hoptree.evaluation.datasets.rows import Fields, read_aliases, read_question_rows
from hoptree.evaluation.metrics import normalise
from hoptree.retrieval.retriever import Retriever

_MIN_CHARACTERS = 4  # least number of answers that are a printed list's characters: "[", "'", "A", … of ['Apple', …]
HALVES = ("first", "second")


def half_of(key: str) -> str:
    """Return the half that a question belongs to by its id: first or second."""
    return HALVES[hashlib.sha256(key.encode("utf-8", "replace")).digest()[0] % 2]


def check_half(name: str) -> None:
    if name not in HALVES:
        raise ConfigError(f"'{name}' is not a half of a data set.", f"Choose {' or '.join(HALVES)}.")


def half(examples: Iterable[Example], which: str) -> tuple[Example, ...]:
    """Return the examples of one half."""
    check_half(which)
    return tuple(example for example in examples if half_of(example.id) == which)


def sample(examples: Sequence[Example], count: int, seed: int = 0) -> tuple[Example, ...]:
    """Draw examples by ids and seed; a smaller sample is the start of a larger one."""
    if not 0 <= count <= len(examples):
        cause = f"{count:,} questions cannot be drawn from {len(examples):,}."
        raise InputError(cause, f"Ask for {len(examples):,} or fewer.")
    return tuple(sorted(examples, key=lambda example: (seeded_rank(seed, example.id), example.id))[:count])


def draw_types(
    examples: Sequence[Example], strata: Mapping[str, int], seed: int, where: str = "", *, at_most: bool = False
) -> tuple[Example, ...]:
    """Draw a number of questions of each type ("" is any) or hop count.

    A question of two types is drawn only for the first. `where` names the questions in errors. With `at_most`, too few
    questions are not an error; if no question has one of the types, the sum is drawn from all.
    """
    chosen: set[str] = set()
    kinds = sorted({kind for example in examples for kind in _kinds(example)})
    if at_most and set(strata).isdisjoint(("", *kinds)):
        strata = {"": sum(strata.values())}
    for kind, number in strata.items():
        of_kind = [example for example in examples if not kind or kind in _kinds(example)]
        fitting = [example for example in of_kind if example.id not in chosen]
        if len(fitting) < number and not at_most:
            raise _too_few(kind, number, fitting, of_kind, kinds, where)
        chosen |= {example.id for example in sample(fitting, min(number, len(fitting)), seed)}
    return tuple(example for example in sample(examples, len(examples), seed) if example.id in chosen)


def _too_few(
    kind: str, number: int, fitting: Sequence[Example], of_kind: Sequence[Example], kinds: Sequence[str], where: str
) -> InputError:
    """Return the error that there are too few questions of a type."""
    if kind and kind not in kinds:
        there = "" if kinds else "Its questions have none: draw a number of all."
        return InputError(f"{where} has no questions of the type '{kind}'.", did_you_mean(kind, kinds, there))
    which = f" of {kind}" if kind else ""
    which += " that no other type takes" if len(fitting) < len(of_kind) else ""
    there = f" (types: {', '.join(kinds)})" if kind else ""
    questions = "1 question" if len(fitting) == 1 else f"{len(fitting):,} questions"
    cause = f"{where} has {questions}{which}, not {number:,}."
    return InputError(cause, f"Ask for fewer{there}, or get the whole data set.")


def _kinds(example: Example) -> list[str]:
    """Return the types that a question can be drawn for."""
    return [*([example.type] if example.type else []), *([f"{example.hops} hops"] if example.hops else [])]


def seeded_rank(seed: int, key: str) -> bytes:
    """Return a sort key for samples, by seed and key."""
    return hashlib.sha256(f"{seed}:{key}".encode("utf-8", "replace")).digest()


def write_ids(path: Path, ids: Iterable[str]) -> None:
    """Write one id a line; ids with unprintable characters are written as JSON."""
    lines = []
    for key in ids:
        plain = key.isprintable() and key == key.strip() and key[:1] not in ('"', "\ufeff", "")
        lines.append(f"{key if plain else json.dumps(key)}\n")
    with file_errors(path, "written", "Name a file that can."):
        atomic_write(path, lines)


def read_ids(path: Path) -> tuple[str, ...]:
    """Read the ids of a file, one a line."""
    problems = Problems(limit=sys.maxsize)
    ids: dict[str, None] = {}
    try:
        with open_bytes(path) as stream:
            for line, text in read_lines(stream, path.name, problems):
                key = text.strip()
                if key[:1] == '"':
                    decoded = None
                    with suppress(ValueError, RecursionError):
                        decoded = json.loads(key)
                    if not isinstance(decoded, str):
                        cause = f"Line {line} of {path.name} begins with a quote and is not JSON text."
                        raise InputError(cause, "Write the id as it is.")
                    key = decoded
                if key in ids:
                    raise InputError(f"Line {line} of {path.name} repeats the id '{key}'.", "Name each id once.")
                ids[key] = None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}.", "Give a file with one id a line.") from error
    if problems.sentences:
        raise InputError(problems.sentences[0], "Give a text file with one id a line.")
    if not ids:
        raise InputError(f"{path} holds no ids.", "Write one a line.")
    return tuple(ids)


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
    """Return the files of a BEIR folder, given the folder or one of its files."""
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
    cause = f"{path} is a folder without BEIR's queries.jsonl and qrels."
    raise InputError(cause, "Give a file of questions, or a folder with them.")


def _tables(folder: Path) -> list[Path]:
    named = [folder / "qrels" / f"{split}.tsv{packed}" for split in _SPLITS for packed in ("", ".gz")]
    return [table for table in named if table.is_file()]


def with_relevant(examples: Sequence[Example], files: BeirFiles) -> Iterator[Example]:
    """Yield the judged examples with their relevant passages."""
    relevant: dict[str, dict[str, None]] = {}
    places: dict[str, str] = {}
    for line, row in read_question_rows(files.judgements):
        where = f"Line {line} of {files.judgements.name}"
        fields = Fields(row, where, "beir")
        query, passage, score = (fields.text(name) for name in _JUDGED)
        if not query or not passage or not _SCORE.fullmatch(score):
            raise fields.wrong("is not a judgement with query-id, corpus-id and a whole score")
        places.setdefault(query, where)
        passages = relevant.setdefault(query, {})
        if int(score) > 0:
            passages[passage] = None
    known = {example.id for example in examples}
    if unknown := [query for query in relevant if query not in known]:
        cause = f"{places[unknown[0]]} judges the query '{unknown[0]}', which is not in {files.queries.name}."
        raise InputError(cause, "Give files that belong together.")
    for example in examples:
        if example.id in relevant:
            yield replace(example, supporting_ids=tuple(relevant[example.id]))


_SAMPLE = Path("sample")
_SPLIT_NAMES = frozenset(("train", "dev", "test", "valid", "validation", "queries"))

Placed = tuple[str, Example]  # the place of an example, in words, and the example


def read_examples(
    path: Path,
    *,
    form: str = "auto",
    limit: int | None = None,
    seed: int | None = None,
    ids: Path | Sequence[str] | None = None,
    of_half: str = "",
    aliases: Path | None = None,
) -> DataSet:
    """Read the examples of a file of questions, or of a folder in BEIR's form.

    The path `sample` is the packaged sample, unless a file has that name. `ids`, or a file of them, selects and orders;
    `of_half` selects the first or second half. `limit` then takes the first questions, or draws as many by `seed`.
    `aliases` is a file of further names for answers: see `read_aliases`.

    The form is recognised by the first row unless it is given. Errors are broken rows, repeated ids, and questions
    without answers if others have some. Questions whose answers are a printed list split into characters are left out.
    """
    if form != "auto" and form not in FORMS:
        meant = did_you_mean(form, FORMS, f"Choose auto or one of {', '.join(FORMS)}.")
        raise ConfigError(f"'{form}' is an unknown question format.", meant)
    if limit is not None and limit < 1:
        raise ConfigError(f"A limit of {limit} leaves no questions.", "Give 1 or more.")
    beir = find_beir(path) if form in ("auto", "beir") else None
    digests = _digests(*((beir.queries, beir.judgements) if beir else (path,)), aliases)
    read = _read_all if digests else _read_all.__wrapped__
    data = read(path, form, aliases, beir, digests)
    if ids is not None:
        data = data.select(read_ids(ids) if isinstance(ids, Path) else ids)
    if of_half:
        data = replace(data, examples=half(data.examples, of_half))
        if not data.examples:
            raise InputError(f"The {of_half} half of {path} holds no questions.", "Take the other half, or the whole.")
    if seed is not None:
        data = replace(data, examples=sample(data.examples, len(data.examples), seed))
    return replace(data, examples=data.examples[:limit])


def _digests(*paths: Path | None) -> tuple[str, ...]:
    """Return the digests of what files hold; none where one of them cannot be read."""
    digests = []
    for path in filter(None, paths):
        try:
            if not path.is_file():
                return ()
            with path.open("rb") as stream:
                digests.append(hashlib.file_digest(stream, "sha256").hexdigest())
        except (OSError, ValueError):
            return ()
    return tuple(digests)


@lru_cache(maxsize=1)  # the runs of an experiment ask one data set after the other
def _read_all(
    path: Path, form: str, aliases: Path | None, beir: BeirFiles | None, _digests: tuple[str, ...]
) -> DataSet:
    file: AbstractContextManager[Path] = nullcontext(beir.queries if beir else path)
    if path == _SAMPLE and not path.exists():
        from hoptree.sample import sample_questions_file  # its imports, for building an index, are slow

        file = sample_questions_file()
    with file as source:
        name, placed = _read(source, form, read_aliases(aliases) if aliases else None)
    if beir:
        places = {example.id: where for where, example in placed}
        judged = with_relevant([example for _, example in placed], beir)
        placed = [(places[example.id], example) for example in judged]
    seen: dict[str, str] = {}
    for where, example in placed:
        if example.id in seen:
            cause = f"{where} has the id '{example.id}' of an earlier question ({seen[example.id]})."
            raise InputError(cause, "Give each question an id of its own.")
        seen[example.id] = where
    taken_apart = tuple(
        example.id
        for _, example in placed
        if len(example.answers) >= _MIN_CHARACTERS
        and example.answers[0] == "["
        and set(map(len, example.answers)) == {1}
    )
    if placed and len(taken_apart) == len(placed):
        cause = f"The accepted answers of all questions of {path} are a printed list split into characters."
        raise InputError(cause, 'Write each answer as one text: "answers": ["Apple", "Apple Inc."].')
    broken = set(taken_apart)
    kept = _answered([(where, example) for where, example in placed if example.id not in broken], FORMS[name])
    if not kept:
        cause = f"{path} holds no questions."
        raise InputError(cause, "Each row holds a question, its answers, or what names gold passages.")
    stem = _stem(beir.folder if beir else path)
    examples = tuple(example if example.dataset else replace(example, dataset=stem) for example in kept)
    chosen = {example.id for example in examples}
    return DataSet(
        examples,
        digest_of(examples),
        name,
        examples[0].dataset if len({example.dataset for example in examples}) == 1 else _stem(path),
        tuple(example.id for _, example in placed if example.id not in chosen),
        taken_apart,
    )


def _read(path: Path, wanted: str, aliases: Mapping[str, tuple[str, ...]] | None) -> tuple[str, list[Placed]]:
    """Return the name of the file's form, and all examples."""
    placed: list[Placed] = []
    name = "" if wanted == "auto" else wanted
    for position, (line, row) in enumerate(read_question_rows(path)):
        where = f"Line {line} of {path.name}"
        form = form_of(row) if wanted == "auto" else wanted
        name = name or form
        if form not in (name, "own") and (name, form) != ("own", "nq"):  # rows of both forms look alike
            cause = f"{where} is in the form of {form}, while the first row is in that of {name}."
            raise InputError(cause, "Give a file with rows of one form, or name the form.")
        if aliases is not None and not FORMS[name].aliased:
            known = ", ".join(known for known, form in FORMS.items() if form.aliased)
            cause = f"{path.name} is in the form of {name}, which takes no aliases."
            raise ConfigError(cause, f"They go with {known}.")
        read = FORMS[name].read(Fields(row, where, name, aliases), position)
        placed += [(where, example) for example in read]
    return name or "own", placed


def _answered(placed: list[Placed], form: Form) -> list[Example]:
    """Return the examples that can be scored; all if no question has an answer."""
    kept = [example for _, example in placed if example.answers or not example.answerable]
    if not kept or len(kept) == len(placed):
        return [example for _, example in placed]
    if not form.may_lack_answers:
        where = next(where for where, example in placed if example not in kept)
        cause = f"{where} has no answer, while other questions have one."
        raise InputError(cause, "Add it, or take the question out of the file.")
    return kept


def _stem(path: Path) -> str:
    """Return the file's name without endings, or its folder's."""
    stem = path.name.partition(".")[0]
    return path.resolve().parent.name or stem if stem in _SPLIT_NAMES else stem or path.name


async def filter_answers(data: DataSet, retriever: Retriever, *, k: int) -> tuple[DataSet, int, list[str]]:
    """Keep the answers that occur in the first `k` passages.

    Also return the number of dropped answers, and the ids of questions that keep all, since none of their answers
    occurs: without answers they could not be scored. The digest is computed anew.
    """
    kept: list[Example] = []
    untouched: list[str] = []
    normal: dict[str, str] = {}  # by id, as many questions find the same passages
    for example in data.examples:
        passages = await retriever.search(example.question, k=k)
        for passage in passages:
            if passage.id not in normal:
                normal[passage.id] = f" {normalise(f'{passage.title} {passage.text}')} "
        text = " | ".join(normal[passage.id] for passage in passages)
        forms = {answer: normalise(answer) for answer in example.answers}
        answers = tuple(answer for answer, form in forms.items() if form and f" {form} " in text)
        if not answers:
            untouched.append(example.id)
        kept.append(replace(example, answers=answers or example.answers))
    left_out = sum(len(before.answers) - len(after.answers) for before, after in zip(data.examples, kept, strict=True))
    return replace(data, examples=tuple(kept), digest=digest_of(kept)), left_out, untouched
