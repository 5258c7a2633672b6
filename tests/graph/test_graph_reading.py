"""Files of triples: what is read, and what becomes of broken ones."""

from __future__ import annotations

import bz2
import gzip
import io
import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.core.errors import ConfigError, GraphError
from hoptree.graph.oxigraph import Triple, ox
from hoptree.graph.triple_files import (
    BrokenPlaces,
    form_of,
    read_jsonl,
    read_ntriples,
    read_triples,
    read_tsv,
    read_turtle,
)
from hoptree.graph.vocabulary import LABEL

E = "http://e.org/"
GOOD = f'<{E}a> <{E}p> "x" .\n'


def lines(text: str | bytes) -> list[tuple[int, bytes]]:
    content = text.encode() if isinstance(text, str) else text
    return list(enumerate(content.splitlines(keepends=True), 1))


def stream(text: str) -> io.BytesIO:
    return io.BytesIO(text.encode())


def facts(triples: list[Triple]) -> list[tuple[str, str, str]]:
    return [(s.value, p.value, o.value) for s, p, o, _ in triples if p.value != LABEL]


def test_broken_lines_are_skipped_counted_and_named() -> None:
    broken = BrokenPlaces()
    text = GOOD + f"<{E}a> <{E}p> nothing .\n\n# a comment\n" + GOOD + f'<{E}b c> <{E}p> "y" .\n' + GOOD
    read = list(read_ntriples(lines(text), "f.nt", broken))
    assert len(read) == 3 and broken.count == 2
    assert broken.sentences[0].startswith("Line 2 of f.nt") and broken.sentences[1].startswith("Line 6 of f.nt")
    assert "line 1" not in broken.sentences[0]


def test_lines_that_are_no_utf8_or_have_no_end_are_broken_lines() -> None:
    broken = BrokenPlaces()
    text = b'<a:b> <a:p> "\xff" .\n' + GOOD.encode() + b'<a:b> <a:p> "x'
    assert len(list(read_ntriples(lines(text), "f.nt", broken))) == 1
    assert broken.count == 2


def test_too_many_broken_lines_are_an_error() -> None:
    with pytest.raises(GraphError, match="More than 2 places") as raised:
        list(read_ntriples(lines("bad\n" * 5), "f.nt", BrokenPlaces(2)))
    assert "--skip-broken 20" in raised.value.remedy
    with pytest.raises(GraphError, match=r"Line 1 of f\.nt"):
        list(read_ntriples(lines("bad\n"), "f.nt", BrokenPlaces(0)))


def test_blank_nodes_of_two_files_are_two() -> None:
    text = lines(f'_:b <{E}p> "x" .\n')
    first, second = (next(iter(read_ntriples(text, name, BrokenPlaces()))) for name in ("a.nt", "b.nt"))
    assert first[0] != second[0]


def test_a_quad_is_read_without_its_graph() -> None:
    text = lines(f'<{E}a> <{E}p> "x" <{E}g> .\n')
    assert facts(list(read_ntriples(text, "f.nq", BrokenPlaces(), quads=True))) == [(f"{E}a", f"{E}p", "x")]
    broken = BrokenPlaces()
    assert list(read_ntriples(text, "f.nt", broken)) == [] and broken.count == 1


TURTLE = f"""@prefix e: <{E}> . # names. and dots.
PREFIX f: <{E}f/>
e:a e:p e:b , "a. b # no comment" ; e:q 1.5 .
e:b e:p \"\"\"a long text. with "quotes"

and e:not e:a e:statement .\"\"\"@en . e:c e:p <http://x/a.b>.<{E}d> e:p f:x .
e:d a [ e:p 5 ] ; e:r ( 1 2 ) .
"""


def test_turtle_is_read_as_the_library_reads_it() -> None:
    read = list(read_turtle(stream(TURTLE), "f.ttl", BrokenPlaces()))
    assert len(read) == len(list(ox.parse(TURTLE.encode(), format=ox.RdfFormat.TURTLE)))
    texts = {o.value for _, _, o, _ in read if isinstance(o, ox.Literal)}
    assert 'a long text. with "quotes"\n\nand e:not e:a e:statement .' in texts and "a. b # no comment" in texts


@pytest.mark.parametrize("wrong", ["no:a no:b no:c .", "@prefix : <not closed .", f'<{E}a> <{E}p> """never'])
def test_a_broken_turtle_statement_refuses_the_file(wrong: str) -> None:
    with pytest.raises(GraphError, match=r"Line 2 of f\.ttl cannot be read"):
        list(read_turtle(stream(f"{GOOD}{wrong}\n{GOOD}"), "f.ttl", BrokenPlaces()))


