"""What is wrong with a request that cannot be read, in words; of what it holds only names of fields are repeated."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hoptree.server.names import guess
from hoptree.server.refusals import Refusal

__all__ = ["UNKNOWN", "unreadable"]

UNKNOWN = "unknown_field"
"""The type of an error about a field that there is not."""
_NUMBER = "must be a number"
_WHOLE = "must be a whole number"
_OBJECT = "must be an object"
_TEXT = "must be text"
_TRUTH = "must be true or false"
_WORDS = {
    "missing": "is missing",
    "string_type": _TEXT,
    "string_unicode": _TEXT,
    "string_too_short": "is empty",
    "string_too_long": "has more than {max_length} characters",
    "too_short": "is empty",
    "too_long": "has more than {max_length} entries",
    "bool_type": _TRUTH,
    "bool_parsing": _TRUTH,
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": "is too large a number",
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": _NUMBER,
    "greater_than_equal": "must be {ge} or more",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be {le} or less",
    "literal_error": "must be {expected}",
    "dict_type": _OBJECT,
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "list_type": "must be a list",
}
_EITHER = {
    "options": "must be true or false, a number, or a short text",
    "content": "must be text, or a list of parts with text",
}
"""What is said in the place of one sentence for each kind of value that a field may have."""
_MOST = 3
_LETTERS = 80
_SHAPE = "GET /openapi.json tells what it looks like."


def unreadable(errors: Sequence[Mapping[str, Any]]) -> Refusal:
    """The refusal of a request, by what the reading of it found."""
    for one in errors:
        if one["type"] == "json_invalid":
            return Refusal(400, "BadRequest", f"The body is no JSON, from character {one['loc'][-1]} on.", _SHAPE)
        if one["type"] == "missing" and len(one["loc"]) == 1:
            return Refusal(400, "BadRequest", "The body is no JSON: it is empty.", _SHAPE)
        if one["type"] == UNKNOWN:
            return _unknown(_place(one["loc"])[0], **one["ctx"])
    said = list(dict.fromkeys(_sentence(one) for one in errors))
    place, _ = _place(errors[0]["loc"])
    return Refusal(422, "BadRequest", f"{'; '.join(said[:_MOST])}.", _SHAPE, param=place or None)


def _unknown(above: str, *, name: str, known: Collection[str]) -> Refusal:
    place = ".".join(filter(None, (above, name)))[:_LETTERS]
    close = guess(name, known)
    remedy = f"Did you mean '{close}'?" if close else f"There are: {', '.join(sorted(known))}."
    return Refusal(422, "BadRequest", f"There is no field '{place}'.", remedy, param=place)


def _sentence(error: Mapping[str, Any]) -> str:
    """What is wrong with one field."""
    place, either = _place(error["loc"])
    words = either or _WORDS.get(error["type"], "cannot be read")
    return f"{place or 'The body'} {words.format_map(error.get('ctx') or {})}"


def _place(where: Sequence[Any]) -> tuple[str, str]:
    """The field that an error is about as a request would write it, and what it may be if that is of several kinds.

    Of such a field there is an error for each kind, named behind it.
    """
    parts, either = list(where[1:]), ""
    for depth, part in enumerate(parts):
        kinds = depth + (2 if part == "options" else 1)
        if part in _EITHER and len(parts) > kinds:
            parts, either = parts[:kinds], _EITHER[part]
            break
    return ".".join(str(part)[:40] for part in parts)[:_LETTERS], either
