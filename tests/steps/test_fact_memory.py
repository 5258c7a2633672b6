"""Facts of one question: the same one once, the surest first, contradictions side by side."""

from __future__ import annotations

import pytest

from hoptree.core.values import Fact
from hoptree.methods.mind.memory import FactMemory, RememberedFact
from hoptree.text.names import LexiconTagger
from hoptree.text.relation_words import relation_key
from hoptree.text.retrieval_triggers import sought_words
from hoptree.text.tokens import Span


def held(value: str, sure: float = 0.9, *, relation: str = "father", by: str = "p1", step: int = 1) -> RememberedFact:
    return RememberedFact(Fact("Jean", relation, value, sure, by), title=f"Title {by}", step=step)


def sought(sentence: str, hit: str) -> tuple[frozenset[str], tuple[Span, ...]]:
    at = sentence.rindex(hit)
    hits = ((at, at + len(hit)),)
    return relation_key(" ".join(sought_words(sentence, hits, LexiconTagger()))), hits


def answered(memory: FactMemory, sentence: str, words: frozenset[str], hits: tuple[Span, ...]) -> RememberedFact | None:
    return memory.answers(sentence, words, hits=hits)


def test_the_same_fact_stays_once_with_its_greater_confidence() -> None:
    memory = FactMemory()
    assert memory.add(held("Louis", 0.6)) == "added"
    assert memory.add(held("LOUIS", 0.8)) == "surer"
    assert memory.add(held("Louis", 0.7)) == "known"
    assert len(memory) == 1 and memory.answers("Jean died.", {"father"}).fact.confidence == 0.8  # type: ignore[union-attr]


@pytest.mark.parametrize(("sure", "outcome"), [(0.5, "added"), (0.49, "unsure"), (float("nan"), "unsure")])
def test_what_is_unsure_does_not_enter(sure: float, outcome: str) -> None:
    assert FactMemory(0.5).add(held("Louis", sure)) == outcome


def test_the_surest_are_shown_and_of_equals_the_latest() -> None:
    memory = FactMemory()
    for number, (relation, sure) in enumerate((("age", 0.6), ("son", 0.9), ("wife", 0.6), ("home", 0.95))):
        memory.add(held("x", sure, relation=relation, step=number))
    assert [line.split(" | ")[1] for line in memory.render(3).splitlines()] == ["home", "son", "wife"]
    assert memory.render(0) == "" and FactMemory().render() == ""


def test_what_is_asked_for_is_shown_first() -> None:
    memory = FactMemory()
    memory.add(held("x", 0.9, relation="son"))
    memory.add(late := held("y", 0.6, relation="wife"))
    assert memory.render(1, first=late) == "- Jean | wife | y"


def test_sources_that_differ_are_named_and_a_list_is_no_contradiction() -> None:
    memory = FactMemory()
    memory.add(held("Louis", relation="child"))
    memory.add(held("Marie", 0.8, relation="child"))
    assert memory.conflicts() == [] and memory.render() == "- Jean | child | Louis, Marie"
    memory.add(held("Henri", 0.7, relation="child", by="p2"))
    (group,) = memory.conflicts()
    assert [fact[2] for fact in group] == ["Louis", "Marie", "Henri"]
    assert 'Henri (by "Title p2"); the sources differ' in memory.render()


@pytest.mark.parametrize(
    ("sentence", "sought", "answers"),
    [
        ("Jean has a father.", "father", True),
        ("JEAN's father", "father's", True),
        ("Jeanne has a father.", "father", False),
        ("Jean was born there.", "father born", False),
        ("Jean was there.", "", False),
        ("Louis has a father.", "father", False),
    ],
)
def test_only_the_relation_sought_of_a_subject_that_is_named_answers(sentence: str, sought: str, answers: bool) -> None:
    memory = FactMemory()
    memory.add(held("Louis"))
    assert (memory.answers(sentence, relation_key(sought)) is not None) is answers


