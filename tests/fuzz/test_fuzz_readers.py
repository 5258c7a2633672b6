"""Any text for the readers of replies, and any damage to documents: nothing is raised but errors of our own.

--hypothesis-profile=thorough tries 100,000 examples each.
"""

from __future__ import annotations

import io
import zipfile
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.corpus.test_corpus_office import packed
from tests.fuzz.documents import SOUND
from tests.steps.broken_texts import HOSTILE, READERS
from tests.thorough import THOROUGH

from hoptree.core.errors import HoptreeError
from hoptree.corpus.document import Problems
from hoptree.corpus.read import read_passages

pytestmark = [pytest.mark.timeout(0)] if THOROUGH else []  # 100,000 examples take longer than any test may
EXAMPLES = settings(max_examples=100_000 if THOROUGH else 5)

_PIECES = st.one_of(
    st.text(max_size=20),
    st.sampled_from([*HOSTILE.values(), "<think>", "</think>", "```json\n", *'{}[]"', "#query1", "Yes", "No"]),
)
TEXTS = st.lists(st.tuples(_PIECES, st.integers(1, 6)), max_size=12).map(
    lambda parts: "".join(piece * times for piece, times in parts)
)
DAMAGE = st.lists(
    st.tuples(
        st.sampled_from(["replace", "insert", "remove", "repeat"]),
        st.floats(0, 1),
        st.one_of(
            st.binary(max_size=8),
            st.sampled_from([b"<", b">", b'"', b"\0", b"\xff\xfe", b"{", b"[", b"\n", b",", b"=?utf-8?b?", b"PK\1\2"]),
        ),
    ),
    max_size=6,
)


def damaged(content: bytes, damage: list[tuple[str, float, bytes]]) -> bytes:
    for kind, place, data in damage:
        at = int(place * len(content))
        until = at + (len(data) if kind in ("replace", "remove") else 0)
        put = data if kind != "remove" else b""
        content = content[:at] + (put * 20 if kind == "repeat" else put) + content[until:]
    return content


def damaged_inside(content: bytes, damage: list[tuple[str, float, bytes]]) -> bytes:
    """Damage one part of an archive, which is packed properly again."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    chosen = sorted(parts)[sum(len(data) for _, _, data in damage) % len(parts)]
    return packed({**parts, chosen: damaged(parts[chosen], damage)})


@pytest.mark.parametrize("reader", READERS)
@EXAMPLES
@given(text=TEXTS)
def test_readers_of_replies_raise_nothing_of_their_own(reader: str, text: str) -> None:
    with suppress(HoptreeError):
        READERS[reader](text)


@pytest.mark.parametrize("name", SOUND)
@EXAMPLES
@given(damage=DAMAGE, inside=st.booleans())
def test_damaged_documents_are_read_or_passed_over(
    name: str, damage: list[tuple[str, float, bytes]], inside: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / name
    harm = damaged_inside if inside and SOUND[name].startswith(b"PK") else damaged
    path.write_bytes(harm(SOUND[name], damage))
    for passage in read_passages(path, problems=Problems(limit=1_000)):
        passage.text.encode()  # no half characters
        assert passage.id
