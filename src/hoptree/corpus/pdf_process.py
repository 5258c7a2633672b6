"""The process that reads PDF files with PDFium, as hostile files may crash it.

Its input has, for each file, a JSON line with the file's size and the limits on seconds and on characters of text, and
then the file's bytes. Its output has JSON lines: one with title and headings, one for each page, and one at the end.
The process ends with its input.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import pypdfium2 as pdfium

_MAX_MEMORY_BYTES = 2**30
_MAX_TITLE_CHARS = 1_200
_WATCH_SECONDS = 0.5
_PLACE_CHARS = 1_000
"""Added to the characters of each page and heading, as a small file may claim a million of them."""


def main() -> None:
    """Read the files of standard input one after another."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process decides when this one ends
    out = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # what a library prints must not mix with the replies
    _limit("RLIMIT_AS", _MAX_MEMORY_BYTES)
    _limit("RLIMIT_CORE", 0)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    source = sys.stdin.buffer
    while line := source.readline():
        order = json.loads(line)
        _limit("RLIMIT_CPU", math.ceil(time.process_time() + order["seconds"]))
        for reply in _read(source.read(order["bytes"]), order["chars"]):
            out.write(f"{json.dumps(reply)}\n")
        out.flush()


def _end_with_parent() -> None:
    """Exit when the parent process is gone; a killed one cannot end this one."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(1)


def _limit(name: str, value: int) -> None:
    """Limit a resource of this process, on systems that can."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _read(content: bytes, left: int) -> Iterator[dict[str, Any]]:
    """Yield the replies for a file, up to `left` characters of headings and pages."""
    try:
        with closing(pdfium.PdfDocument(content)) as pdf:
            headings = []
            for mark in pdf.get_toc():
                target = mark.get_dest()
                if target is not None and target.get_index() is not None:
                    heading = _spelled(mark.get_title)
                    left -= _PLACE_CHARS + len(heading)
                    if left < 0:
                        break
                    headings.append((target.get_index(), mark.level + 1, heading))
            yield {"title": _spelled(lambda: pdf.get_metadata_value("Title")), "headings": headings}
            for number in range(len(pdf) if left >= 0 else 0):
                page = _page(pdf, number)
                left -= _PLACE_CHARS + len(page.get("text", ""))
                if left < 0:
                    break
                yield {**page, "blank": not page.get("text", "failed").strip() and _is_blank(pdf, number)}
    except pdfium.PdfiumError as error:
        yield {"refused": str(error)}
    yield {"end": True} | ({"oversized": True} if left < 0 else {})


def _spelled(read: Callable[[], str]) -> str:
    """Return a title or heading; "" if it is broken Unicode."""
    with suppress(UnicodeError):
        return read()[:_MAX_TITLE_CHARS]
    return ""


def _page(pdf: Any, number: int) -> dict[str, str]:
    try:
        with closing(pdf[number]) as page, closing(page.get_textpage()) as opened:
            return {"text": str(opened.get_text_range())}
    except Exception as error:  # damaged pages make it raise errors of several kinds
        return {"failed": type(error).__name__}


def _is_blank(pdf: Any, number: int) -> bool:
    """Return whether nothing is drawn on a page: not a scan either."""
    with closing(pdf[number]) as page:
        return bool(pdfium.raw.FPDFPage_CountObjects(page) == 0)


if __name__ == "__main__":
    main()
