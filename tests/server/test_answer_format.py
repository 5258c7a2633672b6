"""The JSON schemas that an answer keeps, and those that it may break."""

from __future__ import annotations

from typing import Any

import pytest

from hoptree.server.answer_format import read_answer_format
from hoptree.server.error_responses import Refusal

_LEVELS = ["well supported", "partly supported", "a guess", "no answer"]
_COLOURS: dict[str, Any] = {"enum": ["red", "green"]}
_TEXT, _NULL, _NUMBER = {"type": "string"}, {"type": "null"}, {"type": "number"}


def _form(properties: dict[str, Any], **schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "schema": {"properties": properties, **schema}}


def _cited(**fields: Any) -> dict[str, Any]:
    return {"citations": {"type": "array", "items": {"type": "object", "properties": fields}}}


@pytest.mark.parametrize(
    "properties",
    [
        {"level": {"type": "string", "enum": _LEVELS}},
        {"level": {"$ref": "#/$defs/Level"}},
        {"answer": {"anyOf": [_TEXT | _COLOURS, _TEXT]}},
        {"answer": _TEXT | {"minLength": 0, "description": "A name.", "examples": ["Ada"]}},
        {"probability": {"anyOf": [_NUMBER | {"minimum": 0, "maximum": 1}, _NULL]}},
        {"probability": {"type": ["number", "null"], "exclusiveMinimum": -1, "exclusiveMaximum": 1.5}},
        {"citations": {"items": {"properties": ["title"]}}},
        {"citations": {"type": "array", "minItems": 0, "uniqueItems": False}},
        _cited(title=_TEXT),
    ],
)
def test_a_schema_that_every_answer_keeps_is_taken(properties: dict[str, Any]) -> None:
    form = _form(properties, additionalProperties=False, **{"$defs": {"Level": {"enum": _LEVELS}}})
    assert list(read_answer_format("response_format", form) or ()) == list(properties)


@pytest.mark.parametrize(
    ("properties", "limit"),
    [
        ({"level": {"type": "string", "enum": _LEVELS[:3]}}, "enum"),
        ({"answer": _TEXT | _COLOURS}, "enum"),
        ({"answer": {"$ref": "#/$defs/Colour"}}, "enum"),
        ({"answer": {"$ref": "#/definitions/Colour"}}, "enum"),
        ({"answer": {"$ref": "#/$defs/Taste"}}, "$ref"),
        ({"answer": {"anyOf": [_TEXT | {"const": "red"}, _NULL]}}, "const"),
        ({"answer": _TEXT | {"maxLength": 5}}, "maxLength"),
        ({"answer": _TEXT | {"minLength": 1}}, "minLength"),
        ({"answer": _TEXT | {"pattern": "^[A-Z]+$"}}, "pattern"),
        ({"answer": _TEXT | {"format": "date"}}, "format"),
        ({"answer": {"anyOf": [_TEXT | {"maxLength": 5}, _NULL]}}, "maxLength"),
        ({"answer": {"$ref": "#/$defs/Text", "maxLength": 5}}, "maxLength"),
        ({"answer": {"allOf": [_TEXT | {"maxLength": 5}]}}, "allOf"),
        ({"probability": {"type": ["number", "null"], "minimum": 0.5}}, "minimum"),
        ({"probability": {"type": ["number", "null"], "exclusiveMaximum": 1}}, "exclusiveMaximum"),
        ({"probability": {"type": ["number", "null"], "multipleOf": 0.1}}, "multipleOf"),
        ({"citations": {"type": "array", "minItems": 1}}, "minItems"),
        ({"sub_questions": {"type": "array", "maxItems": 2}}, "maxItems"),
        (_cited(title=_TEXT | _COLOURS), "enum"),
        (_cited(title=_TEXT | {"maxLength": 5}), "maxLength"),
        ({"citations": {"items": {"properties": {"title": _TEXT}, "required": [["title"]]}}}, "required"),
    ],
)
def test_a_limit_that_answers_are_not_held_to_is_refused(properties: dict[str, Any], limit: str) -> None:
    known = {"Colour": _COLOURS, "Text": _TEXT}
    with pytest.raises(Refusal) as refused:
        read_answer_format("response_format", _form(properties, **{"$defs": known, "definitions": known}))
    assert refused.value.status == 400 and f"has a limit ({limit})" in refused.value.cause
    assert "well supported" in refused.value.remedy


@pytest.mark.parametrize(
    ("schema", "limit"),
    [
        ({"required": ["answer", "mood"]}, "required"),
        ({"required": [["answer"]]}, "required"),
        ({"required": [{}]}, "required"),
        ({"minProperties": 2}, "minProperties"),
        ({"not": {}}, "not"),
    ],
)
def test_a_limit_of_the_whole_schema_is_refused(schema: dict[str, Any], limit: str) -> None:
    with pytest.raises(Refusal, match=f"the schema has a limit .{limit}"):
        read_answer_format("response_format", _form({"answer": _TEXT}, **schema))


def test_a_number_is_no_title() -> None:
    with pytest.raises(Refusal, match="'citations' has another type in an answer"):
        read_answer_format("response_format", _form(_cited(title=_NUMBER)))


def test_a_property_that_no_answer_has_is_refused() -> None:
    with pytest.raises(Refusal, match="'sources' is not in an answer") as refused:
        read_answer_format("response_format", _form({"sources": {"type": "array"}}))
    assert refused.value.remedy.startswith("An answer has: answer (string)")


def test_items_have_the_fields_that_are_asked_for() -> None:
    assert read_answer_format("response_format", _form(_cited(title=_TEXT))) == {"citations": ("title",)}
