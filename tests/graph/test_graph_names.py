"""Ids, IRIs and names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.core.errors import GraphError
from hoptree.graph.oxigraph import ox
from hoptree.graph.vocabulary import (
    entity_id,
    entity_iri,
    name_id,
    predicate_role,
    property_entity,
    property_id,
    property_iri,
    readable_name,
    step_iri,
)
from hoptree.text.names import best_name, fold, is_wanted_language, language_rank

NAMES = st.text(min_size=1, max_size=30).filter(lambda name: bool(name.split()))


@pytest.mark.parametrize("identifier", ["Q42", "P31", "L7-F2", "http://example.org/a#b", "urn:isbn:3"])
def test_ids_come_back_from_their_iris(identifier: str) -> None:
    assert entity_id(entity_iri(identifier)) == identifier


@given(NAMES)
def test_names_come_back_from_their_iris(name: str) -> None:
    identifier = name_id(name)
    assert identifier == name_id(identifier.removeprefix("name:"))
    assert entity_id(ox.NamedNode(entity_iri(identifier)).value) == identifier
    assert property_id(ox.NamedNode(property_iri(identifier)).value) == identifier
    for step in ("claim", "value", "qualifier"):
        iri = ox.NamedNode(step_iri(step, identifier)).value
        assert (property_id(iri), predicate_role(iri)) == (identifier, step)


@pytest.mark.parametrize("identifier", ["", "name:", "Elia Kazan", "Q0", "q42", "Q42>", "http://x/ y", "a:<b>", "x:\\"])
def test_what_is_no_id_is_refused(identifier: str) -> None:
    with pytest.raises(GraphError, match="is not an id"):
        entity_iri(identifier)


@given(st.text(max_size=40))
def test_whatever_is_taken_for_an_id_is_an_iri(identifier: str) -> None:
    try:
        iri = entity_iri(identifier)
    except GraphError:
        return
    assert not set(iri) & set(' <>"{}|^`\\\n\t')


def test_what_a_triple_is_for() -> None:
    wikidata = "http://www.wikidata.org/prop/"
    roles = {
        f"{wikidata}direct/P31": "fact",
        f"{wikidata}P31": "claim",
        f"{wikidata}statement/P31": "value",
        f"{wikidata}qualifier/P31": "qualifier",
        f"{wikidata}statement/value/P31": "bookkeeping",
        f"{wikidata}direct-normalized/P214": "bookkeeping",
        "http://wikiba.se/ontology#sitelinks": "bookkeeping",
        "http://schema.org/dateModified": "bookkeeping",
        "http://www.w3.org/2000/01/rdf-schema#label": "label",
        "http://www.w3.org/2004/02/skos/core#altLabel": "alias",
        "urn:hoptree:key": "own",
        "http://example.org/knows": "fact",
    }
    assert {iri: predicate_role(iri) for iri in roles} == roles
    assert property_id(f"{wikidata}qualifier/P31") == "P31"
    assert property_entity("P31") == "http://www.wikidata.org/entity/P31"


def test_a_name_can_be_made_of_an_id() -> None:
    assert readable_name("http://dbpedia.org/ontology/birthPlace") == "birth place"
    assert readable_name("http://dbpedia.org/resource/Elia_Kazan") == "Elia Kazan"
    assert readable_name("name:place_of_birth") == "place of birth"
    assert readable_name("Q42") == "Q42"


def test_names_are_compared_without_capitals_accents_and_dashes() -> None:
    assert fold("  Émile   CHAUTARD ") == fold("emile chautard")
    assert fold("Prince René of Bourbon–Parma’s") == fold("Prince Rene of Bourbon-Parma's")
    assert fold("Straße") == fold("STRASSE")
    assert fold("Łódź, Øystein, Đạt, Þór, Æthelred, Œuvre, Ħal") == "lodz, oystein, dat, thor, aethelred, oeuvre, hal"
    assert fold("Йога") != fold("Жук")
    assert fold("\ud800") == fold("?")
    assert fold("¯") and fold("\u0304"), "what is nothing but marks can be looked up, too"


@given(st.text(max_size=60))
def test_folding_is_done_once(name: str) -> None:
    assert fold(fold(name)) == fold(name)


def test_languages_are_preferred_in_order() -> None:
    names = [("Deutschland", "de"), ("Germany", "en"), ("Germany!", "en-gb"), ("Allemagne", "fr")]
    assert best_name(names, ("en", "de")) == "Germany"
    assert best_name(names, ("fr", "en")) == "Allemagne"
    assert best_name(names[2:], ("en", "fr")) == "Germany!"
    assert best_name([], ("en",)) == ""
    assert language_rank("EN-us", ("en",)) == 1
    assert is_wanted_language("en-gb", ("en",)) and not is_wanted_language("eng", ("en",))
    assert is_wanted_language("sw", ())