def test_a_turtle_text_that_is_too_long_keeps_what_came_before() -> None:
    broken = BrokenPlaces()
    text = f'{GOOD}<{E}a> <{E}p> """{"long " * 5_000_000}'
    assert facts(list(read_turtle(stream(text), "f.ttl", broken))) == [(f"{E}a", f"{E}p", "x")]
    assert broken.cut == {"f.ttl"} and "is damaged" in broken.sentences[0]


def test_prefixes_may_be_called_like_directives() -> None:
    text = f"@prefix base: <{E}> .\n@prefix prefix: <{E}p/> .\nbase:a prefix:b base:c .\nBASE <{E}x/>\n<d> <e> <f> .\n"
    broken = BrokenPlaces(0)
    assert facts(list(read_turtle(stream(text), "f.ttl", broken))) == [
        (f"{E}a", f"{E}p/b", f"{E}c"),
        (f"{E}x/d", f"{E}x/e", f"{E}x/f"),
    ]


@given(st.lists(st.sampled_from(['"', "'", '"""', ".", ". ", "<", ">", "#", "\\", "\n", "a ", "<x:y>", "@prefix "])))
def test_broken_turtle_is_read_or_refused(pieces: list[str]) -> None:
    with suppress(GraphError):
        list(read_turtle(stream("".join(pieces)), "f", BrokenPlaces(10**6)))


TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)


@given(st.lists(st.tuples(TEXTS, st.sampled_from(["", "en", "pt-br"])), max_size=20))
def test_literals_round_trip_through_ntriples_and_turtle(values: list[tuple[str, str]]) -> None:
    quads = [
        ox.Triple(ox.NamedNode(f"{E}a"), ox.NamedNode(f"{E}p"), ox.Literal(text, language=tag or None))
        for text, tag in values
    ]
    objects = {quad.object for quad in quads}
    written = ox.serialize(quads, format=ox.RdfFormat.N_TRIPLES)
    assert written is not None
    content = [(number, line + b"\n") for number, line in enumerate(written.split(b"\n"), 1)]
    assert {o for _, _, o, _ in read_ntriples(content, "f", BrokenPlaces(0))} == objects
    written = ox.serialize(quads, format=ox.RdfFormat.TURTLE)
    assert written is not None
    assert {o for _, _, o, _ in read_turtle(io.BytesIO(written), "f", BrokenPlaces(0))} == objects


NAMES = TEXTS.filter(lambda text: bool(text.replace("\0", " ").split()))


@given(NAMES, NAMES, NAMES, st.lists(NAMES, max_size=2))
def test_rows_of_names_round_trip(s: str, p: str, o: str, src: list[str]) -> None:
    row = json.dumps({"s": s, "p": p, "o": o, "src": src}).encode()
    broken = BrokenPlaces(0)
    read = [triple for triple in read_jsonl([(1, row)], "f", broken) if triple[1].value != LABEL]
    assert len(read) == 1
    assert all(isinstance(place, str) for place in read[0][3])


@given(st.binary(max_size=80))
def test_no_bytes_break_a_table(content: bytes) -> None:
    for reader in (read_jsonl, read_tsv):
        list(reader(lines(content), "f", BrokenPlaces(10**6)))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["s", "p", "o", "s_id", "p_id", "o_id", "src", "qualifiers", "id", "label", "aliases"])
                | st.sampled_from(["time", "precision", "amount", "unit", "text", "language", "value"]),
                inner,
                max_size=6,
            )
        ),
    )
)
def test_no_json_breaks_a_table(row: object) -> None:
    broken = BrokenPlaces(10)
    list(read_jsonl([(1, json.dumps(row).encode())], "f", broken))
    assert broken.count <= 1


