"""Iter-RetGen: three rounds, each searched with the whole text of the round before."""

from __future__ import annotations

from collections.abc import Mapping

from tests.methods.asked import Shelf
from tests.methods.continuation_asked import DUKES, GRANDFATHER, Run

from hoptree.core.values import Passage
from hoptree.engine.context import Budget
from hoptree.models.scripted import Rule

ROUNDS = [
    "His father is Jean. So the answer is: Jean.",
    "His father is Jean Bretagne. So the answer is: Charles.",
    "His grandfather is Charles Armand. So the answer is: Charles Armand.",
]


class Turning(Shelf):
    """Finds another passage with each search."""

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        self.asked.append((query, k))
        return (self.passages[(len(self.asked) - 1) % len(self.passages)],)


def thinking(*replies: str) -> list[Rule]:
    return [Rule(list(replies), step="think"), Rule("")]


def test_each_round_searches_with_the_whole_text_before_and_the_last_one_answers() -> None:
    run = Run("iter_retgen", thinking(*ROUNDS))
    assert run.shelf.asked == [
        (GRANDFATHER, 5),
        (f"{GRANDFATHER} {ROUNDS[0]}", 5),
        (f"{GRANDFATHER} {ROUNDS[1]}", 5),
    ]
    assert (run.result.answer, run.steps) == ("Charles Armand", ["think"] * 3)
    assert [passage.id for passage in run.result.evidence] == ["p2"]


def test_passages_take_the_place_of_those_before_and_the_text_is_written_anew() -> None:
    run = Run("iter_retgen", thinking(*ROUNDS), shelf=Turning(*DUKES))
    shown = [sent.messages[-1].content for sent in run.sent("think")]
    for number, passage in enumerate(DUKES):
        assert [passage.text in content for content in shown] == [place == number for place in range(3)]
    assert all(sent.prefix == "" and ROUNDS[0] not in sent.messages[-1].content for sent in run.sent("think"))


def test_rounds_go_on_where_nothing_changes_unless_told_to_stop() -> None:
    again = Run("iter_retgen", thinking(ROUNDS[0]))
    assert len(again.queries) == 3 and not again.values("ended") and again.result.fidelity == "exact"
    stopped = Run("iter_retgen", thinking(ROUNDS[0]), early_stop=True)
    assert (len(stopped.queries), stopped.values("ended"), stopped.result.fidelity) == (2, ["repeated"], "approx")


def test_an_early_stop_takes_the_same_answer_and_the_same_passages() -> None:
    spelt = thinking("So the answer is: the Duke.", "He was one. So the answer is: Duke.")
    assert len(Run("iter_retgen", spelt, early_stop=True).queries) == 2
    assert len(Run("iter_retgen", thinking(*ROUNDS), early_stop=True).queries) == 3
    assert len(Run("iter_retgen", thinking(ROUNDS[0]), shelf=Turning(*DUKES), early_stop=True).queries) == 3
    assert len(Run("iter_retgen", thinking(""), early_stop=True).queries) == 3


def test_one_round_is_retrieval_once_and_none_is_refused() -> None:
    assert Run("iter_retgen", thinking(*ROUNDS), rounds=1).result.answer == "Jean"
    refused = Run("iter_retgen", thinking(*ROUNDS), rounds=0).result
    assert refused.error == "ConfigError" and "1 or more" in refused.error_message


def test_nothing_found_leaves_memory_and_a_text_of_nothing_the_question() -> None:
    run = Run("iter_retgen", thinking(*ROUNDS), shelf=Shelf())
    assert (run.result.answer, run.result.evidence) == ("Charles Armand", ())
    assert run.sent("think")[0].messages[-1].content == f"Question: {GRANDFATHER}"
    silent = Run("iter_retgen", [Rule("")])
    assert silent.queries == [GRANDFATHER] * 3
    assert silent.result.abstained


def test_a_spent_budget_leaves_the_answer_of_the_round_before() -> None:
    run = Run("iter_retgen", thinking(*ROUNDS), budget=Budget(calls=2))
    assert (run.result.answer, run.result.stopped_by) == ("Charles", "calls")


def test_titles_are_shown_where_asked_for() -> None:
    shown = [
        Run("iter_retgen", thinking(*ROUNDS), titles=titles).sent("think")[0].messages[-1].content
        for titles in (False, True)
    ]
    assert ["[3] Thouars: Thouars is" in content for content in shown] == [False, True]
