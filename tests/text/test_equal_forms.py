"""Equal forms of an answer count as held, similar ones do not."""

from __future__ import annotations

import pytest

from hoptree.core.values import Answer, Passage
from hoptree.text.answer_fit import names_thing, rests_on_country, stating
from hoptree.text.grounding import find_quote, grounded, holding, names_in, supports_answer

HELD = [
    ("63 m", "The price was US€5; it is 63 m deep."),
    ("./x", "Run ./x first."),
    ("Sri Lankan", "Ada Moor is a director from Sri Lanka."),
    ("520 PLN", "Country: Spain; Limit: 135; Currency: EUR\nCountry: Poland; Limit: 520; Currency: PLN"),
    ("1,450 DKK", "Denmark | 1450 | DKK"),
    ("6.3 MW", "The Skua 4 has a rated power of 6.3 MW."),
    ("63 m", "The lake is 63 metres deep."),
    ("63 meters", "The lake is 63 m deep."),
    ("63 m", "The 63-metre tower burned."),
    ("63m", "The lake is 63 meters deep."),
    ("63 metres", "The lake is 63m deep."),
    ("63 m", "Lake: Orta; Depth (m): 63; Area: 18"),
    ("63 metres", "Lake: Orta; Depth [m]: 63"),
    ("63", "The lake is 63 m deep."),
    ("63", "The lake is 63m deep."),
    ("about 63 m", "The lake is 63 metres deep."),
    ("63.5 m", "The lake is 63,5 m deep."),
    ("30 percent", "It fell by 30 % in May."),
    ("30%", "It fell by 30 per cent."),
    ("30 per cent", "It fell by 30%."),
    ("30%", "Share (%): 30"),
    ("12 inches", "It is 12 in (30 cm) wide."),
    ("5 km/h", "It moves at 5 kilometres per hour."),
    ("25 °C", "It is 25 degrees Celsius."),
    ("16 GB", "It has 16 gigabytes of memory."),
    ("5 hours", "It took 5 h."),
    ("$5 million", "The film cost $5m."),
    ("5 million dollars", "The film cost US$5 million."),
    ("€3", "It costs 3 euros."),
    ("£20", "It costs 20 pounds."),
    ("20 lb", "It weighs 20 pounds."),
    ("18 km²", "It covers 18 square kilometres."),
    ("-5 °C", "The mean is -5 °C."),
    ("April 9", "It opens on 9 April."),
    ("9 April", "It opens on the 9th of April."),
    ("April 9th", "It opened on April 9, 1909."),
    ("9. Oktober", "It opened on October 9."),
    ("9 April 1909", "It opened on April 9, 1909."),
    ("4月9日", "It opens on April 9."),
    ("May 5", "The feast is on the fifth of May."),
    ("Poland", "He was a Polish director."),
    ("France", "Truffaut was a French film critic."),
    ("Polish", "He came from Poland."),
    ("Dutch", "She was born in Delft, Netherlands."),
    ("England", "Ada was an English writer."),
    ("7", "She wrote seven novels."),
    ("seven", "She wrote 7 novels."),
    ("21", "There are twenty-one rooms."),
    ("twenty-one", "There are 21 rooms."),
    ("three million", "It has 3,000,000 inhabitants."),
    ("3 million", "It has three million inhabitants."),
    ("3,000,000", "It has 3 million inhabitants."),
    ("1.5 million", "It has 1,500,000 inhabitants."),
    ("a hundred", "It has 100 rooms."),
    ("1", "She had one daughter."),
    ("12", "Das Haus hat zwölf Zimmer."),
    ("drei", "Sie hat 3 Kinder."),
    ("3 Millionen", "It has three million inhabitants."),
    ("3", "她有三个孩子。"),
    ("十二", "共有12个房间。"),
    ("12", "共有十二个房间。"),
    ("三百万", "人口为3,000,000人。"),
    ("third", "It was the 3rd attempt."),
    ("20th century", "It is of the twentieth century."),
    ("21st", "It was the twenty-first attempt."),
    ("Third Infantry Regiment", "He led the 3rd Infantry Regiment."),
    ("7 seasons", "The series ran for seven seasons."),
    ("seven seasons", "The series ran for 7 seasons."),
    ("第3", "这是第三次。"),
    ("1984", "It opened in 1984."),
    ("1984", "It was opened on 31.12.1984 in Rome."),
    ("9", "It opens on April 9."),
    ("2000", "It was founded in 2000."),
    ("3.11", "Python 3.11 is needed."),
]

