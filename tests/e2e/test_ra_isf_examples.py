"""The worked examples of the RA-ISF paper (Tables 8 to 13), replayed over HTTP: same branches, same depth, same calls.

They judge the five passages of a search in one call. Passages are in our own words; what models say is shortened.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.e2e.endpoint import Endpoint
from tests.traced import as_dicts

import hoptree
from hoptree.cli.render import draw_svg
from hoptree.core.values import Passage
from hoptree.engine.events import Event
from hoptree.engine.result import Result, TreeNode

TABLE_8 = "When was the immigration reform and control act passed?"
TABLE_9 = "From which country did Angola achieve independence in 1975?"
TABLE_10 = (
    "Which private research university is located in Chestnut Hill, Massachusetts Boston College or Stanford "
    "University?"
)
TABLE_11 = "Who is the mother of the director of film Polish-Russian War (Film)?"
TABLE_12 = "Did Snoop Dogg refuse to make music with rival gang members?"
TABLE_12_SUBS = {
    "What is the name of the gang that Snoop Dogg is part of?": "the Crips",
    "Which gang is the rival of the gang Snoop Dogg is associated with?": "the Bloods",
    'In Snoop Dogg\'s song "California Vacation," which rapper did he collaborate with?': "Xzibit and The Game",
}
TABLE_13 = "Would Kelly Clarkson's voice shake glass?"
SUB_1 = "What factors determine whether a sound can break glass?"
SUB_2 = "What is the resonance frequency of glass?"
SUB_3 = "Can a human voice produce sound waves at frequencies capable of resonating with glass?"
SUB_4 = (
    "Does Kelly Clarkson possess vocal abilities capable of generating sound waves at frequencies that could "
    "potentially resonate with glass?"
)
SUB_41 = "What evidence exists regarding Kelly Clarkson's vocal abilities?"
SUB_42 = "Is there any mention of the range or versatility of Kelly Clarkson's vocal abilities?"
SUB_43 = "At what note would glass start to vibrate?"
PASSAGES = {
    TABLE_11: (
        ("Polish-Russian War", "A Polish film of 2009 after a novel by Dorota Masłowska; Xawery Żuławski directed it."),
        ("Xawery Żuławski", "The film director Xawery Żuławski is a son of the actress Małgorzata Braunek."),
        ("Strong", "Strong meets Angelica, a poet in black, at a bar."),
        ("Magda", "Strong follows Magda to a festival of the town."),
        ("Production", "The film was shot in Warsaw and on the coast in the summer of 2008."),
    ),
    SUB_2: (
        ("Glass", "Glass answers weakly to frequencies from 20 to 200 Hz, best at about 400 Hz."),
        ("Wine glasses", "Wine glasses resonate at what people can hear, 20 to 20,000 Hz."),
        ("Sound", "Sound that breaks a glass has its resonant frequency."),
        ("Loudness", "It takes 105 decibels to break one."),
        ("Shattering", "A glass was broken at 556 Hz."),
    ),
    SUB_41: (
        ("Range", "Kelly Clarkson sings from Eb3 to F#6."),
        ("Songs", "Her songs are hard to sing."),
        ("Profile", "Kelly Clarkson holds a note for 11 seconds."),
        ("Career", "Kelly Clarkson is known for her strong voice."),
        ("Vocal range", "A vocal range lies between the highest and the lowest tone."),
    ),
}


class Library:
    """Finds five passages for every question: those written for it, or five about nothing in particular."""

    kind = "library"
    identity = "library"
    remote = False

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        written = PASSAGES.get(query, tuple((f"Page {n}", f"Something else, number {n}.") for n in range(1, 6)))
        return tuple(
            Passage(f"{title}", title, text, 10.0 - place) for place, (title, text) in enumerate(written[:k], 1)
        )

    async def aclose(self) -> None:
        return None


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Endpoint() as running:
        yield running


def say(endpoint: Endpoint, step: str, question: str, reply: str) -> None:
    endpoint.on(f"ra_isf/{step}", reply, contains=f"Question: {question}")


def numbered(*questions: str, bold: bool = False) -> str:
    mark = "**" if bold else ""
    return "\n".join(f"{number}. {mark}{question}{mark}" for number, question in enumerate(questions, 1))


def script_table_13(endpoint: Endpoint) -> None:
    say(endpoint, "know", TABLE_13, "No")
    say(endpoint, "relevance", TABLE_13, "No.")
    introduction = f'Certainly, breaking down the question "{TABLE_13}" into sub-questions:\n\n'
    say(endpoint, "decompose", TABLE_13, introduction + numbered(SUB_1, SUB_2, SUB_3, SUB_4))
    say(endpoint, "know", SUB_1, "Yes.")
    say(endpoint, "direct", SUB_1, "Whether it has the resonant frequency of the glass.")
    say(endpoint, "know", SUB_2, "No.")
    say(endpoint, "relevance", SUB_2, "The relevant paragraphs are: [1][2][3][4][5].")
    say(endpoint, "read", SUB_2, "400 to 556 Hz")
    say(endpoint, "know", SUB_3, "Yes.")
    say(endpoint, "direct", SUB_3, "Yes, by resonance.")
    say(endpoint, "know", SUB_4, "No.")
    say(endpoint, "relevance", SUB_4, "No.")
    say(endpoint, "decompose", SUB_4, numbered(SUB_41, SUB_42, SUB_43, bold=True))
    say(endpoint, "know", SUB_41, "No")
    say(endpoint, "relevance", SUB_41, "Relevant paragraphs: [1], [3], [4]\n\nNot relevant: [2], [5]")
    say(endpoint, "read", SUB_41, "Her range from Eb3 to F#6")
    say(endpoint, "know", SUB_42, "Yes. Her voice is praised for its range and versatility.")
    say(
        endpoint,
        "know",
        SUB_43,
        "Yes, I can provide an answer based on my current knowledge base.\n\nThat is known as resonance.\n\n"
        "Wine glasses resonate around the F# above middle C.",
    )
    say(endpoint, "combine", SUB_4, "Yes, her range includes F#.")
    say(endpoint, "combine", TABLE_13, "Yes")


def ask(question: str, endpoint: Endpoint, events: list[Event], **options: Any) -> Result:
    return hoptree.ask(
        question,
        method="ra_isf",
        corpus=Library(),
        model="openai/test",
        base_url=endpoint.url,
        cache=None,
        options={"relevance": "listwise", **options},
        listeners=(events.append,),
    )


def calls_of(events: list[Event], node: int) -> list[str]:
    """What was asked for a node, in order."""
    calls = [event for event in as_dicts(events) if event["event"] in ("llm", "retrieve") and event["node"] == node]
    return [event.get("step", "search") for event in calls]


def flat(nodes: tuple[TreeNode, ...] | list[TreeNode]) -> list[TreeNode]:
    return [child for node in nodes for child in (node, *flat(node.children))]


@pytest.mark.parametrize(
    ("question", "reply", "answer"),
    [
        (TABLE_8, "November 6, 1986", "November 6, 1986"),
        (TABLE_9, "Portugal.", "Portugal"),
        (TABLE_10, "Boston College", "Boston College"),
    ],
    ids=["table 8", "table 9", "table 10"],
)
def test_tables_8_to_10_are_answered_from_self_knowledge(
    question: str, reply: str, answer: str, endpoint: Endpoint
) -> None:
    say(endpoint, "know", question, "Yes.")
    say(endpoint, "direct", question, reply)
    events: list[Event] = []
    result = ask(question, endpoint, events)
    assert result.answer == answer
    assert endpoint.steps() == ["ra_isf/know", "ra_isf/direct"]
    assert (result.usage.retrievals, [node.source for node in flat(result.tree)]) == (0, ["internal"])


def test_table_11_is_answered_from_the_one_relevant_passage(endpoint: Endpoint) -> None:
    say(endpoint, "know", TABLE_11, "No")
    reply = 'Relevant paragraphs: [2] Xawery Żuławski is the director of "Polish-Russian War (Wojna polsko-ruska)".'
    say(endpoint, "relevance", TABLE_11, reply)
    say(endpoint, "read", TABLE_11, "Małgorzata Braunek")
    events: list[Event] = []
    result = ask(TABLE_11, endpoint, events)
    assert result.answer == "Małgorzata Braunek"
    assert calls_of(events, 0) == ["know", "search", "relevance", "read"]
    (root,) = result.tree
    assert (root.source, root.evidence, root.children) == ("external", ("Xawery Żuławski",), [])
    (read,) = endpoint.texts("ra_isf/read")
    assert "Małgorzata Braunek" in read and "Dorota Masłowska" not in read, "the relevant passage only"
    (judged,) = endpoint.texts("ra_isf/relevance")
    assert all(f"[{number}] " in judged for number in range(1, 6))


def test_table_12_is_split_once(endpoint: Endpoint) -> None:
    say(endpoint, "know", TABLE_12, "No")
    say(endpoint, "relevance", TABLE_12, "No.")
    say(endpoint, "decompose", TABLE_12, numbered(*TABLE_12_SUBS))
    for sub, answer in TABLE_12_SUBS.items():
        say(endpoint, "know", sub, "Yes.")
        say(endpoint, "direct", sub, answer)
    say(endpoint, "combine", TABLE_12, "No")
    events: list[Event] = []
    result = ask(TABLE_12, endpoint, events)
    assert result.answer == "No"
    assert calls_of(events, 0) == ["know", "search", "relevance", "decompose", "combine"]
    (root,) = result.tree
    assert [(node.question, node.answer, node.source) for node in root.children] == [
        (sub, answer, "internal") for sub, answer in TABLE_12_SUBS.items()
    ]
    assert {event["depth"] for event in as_dicts(events) if event["event"] == "llm"} == {0, 1}
    (combined,) = endpoint.texts("ra_isf/combine")
    assert all(f"{sub}\n{answer}" in combined for sub, answer in TABLE_12_SUBS.items())


def test_table_13_grows_a_tree_of_three_levels(endpoint: Endpoint) -> None:
    script_table_13(endpoint)
    events: list[Event] = []
    result = ask(TABLE_13, endpoint, events)
    assert result.answer == "Yes"
    assert [(node.id, node.question, node.source) for node in flat(result.tree)] == [
        (0, TABLE_13, "synthesis"),
        (1, SUB_1, "internal"),
        (2, SUB_2, "external"),
        (3, SUB_3, "internal"),
        (4, SUB_4, "synthesis"),
        (41, SUB_41, "external"),
        (42, SUB_42, "internal"),
        (43, SUB_43, "internal"),
    ]
    branches = {
        event["id"]: event["branch"] for event in as_dicts(events) if event["event"] == "node" and "branch" in event
    }
    assert Counter(branches.values()) == {"self-knowledge": 4, "passages": 2, "sub-questions": 2}
    assert {event["depth"] for event in as_dicts(events) if event["event"] == "llm"} == {0, 1, 2}


def test_table_13_makes_the_calls_of_the_paper_and_no_others(endpoint: Endpoint) -> None:
    script_table_13(endpoint)
    events: list[Event] = []
    result = ask(TABLE_13, endpoint, events)
    assert {node.id: calls_of(events, node.id) for node in flat(result.tree)} == {
        0: ["know", "search", "relevance", "decompose", "combine"],
        1: ["know", "direct"],
        2: ["know", "search", "relevance", "read"],
        3: ["know", "direct"],
        4: ["know", "search", "relevance", "decompose", "combine"],
        41: ["know", "search", "relevance", "read"],
        42: ["know"],
        43: ["know"],
    }
    assert (result.usage.llm_calls, result.usage.retrievals) == (20, 4)


def test_table_13_reads_only_what_is_relevant(endpoint: Endpoint) -> None:
    script_table_13(endpoint)
    result = ask(TABLE_13, endpoint, [])
    read = next(text for text in endpoint.texts("ra_isf/read") if SUB_41 in text)
    assert "Eb3 to F#6" in read and "11 seconds" in read and "strong voice" in read
    assert "hard to sing" not in read and "lowest tone" not in read
    assert flat(result.tree)[5].why == "3 of 5 passages relevant"


def test_table_13_combines_from_the_bottom_up(endpoint: Endpoint) -> None:
    script_table_13(endpoint)
    ask(TABLE_13, endpoint, [])
    below, above = endpoint.texts("ra_isf/combine")
    assert f"1. {SUB_41}\nHer range from Eb3 to F#6\n2. {SUB_42}\nYes. Her voice is praised" in below
    assert "That is known as resonance. Wine glasses resonate around the F# above middle C" in below
    assert f"4. {SUB_4}\nYes, her range includes F#" in above and above.count("\n[unknown]") == 0


def test_table_13_is_drawn_with_the_reason_at_each_node(endpoint: Endpoint) -> None:
    script_table_13(endpoint)
    picture = re.sub(r"<[^>]*>|&#160;|[│├└─]", " ", draw_svg([ask(TABLE_13, endpoint, [])]))
    for words in ("the model says that it knows", "5 of 5 passages relevant", "4 sub-questions, 0 unknown"):
        assert words in " ".join(picture.split())


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_table_13_needs_two_levels_below_the_question(depth: int, endpoint: Endpoint) -> None:
    """With D_th = 1 the second split is of unknowns, and so its answer is open."""
    script_table_13(endpoint)
    events: list[Event] = []
    result = ask(TABLE_13, endpoint, events, depth=depth)
    (below, _) = endpoint.texts("ra_isf/combine")
    assert below.count("[unknown]") == (3 if depth == 1 else 0)
    assert max(event["depth"] for event in as_dicts(events) if event["event"] == "llm") == min(depth, 2)
    assert len(flat(result.tree)) == 8
