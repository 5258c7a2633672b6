"""hop: what is counted about answers, which of them may be given, and why one is before the others."""

from __future__ import annotations

import pytest
from tests.methods.hop_asked import FOUND

from hoptree.core.values import Answer
from hoptree.methods.hop.candidates import Candidate, Pool
from hoptree.methods.hop.chooser import Chooser

CHOOSER = Chooser({"confidence": 1.0, "held": 1.0}, -1.0)
CITY = "In which city was the film made?"


def pool(question: str = CITY, *, operated: bool = False, trusted: bool = False) -> Pool:
    return Pool(question, CHOOSER, operated=operated, trusted=trusted)


def why(some: Pool) -> str:
    return some.why(some.standings())


def test_names_of_the_question_that_are_missing_in_what_was_read() -> None:
    some = pool("Who directed Whiplash?")
    some.add(Answer("Damien Chazelle"), "read", FOUND[:1])
    some.add(Answer("Alfred Hitchcock"), "again", FOUND[2:3])
    covered = {one.answer.text: one.features["covered"] for one in some.standings()}
    assert covered == {"Damien Chazelle": 1.0, "Alfred Hitchcock": 0.0}
    nameless = pool()
    nameless.add(Answer("Boston"), "read", FOUND)
    assert nameless.standings()[0].features["covered"] == 0.5, "no names, and nothing to tell"


@pytest.mark.parametrize(("operated", "read"), [(True, -1.0), (False, 0.0)])
def test_what_a_reader_compared_counts_less_where_code_can(operated: bool, read: float) -> None:
    some = pool("Which film is older, Whiplash or Vertigo?", operated=operated)
    some.add(Answer("Whiplash"), "read")
    some.add(Answer("Vertigo"), "split", computed=True)
    assert {one.answer.text: one.features["computed"] for one in some.standings()} == {"Whiplash": read, "Vertigo": 1.0}


def test_the_second_reading_did_not_come_first() -> None:
    some = pool()
    some.add(Answer("Boston", confidence=0.40), "read")
    some.add(Answer("Chicago", confidence=0.44), "again")
    assert why(some) == "the model was slightly surer of its words"
    equal = pool()
    equal.add(Answer("Boston", confidence=0.4), "read")
    equal.add(Answer("Chicago", confidence=0.4), "again")
    assert equal.standings()[0].answer.text == "Boston" and why(equal) == "it came first"


def test_a_likelier_answer_that_may_not_be_given_is_said_to_be_none() -> None:
    some = pool()
    some.add(Answer("Boston", confidence=0.05), "read")
    some.add(Answer("Zurich"), "own")
    first, second = some.standings()
    assert first.features["against"] == second.features["against"] == 0, "what is none speaks against nothing"
    assert first.answer.text == "Boston" and second.probability > first.probability
    assert why(some) == "Zurich is no answer: only the model's own knowledge is behind it"
    some.add(Answer("Chicago", confidence=0.01), "again")
    assert why(some).endswith("; Zurich is no answer: only the model's own knowledge is behind it")
    assert why(some).startswith("the model was slightly surer of its words;")


def test_what_parts_that_were_only_recalled_come_to_may_not_be_given() -> None:
    some = pool()
    some.add(Answer("Zurich"), "split", computed=True, recalled=True)
    (only,) = some.standings()
    assert only.recalled and not some.may_be_final(only)
    assert some.why_not(only, 0.0) == "only the model's own knowledge is behind it"
    told = Candidate.read(some.candidates[0].as_dict())
    assert told == some.candidates[0] and told.recalled
    some.add(Answer("Zurich"), "read")
    (both,) = some.standings()
    assert some.may_be_final(both) and not some.why_not(both, 0.0), "a reading says it too"
    known = pool(trusted=True)
    known.add(Answer("Zurich"), "split", recalled=True)
    assert known.may_be_final(known.standings()[0])
    assert known.why_not(known.standings()[0], 0.9) == "it is too unlikely"
