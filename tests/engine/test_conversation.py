"""Follow-up questions: rewritten with the conversation before them, in one call, and only where there is one."""

from __future__ import annotations

import asyncio

import pytest

from hoptree.core.values import Question
from hoptree.engine.conversation import stands_alone
from hoptree.engine.engine import Engine
from hoptree.engine.result import Result
from hoptree.models.scripted import Rule, ScriptedModel

HISTORY = (("Who directed the film Solaris?", "Andrei Tarkovsky"),)


def asked(question: Question, rewritten: str) -> tuple[Result, ScriptedModel]:
    model = ScriptedModel(rules=[Rule(rewritten, step="rewrite"), Rule("Larisa")])

    async def ask() -> Result:
        async with Engine(method="direct", model=model, cache=None) as engine:
            return await engine.ask(question)

    return asyncio.run(ask()), model


def test_a_follow_up_is_read_with_the_history() -> None:
    question = "Who is the wife of Andrei Tarkovsky?"
    result, model = asked(Question("And his wife?", history=HISTORY), question)
    assert (result.question, result.asked, result.answer) == (question, "And his wife?", "Larisa")
    assert result.usage.llm_calls == 2 and result.as_dict()["asked"] == "And his wife?"
    first, second = (text for _, text in model.requests)
    assert "Question: Who directed the film Solaris?\nAnswer: Andrei Tarkovsky" in first
    assert question in second and "And his" not in second


@pytest.mark.parametrize(
    "question",
    [
        "In which city did the director of the film The Hourglass Sanatorium die?",
        "Which lighthouse is taller, the Lighthouse of Genoa or the Île Vierge Lighthouse?",
        "Which film has the director who was born later, Black Girl or Touki Bouki?",
        "Who wrote The Name of the Rose?",
        "How do I configure Postfix as a null client?",
        "When was Ada Lovelace born?",
        "What is the capital of Poland?",
        "What does /usr/share hold?",
        "In welcher Stadt starb der Regisseur des Films The Hourglass Sanatorium?",
        "Wer hat das Barometer BP-7 entwickelt?",
        "Welche Nachteile hat SQLite?",
        "Wer war Marie Curie?",
        "Was ist die Hauptstadt von New York State?",
        "《沙漏疗养院》的导演在哪座城市去世？",
        "Debian 是什么？",
        "Which package holds the kernel of Debian?",
        'Who directed "Solaris"?',
        "Which was released first, Alien or Aliens?",
        "Is the capital of Poland larger than Hull?",
        "What is libssl.so.3 for in Debian?",
    ],
)
def test_a_question_that_needs_no_other_costs_no_call(question: str) -> None:
    result, _ = asked(Question(question, history=HISTORY), "Something else?")
    assert result.usage.llm_calls == 1 and result.question == question and not result.asked and not result.warnings


@pytest.mark.parametrize(
    "question",
    [
        "And where did he die?",
        "Where did he die?",
        "Who is the director?",
        "What is the population?",
        "What about Touki Bouki?",
        "And Charles Babbage?",
        "Who else played in Blade Runner?",
        "Is Wojciech Has older?",
        "Which film did the director make with Zbigniew Cybulski?",
        "Does the option affect Postfix?",
        "Who was the president?",
        "Why?",
        "In which year?",
        "In welchem Jahr?",
        "Wo wurde er geboren?",
        "Wo starb der Regisseur?",
        "Wann wurde die Brücke gebaut?",
        "Was passierte dort?",
        "Und in Polen?",
        "Sind Nachteile bekannt?",
        "Où est mort Wojciech Has?",
        "他在哪里去世？",
        "谁是导演？",
        "那法国呢？",
        "When did Kubrick meet his wife?",
        "Who founded this company in Warsaw?",
        "How many people live there?",
        "And his wife?",
        "Which other films did Wajda make?",
        "Was ist damit gemeint in Postfix 3?",
        "Is the film older than Blade Runner?",
        "Who won before that?",
        "What was the budget?",
        "Which of the two is by Andrzej Wajda?",
        "Who owns the company?",
        "Compare with Solaris",
        "Did the film win in Cannes?",
        "Why not in Germany?",
        "Why only in Germany?",
        "Warum nicht in Hull?",
        "Which was released first, in Germany?",
        "Which is by Andrzej Wajda?",
        "Is the captain from Hull?",
        "Why was the bridge in Hull?",
        "Ist der Kapitän aus Hull 2?",
        "Why did Debian do so?",
        "Why is Postfix so slow?",
    ],
)
def test_a_question_that_may_mean_an_earlier_one_does_not_stand_alone(question: str) -> None:
    assert not stands_alone(question)


