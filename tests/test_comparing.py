"""Questions that compare: found by their grammar, concluded in code, and left alone wherever something is unclear."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from benchmarks.comparing import SETS, rows_of, score
from hypothesis import given
from hypothesis import strategies as st

from hoptree.comparing import (
    Comparison,
    Date,
    Quantity,
    conclude,
    detect,
    read_date,
    read_dates,
    read_names,
    read_number,
    read_quantity,
    read_yes_no,
)

CHOICES = [
    ("Who was born first, Ada Lovelace or Grace Hopper?", ("Ada Lovelace", "Grace Hopper"), "earliest", "date"),
    ("Who was born first Ada Lovelace or Grace Hopper ?", ("Ada Lovelace", "Grace Hopper"), "earliest", "date"),
    (
        "Which film has the director died later, Love, Honor And Oh-Baby! or I Cover The Underworld?",
        ("Love, Honor And Oh-Baby!", "I Cover The Underworld"),
        "latest",
        "date",
    ),
    (
        "Who was born first out of Amable Éno, Dit Deschamps and Wayne Sykes?",
        ("Amable Éno, Dit Deschamps", "Wayne Sykes"),
        "earliest",
        "date",
    ),
    (
        "Which building is taller Bertelsmann Building or 432 Park Avenue?",
        ("Bertelsmann Building", "432 Park Avenue"),
        "most",
        "number",
    ),
    ("Which came out more recently, Sink Or Swim or Alibi?", ("Sink Or Swim", "Alibi"), "latest", "date"),
    ("Which song is older: 'Help!' or 'Yesterday'?", ("Help!", "Yesterday"), "earliest", "date"),
    ("Which play closed last, The Rivals or Who's Afraid??", ("The Rivals", "Who's Afraid?"), "latest", "date"),
    ("Between Leeds and York, which city has fewer inhabitants?", ("Leeds", "York"), "least", "number"),
    ("Of the rivers Rhine and Elbe, which one is longer?", ("Rhine", "Elbe"), "most", "number"),
    ("Which of Mount Elbrus and Mont Blanc is higher?", ("Mount Elbrus", "Mont Blanc"), "most", "number"),
    ("Was the Eiffel Tower or the Flatiron Building completed first?", None, "earliest", "date"),
    ("Which bridge, Tower Bridge or the Forth Bridge, opened earlier?", None, "earliest", "date"),
    ("Who lived longer, Clara Schumann or Fanny Mendelssohn?", None, "most", "span"),
    ("Which king reigned the shortest, Edward V or Edward VIII?", None, "least", "span"),
    ("Which band has released the most albums, Blur, Pulp or Suede?", ("Blur", "Pulp", "Suede"), "most", "number"),
    ("Which is deepest: Lake Baikal, Lake Como, or Loch Ness?", None, "most", "number"),
    ("Which town is smaller, Minden, Nevada or Elko, Nevada?", ("Minden, Nevada", "Elko, Nevada"), "least", "number"),
    ("Which weighs less, a tiger or a lion?", ("a tiger", "a lion"), "least", ""),
    ("Which writer had a more varied career, Ann Petry or John Muir?", ("Ann Petry", "John Muir"), "most", ""),
    (
        "Which firm is older, Smith & Wesson or Black & Decker?",
        ("Smith & Wesson", "Black & Decker"),
        "earliest",
        "date",
    ),
    ('Which is longer, "War and Peace" or "Emma"?', ("War and Peace", "Emma"), "most", "number"),
    ("Who is younger, Paul Davis (basketball) or Tim Wilson (Filmmaker)?", None, "latest", "date"),
    ("Who is the older of the two, Ann Lee or Bob Ray?", ("Ann Lee", "Bob Ray"), "earliest", "date"),
    ("What is the larger of Lake Como and Lake Garda?", ("Lake Como", "Lake Garda"), "most", "number"),
    ("Which is bigger: the Sun, the Moon, or the Earth?", ("Sun", "Moon", "Earth"), "most", "number"),
    ("Who died at an older age, Ann Lee or Bob Ray?", ("Ann Lee", "Bob Ray"), "most", "span"),
    ("Which was the first to open, the Louvre or the Prado?", ("Louvre", "Prado"), "earliest", "date"),
    ("which company is founded later, samsung or sony?", ("samsung", "sony"), "latest", "date"),
]


@pytest.mark.parametrize(("question", "operands", "wanted", "of"), CHOICES)
def test_a_choice_names_its_operands_and_what_is_wanted(
    question: str, operands: tuple[str, ...] | None, wanted: str, of: str
) -> None:
    found = detect(question)
    assert found is not None
    assert (found.kind, found.wanted, found.of) == ("choice", wanted, of)
    assert all(operand in question for operand in found.operands)
    assert operands is None or found.operands == operands


WHICH = [
    ("Which is a university in Pennsylvania, Yale or Temple University?", ("Yale", "Temple University")),
    ("Who wrote more than thirty novels, Ann Petry or Anthony Trollope?", ("Ann Petry", "Anthony Trollope")),
    ("Which dog is native to France, the Briard or the Bulldog?", ("Briard", "Bulldog")),
    ("Was the Atomium or the Space Needle designed for a fair in Brussels?", ("Atomium", "Space Needle")),
]


@pytest.mark.parametrize(("question", "operands"), WHICH)
def test_a_choice_without_a_comparing_word_asks_of_which_something_holds(
    question: str, operands: tuple[str, str]
) -> None:
    assert detect(question) == Comparison("which", operands, "holds")


def test_the_event_is_read_from_the_question_and_not_from_a_name() -> None:
    released, died = (
        detect("Which film came out first, The Death Kiss or Born Free?"),
        detect("Who died first, Ann or Bob?"),
    )
    assert released is not None and released.event == ""
    assert died is not None and died.event == "death"


YES_NO = [
    ("Are Boise Airport and Elko Airport both located in the same country?", "same", "same", "name", "country"),
    ("Do Ada Byron and Mary Shelley have different nationalities?", "same", "different", "name", "country"),
    ("Did Al Capone and Lucky Luciano share a profession?", "same", "same", "name", ""),
    ("Were Emma Bull and Ian Banks born in the same year?", "same", "same", "date", ""),
    ("Do the operas Vanessa and Le roi malgré lui contain the same number of acts?", "same", "same", "number", ""),
    ("Does Carl Linnaeus share the same birthplace as Michael Jackson?", "same", "same", "name", "place"),
    ("Are Centaurium and Dacrydium both plants?", "both", "both", "", ""),
    ("Were both Frank Lloyd and Olivier Assayas American film directors?", "both", "both", "", ""),
    ("Have Marc Rosset and Max Mirnyi both been tennis players?", "both", "both", "", ""),
    ("Was the film Splash released before the film Tangled?", "relation", "earliest", "date", ""),
    ("Did Mozart die after Salieri did?", "relation", "latest", "date", ""),
    ("Is K2 higher than Mont Blanc?", "relation", "most", "number", ""),
    ("Does Alec Baldwin have fewer children than Clint Eastwood?", "relation", "least", "number", ""),
]


@pytest.mark.parametrize(("question", "kind", "wanted", "of", "about"), YES_NO)
def test_yes_no_questions_that_compare(question: str, kind: str, wanted: str, of: str, about: str) -> None:
    found = detect(question)
    assert found is not None
    assert (found.kind, found.wanted, found.of, found.about) == (kind, wanted, of, about)
    assert len(found.operands) == 2 and all(operand in question for operand in found.operands)


OPERANDS = [
    (
        "Do both films: Racing Extinction and Madame Butterfly (1995 Film) have the directors from the same country?",
        ("Racing Extinction", "Madame Butterfly (1995 Film)"),
    ),
    (
        "Are both villages, Mohammadabad, Andika and Şahinpınarı, located in the same country?",
        ("Mohammadabad, Andika", "Şahinpınarı"),
    ),
    (
        "Are director of film Dance, Fools, Dance and director of film Alibi both from the same country?",
        ("director of film Dance, Fools, Dance", "director of film Alibi"),
    ),
    ("Do both directors of films Kaalapani and Life & Music have the same nationality?", ("Kaalapani", "Life & Music")),
    ("Are both Jonathan Marray and Wayne Black British?", ("Jonathan Marray", "Wayne Black")),
    ("Are both Deerhunter and Nine Lashes American Christian rock bands?", ("Deerhunter", "Nine Lashes")),
    (
        "Were the Battle of Ash and Elm and the Battle of the Oak both fought in May?",
        ("Battle of Ash and Elm", "Battle of the Oak"),
    ),
    ("Are Villa Paletti and Betrayal at House on the Hill both board games?", None),
]


@pytest.mark.parametrize(("question", "operands"), OPERANDS)
def test_operands_are_cut_out_as_they_are_written(question: str, operands: tuple[str, str] | None) -> None:
    found = detect(question)
    assert found is not None
    assert found.operands == (operands or ("Villa Paletti", "Betrayal at House on the Hill"))


@pytest.mark.parametrize(
    "question",
    [
        "",
        "?",
        "Who founded the first university in Prague?",
        "Where was the director of War and Peace born?",
        "What is the year of the event that came first, Alpha was founded or Beta opened?",
        "In which city are both Tower Bridge and the Shard located?",
        "What profession do Ann Petry and John Muir share?",
        "Which actor starred in both Alien and The Deer Hunter?",
        "Do you need both hot and cold water to peel a tomato?",
        "Can you buy furniture and meatballs in the same store?",
        "Are some Christmas carols named after Saints?",
        "Was Big Ben built before 1900?",
        "Is Mont Blanc higher than 4,000 metres?",
        "Are people more likely than normal to get sunburn at Burning Man?",
        "A shop, also called a store or a boutique, is named after which American?",
        "Who is the older brother of Ann or Bob?",
        "Which American actor, born in Paris or London, played Hamlet?",
        "Who was the second oldest king of England and Scotland?",
        "Which is older, Rome or Rome?",
        "Are Simon and Garfunkel and Crosby and Nash from the same country?",
    ],
)
def test_what_compares_nothing_or_is_unclear_is_left_alone(question: str) -> None:
    assert detect(question) is None


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
        ("before 1920", None),
        ("1,920 people", None),
        ("1200 metres", None),
        ("12 Smarch 99999", None),
        ("no date", None),
    ],
)
def test_a_date_is_read_as_far_as_it_is_told(text: str, date: Date | None) -> None:
    assert read_date(text) == date


def test_several_dates_come_in_their_order() -> None:
    assert read_dates("(12 March 1920 – 3 May 1990)") == (Date(1920, 3, 12), Date(1990, 5, 3))
    assert read_dates("1901–1970") == (Date(1901), Date(1970))


def test_dates_compare_only_as_far_as_both_go() -> None:
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
        ("3 or 4", None),
        ("none at all", None),
        ("", None),
    ],
)
def test_a_number_is_read_with_its_unit(text: str, number: float | None) -> None:
    found = read_number(text)
    assert found == (None if number is None else pytest.approx(number))


def test_a_quantity_knows_its_dimension() -> None:
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
    ("text", "said"),
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
def test_yes_and_no_are_read_from_the_first_word(text: str, said: bool | None) -> None:
    assert read_yes_no(text) is said


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


@pytest.mark.parametrize(("question", "facts", "answer"), CONCLUSIONS)
def test_the_facts_decide_or_nobody_does(question: str, facts: Sequence[str], answer: str | None) -> None:
    comparison = detect(question)
    assert comparison is not None
    conclusion = conclude(comparison, facts)
    assert (conclusion and conclusion.answer) == answer


def test_the_reason_can_be_shown() -> None:
    comparison = detect("Which film was released earlier, Alpha or Beta?")
    assert comparison is not None
    conclusion = conclude(comparison, {"beta": "January 2, 1970", "Alpha": "2007"})
    assert conclusion is not None
    assert conclusion.why == "1970-01-02 is before 2007"


@pytest.mark.parametrize("facts", [{}, {"Alpha": "1970"}, ["1970"], ["1970", ""], ["1970", "1980", "1990"], "19"])
def test_missing_facts_conclude_nothing(facts: dict[str, str] | list[str] | str) -> None:
    assert conclude(Comparison("choice", ("Alpha", "Beta"), "earliest", "date"), facts) is None


WORDS = """which who is are was were did do both and or the same than first older later more of between out A Ada Grace
Love, (1990 film) "War Peace" : - , . ? born before after different country year 12 March 1920 BC km m ft"""
ENGLISH = st.lists(st.sampled_from(WORDS.split()), max_size=25).map(" ".join)


@given(st.one_of(st.text(max_size=300), ENGLISH))
def test_no_text_breaks_the_readers(text: str) -> None:
    found = detect(text)
    if found:
        assert len(found.operands) >= 2 and all(operand in text for operand in found.operands)
        conclude(found, [text] * len(found.operands))
    read_dates(text), read_date(text), read_number(text), read_names(text), read_yes_no(text)


TOLD = """1920|March 1920|1 March 1920|44 BC|1920s|1901–1970|1901 to 1950|69 years|300 m|9 ft|seven|3.2 million|yes|no
unknown|American|Canadian|Soviet|Russian|actor"""
FACTS = st.one_of(
    st.sampled_from(TOLD.replace("\n", "|").split("|")), st.integers(1, 2100).map(str), st.text(max_size=20)
)
OPPOSITE = {"earliest": "latest", "latest": "earliest", "most": "least", "least": "most"}


@given(st.sampled_from(["date", "number", "span"]), st.sampled_from(sorted(OPPOSITE)), FACTS, FACTS)
def test_swapping_the_operands_changes_nothing_but_their_order(of: str, wanted: str, one: str, two: str) -> None:
    def choose(kind: str, direction: str, names: tuple[str, str], facts: list[str]) -> str | None:
        conclusion = conclude(Comparison(kind, names, direction, of), facts)  # type: ignore[arg-type]
        return conclusion.answer if conclusion else None

    chosen = choose("choice", wanted, ("Ada", "Grace"), [one, two])
    assert chosen == choose("choice", wanted, ("Grace", "Ada"), [two, one])
    other = choose("choice", OPPOSITE[wanted], ("Ada", "Grace"), [one, two])
    assert (chosen, other) in [(None, None), ("Ada", "Grace"), ("Grace", "Ada")]
    related = choose("relation", wanted, ("Ada", "Grace"), [one, two])
    if chosen:
        assert related == ("yes" if chosen == "Ada" else "no")
        assert choose("relation", wanted, ("Grace", "Ada"), [two, one]) == ("no" if chosen == "Ada" else "yes")
    else:
        assert related in (None, "no")


@given(st.sampled_from(["name", "date", "number", ""]), st.sampled_from(["country", "place", ""]), FACTS, FACTS)
def test_being_the_same_goes_both_ways(of: str, about: str, one: str, two: str) -> None:
    same = Comparison("same", ("Ada", "Grace"), "same", of, "", about)  # type: ignore[arg-type]
    different = Comparison("same", ("Ada", "Grace"), "different", of, "", about)  # type: ignore[arg-type]
    answers = [
        conclusion and conclusion.answer
        for conclusion in (conclude(same, [one, two]), conclude(same, [two, one]), conclude(different, [one, two]))
    ]
    assert answers in [[None] * 3, ["yes", "yes", "no"], ["no", "no", "yes"]]


def test_the_benchmark_counts_misses_and_false_alarms(tmp_path: Path) -> None:
    triples = [["Jaws", "director", "Ann Lee"], ["Ann Lee", "born", "1920"], ["Alien (film)", "year", "1930"]]
    rows: list[dict[str, object]] = [
        {"question": "Which is older, Jaws or Alien (Film)?", "type": "comparison", "evidence_triples": triples},
        {"question": "What do Jaws and Alien have in common?", "type": "comparison"},
        {"question": "Which came first, Jaws or Alien?", "type": "inference"},
        {"question": "Who made Jaws?", "type": "inference"},
    ]
    path = tmp_path / SETS[0].file
    path.parent.mkdir()
    path.write_text("".join(json.dumps({"answers": ["Jaws"], **row}) + "\n" for row in rows), encoding="utf-8")
    result = score(SETS[0], rows_of(tmp_path, SETS[0], "test"))
    assert (result.questions, result.positives, result.hits, result.pairs) == (4, 2, 1, 1)
    assert (result.told, result.concluded, result.right) == (1, 1, 1)
    assert len(result.missed) == len(result.alarms) == 1
    assert result.false_alarm_rate == 0.5 and result.failed
    assert list(rows_of(tmp_path, SETS[0], "dev")) == []
