"""Records: rows of passage files, and messages of mailboxes.

| format | fields |
|---|---|
| own, BEIR, HippoRAG | id, _id or idx; title; text; aliases; metadata or other fields |
| FlashRAG | id; contents, whose first line is the title |
| sections | title; section; text |
| Wikipedia pages | text, url (WikiExtractor) or a list of paragraphs (KILT) |
| questions with contexts | question; paragraphs (MuSiQue) or context (HotpotQA, 2WikiMultihopQA) |
"""

from __future__ import annotations

import email
import email.policy
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from email.message import EmailMessage, MIMEPart
from hashlib import blake2b
from typing import Any, TypeVar, cast

from hoptree.corpus.document import BETWEEN_HEADINGS, Document, Oversized, Problems, Section, TextBuilder, short
from hoptree.corpus.files import LATIN, decode, read_all, stem
from hoptree.corpus.html_pages import html_document
from hoptree.corpus.json_rows import Row

_DUMP_FIELDS = frozenset(("id", "revid", "url", "title", "text"))
_SECTION = "Section::::"
_BULLET = "BULLET::::"


def is_page(row: dict[str, Any]) -> bool:
    """Return whether a row is a whole page to be cut."""
    text = row.get("text")
    if type(text) is list:
        return all(type(paragraph) is str for paragraph in text)
    url = row.get("url")
    return type(text) is str and type(url) is str and "wiki" in url and _DUMP_FIELDS.issuperset(row)


def read_page(row: dict[str, Any], key: str, title: str) -> Document:
    url = row.get("url")
    metadata = (("url", url),) if type(url) is str and url else ()
    paragraphs = row["text"]
    if type(paragraphs) is str:
        paragraphs = paragraphs.split("\n")
        while paragraphs and paragraphs[0].strip() in ("", title):
            del paragraphs[0]
        return Document(key, title, "\n".join(paragraphs), metadata=metadata)
    text, sections = _with_sections(paragraphs, title)
    return Document(key, title, text, metadata=metadata, sections=sections)


def _with_sections(paragraphs: list[str], title: str) -> tuple[str, tuple[Section, ...]]:
    """Split a KILT page at its heading paragraphs."""
    pieces: list[str] = []
    sections: list[Section] = []
    length = 0
    for number, paragraph in enumerate(paragraphs):
        body = paragraph.strip()
        if body.startswith(_SECTION):
            path = [part.rstrip(".") for part in body.removeprefix(_SECTION).split(".:")]
            sections.append(Section(length, short(BETWEEN_HEADINGS.join(part for part in (title, *path) if part))))
        elif body and not (number == 0 and body == title):
            piece = body.removeprefix(_BULLET) + "\n\n"
            pieces.append(piece)
            length += len(piece)
    return "".join(pieces), tuple(sections)


def context_passages(row: dict[str, Any]) -> list[tuple[str, str]]:
    """Return titles and texts of the passages beside a question."""
    return [(title, text) for title, text in _contexts(row) if text] if "question" in row else []