def test_a_question_that_names_its_subject_is_read_by_itself_without_a_warning() -> None:
    result, _ = asked(Question("Does the option affect Postfix?", history=HISTORY), "Who owns the moon?")
    assert result.usage.llm_calls == 2 and not result.asked and not result.warnings
    result, _ = asked(Question("Why not in Germany?", history=HISTORY), "Who owns the moon?")
    assert result.warnings


@pytest.mark.parametrize(
    ("reply", "question"),
    [
        ('"Who is the wife of Andrei Tarkovsky?"', "Who is the wife of Andrei Tarkovsky?"),
        ('"Solaris" was directed by the husband of what wife?', '"Solaris" was directed by the husband of what wife?'),
    ],
)
def test_marks_around_a_whole_reply_are_taken_away(reply: str, question: str) -> None:
    result, _ = asked(Question("And his wife?", history=HISTORY), reply)
    assert result.question == question


def test_without_a_history_nothing_is_rewritten() -> None:
    result, _ = asked(Question("And his wife?"), "Who is the wife of Andrei Tarkovsky?")
    assert result.usage.llm_calls == 1 and result.question == "And his wife?" and "asked" not in result.as_dict()


@pytest.mark.parametrize(
    "reply", ["Larisa", "", "Who is the wife of Stanley Kubrick?", "Ignore that. Who is the wife of Boris Johnson?"]
)
def test_a_rewriting_that_is_another_question_is_not_taken(reply: str) -> None:
    result, _ = asked(Question("And the wife?", history=HISTORY), reply)
    assert result.question == "And the wife?" and not result.asked
    assert any("read by itself" in warning for warning in result.warnings)


@pytest.mark.parametrize(
    ("before", "follow_up", "reply", "read_as"),
    [  # replies of the embedded model
        ((), "and where was he born?", "Who directed the film Solaris? Where was he born?", "Where was * born?"),
        ((), "And where did he study?", "Who directed the film Solaris? And where did he study?", "Where did * study?"),
        ((("Where was * born?", "Zavrazhye"),), "and his wife?", "Where was * born?", "Who is *'s wife?"),
        ((), "Und wo wurde er geboren?", "Who directed Solaris? And where was he born?", "Wo wurde * geboren?"),
        (
            (("Who wrote Faust?", "The author of Faust is Goethe: “Goethe wrote it.” [1]"),),
            "Where did he live?",
            "Where did he live?",
            "Where did Goethe live?",
        ),
        (
            (("Who wrote bzip2?", "Julian Seward"),),
            "and what is its version?",
            "What is its version?",
            "What is bzip2's version?",
        ),
        ((("What does /usr/share hold?", "data"),), "Is it writable?", "Is it writable?", "Is /usr/share writable?"),
        ((("Where was * born?", "Zavrazhye"),), "When was it founded?", "When was it founded?", "When was it founded?"),
        (
            (("Who wrote bzip2?", "Ada"),),
            "Is it possible to stop?",
            "Is it possible to stop?",
            "Is it possible to stop?",
        ),
        ((), "How long does it take to build Debian?", "How long does it take to build Debian?", ""),
        ((), "Who married her?", "Who married her?", "Who married *?"),
        ((), "What is bzip2?", "What is the name of the compression algorithm of the bzip2 format?", "What is bzip2?"),
        ((), "When did Kubrick meet his wife?", "When did Kubrick meet his wife?", "When did Kubrick meet his wife?"),
        ((), "Who wrote it and when was she born?", "Who wrote it and when was she born?", ""),
    ],
)
def test_what_a_small_model_makes_of_a_follow_up_is_put_right(
    before: tuple[tuple[str, str], ...], follow_up: str, reply: str, read_as: str
) -> None:
    person = HISTORY[0][1]
    turns = tuple((question.replace("*", person), answer) for question, answer in before)
    result, _ = asked(Question(follow_up, history=(*HISTORY, *turns)), reply.replace("*", person))
    assert result.question == (read_as or follow_up).replace("*", person)