def test_a_relation_is_known_by_its_words() -> None:
    assert relation_key("the father of") == relation_key("Father") == relation_key("father named") == {"father"}
    assert relation_key("of the") == frozenset() and relation_key("publisher") != relation_key("published")


KIN = "father mother son daughter brother sister grandfather grandmother grandson great-grandfather stepfather uncle"


@pytest.mark.parametrize(
    "kin", [*KIN.split(), "father-in-law", "mother-in-law", "half-brother", "maternal grandfather"]
)
def test_no_kin_is_taken_for_another(kin: str) -> None:
    for other in (
        *KIN.split(),
        "father-in-law",
        "brother-in-law",
        "half-sister",
        "paternal grandfather",
        "grandfather",
    ):
        memory = FactMemory()
        memory.add(held("Philip", relation=other))
        sentence = f"The {kin} of Jean is X."
        assert (answered(memory, sentence, *sought(sentence, "X")) is not None) is (kin == other), (kin, other)


@pytest.mark.parametrize(
    ("relation", "written"),
    [("father in law", "father-in-law"), ("step-son", "stepson"), ("children", "child"), ("mothers", "mother")],
)
def test_kin_are_the_same_however_they_are_written(relation: str, written: str) -> None:
    assert relation_key(relation) == relation_key(written)


@pytest.mark.parametrize(
    ("relation", "sentence", "spared"),
    [
        ("mother", "Jean is the mother of X.", False),
        ("son", "Jean is the eldest son of the painter X.", False),
        ("mother", "The mother of X is Jean.", False),
        ("mother", "X's mother is Jean.", False),
        ("capital", "Jean is the capital of X.", False),
        ("mother of", "The mother of Jean is X.", False),
        ("mother of", "Jean has X for a mother.", False),
        ("mother of", "Jean is the mother of X.", True),
        ("member of", "Jean was a member of X.", True),
        ("mother", "The mother of Jean is X.", True),
        ("mother", "The mother of the late King Jean is X.", True),
        ("mother", "Jean's own mother is X.", True),
        ("mother", "X is the mother of Jean.", True),
        ("spouse", "Jean is the husband of X.", True),
        ("place of birth", "Jean was born in the village of X.", True),
        ("citizenship", "Jean is a citizen of X.", True),
        ("producer", "Jean was produced by X.", True),
        ("production company", "Jean was produced by X.", False),
    ],
)
def test_what_one_is_to_another_is_not_what_that_is_to_the_one(relation: str, sentence: str, spared: bool) -> None:
    memory = FactMemory()
    memory.add(held("Philip", relation=relation))
    assert (answered(memory, sentence, *sought(sentence, "X")) is not None) is spared


@pytest.mark.parametrize(
    ("relation", "sentences"),
    [
        ("director", ["The film Jean was directed by X.", "The director of the horror film Jean is X."]),
        ("date of birth", ["Jean was born on 6 May 1859.", "The singer Jean was born in 1859."]),
        ("place of birth", ["Jean was born in X.", "The birthplace of Jean is X."]),
        ("place of death", ["Jean died in X."]),
        ("spouse", ["The husband of Jean was X.", "Jean was married to X.", "The wife of Jean is X."]),
        ("publication date", ["Jean came out in 1999.", "Jean was released in 1999."]),
        ("educated at", ["Jean studied at X.", "Jean graduated from X."]),
        ("inception", ["Jean was founded in 1999."]),
        ("author", ["Jean was written by X.", "The writer of Jean is X."]),
        ("country", ["The country of Jean is X."]),
    ],
)
def test_a_sentence_may_say_a_relation_in_other_words(relation: str, sentences: list[str]) -> None:
    for sentence in sentences:
        value = next(word for word in ("6 May 1859", "1859", "1999", "X") if word in sentence)
        memory = FactMemory()
        memory.add(held(value, relation=relation))
        assert answered(memory, sentence, *sought(sentence, value)) is not None, sentence


