"""JSON answers in a client's `response_format`; unsatisfiable ones are refused."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NoReturn, get_args

from hoptree.core.values import Level
from hoptree.server.error_responses import Refusal

AnswerFormat = Mapping[str, Collection[str]]
"""The properties of a JSON answer, with the fields of items for each list."""
_FIELD_TYPES = {
    **dict.fromkeys(("answer", "sentence", "level", "reason", "question"), "string"),
    "probability": "number",
    **dict.fromkeys(("citations", "sub_questions"), "array"),
}
_NULLABLE = ("probability",)
NO_LEVEL = "no answer"
_LEVELS = (*get_args(Level), NO_LEVEL)
_ITEM_FIELDS = {"citations": ("id", "title"), "sub_questions": ("question", "answer")}
_MAX_NAME_CHARS = 40
_LIMITS = frozenset(
    (
        *("enum", "const", "pattern", "format", "maxLength", "minLength", "minimum", "maximum", "multipleOf"),
        *("exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems", "uniqueItems", "contains", "minContains"),
        *("maxContains", "prefixItems", "additionalItems", "unevaluatedItems", "minProperties", "maxProperties"),
        *("patternProperties", "propertyNames", "unevaluatedProperties", "dependencies", "dependentRequired"),
        *("dependentSchemas", "allOf", "oneOf", "not", "if", "$ref", "$dynamicRef", "$recursiveRef"),
    )
)
"""The keywords of JSON Schema that may exclude a value; others describe it, or are read here."""
_FROM_ZERO = ("minLength", "minItems", "minProperties")


def read_answer_format(field: str, given: Mapping[str, Any] | None) -> AnswerFormat | None:
    """Return the properties of the JSON that a client wants; None for text."""
    kind = (given or {}).get("type", "text")
    if kind == "text":
        return None
    if kind == "json_object":
        return {name: _ITEM_FIELDS.get(name, ()) for name in _FIELD_TYPES}
    outer = (given or {}).get("json_schema", given) if kind == "json_schema" else None
    schema = outer.get("schema") if isinstance(outer, dict) else None
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(schema, dict) or not isinstance(properties, dict) or not properties:
        cause = f"{field}: Answers are text, a json_object, or a json_schema with properties."
        raise Refusal(400, "Unsupported", cause, "Leave it out.", param=field)
    if limit := next(_object_limits(schema, properties), ""):
        _refuse_limit(field, "the schema", limit)
    return {name: _read_property(field, str(name), about, schema) for name, about in properties.items()}


def _read_property(field: str, name: str, about: Any, schema: Mapping[str, Any]) -> Collection[str]:
    """Return the fields of a property's items; refuse a property that no answer has."""
    items = _resolved(_resolved(about, schema).get("items"), schema) if name in _ITEM_FIELDS else {}
    given = items.get("properties")
    item_fields = given if isinstance(given, dict) else {}
    if name not in _FIELD_TYPES or not (_can_hold(name, about, schema) and _can_hold_items(name, items, schema)):
        known = ", ".join(f"{each} ({_type_text(each)})" for each in _FIELD_TYPES)
        what = "has another type in an answer" if name in _FIELD_TYPES else "is not in an answer"
        cause = f"{field}: the property '{name[:_MAX_NAME_CHARS]}' {what}."
        raise Refusal(400, "Unsupported", cause, f"An answer has: {known}.", param=field)
    limits = [*_limits(name, about, schema), *_object_limits(items, item_fields or _ITEM_FIELDS.get(name, ()))]
    limits += [limit for each in item_fields.values() for limit in _limits("", each, schema)]
    if limits:
        _refuse_limit(field, f"the property '{name}'", limits[0])
    return tuple(item_fields) or _ITEM_FIELDS.get(name, ())


def _refuse_limit(field: str, where: str, limit: str) -> NoReturn:
    cause = f"{field}: {where} has a limit ({limit[:_MAX_NAME_CHARS]}) that an answer is not held to."
    remedy = f"Leave that out, and check the answer; level is one of: {', '.join(_LEVELS)}."
    raise Refusal(400, "Unsupported", cause, remedy, param=field)