def _contexts(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    paragraphs = row.get("paragraphs")
    if type(paragraphs) is list and paragraphs:
        rows = (paragraph for paragraph in paragraphs if type(paragraph) is dict)
        return _from_pairs([[part.get("title"), part.get("paragraph_text", part.get("text"))] for part in rows])
    context = row.get("context")
    if type(context) is str and context.lstrip()[:1] in ("[", "{"):  # some copies hold it as JSON within JSON
        try:
            context = json.loads(context)
        except (ValueError, RecursionError):
            return iter(())
    if type(context) is list:
        return _from_pairs(context)
    if type(context) is dict:
        titles, texts = context.get("title"), context.get("sentences", context.get("content"))
        if type(titles) is list and type(texts) is list:
            return _from_pairs([list(pair) for pair in zip(titles, texts, strict=False)])
    return iter(())


def _from_pairs(context: list[Any]) -> Iterator[tuple[str, str]]:
    for pair in context:
        if type(pair) is list and len(pair) == 2:
            yield pair[0].strip() if type(pair[0]) is str else "", _joined(pair[1])


def _joined(sentences: object) -> str:
    """Join sentences to one text, with or without their spaces."""
    if type(sentences) is str:
        return sentences.strip()
    text = ""
    for sentence in sentences if type(sentences) is list else ():
        if type(sentence) is str and sentence:
            text += sentence if not text or sentence[0].isspace() or text[-1].isspace() else f" {sentence}"
    return text.strip()


def digest_of(document: Document) -> str:
    """Return a digest of a document's content in sixteen hexadecimal digits."""
    content = f"{document.title}\0{document.text}"
    if document.aliases or document.metadata:
        content += f"\0{document.aliases!r}\0{document.metadata!r}"
    return blake2b(content.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def name_for(title: str, digest: str) -> str:
    """Return the title with eight digits of the digest, or the digest."""
    return f"{title} ({digest[:8]})" if title else digest


Plain = TypeVar("Plain")

_MAX_NAME_CHARS = 1_000
"""Of an id or a title; more would stand with each passage of the row, and in every search that finds one."""
_MAX_BESIDE_CHARS = 20_000  # of all aliases and metadata
_IDS = ("id", "_id", "wikipedia_id", "docid", "doc_id", "idx")
_TAKEN = frozenset((*_IDS, "title", "text", "contents", "section", "aliases", "metadata"))


def read_records(
    rows: Iterable[Row], name: str, problems: Problems, *, plain: Callable[[str, str, str], Plain]
) -> Iterator[Document | Plain]:
    """Yield the documents of rows; a row without one is skipped.

    Passages of question files and rows without ids come once each, however often the file repeats them. For rows with
    just id, title and text, `plain` makes the item, which is quicker than a document.
    """
    seen: set[int] = set()
    for number, row in rows:
        if type(row) is not dict:
            problems.add("records without text", f"Line {number} of {name} is no JSON object.")
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
    """Return a document without what is too long to stand with each of its passages."""
    if len(document.id) > _MAX_NAME_CHARS:
        raise _NoRecord(f"has an id of {len(document.id):,} characters")
    if (length := len(document.title)) > _MAX_NAME_CHARS:
        problems.note("overlong fields", f"{where} has a title of {length:,} characters, which is cut.")
        document = replace(document, title=document.title[:_MAX_NAME_CHARS])
    texts = (*document.aliases, *(text for pair in document.metadata for text in pair))
    if (length := sum(map(len, texts))) > _MAX_BESIDE_CHARS:
        problems.note("overlong fields", f"{where} has {length:,} characters beside its text, which are left out.")
        document = replace(document, aliases=(), metadata=())
    return document


class _NoRecord(Exception):
    """Says in half a sentence what a row lacks."""


def _documents(row: dict[str, Any], where: str, problems: Problems, seen: set[int]) -> Iterator[Document]:
    if contexts := context_passages(row):
        for title, text in contexts:  # questions share passages, so that repetitions are not worth a note
            document = Document("", title, text, is_passage=True)
            if _is_new(digest := digest_of(document), seen):
                document = _bounded(document, where, problems)
                yield replace(document, id=name_for(document.title, digest))
        return
    if is_page(row):
        document = read_page(row, _id(row), _text_of(row.get("wikipedia_title")) or _text_of(row.get("title")))
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
    """Return whether a digest is new; they are kept as numbers."""
    before = len(seen)
    seen.add(int(digest, 16))
    return len(seen) > before


def _record(row: dict[str, Any]) -> Document:
    title, text = _text_of(row.get("title")), row.get("text")
    if type(text) is not str:
        contents = row.get("contents")
        if text is not None or type(contents) is not str:
            why = "has a text that is no string" if "text" in row or "contents" in row else "has no text"
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
    for field in _IDS:
        value = row.get(field)
        if type(value) is str and value.strip():
            return value
        if type(value) is int or (type(value) is float and math.isfinite(value)):
            return str(value)
        if isinstance(value, dict | list):
            raise _NoRecord("has an id that is neither a string nor a number")
    return ""


def _text_of(value: object) -> str:
    if type(value) is list and len(value) == 1:
        value = value[0]
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return str(value)
    return value if type(value) is str else ""


def _unusable_fields(row: dict[str, Any]) -> Iterator[str]:
    """Yield half a sentence for each field whose value is of the wrong type."""
    for field in ("title", "wikipedia_title", "section"):
        if row.get(field) not in (None, "", [], [""]) and not _text_of(row[field]):
            yield f"a {field} that is neither a string nor a number, which is"
    aliases = row.get("aliases")
    each = aliases if type(aliases) is list else [aliases]
    if any(alias is not None and (type(alias) is list or not _pairs("", alias)) for alias in each):
        yield "aliases that are neither strings nor numbers, which are"
    if not isinstance(row.get("metadata"), dict | None):
        yield "metadata that are no JSON object, which are"


def _metadata(row: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return `metadata` and other fields with plain values."""
    pairs: list[tuple[str, str]] = []
    metadata = row.get("metadata")
    for field, value in metadata.items() if isinstance(metadata, dict) else ():
        pairs += _pairs(field, value)
    for field, value in row.items():
        if field not in _TAKEN:
            pairs += _pairs(field, value)
    return tuple(pairs)


def _pairs(field: str, value: object) -> list[tuple[str, str]]:
    if isinstance(value, list):
        return [pair for item in value if not isinstance(item, list) for pair in _pairs(field, item)]
    if type(value) is bool:
        return [(field, "true" if value else "false")]
    if type(value) is float and not math.isfinite(value):
        return []
    return [(field, str(value))] if isinstance(value, str | int | float) else []


_MAX_HEADER_CHARS = 10_000


class _MailPolicy(email.policy.EmailPolicy):
    """Reads the beginning of a header only.

    The library's time grows with the square of its length.
    """

    def header_fetch_parse(self, name: str, value: str) -> Any:
        return super().header_fetch_parse(name, value[:_MAX_HEADER_CHARS])


_MAIL_POLICY = _MailPolicy()
_MESSAGE_START = re.compile(rb"^From \S[^\n]{0,300}?\d\d:\d\d[^\n]{0,100}\n", re.MULTILINE)
"""Has a time; a line of a text that begins with "From " has none."""


def read_mail(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Document]:
    """Read the messages of a mailbox; attachments are named."""
    content = read_all(stream, name, problems)
    if content is None:
        return
    content = content.replace(b"\r\n", b"\n")
    is_mailbox = name.lower().removesuffix(".gz").endswith(".mbox")
    for number, message in enumerate(filter(None, _MESSAGE_START.split(content)) if is_mailbox else [content], 1):
        key = f"{name}#message={number}" if is_mailbox else name
        try:
            yield _mail_document(message, key, name)
        except Oversized:
            raise
        except Exception as error:  # the library raises errors of any kind for damaged messages
            why = str(error) if isinstance(error, _NoMessage) else type(error).__name__
            problems.add("damaged documents", f"{key} cannot be read as e-mail: {why}.")


class _NoMessage(Exception):
    """Says why a text is no message."""


_HEADER = re.compile(rb"^[\w-]+:[^\n]*(?:\n[ \t][^\n]*)*", re.MULTILINE)
_PART_HEADER = re.compile(rb"^Content-(?:Type|Disposition):[^\n]*(?:\n[ \t][^\n]*)*", re.MULTILINE | re.IGNORECASE)
_CHARSET = re.compile(rb"charset\s*=\s*\"?([\w.:-]{1,40})", re.IGNORECASE)
_SAMPLE_BYTES = 100_000  # of a message, to guess how its headers are encoded


def _with_readable_headers(content: bytes) -> bytes:
    """Write headers with raw bytes in UTF-8: they are decoded as the message says, or as its text is."""
    if content.isascii():
        return content
    head, gap, body = content.partition(b"\n\n")
    declared, guess = _CHARSET.search(content), decode(content[:_SAMPLE_BYTES])[1]
    encodings = ["utf-8", declared[1].decode() if declared else "", "" if guess == LATIN else guess, "cp1252"]

    def recode(match: re.Match[bytes]) -> bytes:
        for encoding in filter(None, encodings):
            with suppress(LookupError, ValueError):
                return match[0].decode(encoding).encode()
        return match[0].decode("latin-1").encode()

    body = gap + body
    return _HEADER.sub(recode, head) + _PART_HEADER.sub(recode, body)


def _mail_document(content: bytes, key: str, name: str) -> Document:
    content = _with_readable_headers(content)
    message = cast(EmailMessage, email.message_from_bytes(content, policy=_MAIL_POLICY))
    subject = _header(message, "Subject")
    headers = [(field, value) for field in ("From", "To", "Cc", "Date") if (value := _header(message, field))]
    if not headers and not subject:
        raise _NoMessage("it has no sender, date or subject")
    builder = TextBuilder(short(subject))
    builder.add(["\n".join(f"{field}: {value}" for field, value in headers)])
    body = message.get_body(("plain", "html"))
    if body is not None:
        text = _body_text(body).replace("\r\n", "\n").replace("\0", " ")
        builder.add(_html_paragraphs(text, name) if body.get_content_type() == "text/html" else [text.strip()])
    builder.add(f"Attachment: {part.get_filename()}" for part in message.iter_attachments() if part.get_filename())
    return builder.document(key, stem(name), metadata=tuple((field.lower(), value) for field, value in headers))


def _header(message: EmailMessage, field: str) -> str:
    """Return a header on one line, as it is written where the library cannot read it."""
    try:
        value = str(message[field] or "")
    except Exception:  # of several kinds, as of lists of addresses with nothing between two commas
        value = next(raw for name, raw in message.raw_items() if name.lower() == field.lower())[:_MAX_HEADER_CHARS]
        value = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return " ".join(value.split())


def _body_text(body: MIMEPart) -> str:
    """Decode as the message says, or, where that is missing or unknown, as a file is."""
    content = cast(bytes, body.get_payload(decode=True))
    charset = body.get_content_charset("us-ascii")
    if charset not in ("us-ascii", "ascii"):
        with suppress(LookupError, ValueError):
            return content.decode(charset, "replace")
    return decode(content)[0]


def _html_paragraphs(text: str, name: str) -> Iterator[str]:
    """Yield the text of a page with its headings, each as a paragraph."""
    page = html_document(text, name)
    at = 0
    for section in page.sections:
        yield page.text[at : section.start].strip()
        yield section.title.rpartition(BETWEEN_HEADINGS)[2]
        at = section.start
    yield page.text[at:].strip()
