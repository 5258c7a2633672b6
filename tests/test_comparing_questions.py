"""Comparisons are recognised, with their operands and kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.comparing import SETS, rows_of, score

from hoptree.text.comparison_questions import Comparison, answers_half, detect_comparison

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
def test_a_choice_has_operands_and_a_wanted_order(
    question: str, operands: tuple[str, ...] | None, wanted: str, of: str
) -> None:
    comparison = detect_comparison(question)
    assert comparison is not None
    assert (comparison.kind, comparison.wanted, comparison.of) == ("choice", wanted, of)
    assert all(operand in question for operand in comparison.operands)
    assert operands is None or comparison.operands == operands


WHICH = [
    ("Which is a university in Pennsylvania, Yale or Temple University?", ("Yale", "Temple University")),
    ("Who wrote more than thirty novels, Ann Petry or Anthony Trollope?", ("Ann Petry", "Anthony Trollope")),
    ("Which dog is native to France, the Briard or the Bulldog?", ("Briard", "Bulldog")),
    ("Was the Atomium or the Space Needle designed for a fair in Brussels?", ("Atomium", "Space Needle")),
]


@pytest.mark.parametrize(("question", "operands"), WHICH)
def test_a_choice_without_a_comparing_word_asks_which_operand_has_a_property(
    question: str, operands: tuple[str, str]
) -> None:
    assert detect_comparison(question) == Comparison("which", operands, "holds")


@pytest.mark.parametrize(
    ("question", "operands"),
    [
        (
            "Are both Cupid The Cowpuncher and Hashimura Togo from the same country?",
            ("Cupid The Cowpuncher", "Hashimura Togo"),
        ),
        ("Are Cupid The Cowpuncher and Hashimura Togo of the same nationality?", None),
        ("Are both Scottie Pippen and Michael Jordan from the same state?", ("Scottie Pippen", "Michael Jordan")),
        ("Do Scottie Pippen and Michael Jordan share a nationality?", ("Scottie Pippen", "Michael Jordan")),
        ("Are Ann Lee and Dawn French from the same country?", ("Ann Lee", "Dawn French")),
        ("Are both Scottie Pippen and Michael Jordan American players?", ("Scottie Pippen", "Michael Jordan")),
        ("Are both Ann Lee and Dawn French British?", ("Ann Lee", "Dawn French")),
        ("Are both Cilla Black and Wayne Black British?", ("Cilla Black", "Wayne Black")),
        ("Are both Ann Lee and Bob Ray American from birth?", ("Ann Lee", "Bob Ray")),
    ],
)
def test_a_name_keeps_a_last_word_that_is_also_a_country(question: str, operands: tuple[str, str] | None) -> None:
    comparison = detect_comparison(question)
    assert comparison is not None
    assert comparison.operands == (operands or ("Cupid The Cowpuncher", "Hashimura Togo"))


def test_the_event_is_read_from_the_question_and_not_from_a_name() -> None:
    released, died = (
        detect_comparison("Which film came out first, The Death Kiss or Born Free?"),
        detect_comparison("Who died first, Ann or Bob?"),
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
    comparison = detect_comparison(question)
    assert comparison is not None
    assert (comparison.kind, comparison.wanted, comparison.of, comparison.about) == (kind, wanted, of, about)
    assert len(comparison.operands) == 2 and all(operand in question for operand in comparison.operands)


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
    ("Who was born earlier, the director of Jaws or Ridley Scott?", ("the director of Jaws", "Ridley Scott")),
    ("Who was born earlier, Ridley Scott or the director of Jaws?", ("Ridley Scott", "the director of Jaws")),
    ("Which of Jaws, Alien, and Duel was released last?", ("Jaws", "Alien", "Duel")),
    ("Which of Jaws, Alien and Duel is oldest?", ("Jaws", "Alien", "Duel")),
    ("Which film came out first, Jaws, Alien, or Duel?", ("Jaws", "Alien", "Duel")),
    ("Who was born first, Ann Lee, Jr. or Bob Ray?", ("Ann Lee, Jr.", "Bob Ray")),
    ("Which film is older, Hello, Who Are You or Jaws?", ("Hello, Who Are You", "Jaws")),
    ("Which town was founded first, Minden, Nevada or Elko, Nevada?", ("Minden, Nevada", "Elko, Nevada")),
    ("Which film was released first, Not Of This Earth or Never Let Go?", ("Not Of This Earth", "Never Let Go")),
    ("Which film is older, Don't Look Now or Thou Shalt not Kill?", ("Don't Look Now", "Thou Shalt not Kill")),
]


@pytest.mark.parametrize(("question", "operands"), OPERANDS)
def test_operands_keep_their_spelling(question: str, operands: tuple[str, str] | None) -> None:
    comparison = detect_comparison(question)
    assert comparison is not None
    assert comparison.operands == (operands or ("Villa Paletti", "Betrayal at House on the Hill"))


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
        "Which film was not released first, Jaws or Alien?",
        "Who is not older, Ann Lee or Bob Ray?",
        "Which film has the director who did not die first, Jaws or Alien?",
        "Which film has the director who didn't die first, Jaws or Alien?",
        "Are Ann Lee and Bob Ray not from the same country?",
        "Are Ann Lee and Bob Ray both not French?",
        "Which dog is never native to France, the Briard or the Bulldog?",
        "Was Ann Lee born before or after Bob Ray?",
        "Is Ann Lee older or younger than Bob Ray?",
        "Was Ann Lee not born before Bob Ray?",
        "Who was younger, Ann Lee or Bob Ray, when they died?",
        "Which of Jaws, Alien and Duel was released last?",  # "Now, Voyager" is one film
        "Which film was released first, Jaws, Alien or Duel?",
        "Which film was released first, Live or Die or Kill or Be Killed?",
        "and and and and ",
    ],
)
def test_questions_without_a_clear_comparison_are_left_alone(question: str) -> None:
    assert detect_comparison(question) is None


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


@pytest.mark.parametrize(
    ("question", "answer", "half"),
    [
        ("Wer drehte Das Sanatorium, und wann starb er?", "Wojciech Jerzy Has", True),
        ("In welchem Jahr starb er und wer drehte Das Sanatorium?", "2000", True),
        ("Wer drehte Das Sanatorium und wann starb er?", "Wojciech Jerzy Has im Oktober 2000", False),
        ("Welcher Film zeigt, wie ein Mann stirbt und was er sieht?", "Das Sanatorium", False),
        ("谁导演了《沙漏疗养院》，他什么时候去世？", "哈斯", True),
        ("谁导演了《沙漏疗养院》，他什么时候去世？", "哈斯，2000年", False),
        ("谁导演了《沙漏疗养院》，一部波兰电影？", "哈斯", False),
    ],
)
def test_one_answer_to_two_questions_is_half_an_answer(question: str, answer: str, *, half: bool) -> None:
    assert answers_half(question, answer) is half