NOT_HELD = [
    ("9999 MW", "The Skua 4 has a rated power of 6.3 MW."),
    ("63 MW", "The Skua 4 has a rated power of 6.3 MW."),
    ("14.50 DKK", "Country: Denmark; Limit: 1450; Currency: DKK"),
    ("520 EUR", "Country: Spain; Limit: 135; Currency: EUR\nCountry: Poland; Limit: 520; Currency: PLN"),
    ("75 MW of the Skua", "The Skua 4 has a rated power of 6.3 MW."),
    ("63", "The lake is 163 m deep."),
    ("63", "The lake is 63.5 m deep."),
    ("63 m", "The lake is 63.5 m deep."),
    ("63 m", "The lake is 163 m deep."),
    ("63 m", "The lake is 63 km long."),
    ("63 m", "The team has 63 members."),
    ("63 m", "Lake: Orta; Length (km): 63"),
    ("63 m", "Depth (m): 64; Islands: 63"),
    ("5 m", "The river is 5 km long."),
    ("5 m", "It has 5 million inhabitants."),
    ("5 m", "The film cost $5m."),
    ("$5m", "The pool is 5m deep."),
    ("5 million", "The pool is 5 m deep."),
    ("5", "It has 5 million inhabitants."),
    ("5 MB", "The disk holds 5 GB."),
    ("30%", "It fell by 30 people."),
    ("30%", "It fell by 30.5 %."),
    ("30 percent", "It has 30 rooms."),
    ("12 inches", "There were 12 in the room."),
    ("12 inches", "He was born on May 12 in Rome."),
    ("5 s", "The 5s of the series."),
    ("1990 s", "It was popular in the 1990s."),
    ("5 hours", "It took 5 days."),
    ("$5", "It costs 5 euros."),
    ("£20", "It weighs 20 lb."),
    ("20 kg", "It weighs 20 pounds."),
    ("25 °C", "It is 25 °F."),
    ("5 °C", "The mean is -5 °C."),
    ("63 ft", "The tower is 63 m high."),
    ("April 9", "It opens on 19 April."),
    ("April 9", "It opens on April 19."),
    ("April 9", "It opens on 9 May."),
    ("9 April", "It opens in April 1909."),
    ("9 April 1909", "It opened on April 9, 1919."),
    ("May", "He may leave."),
    ("May 5", "He may 6 times fail in 5 days."),
    ("4月9日", "It opens on April 19."),
    ("Poland", "Use nail polish remover."),
    ("Polish", "Use nail polish remover."),
    ("Turkey", "They ate turkey and ham."),
    ("Turkish", "They ate turkey in Ohio."),
    ("Georgian", "He was born in Atlanta, Georgia."),
    ("Jordanian", "It was a record of Michael Jordan."),
    ("France", "Dawn French played in it."),
    ("India", "The ship crossed the Indian Ocean."),
    ("Poland", "He was a German actor of Polish descent."),
    ("France", "They ate French fries."),
    ("France", "The book was written in French."),
    ("Scotland", "He was an English writer."),
    ("Canada", "It is in British Columbia."),
    ("British Columbia", "He was a Canadian singer."),
    ("North Korea", "He was a Korean singer."),
    ("Poland", "He was a Portuguese director."),
    ("Polish", "Anna Poland sang."),
    ("7", "She wrote seventy novels."),
    ("7", "She wrote twenty-seven novels."),
    ("7", "She wrote seven hundred letters."),
    ("seven", "She wrote 17 novels."),
    ("20", "There are twenty-one rooms."),
    ("three", "It has 3 million inhabitants."),
    ("3 million", "It has 3 billion inhabitants."),
    ("3,000,000", "It has 3 inhabitants."),
    ("1", "One of the best films was lost."),
    ("1", "No one knows which one it was."),
    ("11", "The elf was played by Tom."),
    ("11", "An elf lives there."),
    ("5 inches", "It has 5 in-depth articles."),
    ("Georgia", "It is a Georgian house."),
    ("three", "It was the third attempt."),
    ("3", "It was the 3rd attempt."),
    ("third", "It has 3 rooms."),
    ("2nd", "He waited a second."),
    ("2nd", "It took 30 seconds."),
    ("3", "张三来了。"),
    ("1", "统一的国家。"),
    ("2", "共有十二个房间。"),
    ("十", "共有12个房间。"),
    ("two thousand", "It was founded in 2000."),
    ("2,000", "It was founded in 2000."),
    ("1984 m", "It was founded in 1984."),
    ("103", "It is set in nineteen eighty-four."),
    ("four", "It is set in Twenty Four."),
    ("3", "Use Python 3.11 for it."),
    ("63", "See 63a."),
]


def passages(text: str) -> list[Passage]:
    return [Passage("p", "", text)]


@pytest.mark.parametrize(("answer", "text"), HELD)
def test_an_equal_form_is_held(answer: str, text: str) -> None:
    assert supports_answer(answer, passages(text))
    assert holding(answer, "", passages(text))


@pytest.mark.parametrize(("answer", "text"), NOT_HELD)
def test_a_similar_form_is_not_held(answer: str, text: str) -> None:
    assert not supports_answer(answer, passages(text))
    assert not holding(answer, "", passages(text))


