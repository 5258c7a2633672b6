"""Ids as users write them, their IRIs, and the IRIs of the store's own vocabulary.

Q42 and P31 are Wikidata's; `name:Elia Kazan` is an entity without an id; anything else is an IRI.
Statements with qualifiers have Wikidata's form: subject --claim--> statement --value--> object, and
statement --qualifier--> value, beside the plain fact.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal
from urllib.parse import quote, unquote

from hoptree.core.errors import GraphError

WIKIDATA = "http://www.wikidata.org/entity/"
WIKIBASE = "http://wikiba.se/ontology#"
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
ALIAS = "http://www.w3.org/2004/02/skos/core#altLabel"
DESCRIPTION = "http://schema.org/description"
ABOUT = "http://schema.org/about"
DIRECT, CLAIMS = "http://www.wikidata.org/prop/direct/", "http://www.wikidata.org/prop/"  # Wikidata's properties
LABELS = frozenset(
    (LABEL, "http://www.w3.org/2004/02/skos/core#prefLabel", "http://schema.org/name", "http://xmlns.com/foaf/0.1/name")
)
ALIASES = frozenset((ALIAS, "http://schema.org/alternateName"))
DESCRIPTIONS = frozenset(
    (DESCRIPTION, "http://www.w3.org/2000/01/rdf-schema#comment", "http://purl.org/dc/terms/description")
) | {"https://schema.org/description"}
KEY = "urn:hoptree:key"  # from an entity to its folded names
USES = "urn:hoptree:uses"  # from a property to the number of facts of a source that use it
DATATYPE = "urn:hoptree:datatype"
PAGE = "urn:hoptree:page"
BLANK = "urn:hoptree:blank:"  # prefix of the IRIs of blank nodes

_ENTITY, _PROPERTY = "urn:hoptree:entity:", "urn:hoptree:property:"
_WIKIDATA_ID = re.compile(r"[QPL][1-9][0-9]{0,15}(?:-[FS][1-9][0-9]{0,9})?", re.ASCII)
_PROPERTY_ID = re.compile(r"P[1-9][0-9]{0,15}", re.ASCII)
_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\\ud800-\udfff]+")
_DIGITS = re.compile(r"(\d+)")
_WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

Step = Literal["claim", "value", "qualifier"]
Role = Literal["fact", "label", "alias", "description", "own", "claim", "value", "qualifier", "bookkeeping"]
"""The use of a triple, by its predicate; bookkeeping is metadata of dumps."""
_STEPS: dict[Step, str] = {"claim": "", "value": "statement/", "qualifier": "qualifier/"}
_BOOKKEEPING = frozenset(
    f"http://schema.org/{name}" for name in ("about", "inLanguage", "isPartOf", "version", "dateModified")
)


@lru_cache(4096)
def predicate_role(predicate: str) -> Role:
    """Return what triples with this predicate are for."""
    if predicate in LABELS:
        return "label"
    if predicate in ALIASES:
        return "alias"
    if predicate in DESCRIPTIONS:
        return "description"
    if predicate.startswith(_PROPERTY):
        return "fact"
    if predicate.startswith("urn:hoptree:"):
        return next((step for step in _STEPS if predicate.startswith(f"urn:hoptree:{step}:")), "own")
    if predicate in _BOOKKEEPING or predicate.startswith(WIKIBASE):
        return "bookkeeping"
    if not predicate.startswith(CLAIMS) or predicate.startswith(DIRECT):
        return "fact"
    local_name = predicate.removeprefix(CLAIMS)
    return next(
        (step for step, prefix in _STEPS.items() if _PROPERTY_ID.fullmatch(local_name.removeprefix(prefix))),
        "bookkeeping",
    )


def name_id(name: str) -> str:
    """Return the id of something without an id, made of its name."""
    return f"name:{' '.join(name.split())}"


def entity_iri(identifier: str) -> str:
    if _WIKIDATA_ID.fullmatch(identifier):
        return WIKIDATA + identifier
    return _name_or_iri(identifier, _ENTITY)


def property_iri(identifier: str) -> str:
    return DIRECT + identifier if _PROPERTY_ID.fullmatch(identifier) else _name_or_iri(identifier, _PROPERTY)


def _name_or_iri(identifier: str, prefix: str) -> str:
    if identifier.startswith("name:") and identifier != "name:":
        return prefix + quote(identifier.removeprefix("name:"), safe="", errors="replace")
    if _IRI.fullmatch(identifier) is None:
        cause = f"'{identifier[:200]}' is not an id."
        raise GraphError(cause, "Ids are Wikidata's (Q42, P31), name:NAME, or whole IRIs (http://…).")
    return identifier


def entity_id(iri: str) -> str:
    """Return the (shortest) id of an entity's IRI."""
    if iri.startswith(_ENTITY):
        return f"name:{unquote(iri.removeprefix(_ENTITY))}"
    short = iri.removeprefix(WIKIDATA)
    return short if short != iri and _WIKIDATA_ID.fullmatch(short) else iri


def property_id(iri: str) -> str:
    """Return the id of a property by any of its IRIs."""
    if iri.startswith(_PROPERTY):
        return f"name:{unquote(iri.removeprefix(_PROPERTY))}"
    if iri.startswith("urn:hoptree:"):
        return unquote(iri.split(":", 3)[-1])
    short = iri.removeprefix(WIKIDATA)
    if iri.startswith(CLAIMS):
        short = iri.rpartition("/")[2]
    return short if _PROPERTY_ID.fullmatch(short) else iri


def is_property(identifier: str) -> bool:
    """Return whether an id is that of a Wikidata property."""
    return _PROPERTY_ID.fullmatch(identifier) is not None


def natural_key(identifier: str) -> tuple[tuple[str, int], ...]:
    """Return a key that sorts Q9 before Q10."""
    parts = _DIGITS.split(identifier)
    return tuple((part, int(number[:18])) for part, number in zip(parts[::2], [*parts[1::2], "0"], strict=False))


def property_entity(identifier: str) -> str:
    """Return the IRI with the names of a property."""
    return WIKIDATA + identifier if _PROPERTY_ID.fullmatch(identifier) else property_iri(identifier)


def step_iri(step: Step, identifier: str) -> str:
    """Return the predicate of one step of a statement with this property."""
    if _PROPERTY_ID.fullmatch(identifier):
        return CLAIMS + _STEPS[step] + identifier
    return f"urn:hoptree:{step}:{quote(identifier, safe='', errors='replace')}"


def readable_name(identifier: str) -> str:
    """Make a name of an id without a label."""
    if identifier.startswith("name:"):
        return identifier.removeprefix("name:").replace("_", " ")
    if "://" not in identifier:
        return "something unnamed" if identifier.startswith(BLANK) else identifier
    last = unquote(re.split(r"[/#]", identifier.rstrip("/#"))[-1]).replace("_", " ")
    return _WORD_ENDS.sub(" ", last).lower() if last[:1].islower() else last
