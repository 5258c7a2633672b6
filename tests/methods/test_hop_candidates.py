"""hop: what is counted about answers, which of them may be given, and why one is before the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.methods.hop_asked import FOUND

from hoptree.core.values import Answer, Passage
from hoptree.methods.hop.candidates import (
    CLOSED_BOOK,
    Move,
    Pool,
    answer_features,
    bridge_share,
    echoes,
    is_stated,
    mean_the_same,
    question_features,
    reading_features,
)
from hoptree.methods.hop.chooser import Logistic, Weights, frozen_chooser, is_doubtful
from hoptree.text.grounding import find_quote

WEIGHTS = Weights(Logistic({"confidence": 1.0, "quoted": 1.0}, -1.0))
CITY = "In which city was the film made?"


def make_pool(question: str = CITY, **options: Any) -> Pool:
    weights = options.pop("weights", WEIGHTS)
    return Pool(question, weights, question_features(question), **options)


def why(pool: Pool) -> str:
    return pool.explain(pool.ranked_answers())


def test_names_of_the_question_that_are_missing_where_an_answer_was_read() -> None:
    pool = make_pool("Who directed Whiplash?")
    pool.add(Answer("Damien Chazelle"), "read", FOUND[:1])
    pool.add(Answer("Alfred Hitchcock"), "split", FOUND[2:3])
    named = {answer.answer.text: answer.features["named"] for answer in pool.ranked_answers()}
    assert named == {"Damien Chazelle": 1.0, "Alfred Hitchcock": 0.0}


@pytest.mark.parametrize("operated", [True, False])
def test_what_a_reader_compared_is_told_apart_where_code_can_compare(operated: bool) -> None:
    pool = make_pool("Which film is older, Whiplash or Vertigo?", combined_by_code=operated)
    pool.add(Answer("Whiplash"), "read")
    pool.add(Answer("Vertigo"), "split", computed=True)
    counted = {
        answer.answer.text: (answer.features["computed"], answer.features["uncomputed"])
        for answer in pool.ranked_answers()
    }
    assert counted == {"Whiplash": (0.0, float(operated)), "Vertigo": (1.0, 0.0)}


def test_answers_that_mean_the_same_are_one_with_what_speaks_for_each() -> None:
    pool = make_pool("Which label released it?")
    pool.add(Answer("Capitol", confidence=0.4, support=("a",)), "read")
    pool.add(Answer("Capitol Records", confidence=0.9, support=("b",)), "split", supported=0.5)
    pool.add(Answer("Decca", confidence=0.2), "split")
    first, second = pool.ranked_answers()
    assert (first.answer.text, first.moves, first.answer.support) == ("Capitol Records", ("read", "split"), ("a", "b"))
    assert first.features | {"agreement": 0.5, "against": 0.5, "confidence": 0.9, "supported": 0.5} == first.features
    assert first.features["parted"] == 0 and first.features["unparted_links"] == 0, "a whole reading says it, too"
    assert (second.features["agreement"], second.features["guess"]) == (0.0, 0.0)


def test_of_equal_answers_the_first_one_stands_first() -> None:
    pool = make_pool()
    pool.add(Answer("Boston", confidence=0.40), "read")
    pool.add(Answer("Chicago", confidence=0.50), "split")
    assert why(pool) == "the model was sure of it"
    equal = make_pool()
    equal.add(Answer("Boston", confidence=0.4), "read")
    equal.add(Answer("Chicago", confidence=0.4), "split")
    assert equal.ranked_answers()[0].answer.text == "Boston" and why(equal) == "it was found first"
    alone = make_pool()
    alone.add(Answer("Boston"), "read")
    assert why(alone) == "no other answer was found"


def test_a_single_answer_is_explained_by_what_bears_it_out() -> None:
    pool = make_pool()
    pool.add(Answer("Providence"), "read", FOUND)
    pool.add(Answer("Providence"), "split", FOUND, supported=1.0)
    reason = "it was found in more than one way; the answers to its sub-questions were found in what was read"
    assert why(pool) == reason


@pytest.mark.parametrize(
    ("question", "share"), [("Where was Damien Chazelle born?", 1.0), ("Which bakery sells pretzels?", 0.0)]
)
def test_a_passage_with_an_answer_is_a_reason_only_over_another_answer(question: str, share: float) -> None:
    pool = make_pool(question)
    pool.add(Answer("Providence"), "read", FOUND)
    (only,) = pool.ranked_answers()
    assert only.features["quoted"] == 1 and only.features["sentence"] == share
    assert why(pool) == "no other answer was found", "the words about its support say where it was read"
    pool.add(Answer("Nowhere"), "guess")
    assert "a passage that was read has it" in why(pool) and "states" not in why(pool)


def test_a_sentence_that_holds_little_of_the_question_states_nothing() -> None:
    pool = make_pool("Which bakery was sold?", weights=Weights(Logistic({"sentence": 3.0}, 0.0)))
    pool.add(Answer("Providence"), "read", FOUND)
    pool.add(Answer("Nowhere"), "split")
    features = pool.ranked_answers()[0].features | {"sentence": 0.3}
    first, second = pool.ranked_answers()
    assert pool.explain([replace(first, features=features), second]) == "its sentence has more of the question's words"


def test_no_reason_is_given_that_speaks_against_an_answer() -> None:
    pool = make_pool(weights=Weights(Logistic({"quoted": -3.0}, 0.0)))
    pool.add(Answer("Providence"), "read", FOUND)
    pool.add(Answer("Boston"), "split", FOUND)
    assert pool.ranked_answers()[0].answer.text == "Boston"
    assert why(pool) == "it has more signs of a right answer"


def test_a_likelier_answer_that_may_not_be_given_is_said_to_be_none() -> None:
    pool = make_pool()
    pool.add(Answer("Boston", confidence=0.05), "read")
    pool.add(Answer("Zurich"), CLOSED_BOOK)
    first, second = pool.ranked_answers()
    assert first.features["against"] == second.features["against"] == 0, "what is none speaks against nothing"
    assert first.answer.text == "Boston" and second.probability > first.probability
    assert why(pool) == "Zurich is not an answer: only the model's own knowledge is behind it"
    pool.add(Answer("Chicago", confidence=0.01), "split")
    assert why(pool).endswith("; Zurich is not an answer: only the model's own knowledge is behind it")


def test_what_parts_that_were_only_recalled_come_to_may_not_be_given() -> None:
    pool = make_pool()
    pool.add(Answer("Zurich"), "split", computed=True, recalled=True)
    (only,) = pool.ranked_answers()
    assert only.recalled and not pool.may_be_final(only)
    assert pool.reason_withheld(only, 0.0) == "only the model's own knowledge is behind it"
    pool.add(Answer("Zurich"), "read")
    (both,) = pool.ranked_answers()
    assert pool.may_be_final(both) and not pool.reason_withheld(both, 0.0), "a reading says it too"
    known = make_pool(knows_its_boundary=True)
    known.add(Answer("Zurich"), "split", recalled=True)
    assert known.may_be_final(known.ranked_answers()[0])
    assert known.reason_withheld(known.ranked_answers()[0], 0.9) == "it is too unlikely"


def test_what_is_unknown_is_no_candidate() -> None:
    pool = make_pool()
    pool.add(Answer("", status="unknown"), "read", FOUND)
    pool.add(Answer("Boston", status="unknown"), "split", FOUND)
    assert pool.candidates == [] and pool.ranked_answers() == []
    assert pool.features_for_next_move([]) == {**question_features(CITY), "nothing": 1.0}


@pytest.mark.parametrize(
    ("answer", "other"),
    [
        ("Capitol", "Capitol Records"),
        ("Chazelle", "Damien Chazelle"),
        ("The Beatles", "Beatles"),
        ("3", "three"),
        ("3 May 1999", "May 3, 1999"),
        ("1999", "3 May 1999"),
        ("Yes.", "yes"),
        ("W. J. Has", "Wojciech Jerzy Has"),
        ("United States", "United States of America"),
        ("UK", "United Kingdom"),
        ("Thames", "River Thames"),
        ("", ""),
    ],
)
def test_answers_that_mean_the_same(answer: str, other: str) -> None:
    assert mean_the_same(answer, other) is mean_the_same(other, answer) is bool(answer)


@pytest.mark.parametrize(
    ("answer", "other"),
    [
        ("London", "New London"),
        ("London", "London County Council"),
        ("London", "New London County Council"),
        ("York", "New York"),
        ("Virginia", "West Virginia"),
        ("Mexico", "Mexico City"),
        ("Guinea", "Equatorial Guinea"),
        ("Ireland", "Northern Ireland"),
        ("Dumas", "Dumas Jr."),
        ("Tom", "Tom and Jerry"),
        ("Apollo", "Apollo 13"),
        ("1999", "1998"),
        ("3", "30"),
        ("yes", "no"),
        ("Paris", "Paris, Texas"),
        ("film", "film director"),
        ("Boston", ""),
    ],
)
def test_answers_that_do_not(answer: str, other: str) -> None:
    assert not mean_the_same(answer, other) and not mean_the_same(other, answer)


PAGES = (
    Passage("w", "Whiplash", "Whiplash is a film. It was directed by Damien Chazelle. Damien Chazelle wrote it."),
    Passage("b", "Yes", "No. There is no other film. It was directed by Damien Chazelle, they say."),
)


def test_the_copied_sentence_is_the_one_an_answer_rests_on() -> None:
    question = "Who directed the film Whiplash?"
    free = find_quote("Damien Chazelle", question, PAGES)
    assert free and free.text == "It was directed by Damien Chazelle."
    copied = find_quote("Damien Chazelle", question, PAGES, copied="damien chazelle wrote it")
    assert copied and copied.text == "Damien Chazelle wrote it."
    made_up = find_quote("Damien Chazelle", question, PAGES, copied="Damien Chazelle made Whiplash in a barn.")
    assert made_up == free, "what no passage says is no copy"
    assert find_quote("Boston", question, PAGES, copied="Boston made it.") is None


def test_a_sentence_without_words_is_a_copy_of_nothing() -> None:
    pages = (Passage("x", "", "... He. ?!"), Passage("y", "", "The film was made in Oslo."))
    quote = find_quote("Oslo", "Where?", pages, copied="The film was made in Oslo.")
    assert quote and quote.passage == "y"


def test_a_bare_yes_rests_on_a_copy_alone() -> None:
    question = "Is there another film?"
    assert find_quote("no", question, PAGES) is None
    assert find_quote("no", question, PAGES, copied="Somebody says so.") is None, "though a sentence has the word"
    quote = find_quote("no", question, PAGES, copied="There is no other film.")
    assert quote and quote.as_dict() == {"passage": "b", "text": "There is no other film."}


def test_what_a_question_shows() -> None:
    features = question_features("In which city was the director of the film Whiplash born?")
    assert features == {"links": pytest.approx(2 / 4), "names": pytest.approx(1 / 3), "words": pytest.approx(11 / 30)}
    assert question_features("Who?") == {"links": 0.0, "names": 0.0, "words": pytest.approx(1 / 30)}
    assert question_features("")["words"] == 0.0


def test_how_much_of_a_question_was_read() -> None:
    question = "Who directed the film Whiplash of Chazelle?"  # direc, film, whipl, chaze
    assert reading_features(question, FOUND[:1]) == {"page_best": 1.0, "pages": 1.0}
    assert reading_features(question, FOUND[1:2]) == {"page_best": 0.5, "pages": 0.5}
    assert reading_features(question, FOUND[1:3]) == {"page_best": 0.5, "pages": 0.75}
    assert reading_features(question, ()) == {"page_best": 0.0, "pages": 0.0}


def test_how_much_of_a_question_an_answer_covers() -> None:
    question = "In which city was Damien Chazelle born?"
    quote = find_quote("Providence", question, FOUND)
    features = answer_features(question, "Providence", quote, FOUND)
    assert features["quoted"] == features["sentence"] == features["page"] == features["named"] == 1.0
    assert (features["typed"], features["echo"]) == (1.0, 0.0)
    nowhere = answer_features(question, "Boston", None, FOUND)
    assert {name: nowhere[name] for name in ("quoted", "sentence", "page", "named")} == dict.fromkeys(
        ("quoted", "sentence", "page", "named"), 0.0
    )
    assert answer_features("When was he born?", "Boston", None, ())["typed"] == -1.0
    assert answer_features("When was he born?", "1985", None, ())["typed"] == 1.0
    assert answer_features("Is Boston older than Oslo?", "Boston", None, ())["echo"] == 1.0
    assert answer_features("Is Boston older than Oslo?", "Bost", None, ())["echo"] == 0.0


BORN = Passage("b", "Damien Chazelle", "Damien Chazelle (Providence, 1985) has one sister.")


def test_how_much_of_a_question_two_sentences_cover() -> None:
    question = "In which city was the director of the film Whiplash born?"  # city, direc, film, whipl, born
    quote = find_quote("Providence", question, [BORN])
    assert answer_features(question, "Providence", quote, [BORN])["sentence"] == 0.0
    assert bridge_share(question, "Providence", quote, [FOUND[0], BORN]) == 0.4, "directed, Whiplash"
    assert bridge_share(question, "Providence", quote, [FOUND[2], BORN]) == 0.0, "Vertigo does not name him"
    assert bridge_share(question, "Providence", quote, [BORN]) == 0.0, "nor does his own page as another"
    assert bridge_share(question, "Providence", None, [FOUND[0], BORN]) == 0.0
    himself = find_quote("Damien Chazelle", question, [BORN])
    assert himself and bridge_share(question, "Damien Chazelle", himself, [FOUND[0], BORN]) == 0.0


@pytest.mark.parametrize(
    ("state", "doubtful"),
    [({}, True), ({"bridge": 0.5}, False), ({"bridge": 0.4}, True), ({"bridge": 0.9, "operated": 1.0}, True)],
)
def test_a_second_sentence_makes_up_for_one_that_holds_little(state: dict[str, float], doubtful: bool) -> None:
    assert is_doubtful({"sentence": 0.1, **state}, "medium") is doubtful
    assert is_doubtful({"nothing": 1.0, **state}, "medium"), "but not for none"


def test_what_is_stated_is_in_a_sentence_about_the_question() -> None:
    assert is_stated("Who directed the film Whiplash?", "Damien Chazelle", PAGES[:1])
    assert not is_stated("Who composed the music?", "Damien Chazelle", PAGES[:1]), "its words alone"
    assert not is_stated("Who directed the film Whiplash?", "Boston", PAGES)
    assert not is_stated("Who directed the film Whiplash?", "Whiplash", PAGES), "the question once more"


@pytest.mark.parametrize(
    ("answer", "repeats"), [("Whiplash", True), ("Whiplash (film)", True), ("Whip", False), ("", False)]
)
def test_what_only_repeats_the_question(answer: str, repeats: bool) -> None:
    assert echoes("Who directed the film Whiplash?", answer) is repeats


@pytest.mark.parametrize(("operated", "first"), [(False, "Damien Chazelle"), (True, "Whiplash")])
def test_what_only_repeats_the_question_stands_behind_other_answers(operated: bool, first: str) -> None:
    pool = make_pool("Who directed the film Whiplash?", combined_by_code=operated)
    pool.add(Answer("Whiplash", confidence=0.9), "read", FOUND[:1])
    pool.add(Answer("Damien Chazelle", confidence=0.1), "split", FOUND[:1])
    ranked = pool.ranked_answers()
    assert ranked[0].answer.text == first, "what a question compares is among its own words"
    assert {answer.answer.text for answer in ranked} == {"Whiplash", "Damien Chazelle"}, "none is lost"


def test_an_answer_of_another_type_stands_behind_others() -> None:
    pool = make_pool("When was Damien Chazelle born?")
    pool.add(Answer("Providence", confidence=0.9), "read", FOUND[1:2])
    pool.add(Answer("1985", confidence=0.1), "split", FOUND[1:2])
    assert [answer.answer.text for answer in pool.ranked_answers()] == ["1985", "Providence"]


@pytest.mark.parametrize("logprobs", [True, False])
def test_what_several_moves_came_to_is_no_less_likely(logprobs: bool) -> None:
    """With the packaged weights; whatever else holds of the answers is the same."""
    for question, answer in (
        ("Who directed Whiplash?", "Damien Chazelle"),
        ("Where was Alfred Hitchcock born?", "London"),
    ):
        likely = []
        given_by: list[tuple[Move, ...]] = [("read",), ("split",), ("read", "split")]
        for moves in given_by:
            pool = make_pool(question, weights=frozen_chooser().weights(logprobs=logprobs))
            for move in moves:
                pool.add(Answer(answer, confidence=0.7), move, FOUND, supported=float(move == "split"))
            likely.append(pool.ranked_answers()[0].probability)
        assert likely[2] >= max(likely[:2])


def test_a_sentence_of_the_page_that_is_named_for_the_answer_may_state_it() -> None:
    page = Passage("b", "Francis Bacon", "He was a statesman. Bacon has been called the father of empiricism.")
    quote = find_quote("Francis Bacon", "Who is the father of empiricism?", [page])
    assert quote is not None and quote.text == "Bacon has been called the father of empiricism."
    assert is_stated("Who is the father of empiricism?", "Francis Bacon", [page])
    assert not is_stated("Who painted the three screaming popes?", "Francis Bacon", [page])
