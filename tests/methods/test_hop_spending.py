"""hop: which move comes next, by hand."""

from __future__ import annotations

from hoptree.core.values import Answer
from hoptree.methods.hop.candidates import Standing
from hoptree.methods.hop.chooser import Outlook, Policy
from hoptree.methods.hop.method import next_move

WORTH = {"again": Outlook(0.2, 500), "split": Outlook(0.9, 3000), "which": Outlook(0.9, 100)}


def stood(*likely: float) -> list[Standing]:
    return [Standing(Answer(str(one)), ("read",), None, {}, one, recalled=False) for one in likely]


def test_a_policy_that_is_never_sure_goes_on_from_certainty() -> None:
    assert next_move(["again"], stood(1.0), WORTH.get, Policy(sure=1.0, worth=0.0)) == "again"
    assert next_move(["again"], stood(1.0), WORTH.get, Policy(sure=0.9, worth=0.0)) == ""


def test_two_answers_are_held_against_each_other_only_where_they_are_close() -> None:
    policy = Policy(sure=0.9, worth=0.0, close=0.1)
    assert next_move(["again", "which"], stood(0.5, 0.45), WORTH.get, policy) == "which"
    assert next_move(["again", "which"], stood(0.5, 0.3), WORTH.get, policy) == "again"
    assert next_move(["which"], stood(0.5), WORTH.get, policy) == ""


def test_the_move_that_gains_most_for_its_tokens_comes_next() -> None:
    assert next_move(["split", "again"], stood(0.5), WORTH.get, Policy(sure=0.9, worth=0.0)) == "again"
    assert next_move(["split", "again"], stood(0.5), WORTH.get, Policy(sure=0.9, worth=0.5)) == ""
    assert next_move(["split", "read"], [], WORTH.get, Policy(worth=100.0)) == "read", "whatever it is worth"
