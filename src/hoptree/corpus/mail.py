"""Read e-mail: single messages and mailboxes."""

from __future__ import annotations

import email
import email.policy
import io
import re
from collections.abc import Iterator
from contextlib import suppress
from email.message import EmailMessage, MIMEPart
from typing import Any, cast

from hoptree.corpus.document import BETWEEN_HEADINGS, Document, Oversized, Problems, TextBuilder, shorten_title
from hoptree.corpus.files import LATIN, decode, read_all, stem
from hoptree.corpus.html_pages import html_document

_MAX_HEADER_CHARS = 10_000


class _MailPolicy(email.policy.EmailPolicy):
    """Parses the beginning of a header only, as parsing takes quadratic time."""

    def header_fetch_parse(self, name: str, value: str) -> Any:
        return super().header_fetch_parse(name, value[:_MAX_HEADER_CHARS])


_MAIL_POLICY = _MailPolicy()
_MESSAGE_START = re.compile(rb"^From \S[^\n]{0,300}?\d\d:\d\d[^\n]{0,100}\n", re.MULTILINE)
"""The line before a message; unlike a sentence that begins with "From ", it has a time."""


def read_mail(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Document]:
    """Yield a document for each message; of attachments only the names are read."""
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
    """Says in half a sentence why a text is not a message."""


_HEADER = re.compile(rb"^[\w-]+:[^\n]*(?:\n[ \t][^\n]*)*", re.MULTILINE)
_PART_HEADER = re.compile(rb"^Content-(?:Type|Disposition):[^\n]*(?:\n[ \t][^\n]*)*", re.MULTILINE | re.IGNORECASE)
_CHARSET = re.compile(rb"charset\s*=\s*\"?([\w.:-]{1,40})", re.IGNORECASE)
_BOUNDARY, _MAX_MATCHES = re.compile(rb"boundary", re.IGNORECASE), 10**8
"""The library matches each line with the boundaries of all parts around it."""
_SAMPLE_BYTES = 100_000  # of a message, to guess how its headers are encoded


def _with_readable_headers(content: bytes) -> bytes:
    """Recode headers with raw bytes to UTF-8, from the encoding of the message."""
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
    if len(_BOUNDARY.findall(content)) * content.count(b"\n") > _MAX_MATCHES:
        raise _NoMessage("it has too many parts for its length")
    content = _with_readable_headers(content)
    message = cast(EmailMessage, email.message_from_bytes(content, policy=_MAIL_POLICY))
    subject = _header(message, "Subject")
    headers = [(field, value) for field in ("From", "To", "Cc", "Date") if (value := _header(message, field))]
    if not headers and not subject:
        raise _NoMessage("it has no sender, date or subject")
    builder = TextBuilder(shorten_title(subject))
    builder.add(["\n".join(f"{field}: {value}" for field, value in headers)])
    body = message.get_body(("plain", "html"))
    if body is not None:
        text = _body_text(body).replace("\r\n", "\n").replace("\0", " ")
        builder.add(_html_paragraphs(text, name) if body.get_content_type() == "text/html" else [text.strip()])
    builder.add(f"Attachment: {part.get_filename()}" for part in message.iter_attachments() if part.get_filename())
    return builder.document(key, stem(name), metadata=tuple((field.lower(), value) for field, value in headers))


def _header(message: EmailMessage, field: str) -> str:
    """Return a header on one line; as it is written if the library cannot parse it."""
    try:
        value = str(message[field] or "")
    except Exception:  # of several kinds, such as for an empty address between two commas
        value = next(raw for name, raw in message.raw_items() if name.lower() == field.lower())[:_MAX_HEADER_CHARS]
        value = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return " ".join(value.split())


def _body_text(body: MIMEPart) -> str:
    """Decode by the charset of the message, or as a file if it is missing or unknown."""
    content = cast(bytes, body.get_payload(decode=True))
    charset = body.get_content_charset("us-ascii")
    if charset not in ("us-ascii", "ascii"):
        with suppress(LookupError, ValueError):
            return content.decode(charset, "replace")
    return decode(content)[0]


def _html_paragraphs(text: str, name: str) -> Iterator[str]:
    """Yield the headings of a page and the texts between them."""
    page = html_document(text, name)
    at = 0
    for section in page.sections:
        yield page.text[at : section.start].strip()
        yield section.title.rpartition(BETWEEN_HEADINGS)[2]
        at = section.start
    yield page.text[at:].strip()
