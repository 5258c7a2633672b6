"""PDF files (extra `pdf`), page by page."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

from hoptree.corpus.document import Document
from hoptree.corpus.headings import short
from hoptree.corpus.problems import Problems
from hoptree.corpus.stream import read_all
from hoptree.corpus.text import stem
from hoptree.errors import MissingExtra

__all__ = ["read_pdf"]


def read_pdf(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Document]:
    """A document a page, so that a passage's metadata tell where to look; ids are those of PDF links (#page=3)."""
    try:
        from pypdf import PdfReader
    except ImportError as error:
        raise MissingExtra(f"Reading {name}", "pdf") from error
    content = read_all(stream, name, problems)
    if content is None:
        return
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it would write of every oddity to the terminal
    try:
        reader = PdfReader(io.BytesIO(content))
        if reader.is_encrypted and not reader.decrypt(""):
            problems.add("damaged PDF files", f"{name} is locked with a password.", cuts=True)
            return
        title = short((reader.metadata and reader.metadata.title) or "") or stem(name)
        pages = len(reader.pages)
    except Exception as error:  # a damaged file makes pypdf raise errors of any kind
        problems.add("damaged PDF files", f"{name} cannot be read as PDF: {_said(error)}.", cuts=True)
        return
    empty = 0
    for number in range(pages):
        try:
            text = reader.pages[number].extract_text()
        except Exception as error:
            said = f"Page {number + 1} of {name} cannot be read: {_said(error)}."
            problems.add("damaged PDF files", said, cuts=True)
            continue
        text = _clean(text)
        if text.strip():
            yield Document(f"{name}#page={number + 1}", title, text, metadata=(("page", str(number + 1)),))
        else:
            empty += 1
    if empty:
        problems.note("empty documents", f"{empty} of {pages} pages of {name} hold no text; scanned pages need OCR.")


def _clean(text: str) -> str:
    return text.replace("\0", " ").encode("utf-8", "replace").decode()


def _said(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200].rstrip(".")