@pytest.mark.parametrize(
    "text", ["mİn", "5 ſ", "5 mıles", "fırst Aprİl 9", "九" + "亿" * 9_000, "9" * 9_000, "9" * 9_000 + " million"]
)
def test_odd_numbers_and_letters_are_read(text: str) -> None:
    assert not supports_answer("5 m", passages(text))


def test_an_answer_in_another_form_keeps_its_spelling_and_has_a_quote() -> None:
    found_in = passages("It is a lake. It is 63 metres deep.")
    assert grounded(Answer("63 m"), "", found_in) == Answer("63 m", support=("p",))
    quote = find_quote("63 m", "How deep is it?", found_in)
    assert quote is not None and quote.text == "It is 63 metres deep."


@pytest.mark.parametrize(
    ("answer", "text", "is_weak"),
    [
        ("Polish", "He came from Poland.", True),
        ("Polish", "He was Polish and came from Poland.", False),
        ("Poland", "He was a Polish director.", False),
    ],
)
def test_a_nationality_that_only_its_country_states_is_weak(answer: str, text: str, is_weak: bool) -> None:
    assert rests_on_country(answer, passages(text)) is is_weak
    assert bool(grounded(Answer(answer), "", passages(text)).support) is (answer in text or answer == "Poland")


WHIPLASH = Passage("w", "Whiplash (2014 film)", "Whiplash is a film directed by Damien Chazelle.")
LA_LA_LAND = Passage("l", "La La Land", "La La Land is a film directed by Damien Chazelle.")
TITANIC = Passage("t", "Titanic", "Titanic is a film of 1997 directed by James Cameron for the studio.")
LAKERS = Passage("b", "Kobe Bryant", "Kobe Bryant played for the team of the Lakers.")


@pytest.mark.parametrize(
    ("question", "passage", "named"),
    [
        ("who directed the film whiplash", WHIPLASH, True),
        ("who directed the film whiplash", LA_LA_LAND, False),
        ("who directed the film whiplash?", TITANIC, False),
        ("who directed titanic", TITANIC, True),
        ("which team did lebron james play for", LAKERS, False),
        ("which team did kobe bryant play for", LAKERS, True),
        ("who is older, kobe bryant or lebron james", LAKERS, True),
        ("what is the studio of the film", TITANIC, True),
        ("which film was directed for the studio", TITANIC, True),
        ("What is the default port?", TITANIC, True),
        ("wer hat den film whiplash gedreht", TITANIC, True),
        ("谁导演了这部电影", TITANIC, True),
        ("who is it", TITANIC, True),
    ],
)
def test_a_question_in_lower_case_has_names_too(question: str, passage: Passage, named: bool) -> None:
    assert names_thing(question, passage) is named


def test_a_wrong_answer_to_a_question_in_lower_case_is_held_but_not_named() -> None:
    assert stating("James Cameron", "who directed the film whiplash", [TITANIC]) == ({"t"}, set())


LIMITS = Passage(
    "limits", "Limits", "Country: Poland; Limit: 520; Currency: PLN\nCountry: Denmark; Limit: 1450; Currency: DKK"
)


@pytest.mark.parametrize(("answer", "named"), [("1450 DKK", {"limits"}), ("520 PLN", set()), ("1450 PLN", set())])
def test_an_amount_is_of_the_row_that_the_question_names(answer: str, named: set[str]) -> None:
    assert stating(answer, "What is the limit in Denmark?", [LIMITS])[1] == named


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("Wer ist der Mann von Ada Voss?", "ada voss"),
        ("Wer leitet das Werk in Bilbao?", "bilbao"),
        ("Who wrote the Graf von Luxemburg?", "graf von luxemburg"),
        ("Wer schrieb Der Graf von Luxemburg?", "der graf von luxemburg"),
    ],
)
def test_a_german_noun_before_a_name_is_no_part_of_it(question: str, name: str) -> None:
    assert [each.full for each in names_in(question)] == [name]


def test_the_date_of_an_email_is_no_amount() -> None:
    mail = Passage(
        "mail", "Bearings", "From: Ada <ada@example.org>\nDate: Sun, 12 Jan 2025 10:00:00 +0000\n\nFour failed."
    )
    assert stating("twelve", "How many bearings failed?", [mail]) == (set(), set())


def test_the_number_of_a_note_is_part_of_its_name() -> None:
    sung = passages("Kelly Clarkson sings from Eb3 to F#6.")
    assert supports_answer("F#6 and Eb3", sung)
    assert not supports_answer("75 notes from Eb3 to F#6", sung)


def test_the_cells_of_a_row_are_found_in_linear_time() -> None:
    assert not holding("63 m", "", passages("63 ; : " + " " * 200_000 + ":"))
