"""Make documents of the rows of passage files.

| format | fields |
|---|---|
| own, BEIR, HippoRAG | id, _id or idx; title; text; aliases; metadata or other fields |
| FlashRAG | id; contents, whose first line is the title |
| sections | title; section; text |
| Wikipedia pages | text, url (WikiExtractor) or a list of paragraphs (KILT) |
| questions with contexts | question; paragraphs (MuSiQue) or context (HotpotQA, 2WikiMultihopQA) |
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from typing import Any, TypeVar

from hoptree.corpus.document import BETWEEN_HEADINGS, Document, Problems, Section, shorten_title
from hoptree.corpus.json_rows import Row

_WIKIEXTRACTOR_FIELDS = frozenset(("id", "revid", "url", "title", "text"))
_KILT_HEADING, _KILT_BULLET = "Section::::", "BULLET::::"


def _is_page(row: dict[str, Any]) -> bool:
    """Return whether a row is a Wikipedia page, which is cut into passages."""
    text, url = row.get("text"), row.get("url")
    if type(text) is list:
        return all(type(paragraph) is str for paragraph in text)
    return type(text) is str and type(url) is str and "wiki" in url and _WIKIEXTRACTOR_FIELDS.issuperset(row)


def _page(row: dict[str, Any], key: str, title: str) -> Document:
    url = row.get("url")
    metadata = (("url", url),) if type(url) is str and url else ()
    paragraphs = row["text"]
    if type(paragraphs) is list:
        text, sections = _kilt_sections(paragraphs, title)
        return Document(key, title, text, metadata=metadata, sections=sections)
    paragraphs = paragraphs.split("\n")
    while paragraphs and paragraphs[0].strip() in ("", title):
        del paragraphs[0]
    return Document(key, title, "\n".join(paragraphs), metadata=metadata)


def _kilt_sections(paragraphs: list[str], title: str) -> tuple[str, tuple[Section, ...]]:
    """Return the text of a KILT page, and the sections that some paragraphs begin."""
    pieces: list[str] = []
    sections: list[Section] = []
    length = 0
    for number, paragraph in enumerate(paragraphs):
        body = paragraph.strip()
        if body.startswith(_KILT_HEADING):
            path = (title, *(part.rstrip(".") for part in body.removeprefix(_KILT_HEADING).split(".:")))
            sections.append(Section(length, shorten_title(BETWEEN_HEADINGS.join(filter(None, path)))))
        elif body and not (number == 0 and body == title):
            pieces.append(f"{body.removeprefix(_KILT_BULLET)}\n\n")
            length += len(pieces[-1])
    return "".join(pieces), tuple(sections)


def context_passages(row: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the titles and texts of the passages that come with a question."""
    if "question" not in row:
        return []
    pairs = ((title.strip() if type(title) is str else "", _joined(text)) for title, text in _contexts(row))
    return [(title, text) for title, text in pairs if text]


def _contexts(row: dict[str, Any]) -> Sequence[Sequence[Any]]:
    paragraphs = row.get("paragraphs")
    if type(paragraphs) is list and paragraphs:
        rows = (paragraph for paragraph in paragraphs if type(paragraph) is dict)
        return [(part.get("title"), part.get("paragraph_text", part.get("text"))) for part in rows]
    context = row.get("context")
    if type(context) is str and context.lstrip()[:1] in ("[", "{"):  # some copies hold it as JSON within JSON
        with suppress(ValueError, RecursionError):
            context = json.loads(context)
    if type(context) is list:
        return [pair for pair in context if type(pair) is list and len(pair) == 2]
    if type(context) is dict:
        titles, texts = context.get("title"), context.get("sentences", context.get("content"))
        if type(titles) is list and type(texts) is list:
            return list(zip(titles, texts, strict=False))
    return []


def _joined(sentences: object) -> str:
    """Join sentences, with a space between them if they have none."""
    if type(sentences) is str:
        return sentences.strip()
    text = ""
    for sentence in sentences if type(sentences) is list else ():
        if type(sentence) is str and sentence:
            text += sentence if not text or sentence[0].isspace() or text[-1].isspace() else f" {sentence}"
    return text.strip()


