"""Extracted facts as rows of a graph: whatever a passage spells is a name or a literal, never an id."""

from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st

from hoptree.extraction.folder import Entry, fact_rows
from hoptree.graph.triple_files import RowReader
from hoptree.methods.steps.fact_extraction import StatedFact, read_triples

PART = st.text(min_size=1, max_size=40)


@given(PART, PART, PART, st.text(max_size=20))
@example("Q5", "P31", "Q42", "p1")
@example("<http://www.wikidata.org/entity/Q5>", "<a:b>", "<a:b>", "p1")
@example("Neva", "mouth", "Gulf", "\r")
@example("L1-F1", "wdt:P31", "name:Q5", "")
@example("a\ud800b", "\x7f", "\u202eb", "p\ud800")
def test_every_fact_that_is_read_can_be_loaded(subject: str, relation: str, object_: str, passage: str) -> None:
    for triple in read_triples(json.dumps([subject, relation, object_])).triples:
        for row in fact_rows(Entry(1, passage, passage, (StatedFact(*triple),))):
            triples = list(RowReader().triples(json.loads(json.dumps(row))))
            assert triples
            for node, predicate, value, sources in triples:
                assert str(node).startswith(("<urn:hoptree:entity:", "<urn:hoptree:property:"))
                assert "wikidata" not in str(predicate)
                assert str(value).startswith(("<urn:hoptree:entity:", '"'))
                assert len(sources) == bool(passage.strip())