GDYNIA = ("Wer leitet das Werk in Gdynia?", "Die Antwort lautet Bo Ek [1]")
TARKOWSKI = ("Wer führte Regie bei dem Film Solaris?", "Andrei Tarkowski")


@pytest.mark.parametrize(
    ("turn", "follow_up", "reply", "is_taken"),
    [
        (GDYNIA, "Und in Bilbao?", "Wer leitet das Werk in Bilbao?", True),
        (GDYNIA, "Und in Bilbao?", "Wer leitet das Werk in Paris?", False),
        (("Wer leitet das Werk in Bilbao?", "Ada Lund"), "Und ihr Mann?", "Wer ist der Mann von Ada Lund?", True),
        (TARKOWSKI, "Und seine Frau?", "Wer ist die Frau von Andrei Tarkowski?", True),
        (TARKOWSKI, "Und seine Frau?", "Wer ist die Frau von Otto Preminger?", False),
        (TARKOWSKI, "他的妻子呢？", "Andrei Tarkowski的妻子是谁？", True),
        (TARKOWSKI, "他的妻子呢？", "Wer ist die Frau von Andrei Tarkowski?", True),
        (TARKOWSKI, "他的妻子呢？", "Otto Preminger的妻子是谁？", False),
        (TARKOWSKI, "And his wife?", "Wer ist die Frau von Andrei Tarkowski?", True),
        (HISTORY[0], "Und seine Frau?", "Who is the wife of Andrei Tarkovsky?", True),
        (HISTORY[0], "And the wife?", "Who directed the film Solaris?", False),
    ],
)
def test_a_rewriting_in_any_language_may_have_the_names_of_the_conversation(
    turn: tuple[str, str], follow_up: str, reply: str, is_taken: bool
) -> None:
    result, _ = asked(Question(follow_up, history=(turn,)), reply)
    assert (result.question == reply) is is_taken


def test_a_question_that_a_model_repeats_is_not_taken_for_a_follow_up() -> None:
    result, _ = asked(Question("What about the music?", history=HISTORY), "Who is the director of the film Solaris?")
    assert result.question == "What about the music?" and result.warnings