@pytest.mark.parametrize(
    ("relation", "sentence"),
    [
        ("father", "The father of Jean was born in X."),
        ("place of birth", "The father of Jean was born in X."),
        ("spouse", "Jean and his wife were born in X."),
        ("director", "The cinematographer of Jean, who was no director, is X."),
        ("film", "The film Jean was directed by X."),
        ("publisher", "Jean came out in X."),
        ("cause of death", "Jean died in X."),
    ],
)
def test_what_tells_another_relation_too_is_not_answered(relation: str, sentence: str) -> None:
    memory = FactMemory()
    memory.add(held("X", relation=relation))
    assert answered(memory, sentence, *sought(sentence, "X")) is None


@pytest.mark.parametrize(
    ("sentence", "hit", "expected"),
    [
        ("Jean was born in Lyon.", "Lyon", "Paris"),
        ("Jean was born on 7 May 1860.", "7", "6 May 1859"),
        ("Jean was born on 7 May 1860.", "May", "6 May 1859"),
        ("Jean was born in Lyon in 1860.", "1860", "6 May 1859"),
        ("Jean was born in Lyon in 1860.", "Lyon", "Paris"),
        ("Jean was born in the village of Lyon.", "village", "Paris"),
    ],
)
def test_a_date_settles_no_doubt_of_a_name_and_a_name_none_of_a_date(sentence: str, hit: str, expected: str) -> None:
    memory = FactMemory()
    memory.add(held("Paris", 0.8, relation="place of birth"))
    memory.add(held("6 May 1859", 0.8, relation="date of birth"))
    for surer in ("Paris", "6 May 1859"):
        memory.add(held(surer, 0.9, relation="place of birth" if surer == "Paris" else "date of birth"))
        answer = answered(memory, sentence, *sought(sentence, hit))
        assert answer is not None and answer.fact.object == expected


def test_facts_about_names_that_are_spoken_of_are_shown_before_surer_ones() -> None:
    memory = FactMemory()
    memory.add(RememberedFact(Fact("Henri", "date of birth", "1859", 1.0, "p1")))
    memory.add(RememberedFact(Fact("Octavie", "spouse", "Henri", 0.9, "p1")))
    memory.add(last := RememberedFact(Fact("Louis", "spouse", "Marie", 0.6, "p1")))
    assert memory.render(1) == "- Henri | date of birth | 1859"
    assert memory.render(1, about="Where was the husband of Octavie born?") == "- Octavie | spouse | Henri"
    shown = memory.render(2, first=last, about="Octavie").splitlines()
    assert shown == ["- Louis | spouse | Marie", "- Octavie | spouse | Henri"]


def test_a_doubt_of_the_subject_tells_nothing_of_what_is_said_about_it() -> None:
    memory = FactMemory()
    memory.add(held("Paris", 0.9, relation="place of birth"))
    memory.add(date := held("6 May 1859", 0.6, relation="date of birth"))
    assert memory.answers("Jean was born in 1860.", {"birth"}, hits=[(0, 4), (17, 21)]) == date


@pytest.mark.parametrize(
    ("sentence", "hit", "spared"),
    [
        ("Jean was born in Lyon.", "Lyon", True),
        ("Jean, a French duke, was born in Lyon.", "Lyon", True),
        ("Jean was born in Lyon and Anna was not.", "Lyon", True),
        ("Lyon is where Jean was born.", "Lyon", True),
        ("Jean was not born in Rome, but Anna was born in Bergen.", "Bergen", False),
        ("Jean was born in Rome; Anna was born in Bergen.", "Bergen", False),
        ("Bergen is where Anna was born, but Jean was born in Rome.", "Bergen", False),
        ("Jean was born before Oscar Smith.", "Oscar", False),
        ("Jean was born earlier than Oscar Smith.", "Smith", False),
        ("Jean was born in the same town as Oscar Smith.", "Oscar", False),
    ],
)
def test_what_is_in_doubt_must_be_said_of_the_subject(sentence: str, hit: str, spared: bool) -> None:
    memory = FactMemory()
    memory.add(held("Paris", relation="place of birth"))
    assert (answered(memory, sentence, *sought(sentence, hit)) is not None) is spared
