"""Tell how a file is read by its name."""

from __future__ import annotations

import os
import re

TEXT_SUFFIXES = (
    ".txt", ".text", ".log", ".tex", ".org", ".adoc", ".asciidoc", ".textile", ".wiki", ".srt", ".vtt", ".diff",
    ".py", ".pyi", ".js", ".mjs", ".jsx", ".ts", ".tsx", ".java", ".kt", ".scala", ".c", ".h", ".cc", ".cpp",
    ".hpp", ".cs", ".go", ".rs", ".rb", ".php", ".pl", ".pm", ".lua", ".r", ".jl", ".swift", ".m", ".f90", ".hs",
    ".ml", ".ex", ".erl", ".clj", ".el", ".lisp", ".sh", ".bash", ".zsh", ".fish", ".ps1", ".bat", ".sql",
    ".proto", ".graphql", ".cmake", ".mk", ".toml", ".ini", ".cfg", ".conf", ".properties", ".yaml", ".yml", ".tf",
    ".v", ".vhd", ".patch",
)  # fmt: skip
"""The suffixes of plain text, source code and logs, which are read as they are."""
SUFFIXES = (
    *(".md", ".markdown", ".rst", ".html", ".htm", ".xhtml", ".pdf", ".docx", ".pptx", ".xlsx", ".epub", ".ipynb"),
    *(".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".eml", ".mbox", *TEXT_SUFFIXES),
)
NO_PROSE = (
    *(".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg", ".ico", ".mp3", ".mp4", ".zip", ".exe", ".so", ".pyc"),
    *(".css", ".scss", ".less", ".lock", ".map", ".sum", ".pem", ".key"),
)
"""Some suffixes of files that are not text for people, so that they need not be opened."""
KNOWN_KINDS = (
    "These are read: text, man pages, Markdown, reStructuredText, HTML, PDF, Word (.docx), PowerPoint (.pptx), "
    "Excel (.xlsx), CSV, TSV, EPUB, notebooks (.ipynb), e-mail (.eml, .mbox), JSON, JSON Lines, source code and logs, "
    "each also packed (.gz), and other files that hold text."
)
_TEXT_NAME = re.compile(
    r"(?:readme|changelog|changes|news|copying|copyright|licen[cs]e|authors|todo|install|faq)\b", re.I
)

_MAN_SECTION = re.compile(
    r"\.[1-9](?:am|const|edit|form|gcc|head|menu|ncurses|p|perl|pm|posix|readline|ssl|t|tcl|tk|type|x)"
)
"""A section of the manual with the name of its package, such as .3pm and .5ssl; others, such as .7z, are not text."""


def suffix_of(name: str) -> str:
    """Return the suffix that says how to read a file, or "".

    A name without a suffix, or with a number or a section of the manual as its suffix, is read as text. Names with
    other suffixes are read as text if that is what the file holds (`files.is_document`).
    """
    base, suffix = os.path.splitext(name.lower().removesuffix(".gz"))  # noqa: PTH122 - a name, not a path
    if suffix == ".txt" and base.endswith((".rst", ".md")):  # as Sphinx names the sources of pages
        return os.path.splitext(base)[1]  # noqa: PTH122
    if suffix in SUFFIXES:
        return suffix
    is_text = suffix.strip(".0123456789") == "" or _MAN_SECTION.fullmatch(suffix)
    return ".txt" if is_text or _TEXT_NAME.match(base.rpartition("/")[2]) else ""


_FORMATS = {
    **dict.fromkeys((".txt", ".text"), "text"),
    **dict.fromkeys((".md", ".markdown"), "Markdown"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), "HTML"),
    **dict.fromkeys((".jsonl", ".ndjson"), "JSON Lines"),
    **dict.fromkeys((".eml", ".mbox"), "e-mail"),
    ".rst": "reStructuredText",
    ".pdf": "PDF",
    ".docx": "Word",
    ".pptx": "PowerPoint",
    ".xlsx": "Excel",
    ".csv": "CSV",
    ".tsv": "TSV",
    ".json": "JSON",
    ".epub": "EPUB",
    ".ipynb": "notebooks",
    ".log": "logs",
}


def format_name(suffix: str) -> str:
    """Return the name of a format in words; source code is named by its suffix."""
    return _FORMATS.get(suffix, suffix)