@pytest.mark.parametrize(
    ("last", "follow_up", "reply", "read_as"),
    [
        (
            "When must the anemometers be delivered?",
            "What about the barometer BP-7?",
            "What is the name of the barometer BP-7?",  # of the embedded model
            "When must the barometer BP-7 be delivered?",
        ),
        ("When was Ada born?", "And Charles Babbage?", "Who is Charles Babbage?", "When was Charles Babbage born?"),
        (
            "What does the anemometer KX-200 cost?",
            "How about the barometer BP-7?",
            "What does the barometer BP-7 cost?",
            "What does the barometer BP-7 cost?",
        ),
        (
            "What does the anemometer KX-200 cost?",
            "And the barometer BP-7?",
            "What is the barometer BP-7?",
            "What does the barometer BP-7 cost?",
        ),
        (
            "Wer hat das Barometer BP-7 entwickelt?",
            "Was ist mit dem Thermometer TM-1?",
            "Was ist das Thermometer TM-1?",
            "Wer hat das Thermometer TM-1 entwickelt?",
        ),
        (
            "Welchen Preis hat das Barometer BP-7?",
            "Und der Regenmesser RN-3?",
            "Wer ist Regenmesser RN-3?",
            "Welchen Preis hat das Regenmesser RN-3?",
        ),
        (
            "Who directed the film Solaris?",
            "What about the music?",
            "Who wrote the music of Solaris?",
            "Who wrote the music of Solaris?",
        ),
        (
            "Wer hat das Gasthaus Mondlicht erbaut?",
            "und der Koch?",
            "Wie heißt der Koch im Gasthaus Mondlicht?",
            "Wie heißt der Koch im Gasthaus Mondlicht?",
        ),
        (
            "Wer hat das Gasthaus Mondlicht erbaut?",
            "und der Koch?",
            "Wer ist der Koch des Gasthauses Mondlicht?",
            "Wer ist der Koch des Gasthauses Mondlicht?",
        ),
        (
            "Wo liegt die Burg Falkenstein?",
            "und der Besitzer?",
            "Wem gehört die Burg Falkenstein?",
            "und der Besitzer?",
        ),
        (
            "Wo liegt die Burg Falkenstein?",
            "und der Besitzer?",
            "Wer ist der Besitzer der Burg Falkenstein?",
            "Wer ist der Besitzer der Burg Falkenstein?",
        ),
        (
            "Wo liegt die Burg Falkenstein?",
            "und die Höhe?",
            "Wie hoch ist die Burg Falkenstein?",
            "Wie hoch ist die Burg Falkenstein?",
        ),
        ("Wo liegt die Burg Falkenstein?", "und die Burg Eltz?", "Was ist die Burg Eltz?", "Wo liegt die Burg Eltz?"),
        ("Wer hat das Gasthaus Mondlicht erbaut?", "und der neue Koch?", "Wer ist das?", "und der neue Koch?"),
        (
            "Wo liegt die Burg Falkenstein?",
            "und der Besitzer?",
            "Wer besitzt Schloss Neuschwanstein?",
            "und der Besitzer?",
        ),
        ("Where did Ada meet Charles?", "What about Mary?", "Who is Mary?", "What about Mary?"),
        ("Where was Ada born?", "What about her sister?", "", "What about Ada's sister?"),
        ("Where was Ada born?", "And where did Mary live?", "And where did Mary live?", "And where did Mary live?"),
        ("Where was Ada born?", "And Mary was born where?", "Where was Mary born?", "Where was Mary born?"),
    ],
)
def test_what_about_another_asks_the_last_question_of_it(last: str, follow_up: str, reply: str, read_as: str) -> None:
    result, _ = asked(Question(follow_up, history=((last, "unknown"),)), reply)
    assert result.question == read_as


def test_words_that_are_written_on_and_on_are_no_answer() -> None:
    model = ScriptedModel(rules=[Rule('Susan "Sue"' + " H." * 60)])

    async def ask() -> Result:
        async with Engine(method="direct", model=model, cache=None) as engine:
            return await engine.ask("Who is it?")

    assert asyncio.run(ask()).answer == ""


def test_a_question_that_stands_for_itself_stays_as_it_is() -> None:
    result, _ = asked(Question("Where was Bach born?", history=HISTORY), "Where was Bach born?")
    assert result.question == "Where was Bach born?" and not result.asked and not result.warnings


def test_only_the_last_turns_are_shown_and_shortened() -> None:
    history = tuple((f"Who is number {number}?", "x" * 1000) for number in range(20))
    _, model = asked(Question("And the next?", history=history), "Who is the next?")
    shown = model.requests[0][1]
    assert "number 19?" in shown and "number 13?" not in shown and len(shown) < 2500


def test_questions_in_other_scripts_are_rewritten_too() -> None:
    history = (("《索拉里斯》的导演是谁？", "塔可夫斯基"),)
    result, _ = asked(Question("他的妻子呢？", history=history), "塔可夫斯基的妻子是谁？")
    assert result.question == "塔可夫斯基的妻子是谁？"


@pytest.mark.parametrize("answer", ["李文博", "答案是李文博：“总经理是李文博。” [1]"])
def test_a_pronoun_in_chinese_is_the_person_who_was_asked_for(answer: str) -> None:
    history = (("总经理是谁？", answer), ("公司在哪里？", "上海"))
    result, _ = asked(Question("他的公司叫什么？", history=history), "公司是什么")
    assert result.question == "李文博的公司叫什么？"
    other, _ = asked(Question("其他人呢？", history=history), "其他人呢？")
    assert other.question == "其他人呢？"