def test_rows_with_ids_literals_and_values_of_wikidata() -> None:
    rows = [
        {"s": "Apollo 11", "s_id": "Q43653", "p": "start", "p_id": "P619", "o": "16 July 1969", "src": ["b", "a"]},
        {"head": "Q43653", "relation": "P31", "tail": "Q752783"},
        {"s": "Everest", "p": "height", "o": {"amount": "+8848.86", "unit": "http://www.wikidata.org/entity/Q11573"}},
        {"s": "Apollo 11", "p": "landing", "o": {"time": "+1969-07-20T00:00:00Z", "precision": 11}},
        {"s": "Apollo 11", "p": "crew", "o": "Neil Armstrong"},
        {"s": "Apollo 11", "p": "crew size", "o": 3},
        {"s": "Apollo 11", "p": "link", "o": "<http://nasa.gov/a>"},
    ]
    broken = BrokenPlaces(0)
    read = [
        triple
        for triple in read_jsonl([(n, json.dumps(row).encode()) for n, row in enumerate(rows)], "f", broken)
        if triple[1].value != LABEL
    ]
    assert read[0][2] == ox.Literal("16 July 1969") and read[0][3] == ("a", "b")
    assert [o.value for _, _, o, _ in read[1:]] == [
        "http://www.wikidata.org/entity/Q752783",
        "+8848.86 Q11573",
        "+1969-07-20T00:00:00Z/11",
        "urn:hoptree:entity:Neil%20Armstrong",
        "3",
        "http://nasa.gov/a",
    ]


def test_rows_that_lack_something_say_what() -> None:
    broken = BrokenPlaces()
    rows = [
        '{"s": "a", "p": "b"}',
        "[1]",
        "{",
        '{"x": 1}',
        '{"s": "a", "p": "b", "o": {"odd": 1}}',
        '{"s": [1], "p": 1}',
    ]
    assert list(read_jsonl([(n, row.encode()) for n, row in enumerate(rows, 1)], "f", broken)) == []
    assert broken.count == len(rows)
    assert (
        "it has no o" in broken.sentences[0]
        and "not an object" in broken.sentences[1]
        and "JSON" in broken.sentences[2]
    )


@pytest.mark.parametrize(
    "value",
    [
        10**40,
        1e400,
        {"time": "x", "precision": float("inf")},
        {"amount": 10**40, "unit": [1]},
        {"text": "x", "language": "?"},
    ],
)
def test_odd_numbers_are_read_or_named(value: object) -> None:
    broken = BrokenPlaces(1)
    list(read_jsonl([(1, json.dumps({"s": "a", "p": "b", "o": value}).encode())], "f", broken))
    assert broken.count <= 1


def test_tables_with_and_without_names_of_columns() -> None:
    plain = list(read_tsv(lines("Q1\tP2\tQ3\n\nA b\tknows\tC d\tnotes\nonly two\tfields\n"), "f", BrokenPlaces()))
    assert [(s, p) for s, p, _ in facts(plain)] == [
        ("http://www.wikidata.org/entity/Q1", "http://www.wikidata.org/prop/direct/P2"),
        ("urn:hoptree:entity:A%20b", "urn:hoptree:property:knows"),
    ]
    assert plain[-1][3] == ("notes",)
    headed = list(read_tsv(lines("Tail\thead\trelation\nC\tA\tknows\n"), "f", BrokenPlaces(0)))
    assert facts(headed)[0][0] == "urn:hoptree:entity:A"


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, bytes])
def test_packed_files_are_told_by_their_first_bytes(tmp_path: Path, pack: object) -> None:
    path = tmp_path / "f.nt"
    path.write_bytes(pack(GOOD.encode() * 50))  # type: ignore[operator]
    seen: list[int] = []
    assert len(list(read_triples(path, "nt", BrokenPlaces(0), seen.append))) == 50
    assert seen[-1] == path.stat().st_size


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_a_packed_file_that_breaks_off_keeps_what_came_before(tmp_path: Path, pack: object) -> None:
    path = tmp_path / "f.nt.gz"
    content = "".join(f'<{E}{n}> <{E}p> "{n * 7919 % 10007}" .\n' for n in range(40_000)).encode()
    packed: bytes = pack(content)  # type: ignore[operator]
    path.write_bytes(packed[: len(packed) * 9 // 10])
    broken = BrokenPlaces()
    read = list(read_triples(path, "nt", broken))
    assert broken.count >= 1 and "damaged" in broken.sentences[-1]
    assert pack is bz2.compress or len(read) > 1_000


def test_the_form_is_told_by_the_name() -> None:
    names = {"a.nt": "nt", "latest-truthy.nt.bz2": "nt", "b.TTL": "ttl", "c.tsv.gz": "tsv", "d.v1.jsonl": "jsonl"}
    assert {name: form_of(Path(name)) for name in names} == names
    assert form_of(Path("data"), "nq") == "nq"
    with pytest.raises(GraphError, match="does not tell its form"):
        form_of(Path("data.gz"))
    with pytest.raises(ConfigError, match="no form 'rdf'"):
        form_of(Path("a.nt"), "rdf")
