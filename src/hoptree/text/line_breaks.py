"""Find sentences across wrapped lines, and the text of an e-mail below its head."""

from __future__ import annotations

from itertools import pairwise

from hoptree.core.lazy import lazy_re

_MIN_WIDTH = 50  # of a wrapped paragraph, in characters; lines of verse and of lists are shorter
_FULL = 0.85  # of the width; the longest line may be longer than the others
_MIN_INDENTED_LINES = 3
_MIN_SPACES = 5  # in a wrapped line, unlike in a line of code
_ENDS_SENTENCE = tuple('.!?:;…"”')
_GOES_ON = lazy_re(r"[^\W_]|[\"'“„‘(]")
_BEGINS_ITEM = lazy_re(r"\w{1,3}[.)]\s|[\w-]{1,20}:\s")
"""A number of a list, or the name of a field: "To: …"."""

_MAIL_HEAD = lazy_re(r"(?:(?:From|To|Cc|Date): [^\n]*(?:\n|\Z))+")


def drop_mail_head(text: str, answer: str = "") -> str:
    """Return an e-mail without sender, recipients and date.

    They stay if only they have the answer, or if there is no other text.
    """
    match = _MAIL_HEAD.match(text)
    body = text[match.end() :].lstrip() if match else ""
    is_only_in_head = answer.casefold() in text.casefold() and answer.casefold() not in body.casefold()
    return text if not body or is_only_in_head else body


def unwrap_lines(text: str) -> str:
    """Replace the line breaks inside sentences with spaces.

    Places in the text stay the same. A line is wrapped if, with the first word of the next line, it would be about as
    long as the longest of its paragraph. The page's evidence.js has the same.
    """
    if "\n" not in text:
        return text
    return "\n\n".join(_unwrap_paragraph(paragraph) for paragraph in text.split("\n\n"))


def _unwrap_paragraph(paragraph: str) -> str:
    lines = paragraph.split("\n")
    read = _without_indent(lines)
    width = max(map(len, read))
    if len(lines) < 2 or width < _MIN_WIDTH:
        return paragraph
    pieces = [lines[0]]
    for place, (line, following) in enumerate(pairwise(read), 1):
        ends = not line.strip() or line.endswith(_ENDS_SENTENCE)
        goes_on = _GOES_ON.match(following) and not _BEGINS_ITEM.match(following)
        pieces += [" " if _is_full(line, following, width) and not ends and goes_on else "\n", lines[place]]
    return "".join(pieces)


def _is_full(line: str, following: str, width: int) -> bool:
    is_prose = line.count(" ") >= _MIN_SPACES
    return len(line) + 1 + len(following.partition(" ")[0]) > _FULL * width and is_prose


def _without_indent(lines: list[str]) -> list[str]:
    """Return the lines of indented prose without the indent; other lines as they are.

    The first line may have another indent. Unlike code, prose has three lines or more, all full except the last.
    """
    bare = [line.lstrip(" ") for line in lines]
    indents = {len(line) - len(text) for line, text in zip(lines[1:], bare[1:], strict=True) if text}
    width = max(map(len, bare))
    is_prose = len(lines) >= _MIN_INDENTED_LINES and all(_is_full(*pair, width) for pair in pairwise(bare) if pair[1])
    return bare if len(indents) == 1 and is_prose else lines