def _type_text(name: str) -> str:
    of_items = f" of objects with {' and '.join(_ITEM_FIELDS[name])}" if name in _ITEM_FIELDS else ""
    return f"{_FIELD_TYPES[name]}{' or null' if name in _NULLABLE else of_items}"


def _can_hold(name: str, about: Any, schema: Mapping[str, Any]) -> bool:
    """Return whether a property's type takes all values that an answer may have."""
    types = _types(about, schema)
    return not types or (_FIELD_TYPES[name] in types and (name not in _NULLABLE or "null" in types))


def _can_hold_items(name: str, items: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    """Return whether items are objects of strings, with fields that an answer has."""
    given = items.get("properties")
    fields = given if isinstance(given, dict) else {}
    are_texts = all("string" in (_types(about, schema) or ["string"]) for about in fields.values())
    return are_texts and set(fields) <= set(_ITEM_FIELDS.get(name, ())) and "object" in _types(items, schema, "object")


def _limits(name: str, about: Any, schema: Mapping[str, Any]) -> list[str]:
    """Return the keywords that exclude values, of the alternative with fewest of them."""
    parts = [part for part in _alternatives(about, schema) if part.get("type") != "null"]
    beside = [limit for limit in _own_limits(name, about) if limit != "$ref"]
    shared = [*beside, *_own_limits(name, _resolved(about, schema))]
    limits = shared + min((list(_own_limits(name, part)) for part in parts), key=len, default=[])
    if name == "level" and set(_LEVELS) <= {str(value) for part in parts for value in _values(part)}:
        return [limit for limit in limits if limit not in ("enum", "const")]
    return limits


def _values(about: Mapping[str, Any]) -> list[Any]:
    values = about.get("enum", [about["const"]] if "const" in about else [])
    return values if isinstance(values, list) else []


def _own_limits(name: str, about: Any) -> Iterator[str]:
    """Yield keywords that an answer may break, without those of alternatives."""
    for keyword, value in about.items() if isinstance(about, dict) else ():
        is_kept = value is False or (keyword in _FROM_ZERO and value == 0)
        if keyword in _LIMITS and not is_kept and not (name == "probability" and _takes_0_to_1(keyword, value)):
            yield keyword


def _takes_0_to_1(keyword: str, value: Any) -> bool:
    if not isinstance(value, int | float):
        return False
    kept = {"minimum": value <= 0, "exclusiveMinimum": value < 0, "maximum": value >= 1, "exclusiveMaximum": value > 1}
    return kept.get(keyword, False)


def _object_limits(about: Mapping[str, Any], properties: Collection[str]) -> Iterator[str]:
    """Yield keywords that an object with just these properties may break."""
    yield from _own_limits("", about)
    required = about.get("required")
    if isinstance(required, list) and not all(isinstance(name, str) and name in properties for name in required):
        yield "required"
    if isinstance(about.get("anyOf"), list):
        yield "anyOf"


def _types(about: Any, schema: Mapping[str, Any], *otherwise: str) -> list[Any]:
    """Return the types of a schema's alternatives; `otherwise` if one names none."""
    kinds = [part.get("type") for part in _alternatives(about, schema)]
    named = [kind for given in kinds for kind in (given if isinstance(given, list) else [given])]
    return named if all(kinds) else list(otherwise)


def _alternatives(about: Any, schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    about = _resolved(about, schema)
    options = about.get("anyOf")
    return [_resolved(option, schema) for option in options] if isinstance(options, list) else [about]


def _resolved(about: Any, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema, or the definition that its `$ref` names."""
    reference = str(about.get("$ref", "")) if isinstance(about, dict) else ""
    parent, _, name = reference.removeprefix("#/").rpartition("/")
    definitions = schema.get(parent) if parent in ("$defs", "definitions") else None
    target = definitions.get(name, about) if name and isinstance(definitions, dict) else about
    return target if isinstance(target, dict) else {}