def digest_of(document: Document) -> str:
    """Return sixteen hexadecimal digits of a hash of a document's content."""
    content = f"{document.title}\0{document.text}"
    if document.aliases or document.metadata:
        content += f"\0{document.aliases!r}\0{document.metadata!r}"
    return blake2b(content.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def name_for(title: str, digest: str) -> str:
    """Return an id: the title with eight digits of the digest, or only the digest."""
    return f"{title} ({digest[:8]})" if title else digest


Plain = TypeVar("Plain")

# Every passage of a row, and every search that finds one, repeats these.
_MAX_NAME_CHARS = 1_000  # of an id or a title
_MAX_METADATA_CHARS = 20_000  # of all aliases and metadata
_ID_FIELDS = ("id", "_id", "wikipedia_id", "docid", "doc_id", "idx")
_KNOWN_FIELDS = frozenset((*_ID_FIELDS, "title", "text", "contents", "section", "aliases", "metadata"))


def read_records(
    rows: Iterable[Row], name: str, problems: Problems, *, plain: Callable[[str, str, str], Plain]
) -> Iterator[Document | Plain]:
    """Yield the documents of rows; skip and report rows without one.

    Repeated passages of question files, and repeated rows without ids, come only once. `plain` makes the items of rows
    that have just id, title and text, which is quicker than making documents.
    """
    seen: set[int] = set()
    for number, row in rows:
        if type(row) is not dict:
            problems.add("records without text", f"Line {number} of {name} is not a JSON object.")
            continue
        if len(row) == 3:
            key, title, text = row.get("id"), row.get("title"), row.get("text")
            if (
                (type(key) is str and type(title) is str and type(text) is str)
                and (key.strip() and text.strip())
                and len(key) + len(title) <= _MAX_NAME_CHARS
            ):
                yield plain(key, title, text)
                continue
        try:
            yield from _documents(row, f"Line {number} of {name}", problems, seen)
        except _NoRecord as error:
            problems.add("records without text", f"Line {number} of {name} {error}.")


def _bounded(document: Document, where: str, problems: Problems) -> Document:
    """Cut an overlong title, and drop overlong aliases and metadata."""
    if len(document.id) > _MAX_NAME_CHARS:
        raise _NoRecord(f"has an id of {len(document.id):,} characters")
    if (length := len(document.title)) > _MAX_NAME_CHARS:
        problems.note("overlong fields", f"{where} has a title of {length:,} characters, which is cut.")
        document = replace(document, title=document.title[:_MAX_NAME_CHARS])
    texts = (*document.aliases, *(text for pair in document.metadata for text in pair))
    if (length := sum(map(len, texts))) > _MAX_METADATA_CHARS:
        problems.note("overlong fields", f"{where} has {length:,} characters beside its text, which are left out.")
        document = replace(document, aliases=(), metadata=())
    return document


class _NoRecord(Exception):
    """Says in half a sentence what a row lacks."""


def _documents(row: dict[str, Any], where: str, problems: Problems, seen: set[int]) -> Iterator[Document]:
    if contexts := context_passages(row):
        for title, text in contexts:  # no note on repetitions, as questions share passages
            document = Document("", title, text, is_passage=True)
            if _is_new(digest := digest_of(document), seen):
                document = _bounded(document, where, problems)
                yield replace(document, id=name_for(document.title, digest))
        return
    if _is_page(row):
        document = _page(row, _id(row), _text_of(row.get("wikipedia_title")) or _text_of(row.get("title")))
    else:
        document = _record(row)
    document = _bounded(document, where, problems)
    for field in _unusable_fields(row):
        problems.add("fields of the wrong type", f"{where} has {field} left out.")
    if not document.text.strip():
        problems.note("empty documents", f"{where} has an empty text.")
    elif document.id:
        yield document
    elif _is_new(digest := digest_of(document), seen):
        yield replace(document, id=digest)
    else:
        problems.note("repeated passages", f"{where} repeats an earlier passage.")


def _is_new(digest: str, seen: set[int]) -> bool:
    """Add a digest, as a number to save memory; return whether it is new."""
    before = len(seen)
    seen.add(int(digest, 16))
    return len(seen) > before


def _record(row: dict[str, Any]) -> Document:
    title, text = _text_of(row.get("title")), row.get("text")
    if type(text) is not str:
        contents = row.get("contents")
        if text is not None or type(contents) is not str:
            why = "has a text that is not a string" if "text" in row or "contents" in row else "has no text"
            raise _NoRecord("is a question without its passages" if "question" in row else why)
        first, newline, rest = contents.partition("\n")
        if newline and rest.strip() and len(first) <= _MAX_NAME_CHARS:
            title, text = title or first.strip().strip('"'), rest
        else:
            text = contents
    section = _text_of(row.get("section"))
    if section and title:
        title = f"{title}{BETWEEN_HEADINGS}{section}"
    aliases = tuple(value for _, value in _pairs("", row.get("aliases")) if value.strip())
    return Document(_id(row), title or section, text, aliases, _metadata(row), is_passage=True)


def _id(row: dict[str, Any]) -> str:
    """Return the row's own id, or "" if it has none."""
    for field in _ID_FIELDS:
        value = row.get(field)
        if isinstance(value, dict | list):
            raise _NoRecord("has an id that is neither a string nor a number")
        if (text := _text_of(value)).strip():
            return text
    return ""


def _text_of(value: object) -> str:
    """Return a string or number as a string, also as the only item of a list; else ""."""
    if type(value) is list and len(value) == 1:
        value = value[0]
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return str(value)
    return value if type(value) is str else ""


def _unusable_fields(row: dict[str, Any]) -> Iterator[str]:
    """Yield half a sentence for each field with a value of the wrong type."""
    for field in ("title", "wikipedia_title", "section"):
        if row.get(field) not in (None, "", [], [""]) and not _text_of(row[field]):
            yield f"a {field} that is neither a string nor a number, which is"
    aliases = row.get("aliases")
    each = aliases if type(aliases) is list else [aliases]
    if any(alias is not None and (type(alias) is list or not _pairs("", alias)) for alias in each):
        yield "aliases that are neither strings nor numbers, which are"
    if not isinstance(row.get("metadata"), dict | None):
        yield "metadata that are not a JSON object, which are"


def _metadata(row: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the items of `metadata`, and the fields of unknown names."""
    metadata = row.get("metadata")
    items = [*metadata.items()] if isinstance(metadata, dict) else []
    items += [(field, value) for field, value in row.items() if field not in _KNOWN_FIELDS]
    return tuple(pair for field, value in items for pair in _pairs(field, value))


def _pairs(field: str, value: object) -> list[tuple[str, str]]:
    if isinstance(value, list):
        return [pair for item in value if not isinstance(item, list) for pair in _pairs(field, item)]
    if type(value) is bool:
        return [(field, "true" if value else "false")]
    if type(value) is float and not math.isfinite(value):
        return []
    return [(field, str(value))] if isinstance(value, str | int | float) else []
