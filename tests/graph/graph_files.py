"""Small graph files for tests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["ENTITY", "TRUTHY", "jsonl", "written"]

ENTITY = "http://www.wikidata.org/entity/"
_DIRECT = "http://www.wikidata.org/prop/direct/"
_XSD = "http://www.w3.org/2001/XMLSchema#"
_SCHEMA = "http://schema.org/"

TRUTHY = f"""\
<https://www.wikidata.org/wiki/Special:EntityData/Q1615> <{_SCHEMA}version> "1"^^<{_XSD}integer> .
<{ENTITY}Q1615> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://wikiba.se/ontology#Item> .
<{ENTITY}Q1615> <http://www.w3.org/2000/01/rdf-schema#label> "Neil Armstrong"@en .
<{ENTITY}Q1615> <http://www.w3.org/2004/02/skos/core#prefLabel> "Neil Armstrong"@en .
<{ENTITY}Q1615> <{_SCHEMA}name> "Neil Armstrong"@en .
<{ENTITY}Q1615> <http://www.w3.org/2000/01/rdf-schema#label> "نيل آرمسترونغ"@ar .
<{ENTITY}Q1615> <http://www.w3.org/2004/02/skos/core#altLabel> "Neil Alden Armstrong"@en .
<{ENTITY}Q1615> <{_SCHEMA}description> "American astronaut"@en .
<{ENTITY}Q1615> <{_DIRECT}P569> "1930-08-05T00:00:00Z"^^<{_XSD}dateTime> .
<{ENTITY}Q1615> <{_DIRECT}P166> <{ENTITY}Q17144> .
<{ENTITY}Q1615> <http://www.wikidata.org/prop/direct-normalized/P214> <http://viaf.org/viaf/1> .
<{ENTITY}Q1615> <http://wikiba.se/ontology#sitelinks> "180"^^<{_XSD}integer> .
<https://en.wikipedia.org/wiki/Neil_Armstrong> <{_SCHEMA}about> <{ENTITY}Q1615> .
<https://ar.wikipedia.org/wiki/X> <{_SCHEMA}about> <{ENTITY}Q1615> .
<{ENTITY}Q17144> <http://www.w3.org/2000/01/rdf-schema#label> "Presidential Medal of Freedom"@en .
<{ENTITY}P569> <http://www.w3.org/2000/01/rdf-schema#label> "date of birth"@en .
<{ENTITY}P569> <http://wikiba.se/ontology#propertyType> <http://wikiba.se/ontology#Time> .
<{ENTITY}P166> <http://www.w3.org/2000/01/rdf-schema#label> "award received"@en .
"""
"""Lines as Wikidata's truthy dumps have them."""


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    return written(path, "".join(f"{json.dumps(row)}\n" for row in rows))
