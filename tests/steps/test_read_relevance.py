"""Reading which passages a model calls relevant, one by one and in lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cpu_limit import cpu_limit

from hoptree.text.parse_labels import read_numbers, read_relevance

TEXT = st.text(max_size=300)


# Relevance, one by one


@pytest.mark.parametrize(
    "reply",
    [
        "relevance",
        "Relevance",
        "relevant",
        "Relevant.",
        "**relevant**",
        "Yes",
        "yes, it is",
        "The passage is relevant.",
        "True",
        "Relevant. It does not give the year, but names the director.",
        "[relevance]",
        "Relevance: yes",
        "Relevant. No further explanation needed",
        "Relevant, no other words",
        "The relevance is high",
        "The relevance of the passage is not low",
        "It is relevant: the water level is low.",
    ],
)
def test_what_is_called_relevant_is_relevant(reply: str) -> None:
    assert read_relevance(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "irrelevance",
        "Irrelevance",
        "irrelevant",
        "IRRELEVANT.",
        "not relevant",
        "Not relevant",
        "It isn't relevant.",
        "No",
        "No, although it is relevant to film",
        "no relevance",
        "The passage is not directly relevant to it.",
        "unrelated",
        "",
        "Relevance: no",
        "Relevance: none",
        "Relevance: irrelevance",
        "relevant? No",
        "maybe",
        "revelant",
        "Paris",
        "0",
        "This has no real relevance",
        "It lacks relevance",
        "is it relevant or irrelevant",
        "Yes, it is irrelevant",
        "yesterday",
        "it isn’t relevant",
        "False",
        "none of it is relevant",
        "It is of little relevance",
        "Relevance: very low",
        "of limited relevance",
        "barely relevant",
        "Relevant. No.",
        "Relevance: no, it is about swimming",
        "Less relevant",
        "It is less relevant than the others.",
        "The relevance is low",
        "The relevance of this passage is very low.",
        "Its relevance to the question seems rather limited",
        "The relevance is none",
        "The relevance is not high.",
    ],
)
def test_what_is_not_clearly_relevant_is_irrelevant(reply: str) -> None:
    assert not read_relevance(reply)


@given(before=TEXT, after=TEXT, word=st.sampled_from(["irrelevance", "irrelevant", "Irrelevance", "IRRELEVANT"]))
def test_irrelevance_is_never_read_as_relevance(before: str, after: str, word: str) -> None:
    assert not read_relevance(f"{before}{word}{after}")


@given(TEXT)
def test_any_reply_about_relevance_can_be_read(text: str) -> None:
    assert read_relevance(text) in (True, False)
    if "relevan" not in text.casefold():
        assert not read_relevance(f"a {text}")


# Relevance, in lists


@pytest.mark.parametrize(
    ("reply", "numbers"),
    [
        ("[1] is relevant. [2]: its relevance is low.", (1,)),
        # the paper's own
        ("No.", ()),
        ("No", ()),
        (
            'Relevant paragraphs: [2] Xawery Żuławski is the director of "Polish-Russian War (Wojna polsko-ruska)".',
            (2,),
        ),
        ("The relevant paragraphs are: [1][2][3][4][5].", (1, 2, 3, 4, 5)),
        ("Relevant paragraphs: [1], [3], [4]\n\nNot relevant: [2], [5]", (1, 3, 4)),
        # and others
        ("[1][3]", (1, 3)),
        ("[1, 3]", (1, 3)),
        ("[3], [1], [3]", (3, 1)),
        ("2", (2,)),
        ("1, 3 and 4.", (1, 3, 4)),
        ("Passages 2 and 5", (2, 5)),
        ("[0] [6] [99999]", ()),
        ("[1] and [7]", (1,)),
        ("Not relevant: [1], [2]", ()),
        ("Irrelevant: [1]\nRelevant: [2]", (2,)),
        ("Irrelevant: 1\nRelevant: 2, 3", (2, 3)),
        ("Irrelevant: [1], relevant: [2]", (2,)),
        ("**Not relevant:** [1], [4]\n\n**Most relevant passages:** [2]\n[3]", (2, 3)),
        ("Irrelevant:\n[1]\n[2]\nRelevant:\n[3]", (3,)),
        ("Irrelevant: [1]\nRelevant: none", ()),
        ("Irrelevant: [1]\nRelevant: [2]\nLess relevant: [3]", (2,)),
        ("Irrelevant: [1]\nRelevant to nothing: [2]", ()),
        ("Irrelevant: [1]\n[2] is about a relevant man.", ()),
        ("Relevant: [4]\nIrrelevant passages:\n[1]\n[2]", (4,)),
        ("Relevant: [4]; not relevant: [1]", (4,)),
        ("Relevant: [4], irrelevant: [1], [2]", (4,)),
        ("[1] is relevant.\n[2] is not relevant.\n[3] is relevant.", (1, 3)),
        ("[1] is relevant. [2] is irrelevant. [3] is relevant.", (1, 3)),
        ("None of the passages [1] to [5] is relevant.", ()),
        ("**No**, [1] is about something else.", ()),
        ("The passages are irrelevant.", ()),
        ("[1]: not relevant [2]: relevant", (2,)),
        ("[1]: relevant [2]: not relevant [3]: relevant", (1, 3)),
        ("[1] (relevant), [2] (irrelevant), [3] (relevant)", (1, 3)),
        ("[1] and [2] are relevant, [3] is not relevant.", (1, 2)),
        ("[1] is not relevant: it is about swimming. [2] is relevant.", (2,)),
        ("There is no relevant paragraph among [1] to [5]", ()),
        ("Neither [1] nor [2] is relevant.\n[3] is relevant.", (3,)),
        ("[1] isn't relevant, [2] is.", (2,)),
        ("[1][3] Not relevant: [2]", (1, 3)),
        ("[1][3], not relevant:\n[2]", (1, 3)),
        ("Relevant: [1] is relevant, [2] is not relevant", (1,)),
        ("Relevant: [4], not relevant [1]", (4,)),
        ("[1] and [3] are relevant, while [2], [4] and [5] are not.", (1, 3)),
        ("[1] is relevant and [2] is not", (1,)),
        ("[1]: yes\n[2]: no\n[3]: yes", (1, 3)),
        ("[1] yes, [2] no, [3] yes", (1, 3)),
        ("[1] Nothing Compares 2 U\n[2] No Country for Old Men", (1, 2)),
        ("Nothing is relevant in [1], [2]", ()),
        ("Paragraphs 1 and 3 are relevant to the question.", (1, 3)),
        ("Paragraph 1 and 3 are relevant.", (1, 3)),
        ("Paragraph 1 is relevant", (1,)),
        ("Paragraphs 1 and 3 are not relevant.", ()),
        ("There is no relevant paragraph among 1", ()),
        ("The film was made in 1999.", ()),
        ("", ()),
    ],
)
def test_lists_of_relevant_passages(reply: str, numbers: tuple[int, ...]) -> None:
    assert read_numbers(reply, 5) == numbers


NUMBERS = st.lists(st.integers(1, 9), unique=True)


@given(
    relevant=NUMBERS, count=st.integers(0, 9), others=NUMBERS, heading=st.sampled_from(["Not relevant:", "Irrelevant:"])
)
def test_numbers_after_the_heading_of_the_others_do_not_count(
    relevant: list[int], count: int, others: list[int], heading: str
) -> None:
    reply = "Relevant: " + "".join(f"[{n}]" for n in relevant) + f"\n{heading} " + " ".join(f"[{n}]" for n in others)
    assert read_numbers(reply, count) == tuple(n for n in relevant if n <= count)


@given(TEXT, st.integers(0, 9))
def test_any_list_can_be_read(text: str, count: int) -> None:
    read = read_numbers(text, count)
    assert len(set(read)) == len(read) and all(1 <= n <= count for n in read)
    assert read_numbers(f"No. {text}", count) == ()


@pytest.mark.parametrize(
    ("reply", "numbers"),
    [
        ("[1] to [5]", (1, 2, 3, 4, 5)),
        ("[2] through [4]", (2, 3, 4)),
        ("[1]-[3]", (1, 2, 3)),
        ("[1] – [3], [5]", (1, 2, 3, 5)),
        ("[1-3]", (1, 2, 3)),
        ("[1, 3-5]", (1, 3, 4, 5)),
        ("[1–2][4]", (1, 2, 4)),
        ("1-3", (1, 2, 3)),
        ("1 to 3.", (1, 2, 3)),
        ("1, 3-5", (1, 3, 4, 5)),
        ("passages 2 through 4", (2, 3, 4)),
        ("Passages 2 through 4 are relevant.", (2, 3, 4)),
        ("Relevant: [1] to [3]\nNot relevant: [4] to [5]", (1, 2, 3)),
        ("[1] to [3] are relevant, [4] and [5] are not.", (1, 2, 3)),
        # only what was shown
        ("[4] to [9]", (4, 5)),
        ("[0] to [2]", (1, 2)),
        ("[6] to [9]", ()),
        ("passages 1 through 9999", (1, 2, 3, 4, 5)),
        ("The film was made from 1914 to 1918.", ()),
        # backwards
        ("[3] to [1]", (3, 2, 1)),
        # no ranges
        ("[1] - [3] - [5]", (1, 3, 5)),
        ("- [1]\n- [3]", (1, 3)),
        ("[1] and [3] to be read with [5]", (1, 3, 5)),
        ("Passages 2 through 4 are not relevant.", ()),
        ("Passages [2] to [4] are irrelevant.", ()),
        ("Not relevant: 1-3", ()),
    ],
)
def test_a_range_names_all_passages_in_it_that_were_shown(reply: str, numbers: tuple[int, ...]) -> None:
    assert read_numbers(reply, 5) == numbers


@pytest.mark.parametrize(
    ("reply", "numbers"),
    [
        ("Less relevant: [1]", ()),
        ("Less relevant: 1", ()),
        ("Irrelevant: 4", ()),
        ("Irrelevant passages: 4 and 5.", ()),
        ("Not relevant: [2], [3]", ()),
        ("Relevant: [1]\nLess relevant: [2]", (1,)),
        ("Most relevant: [3]\nLess relevant: [1], [2]", (3,)),
        ("[1] and [4] are relevant.\nLess relevant: [2]\nNot relevant: [3]", (1, 4)),
        ("[1]\nIrrelevant: 4", (1,)),
        ("[1]\nUnrelated: [2]", (1,)),
        ("Relevant: 1, 2\nIrrelevant: 4", (1, 2)),
        ("Relevant: 1, 2, irrelevant: 4", (1, 2)),
        ("Relevant passages: 1-3. Not relevant: 4, 5.", (1, 2, 3)),
        ("**Relevant:** [1], **Not relevant:** [2]", (1,)),
        ("**Relevant:** 1\n**Less relevant:** 2", (1,)),
        ("[2] is less relevant than [1]", (1,)),
        ("[1] is no less relevant than [2]", (1, 2)),
        ("[1] is hardly relevant.\n[2] is relevant.", (2,)),
        ("[1] is relevant.\nOf little relevance: [3]", (1,)),
        ("Least relevant: [5]", ()),
        ("Relevant: none\nIrrelevant: 4", ()),
        ("Relevant: 3 films are named in [2].", (2,)),
    ],
)
def test_a_list_of_others_names_what_is_not_relevant(reply: str, numbers: tuple[int, ...]) -> None:
    assert read_numbers(reply, 5) == numbers


NUMBER = st.integers(0, 99)


@given(NUMBER, NUMBER, NUMBER, st.sampled_from(["[{}] to [{}]", "{}-{}", "[{}–{}]"]))
def test_a_range_is_what_lies_between_its_ends(first: int, last: int, count: int, written: str) -> None:
    step = 1 if first <= last else -1
    wanted = tuple(number for number in range(first, last + step, step) if 1 <= number <= count)
    assert read_numbers(written.format(first, last), count) == wanted


NUMBERED = st.sampled_from(["[1]", "[2, 3]", "[1-3]", "[9999]", "4", "99999", "[", "]"])
BETWEEN = st.sampled_from([" to ", "-", "–", " through ", ", ", " and ", ": ", ".", "\n", ";", "**"])
VERDICTS = st.sampled_from(["Relevant", "Not relevant", "less relevant", "irrelevant", "no ", "is ", "are not"])
PIECES = NUMBERED | BETWEEN | VERDICTS


@given(st.lists(PIECES, max_size=30).map("".join), st.integers(0, 9))
def test_any_pieces_of_lists_and_ranges_can_be_read(text: str, count: int) -> None:
    read = read_numbers(text, count)
    assert len(set(read)) == len(read) and all(1 <= n <= count for n in read)
    assert read_relevance(text) in (True, False)


@pytest.mark.parametrize("piece", ["1-", "[1]-", "[1", "1, ", "1 to ", "relevant: 1,", "[1] to [2] ", " -", "*"])
def test_a_long_reply_is_read_in_no_time(piece: str) -> None:
    with cpu_limit():
        read_numbers(piece * 20_000, 5)
        read_relevance(piece * 20_000)
