"""Dates, numbers, names and yes-no answers are read and compared."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.text.comparison import conclude, read_names
from hoptree.text.comparison_questions import Comparison, detect_comparison
from hoptree.text.parse import read_yes_no
from hoptree.text.quantities import Date, Quantity, read_date, read_dates, read_quantity


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("1920", Date(1920)),
        ("born on 12 March 1920 in Leeds", Date(1920, 3, 12)),
        ("March 12th, 1920", Date(1920, 3, 12)),
        ("12th of Sept. 1920", Date(1920, 9, 12)),
        ("1920-03-12", Date(1920, 3, 12)),
        ("March 1920", Date(1920, 3)),
        ("44 BC", Date(-44)),
        ("15 March 44 BC", Date(-44)),
        ("c. 1920", Date(1915, through=1925)),
        ("the 1920s", Date(1920, through=1929)),
        ("20th century", Date(1901, through=2000)),
        ("the 1st century BC", Date(-100, through=-1)),
        ("It was 1920 (12 March 1920).", Date(1920, 3, 12)),
        ("1920 to 1925", None),
        ("1920, not 1925", Date(1920)),
        ("before 1920", None),
        ("1,920 people", None),
        ("1200 metres", None),
        ("12 Smarch 99999", None),
        ("no date", None),
    ],
)
def test_a_date_is_read_as_precisely_as_it_is_stated(text: str, date: Date | None) -> None:
    assert read_date(text) == date


def test_several_dates_come_in_their_order() -> None:
    assert read_dates("(12 March 1920 – 3 May 1990)") == (Date(1920, 3, 12), Date(1990, 5, 3))
    assert read_dates("1901–1970") == (Date(1901), Date(1970))


def test_dates_are_compared_at_the_precision_of_both() -> None:
    assert Date(1919, 12, 31).before(Date(1920))
    assert not Date(1920).before(Date(1920, 3)) and not Date(1920, 3).before(Date(1920))
    assert Date(-44).before(Date(-43)) and Date(-1).before(Date(1))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1,234.5", 1234.5),
        ("about 3.2 million people", 3.2e6),
        ("two hundred", 200),
        ("one thousand two hundred and thirty-four", 1234),
        ("a dozen", 12),
        ("twenty-five albums", 25),
        ("432 m (1,417 ft)", 432),
        ("10 ft", 3.048),
        ("5 km", 5000),
        ("2 miles", 3218.688),
        ("10 lb", 4.5359237),
        ("3 square kilometres", 3e6),
        ("12,345 as of the 2010 census", 12345),
        ("In 2015 it had 4,000 inhabitants", 4000),
        ("-5", -5),
        ("1.200.000", 1.2e6),
        ("1.200", 1.2),
        ("1.2.3", None),
        ("3 or 4", None),
        ("none at all", None),
        ("", None),
    ],
)
def test_a_number_is_read_with_its_unit(text: str, number: float | None) -> None:
    quantity = read_quantity(text)
    value = quantity and quantity.value
    assert value == (None if number is None else pytest.approx(number))


def test_a_quantity_has_a_dimension() -> None:
    assert read_quantity("2 km") == Quantity(2000, "length")
    assert read_quantity("7 acts") == Quantity(7)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("American", {"united states"}),
        ("U.S.", {"united states"}),
        ("the USA", {"united states"}),
        ("the United States of America.", {"united states"}),
        ("English", {"united kingdom"}),
        ("Soviet", {"soviet union"}),
        ("West German", {"west germany"}),
        ("Austro-Hungarian", {"austria-hungary"}),
        ("Trinidad and Tobago", {"trinidad and tobago"}),
        ("French-Canadian", {"france", "canada"}),
        ("Actor, singer and film director", {"actor", "singer", "film director"}),
        ("an American film director", {"united states", "film director"}),
        ("New Mexico", {"united states"}),
        ("unknown", set()),
        ("", set()),
    ],
)
def test_names_are_read_in_one_spelling(text: str, names: set[str]) -> None:
    assert read_names(text) == names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yes, it is.", True),
        ("no", False),
        ("Not at all", False),
        ("No. 5", None),
        ("unknown", None),
        ("No information is given", None),
        ("Noah", None),
        ("yes and no", None),
        ("", None),
    ],
)
def test_yes_and_no_are_read_from_the_first_word(text: str, expected: bool | None) -> None:
    assert read_yes_no(text) is expected


CONCLUSIONS = [
    ("Who was born first, Ada or Grace?", ["10 December 1815", "1906"], "Ada"),
    ("Who was born later, Ada or Grace?", ["10 December 1815", "1906"], "Grace"),
    ("Who was born first, Ada or Grace?", ["1906", "9 December 1906"], None),
    ("Who was born first, Ada or Grace?", ["1815", "unknown"], None),
    ("Who was born first, Ada or Grace?", ["(1815–1852)", "1906–1992"], "Ada"),
    ("Who died first, Ada or Grace?", ["(1815–1852)", "1830–1840"], "Grace"),
    ("Which came out first, Alpha or Beta?", ["1815–1852", "1830"], None),
    ("Which film was released earlier, Alpha or Beta?", ["2007", "January 2, 1970"], "Beta"),
    ("Who lived longer, Ada or Grace?", ["1815 to 1852", "9 December 1906 – 1 January 1992"], "Grace"),
    ("Who lived longer, Ada or Grace?", ["1815 to 1852", "1900 to 1937"], None),
    ("Who lived longer, Ada or Grace?", ["36 years", "85 years"], "Grace"),
    ("Which is taller, Alpha Tower or Beta Tower?", ["300 m", "1,000 ft"], "Beta Tower"),
    ("Which is taller, Alpha Tower or Beta Tower?", ["300 m", "400"], None),
    ("Which is taller, Alpha Tower or Beta Tower?", ["300 m", "300 m"], None),
    ("Which band has the most albums, Blur, Pulp or Suede?", ["eight", "7", "9"], "Suede"),
    ("Which had a better start, Alpha or Beta?", ["3", "4"], None),
    ("Are Ada and Grace of the same nationality?", ["Canadian", "American"], "no"),
    ("Are Ada and Grace of the same nationality?", ["the U.S.", "American actress"], "yes"),
    ("Are Ada and Grace of the same nationality?", ["Soviet", "Russian"], None),
    ("Are Ada and Grace of the same nationality?", ["Klingon", "American"], None),
    ("Are Ada and Grace of the same nationality?", ["not American", "American"], None),
    ("Are Ada and Grace of the same nationality?", ["American Indian", "Indian"], None),
    ("Are Ada and Grace of the same nationality?", ["American actor born in Italy", "Italian"], None),
    ("Are Ada and Grace of the same nationality?", ["British; American", "American"], "yes"),
    ("Are Ada and Grace of the same profession?", ["not a singer", "singer"], None),
    ("Who was born first, Ada or Grace?", ["He died in 1950", "1920"], None),
    ("Who was born first, Ada or Grace?", ["unknown, but died 1950", "1920"], None),
    ("Who died first, Ada or Grace?", ["She was born in 1950", "1920"], None),
    ("Who died first, Ada or Grace?", ["She was born in 1900 and died in 1950", "1920"], "Grace"),
    ("Which film came out first, Ada or Grace?", ["Its director was born in 1900", "1920"], None),
    ("Who lived longer, Ada or Grace?", ["born in 1900 and married in 1920", "1900 to 1910"], None),
    ("Which city has more inhabitants, Ada or Grace?", ["1.200.000", "900,000"], "Ada"),
    ("Are Ada and Grace of different nationalities?", ["Canadian", "American"], "yes"),
    ("Are Alpha and Beta in the same city?", ["Springfield, Ohio", "Springfield, Illinois"], None),
    ("Are Alpha and Beta in the same city?", ["Chicago, USA", "Boston, USA"], "no"),
    ("Do Ada and Grace share a profession?", ["American actor", "American singer"], "no"),
    ("Do Ada and Grace share a profession?", ["actor, director", "director"], "yes"),
    ("Do Ada and Grace share a profession?", ["film director", "director"], None),
    ("Do Ada and Grace share the same fate?", ["exile", "prison"], None),
    ("Were Ada and Grace born in the same year?", ["1 May 1900", "1900"], "yes"),
    ("Do Alpha and Beta have the same number of acts?", ["three acts", "3"], "yes"),
    ("Are Ada and Grace both writers?", ["Yes.", "yes"], "yes"),
    ("Are Ada and Grace both writers?", ["Yes.", "no"], "no"),
    ("Are Ada and Grace both writers?", ["unknown", "No"], "no"),
    ("Are Ada and Grace both writers?", ["Yes.", "a poet"], None),
    ("Which is a poet, Ada or Grace?", ["yes", "no"], "Ada"),
    ("Which is a poet, Ada or Grace?", ["yes", "yes"], None),
    ("Is Ada older than Grace?", ["1815", "1906"], "yes"),
    ("Is Ada younger than Grace?", ["1815", "1906"], "no"),
    ("Was Ada born after Grace?", ["1 May 1900", "1 May 1900"], "no"),
    ("Was Ada born after Grace?", ["1900", "1 May 1900"], None),
    ("Is K2 higher than Elbrus?", ["8,611 m", "5,642 m"], "yes"),
]


def decided(comparison: Comparison, facts: Sequence[str]) -> str | None:
    """Return the answer from one fact for each operand."""
    conclusion = conclude(comparison, dict(zip(comparison.operands, facts, strict=True)))
    return conclusion.answer if conclusion else None


@pytest.mark.parametrize(("question", "facts", "answer"), CONCLUSIONS)
def test_facts_decide_or_the_comparison_stays_open(question: str, facts: Sequence[str], answer: str | None) -> None:
    comparison = detect_comparison(question)
    assert comparison is not None
    assert decided(comparison, facts) == answer


def test_the_reason_can_be_shown() -> None:
    comparison = detect_comparison("Which film was released earlier, Alpha or Beta?")
    assert comparison is not None
    conclusion = conclude(comparison, {"beta": "January 2, 1970", "Alpha": "2007"})
    assert conclusion is not None
    assert conclusion.why == "1970-01-02 is before 2007"


@pytest.mark.parametrize(
    "facts", [{}, {"Alpha": "1970"}, {"Alpha": "1970", "Beta": " "}, {"Alpha": "1970", "Gamma": "1"}]
)
def test_missing_facts_conclude_nothing(facts: dict[str, str]) -> None:
    assert conclude(Comparison("choice", ("Alpha", "Beta"), "earliest", "date"), facts) is None


WORDS = """which who is are was were did do both and or the same than first older later more of between out A Ada Grace
Love, (1990 film) "War Peace" : - , . ? born before after different country year 12 March 1920 BC km m ft"""
ENGLISH = st.lists(st.sampled_from(WORDS.split()), max_size=25).map(" ".join)


@given(st.one_of(st.text(max_size=300), ENGLISH))
def test_any_text_can_be_read(text: str) -> None:
    comparison = detect_comparison(text)
    if comparison:
        assert len(comparison.operands) >= 2 and all(operand in text for operand in comparison.operands)
        decided(comparison, [text] * len(comparison.operands))
    read_dates(text), read_date(text), read_quantity(text), read_names(text), read_yes_no(text)


TOLD = """1920|March 1920|1 March 1920|44 BC|1920s|1901–1970|1901 to 1950|69 years|300 m|9 ft|seven|3.2 million|yes|no
unknown|American|Canadian|Soviet|Russian|actor"""
FACTS = st.one_of(
    st.sampled_from(TOLD.replace("\n", "|").split("|")), st.integers(1, 2100).map(str), st.text(max_size=20)
)
OPPOSITE = {"earliest": "latest", "latest": "earliest", "most": "least", "least": "most"}


@given(st.sampled_from(["date", "number", "span"]), st.sampled_from(sorted(OPPOSITE)), FACTS, FACTS)
def test_swapping_the_operands_changes_nothing_but_their_order(of: str, wanted: str, first: str, second: str) -> None:
    def choose(kind: str, direction: str, names: tuple[str, str], facts: list[str]) -> str | None:
        return decided(Comparison(kind, names, direction, of), facts)  # type: ignore[arg-type]

    chosen = choose("choice", wanted, ("Ada", "Grace"), [first, second])
    assert chosen == choose("choice", wanted, ("Grace", "Ada"), [second, first])
    other = choose("choice", OPPOSITE[wanted], ("Ada", "Grace"), [first, second])
    assert (chosen, other) in [(None, None), ("Ada", "Grace"), ("Grace", "Ada")]
    related = choose("relation", wanted, ("Ada", "Grace"), [first, second])
    if chosen:
        assert related == ("yes" if chosen == "Ada" else "no")
        assert choose("relation", wanted, ("Grace", "Ada"), [second, first]) == ("no" if chosen == "Ada" else "yes")
    else:
        assert related in (None, "no")


@given(st.sampled_from(["name", "date", "number", ""]), st.sampled_from(["country", "place", ""]), FACTS, FACTS)
def test_sameness_is_symmetric(of: str, about: str, first: str, second: str) -> None:
    same = Comparison("same", ("Ada", "Grace"), "same", of, "", about)  # type: ignore[arg-type]
    different = Comparison("same", ("Ada", "Grace"), "different", of, "", about)  # type: ignore[arg-type]
    answers = [decided(same, [first, second]), decided(same, [second, first]), decided(different, [first, second])]
    assert answers in [[None] * 3, ["yes", "yes", "no"], ["no", "no", "yes"]]
