"""hop's reader: what a reply is taken for, and how sure the model was of the answer alone."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cpu_limit import cpu_limit
from tests.methods.hop_asked import FOUND

from hoptree.core.values import Passage
from hoptree.engine.calls import Calls
from hoptree.engine.context import Context
from hoptree.engine.events import Warned
from hoptree.engine.prompts import MAX_WORDS
from hoptree.engine.trace import Trace
from hoptree.methods.hop.reading import Reading, cut_passages, parse_reading, read_passages, shorten
from hoptree.models.scripted import Rule, ScriptedModel


@pytest.mark.parametrize(
    ("reply", "copied", "answer"),
    [
        ("Oslo\nSentence: He was born in Oslo.", "He was born in Oslo.", "Oslo"),
        ("  ANSWER:Oslo \n\n  sentence: “He was born in Oslo.”\n", "He was born in Oslo.", "Oslo"),
        ("Oslo\nSentence: one\ntwo", "one\ntwo", "Oslo"),
        ("Oslo\nSentence:", "", "Oslo"),
        ("Answer: Oslo", "", "Oslo"),
        ("Answer:\nOslo", "", "Oslo"),
        ("Life Sentence: The Film", "", "Life Sentence: The Film"),
        ("Sentence: It was cut o", "It was cut o", ""),
        ("Answer:\nSentence: It was cut.", "It was cut.", ""),
        ("Oslo", "", "Oslo"),
        (" NOT FOUND\n", "", "NOT FOUND"),
        ("Oslo\nAnswer: Rome", "", "Oslo\nAnswer: Rome"),
        ("", "", ""),
    ],
)
def test_what_a_reply_is_taken_for(reply: str, copied: str, answer: str) -> None:
    text, sentence, start = parse_reading(reply)
    assert (sentence, text) == (copied, answer)
    assert reply[start:].startswith(answer)


LINES = st.lists(
    st.sampled_from(["Sentence:", "answer:", "Answer: ", " ", "\n", "\r", '"', "Oslo", "\x0b", "İ"]) | st.text()
)


@given(LINES.map("".join))
def test_an_answer_is_a_piece_of_the_reply(reply: str) -> None:
    answer, sentence, start = parse_reading(reply)
    assert sentence in reply and answer in reply
    assert 0 <= start <= len(reply) and reply[start:].startswith(answer)


@pytest.mark.parametrize("blank", [" ", "\n", " \n", "\t", "Sentence:\n", "a\n", "\n answer"])
def test_a_long_reply_takes_no_time(blank: str) -> None:
    with cpu_limit():
        for begin in ("", "Sentence:", "Answer"):
            parse_reading(f"{begin}{blank * 20_000}x")


def read(reply: str, logprobs: list[float], prompt: str = "trained_read", *, has_passages: bool = True) -> Reading:
    rules = [Rule(reply, step="read", logprob=logprobs)]
    ctx = Context(method="hop", model=ScriptedModel(rules=rules), calls=Calls(None), trace=Trace("test"))
    passages = FOUND if has_passages else ()
    return asyncio.run(read_passages(ctx, "Where was Damien Chazelle born?", passages, prompt=prompt))


def test_confidence_is_that_of_the_answers_own_words() -> None:
    reading = read("Providence City\nSentence: In Providence.", [-0.1, -0.2, -3.0, -3.0, -3.0])
    assert reading.answer.confidence == pytest.approx(math.exp(-0.2)) and reading.copied == "In Providence."
    plain = read("Providence City", [-0.1, -0.7])
    assert plain.answer.confidence == pytest.approx(math.exp(-0.7)), "without labels all words are the answer's"
    labelled = read("Answer: Providence\nSentence: In Providence.", [-3.0, -0.1, -3.0, -3.0, -3.0])
    assert labelled.answer.confidence == pytest.approx(math.exp(-0.1))
    late = read("\n\n\n\nProvidence\nSentence: In Providence.", [-0.1, -3.0, -3.0, -3.0])
    assert late.answer.confidence == pytest.approx(math.exp(-0.1)), "tokens begin before the text does"


@pytest.mark.parametrize("reply", ["NOT FOUND", "Sentence: He was born in the ci", "Answer: NOT FOUND", "", "unknown"])
def test_no_answer_is_none(reply: str) -> None:
    reading = read(reply, [-0.1])
    assert not reading.answer.known and reading.answer.text == "" and reading.copied == ""


def test_nothing_is_read_where_nothing_was_found() -> None:
    assert not read("Providence", [-0.1], has_passages=False).answer.known


CUT = (
    Passage("w", "Whiplash (film)", "Whiplash is a film. It was directed by Damien Chazelle. It won three prizes."),
    Passage("x", "Prizes", "Prizes are given. A jury chooses them. They are made of gold."),
    Passage("y", "Oslo", "Oslo is a city in Norway. A director of a film was born in this city. Its port is large."),
    Passage("z", "", "A river flows. Its water is cold. Boats sail there."),
    Passage("e", "Empty", ""),
)
SCORES = [[9.0, 9.0, 9.0], [0.0, 0.0, 0.0], [-3.0, 1.0, 0.4], [-1.0, -2.0, -1.5], []]


class Found:
    """A retriever that finds nothing more."""

    kind = identity = "found"
    remote = False

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        return ()

    async def aclose(self) -> None:
        return None


class TellsSentences(Found):
    """One whose scores of sentences are known."""

    def sentence_scores(self, query: str, passages: Sequence[Passage]) -> list[list[float]]:
        return SCORES[: len(passages)]


def cut(passages: Sequence[Passage], retriever: Found) -> list[Passage]:
    ctx = Context(
        method="hop", model=ScriptedModel(rules=[]), calls=Calls(None), trace=Trace("test"), retriever=retriever
    )
    return asyncio.run(cut_passages(ctx, "Where was he born?", passages))


def test_sentences_that_matter_least_are_left_out() -> None:
    shown = {passage.id: passage.text for passage in cut(CUT, TellsSentences())}
    assert [shown["w"], shown["x"]] == [CUT[0].text, CUT[1].text], "the first two stay whole"
    assert shown["y"] == CUT[2].text, "the first sentence stays, and what scores nearly as the best"
    assert shown["z"] == "A river flows. Boats sail there."
    assert shown["e"] == "" and list(shown) == [passage.id for passage in CUT]


@pytest.mark.parametrize("count", range(3))
def test_nothing_is_cut_of_two_passages(count: int) -> None:
    assert cut(CUT[:count], TellsSentences()) == list(CUT[:count])


def test_nothing_is_cut_where_no_retriever_tells_sentences() -> None:
    assert cut(CUT, Found()) == list(CUT)


def test_of_a_long_passage_the_beginning_the_end_and_the_nearest_are_read() -> None:
    filler = [f"Sentence number {number} tells of the weather in towns." for number in range(80)]
    text = [*filler, "She won a prize in Lima.", *filler, "She painted.", "She was married to Amado Cruz."]
    page = Passage("p", "Ana Rama", " ".join(text))
    shown = shorten("Which prize did Ana Rama win in Lima?", page).text
    assert "She won a prize in Lima." in shown and shown.endswith("She painted. She was married to Amado Cruz.")
    assert shown.startswith(" ".join(filler[:27])) and len(shown.split()) <= MAX_WORDS
    short, endless = Passage("q", "", "She won a prize."), Passage("r", "", f"{'word ' * 400}. {'table ' * 400}.")
    assert shorten("Who won?", short) is short
    kept = shorten("Who won?", endless).text.split()
    assert 250 <= len(kept) <= MAX_WORDS and kept[0] == "word" and "table" in kept
    trace = Trace("test")
    ctx = Context(method="hop", model=ScriptedModel(rules=[Rule("Lima")]), calls=Calls(None), trace=trace)
    reading = asyncio.run(read_passages(ctx, "Where did she win a prize?", [page], prompt="read"))
    assert reading.answer.text == "Lima"
    assert [event.kind for event in trace.events if isinstance(event, Warned)] == ["truncated"]
