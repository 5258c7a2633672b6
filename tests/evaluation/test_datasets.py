"""Every form of questions from a small file of it, samples that repeat, and files that are refused."""

from __future__ import annotations

import asyncio
import dataclasses
import gzip
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hoptree.corpus.read import read_passages
from hoptree.errors import ConfigError, InputError
from hoptree.evaluation.datasets import (
    FORMS,
    DataSet,
    Example,
    digest_of,
    filter_answers,
    half,
    half_of,
    read_examples,
    read_ids,
    sample,
    write_ids,
)
from hoptree.evaluation.retrieval import missing_gold, read_questions
from hoptree.indexing import build_index
from hoptree.values import Passage, Question

OWN: dict[str, Any] = {
    "id": "a1",
    "dataset": "made",
    "question": "Where was the director of Red Kite born?",
    "answers": ["Skagen", "Skaw"],
    "type": "compositional",
    "hops": 2,
    "supporting_titles": ["Ada Moor", "Red Kite (film)"],
    "supporting_ids": ["p2", "p1"],
    "decomposition": ["Who directed Red Kite?", "Where was #1 born?"],
    "decomposition_answers": ["Ada Moor", "Skagen"],
    "evidence_triples": [["Red Kite", "director", "Ada Moor"], ["ada moor", "place of birth", "Skagen"]],
}
CONTEXT = [
    ["Red Kite", ["Red Kite is a film.", " Ada Moor made it."]],
    ["Jan Dahl", ["Jan Dahl is a poet."]],
    ["Ada Moor", ["Ada Moor is a director.", " She was born in Skagen."]],
]
HOTPOT: dict[str, Any] = {
    "_id": "5a8b57f2",
    "question": "Where was the director of Red Kite born?",
    "answer": "Skagen",
    "type": "bridge",
    "level": "hard",
    "supporting_facts": [["Ada Moor", 1], ["Red Kite", 1], ["Ada Moor", 0]],
    "context": CONTEXT,
}
TWO_WIKI = {
    **HOTPOT,
    "type": "compositional",
    "answer_id": "Q1",
    "evidences": [["Red Kite", "director", "Ada Moor"], ["Ada Moor", "place of birth", "Skagen"]],
}
MUSIQUE: dict[str, Any] = {
    "id": "2hop__11_22",
    "question": "Where was the maker of Red Kite born?",
    "answer": "Skagen",
    "answer_aliases": ["Skaw", "Skagen"],
    "answerable": True,
    "paragraphs": [
        {"idx": 0, "title": "Ada Moor", "paragraph_text": "Born in Skagen.", "is_supporting": True},
        {"idx": 1, "title": "Ada Moor", "paragraph_text": "Another one.", "is_supporting": False},
        {"idx": 2, "title": "Red Kite", "paragraph_text": "Made by Ada Moor.", "is_supporting": True},
    ],
    "question_decomposition": [
        {"id": 11, "question": "Red Kite >> maker", "answer": "Ada Moor", "paragraph_support_idx": 2},
        {"id": 22, "question": "Where was #1 born?", "answer": "Skagen", "paragraph_support_idx": 0},
    ],
}
ADVERSARIAL: dict[str, Any] = {
    "qas_id": "5ab",
    "question": " Where was she born?",
    "answer": "Skagen",
    "paragraphs": [
        {"title": "added", "context": "Born in Bergen.", "is_supp": False},
        {"title": "Ada Moor", "context": "Born in Skagen.", "is_supp": True},
    ],
    "rationale": [{"sentence": "Born in Skagen."}],
}
STRATEGY: dict[str, Any] = {
    "qid": "aadc",
    "term": "Kite",
    "question": "Could a red kite swallow a film director?",
    "answer": False,
    "facts": ["A kite is small."],
    "decomposition": ["How big is a red kite?", "How big is a director?", "Is #1 more than #2?"],
    "evidence": [
        ["no_evidence", "no_evidence", "operation"],
        [[["Red kite-1", "Red kite-3"]], [["Human body size-2"], "no_evidence"], ["operation"]],
    ],
}
IIRC: dict[str, Any] = {
    "pid": "p_1",
    "title": "Ada Moor",
    "text": "Ada Moor was born in Skagen.",
    "links": [],
    "questions": [
        {
            "qid": "q_1",
            "question": "How old is the town she was born in?",
            "context": [{"text": "born", "passage": "main"}, {"text": "old", "passage": "skagen"}],
            "answer": {"type": "value", "answer_value": "600", "answer_unit": "years"},
        },
        {
            "qid": "q_2",
            "question": "Who made it?",
            "context": [],
            "answer": {"type": "span", "answer_spans": [{"text": "Ada"}, {"text": "Jan"}]},
        },
        {"qid": "q_3", "question": "Is it near?", "answer": {"type": "binary", "answer_value": "no"}},
        {"qid": "q_4", "question": "Who else?", "context": [], "answer": {"type": "none"}},
    ],
}
TRIVIA: dict[str, Any] = {
    "Question": "Which town is at the tip?",
    "QuestionId": "tc_1",
    "Answer": {"Value": "Skagen", "Aliases": ["The Skaw", "Skagen"], "NormalizedAliases": ["skaw", "skagen"]},
}
WEBQSP: dict[str, Any] = {
    "QuestionId": "WebQTest-1",
    "RawQuestion": "where was ada moor born?",
    "Parses": [
        {
            "AnnotationStatus": {"QuestionQuality": "Good", "ParseQuality": "Complete"},
            "InferentialChain": ["people.person.place_of_birth"],
            "Answers": [{"AnswerType": "Entity", "AnswerArgument": "m.1", "EntityName": "Skagen"}],
        },
        {
            "AnnotationStatus": {"QuestionQuality": "Good", "ParseQuality": "Partial"},
            "InferentialChain": None,
            "Answers": [{"AnswerType": "Entity", "AnswerArgument": "m.2", "EntityName": "Bergen"}],
        },
        {
            "AnnotationStatus": {"QuestionQuality": "Good", "ParseQuality": "Complete"},
            "InferentialChain": None,
            "Answers": [{"AnswerType": "Value", "AnswerArgument": "1970", "EntityName": None}],
        },
    ],
}
WEBQSP_EMPTY: dict[str, Any] = {"QuestionId": "WebQTest-2", "RawQuestion": "who?", "Parses": []}
QALD: dict[str, Any] = {
    "id": "7",
    "question": [{"language": "de", "string": "Wo?"}, {"language": "en", "string": "Where was she born?"}],
    "query": {"sparql": "SELECT ?x WHERE {}"},
    "answers": [
        {
            "head": {"vars": ["x"]},
            "results": {
                "bindings": [
                    {"x": {"type": "uri", "value": "http://www.wikidata.org/entity/Q1"}},
                    {"x": {"type": "literal", "value": "57.7"}},
                ]
            },
        }
    ],
}
QALD_YES: dict[str, Any] = {
    "id": 8,
    "question": [{"language": "en", "string": "Is it a town?"}],
    "answers": [{"head": {}, "boolean": True}],
}
ALIASES = [{"Q_id": "Q1", "aliases": ["Skagen", "Skaw"], "demonyms": ["Skagbo"]}]
POPQA_NAMES = ["id", "subj", "prop", "obj", "s_wiki_title", "question", "possible_answers"]
POPQA = [
    "42",
    "Ada Moor",
    "occupation",
    "director",
    "Ada Moor",
    "What is Ada Moor's job?",
    '["film maker", "director"]',
]


def lines(path: Path, rows: list[Any]) -> Path:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def whole(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
    return path


def only(data: DataSet) -> Example:
    (example,) = data.examples
    return example


def test_the_own_form_says_all_it_knows(tmp_path: Path) -> None:
    data = read_examples(lines(tmp_path / "dev.jsonl.gz", [OWN]))
    assert (data.form, data.name, data.left_out, data.has_answers) == ("own", "made", (), True)
    example = only(data)
    assert example == Example(
        id="a1",
        question="Where was the director of Red Kite born?",
        answers=("Skagen", "Skaw"),
        type="compositional",
        hops=2,
        dataset="made",
        supporting_ids=("p2", "p1"),
        supporting_titles=("Ada Moor", "Red Kite (film)"),
        decomposition=("Who directed Red Kite?", "Where was #1 born?"),
        decomposition_answers=("Ada Moor", "Skagen"),
        hop_ids=(("p1",), ("p2",)),
        hop_titles=(("Red Kite (film)",), ("Ada Moor",)),
    )
    assert example.as_question() == Question(example.question, id="a1", type="compositional", hops=2)


@pytest.mark.parametrize(
    "triples",
    [
        [["Red Kite", "director", "Ada Moor"]],  # a gold title is left over
        [["Red Kite", "director", "Ada Moor"], ["Someone", "place of birth", "Skagen"]],
        [],
    ],
)
def test_steps_that_cannot_be_told_apart_are_not_guessed(tmp_path: Path, triples: list[list[str]]) -> None:
    example = only(read_examples(lines(tmp_path / "dev.jsonl", [{**OWN, "evidence_triples": triples}])))
    assert (example.hop_ids, example.hop_titles) == ((), ())
    assert example.supporting_ids == ("p2", "p1")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"answers": "Skagen"}, ("Skagen",)),
        ({"answers": None, "answer": " Skagen "}, ("Skagen",)),
        ({"answers": [1970, " ", "1970", True]}, ("1970", "yes")),
        ({"answers": None, "answer": {"Q1": "Skagen", "Q2": "Bergen"}}, ("Skagen", "Bergen")),
        ({"answers": None, "answer": False}, ("no",)),
    ],
)
def test_answers_may_be_written_in_several_ways(
    tmp_path: Path, answer: dict[str, Any], expected: tuple[str, ...]
) -> None:
    row = {"id": "a", "question": "Where?", **answer}
    assert only(read_examples(lines(tmp_path / "my.questions.jsonl", [row]))).answers == expected


@pytest.mark.parametrize("kept", ["pairs", "objects", "texts"])
def test_hotpotqa(tmp_path: Path, kept: str) -> None:
    row = dict(HOTPOT)
    if kept == "objects":
        row["id"] = row.pop("_id")
        row["supporting_facts"] = {"title": ["Ada Moor", "Red Kite", "Ada Moor"], "sent_id": [1, 1, 0]}
        row["context"] = {"title": [c[0] for c in CONTEXT], "sentences": [c[1] for c in CONTEXT]}
    if kept == "texts":
        row = {name: json.dumps(value) if isinstance(value, list) else value for name, value in row.items()}
    path = whole(tmp_path / "hotpot_dev.json", [row])
    data = read_examples(path)
    example = only(data)
    assert (data.form, data.name) == ("hotpotqa", "hotpotqa")
    assert (example.id, example.answers, example.type, example.hops) == ("5a8b57f2", ("Skagen",), "bridge", 2)
    assert example.supporting_titles == ("Ada Moor", "Red Kite")
    assert example.supporting_facts == (("Ada Moor", 1), ("Red Kite", 1), ("Ada Moor", 0))
    ids = {passage.title: passage.id for passage in read_passages(path)}
    assert example.supporting_ids == (ids["Ada Moor"], ids["Red Kite"])


@pytest.mark.parametrize("row", [HOTPOT, TWO_WIKI, MUSIQUE])
def test_retrieval_is_measured_on_files_that_carry_their_passages(tmp_path: Path, row: dict[str, Any]) -> None:
    path = lines(tmp_path / "dev.jsonl", [row])
    build_index(path, tmp_path / "dev.idx")
    asked, titled = read_questions(path), read_questions(path, gold_by="titles")
    assert len(asked.questions[0].gold) == 2 and titled.questions[0].gold == ("Ada Moor", "Red Kite")
    assert missing_gold(tmp_path / "dev.idx", asked) == missing_gold(tmp_path / "dev.idx", titled) == []


def test_gold_that_the_context_lacks_has_no_ids(tmp_path: Path) -> None:
    example = only(read_examples(whole(tmp_path / "full.json", [{**HOTPOT, "context": CONTEXT[:2]}])))
    assert (example.supporting_ids, example.supporting_titles) == ((), ("Ada Moor", "Red Kite"))


def test_two_wiki_with_its_aliases(tmp_path: Path) -> None:
    path = whole(tmp_path / "dev.json", [TWO_WIKI])
    plain = only(read_examples(path))
    assert (plain.dataset, plain.answers, plain.hops) == ("2wikimultihopqa", ("Skagen",), 2)
    assert plain.hop_titles == (("Red Kite",), ("Ada Moor",))
    assert plain.hop_ids == ((plain.supporting_ids[1],), (plain.supporting_ids[0],))
    data = read_examples(path, aliases=lines(tmp_path / "id_aliases.json", ALIASES))
    assert only(data).answers == ("Skagen", "Skaw", "Skagbo")
    assert data.digest != read_examples(path).digest


def test_musique(tmp_path: Path) -> None:
    path = lines(tmp_path / "musique_ans_v1.0_dev.jsonl", [MUSIQUE])
    example = only(read_examples(path))
    assert (example.dataset, example.type, example.hops) == ("musique", "2hop", 2)
    assert example.answers == ("Skagen", "Skaw")
    assert example.decomposition == ("Red Kite >> maker", "Where was #1 born?")
    assert example.decomposition_answers == ("Ada Moor", "Skagen")
    assert example.supporting_titles == ("Ada Moor", "Red Kite")
    assert example.hop_titles == (("Red Kite",), ("Ada Moor",))
    ids = {passage.text: passage.id for passage in read_passages(path)}
    assert example.supporting_ids == (ids["Born in Skagen."], ids["Made by Ada Moor."])
    assert example.hop_ids == ((ids["Made by Ada Moor."],), (ids["Born in Skagen."],))


def test_unanswerable_questions_of_musique_are_refused(tmp_path: Path) -> None:
    path = lines(tmp_path / "full.jsonl", [MUSIQUE, {**MUSIQUE, "answerable": False}])
    with pytest.raises(InputError, match=r"Line 2 of full\.jsonl .*answerable"):
        read_examples(path)


def test_advhotpotqa_with_other_answers(tmp_path: Path) -> None:
    path = whole(tmp_path / "adv.json", [ADVERSARIAL])
    aliases = lines(tmp_path / "alt_answers.jsonlines", [{"qas_id": "5ab", "answer": a} for a in ("Skaw", "the Skaw")])
    example = only(read_examples(path, aliases=aliases))
    assert (example.id, example.question, example.dataset) == ("5ab", "Where was she born?", "advhotpotqa")
    assert (example.answers, example.supporting_titles) == (("Skagen", "Skaw", "the Skaw"), ("Ada Moor",))


def test_strategyqa(tmp_path: Path) -> None:
    example = only(read_examples(whole(tmp_path / "strategyqa_train.json", [STRATEGY])))
    assert (example.id, example.dataset, example.answers, example.hops) == ("aadc", "strategyqa", ("no",), 3)
    assert example.supporting_ids == ("Red kite-1", "Red kite-3", "Human body size-2")
    assert example.supporting_titles == ("Red kite", "Human body size")
    assert example.hop_titles == (("Red kite",), ("Human body size",), ())
    assert example.hop_ids == (("Red kite-1", "Red kite-3"), ("Human body size-2",), ())


def test_iirc(tmp_path: Path) -> None:
    data = read_examples(whole(tmp_path / "iirc.json", [IIRC]))
    assert (data.form, data.left_out) == ("iirc", ("q_4",))
    assert [e.answers for e in data.examples] == [("600 years",), ("Ada, Jan",), ("no",)]
    assert [e.type for e in data.examples] == ["value", "span", "binary"]
    assert data.examples[0].supporting_titles == ("Ada Moor", "skagen")
    with pytest.raises(InputError, match="has no answer in iirc"):
        read_examples(tmp_path / "iirc.json", ids=["q_4"])


@pytest.mark.parametrize("kept", ["lines", "tab", "comma"])
def test_open_natural_questions(tmp_path: Path, kept: str) -> None:
    answers = ["14 December 1972 UTC", 'the "Skaw"', "Ada's"]
    path = tmp_path / f"nq-test.{'jsonl' if kept == 'lines' else 'csv'}"
    said = str(answers).replace('"', '""')
    if kept == "lines":
        lines(path, [{"question": "when was it, and where", "answer": answers}] * 2)
    elif kept == "tab":
        path.write_text(f'when was it, and where\t"{said}"\n' * 2, encoding="utf-8")
    else:
        path.write_text('question,answer\n"when was it, and where","' + said + '"\n', encoding="utf-8")
    example = read_examples(path).examples[0]
    assert example == Example("nq-0", "when was it, and where", tuple(answers), hops=1, dataset="nq")


@pytest.mark.parametrize("wrapped", [True, False])
def test_triviaqa(tmp_path: Path, wrapped: bool) -> None:
    rows = [TRIVIA, {**TRIVIA, "QuestionId": "tc_2"}]
    value = {"Data": rows, "Domain": "unfiltered", "VerifiedEval": False, "Version": 1.0} if wrapped else rows
    data = read_examples(whole(tmp_path / "unfiltered-web-dev.json", value))
    assert (data.form, [e.id for e in data.examples]) == ("triviaqa", ["tc_1", "tc_2"])
    assert data.examples[0].answers == ("Skagen", "The Skaw", "skaw", "skagen")


def test_popqa(tmp_path: Path) -> None:
    quoted = ['"' + field.replace('"', '""') + '"' if '"' in field else field for field in POPQA]
    (tmp_path / "popQA.tsv").write_text("\t".join(POPQA_NAMES) + "\n" + "\t".join(quoted) + "\n", encoding="utf-8")
    example = only(read_examples(tmp_path / "popQA.tsv"))
    assert (example.id, example.type, example.dataset, example.hops) == ("42", "occupation", "popqa", 1)
    assert (example.answers, example.supporting_titles) == (("director", "film maker"), ("Ada Moor",))


def test_webquestions(tmp_path: Path) -> None:
    target = '(list (description "Jamaican \\"Creole\\" (English)") (description Lund) (description "a b"))'
    rows = [{"url": "http://x", "targetValue": target, "utterance": "what do they speak?"}]
    example = only(read_examples(whole(tmp_path / "webquestions.examples.test.json", rows)))
    assert (example.id, example.answers) == ("webquestions-0", ('Jamaican "Creole" (English)', "Lund", "a b"))


def test_webqsp(tmp_path: Path) -> None:
    value = {"Version": "1.0", "FreebaseVersion": "2015-08-09", "Questions": [WEBQSP, WEBQSP_EMPTY]}
    data = read_examples(whole(tmp_path / "WebQSP.test.json", value))
    assert (data.form, data.left_out) == ("webqsp", ("WebQTest-2",))
    assert (only(data).answers, only(data).hops) == (("Skagen", "1970"), 1)


def test_qald_with_names_for_its_entities(tmp_path: Path) -> None:
    path = whole(tmp_path / "qald_10.json", {"dataset": {"id": "qald-10"}, "questions": [QALD, QALD_YES]})
    data = read_examples(path)
    assert (data.form, [e.id for e in data.examples]) == ("qald10", ["7", "8"])
    assert [e.answers for e in data.examples] == [("Q1", "57.7"), ("yes",)]
    assert data.examples[0].question == "Where was she born?"
    named = read_examples(path, aliases=lines(tmp_path / "names.jsonl", [{"id": "Q1", "label": "Skagen"}]))
    assert named.examples[0].answers == ("Skagen", "57.7")


def test_simplequestions_on_freebase_and_wikidata(tmp_path: Path) -> None:
    freebase = 'www.freebase.com/m/04w\twww.freebase.com/book/subject\twww.freebase.com/m/01c\t"e" is what\n'
    (tmp_path / "annotated_fb_data_test.txt").write_text(freebase, encoding="utf-8")
    example = only(read_examples(tmp_path / "annotated_fb_data_test.txt"))
    assert (example.question, example.answers, example.type) == ('"e" is what', ("m.01c",), "book.subject")
    (tmp_path / "wd.txt").write_text("Q9\tR19\tQ1\twho was born there\n" * 2, encoding="utf-8")
    data = read_examples(tmp_path / "wd.txt", aliases=lines(tmp_path / "id_aliases.json", ALIASES))
    assert [e.id for e in data.examples] == ["simplequestions-0", "simplequestions-1"]
    assert (data.examples[0].answers, data.examples[0].type) == (("Skagen", "Skaw", "Skagbo"), "R19")


@pytest.mark.parametrize("names", ["Question,Answer", '"Question","Answer"'])
def test_bamboogle(tmp_path: Path, names: str) -> None:
    content = f'{names}\n"Who, then?",Ada Moor\n'
    (tmp_path / "bamboogle.csv").write_text(content, encoding="utf-8-sig")
    example = only(read_examples(tmp_path / "bamboogle.csv"))
    assert example == Example("bamboogle-0", "Who, then?", ("Ada Moor",), hops=2, dataset="bamboogle")


def test_flashrag(tmp_path: Path) -> None:
    (tmp_path / "musique").mkdir()
    kept = {"type": "bridge", "supporting_facts": {"title": ["Ada Moor"], "sent_id": [1]}}
    rows = [{"id": "dev_0", "question": "Where?", "golden_answers": ["Skagen", "Skaw"], "metadata": kept}]
    example = only(read_examples(lines(tmp_path / "musique" / "dev.jsonl", rows)))
    assert (example.answers, example.type, example.dataset) == (("Skagen", "Skaw"), "bridge", "musique")
    assert (example.supporting_titles, example.supporting_facts) == (("Ada Moor",), (("Ada Moor", 1),))


def beir_folder(folder: Path, judged: str) -> Path:
    (folder / "qrels").mkdir(parents=True)
    lines(folder / "queries.jsonl", [{"_id": f"q{n}", "text": f"Question {n}?", "metadata": {}} for n in range(3)])
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged, encoding="utf-8")
    return folder


def test_beir(tmp_path: Path) -> None:
    folder = beir_folder(tmp_path / "scifact", "q1\td7\t1\nq1\td8\t0\nq1\td9\t2\nq2\td1\t1\n")
    data = read_examples(folder)
    assert (data.form, data.name, data.has_answers) == ("beir", "scifact", False)
    assert [(e.id, e.supporting_ids) for e in data.examples] == [("q1", ("d7", "d9")), ("q2", ("d1",))]
    assert read_examples(folder / "queries.jsonl") == read_examples(folder / "qrels" / "test.tsv") == data


@pytest.mark.parametrize(
    ("judged", "words"),
    [("q9\td1\t1\n", "not in queries.jsonl"), ("q1\td1\t--1\n", "Line 2 of test.tsv"), ("q1\td1\n", "2 fields, not 3")],
)
def test_beir_files_that_do_not_fit(tmp_path: Path, judged: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_examples(beir_folder(tmp_path / "bad", judged))


def test_a_folder_without_queries_is_no_data_set(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"queries\.jsonl"):
        read_examples(tmp_path)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([OWN, {**OWN, "question": "Other?"}], r"Line 2 of bad.jsonl has the id 'a1' of an earlier .*Line 1"),
        ([OWN, {**OWN, "id": "a2", "answers": []}], "Line 2 of bad.jsonl has no answer"),
        ([OWN, {**OWN, "id": "a2", "answers": [" "]}], "Line 2 of bad.jsonl has no answer"),
        ([OWN, HOTPOT], "Line 2 of bad.jsonl is in the form of hotpotqa, while"),
        ([OWN, {**OWN, "id": "a2", "question": " "}], "Line 2 of bad.jsonl holds no question"),
        ([OWN, {**OWN, "id": "a2", "hops": "two"}], '"hops" is no whole number'),
        ([OWN, {**OWN, "id": "a2", "answers": [["Skagen"]]}], '"answers" is no list of texts'),
        ([HOTPOT, {**HOTPOT, "_id": "b", "supporting_facts": [["Ada"]]}], "form of hotpotqa"),
        ([HOTPOT, {**HOTPOT, "_id": "b", "supporting_facts": [["Ada", "1"]]}], "numbers of sentences"),
        ([HOTPOT, {"id": "b", "question": "Who?"}], "Line 2 of bad.jsonl has no answer"),
        ([MUSIQUE, {**MUSIQUE, "id": "m", "paragraphs": ["x"]}], "no JSON object"),
        ([{**STRATEGY, "answer": "perhaps"}], "neither true nor false"),
        ([{"utterance": "who?", "targetValue": "Ada"}], "no list of descriptions"),
        ([{**QALD, "question": [{"language": "de", "string": "Wo?"}]}], "no question in English"),
        ([OWN, 7], "Line 2 of bad.jsonl holds no question"),
        ([], "holds no questions"),
    ],
)
def test_rows_that_break_the_form_are_refused_by_name(tmp_path: Path, rows: list[Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_examples(lines(tmp_path / "bad.jsonl", rows))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (json.dumps(OWN).encode() + b'\n{"id": \n', r"Line 2 of bad\.json"),
        (b'{"Version": "1", "Questions": [\n' + json.dumps(WEBQSP).encode() + b",\n{]}", "Line 3 of"),
        (b'{"Version": "1", "Questions": [\n' + json.dumps(WEBQSP).encode(), "is no JSON"),
        (b'{"Version": "1", "Questions": [\n' + json.dumps(WEBQSP).encode() + b"], 7}", "is no JSON"),
        (b'{"Version": "1", "Questions": ["\xff"]}', "no UTF-8"),
        (b"one field\n", "1 field and no known names"),
        (b'question,answer\n"open,x\n', "no row of a table"),
        (b"a\tb\nc\n", "Line 2 of"),
        (b"\x00\x01\x02" * 50, "binary"),
        (gzip.compress(json.dumps(OWN).encode() * 9, mtime=0)[:-9], "damaged|cannot be read"),
    ],
)
def test_broken_files_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "bad.json").write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_examples(tmp_path / "bad.json")


def test_a_file_without_any_answers_can_still_be_asked(tmp_path: Path) -> None:
    data = read_examples(whole(tmp_path / "test.json", [{**HOTPOT, "answer": "", "supporting_facts": []}]))
    assert not data.has_answers and only(data).supporting_facts is None


def test_a_form_can_be_told_and_must_exist(tmp_path: Path) -> None:
    path = lines(tmp_path / "dev.jsonl", [HOTPOT])
    assert read_examples(path, form="own").form == "own"
    with pytest.raises(InputError, match="form of popqa"):
        read_examples(lines(tmp_path / "pop.jsonl", [{**OWN, "possible_answers": 7}]), form="popqa")
    with pytest.raises(ConfigError, match="Did you mean hotpotqa"):
        read_examples(path, form="hotpot")
    with pytest.raises(ConfigError, match="takes no aliases"):
        read_examples(path, aliases=lines(tmp_path / "id_aliases.json", ALIASES))
    with pytest.raises(ConfigError, match="limit of 0"):
        read_examples(path, limit=0)
    with pytest.raises(InputError, match="There is no"):
        read_examples(tmp_path / "none.jsonl")


def many(tmp_path: Path, count: int = 40) -> Path:
    rows = [{**OWN, "id": f"q{number}"} for number in range(count)]
    return lines(tmp_path / "many.jsonl", rows)


def test_the_digest_stands_for_the_whole_file_however_it_is_spelled(tmp_path: Path) -> None:
    path = many(tmp_path)
    data = read_examples(path)
    assert read_examples(path, limit=3).digest == data.digest == digest_of(data.examples)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert read_examples(whole(tmp_path / "same.json", rows)).digest == data.digest
    rows[7]["answers"].append("Other")
    assert read_examples(whole(tmp_path / "other.json", rows)).digest != data.digest


def test_examples_are_chosen_by_limit_ids_and_seed(tmp_path: Path) -> None:
    path = many(tmp_path)
    assert [e.id for e in read_examples(path, limit=2).examples] == ["q0", "q1"]
    assert [e.id for e in read_examples(path, ids=["q7", "q3", "q5"], limit=2).examples] == ["q7", "q3"]
    write_ids(tmp_path / "ids.txt", ["q9", "q2"])
    assert [e.id for e in read_examples(path, ids=tmp_path / "ids.txt").examples] == ["q9", "q2"]
    drawn = [e.id for e in read_examples(path, limit=5, seed=3).examples]
    expected = sorted((f"q{n}" for n in range(40)), key=lambda key: hashlib.sha256(f"3:{key}".encode()).digest())
    assert drawn == expected[:5]
    for ids, words in ((["q99"], "is not in made"), (["q1", "q1"], "twice")):
        with pytest.raises(InputError, match=words):
            read_examples(path, ids=ids)


def test_a_sample_depends_on_ids_and_seed_alone(tmp_path: Path) -> None:
    examples = read_examples(many(tmp_path)).examples
    assert sample(examples, 10, 1) == sample(examples[::-1], 10, 1) == sample(examples, 20, 1)[:10]
    assert sample(examples, 10, 1) != sample(examples, 10, 2)
    with pytest.raises(InputError, match="cannot be drawn"):
        sample(examples, 41)


def test_halves(tmp_path: Path) -> None:
    examples = read_examples(many(tmp_path)).examples
    first, second = half(examples, "first"), half(examples, "second")
    assert len(first) + len(second) == 40 and not {e.id for e in first} & {e.id for e in second}
    assert all(hashlib.sha256(e.id.encode()).digest()[0] % 2 == 1 for e in second)
    assert half_of(first[0].id) == "first"
    with pytest.raises(ConfigError, match="first or second"):
        half(examples, "third")


@given(ids=st.lists(st.text(min_size=1).filter(lambda key: not _halved(key)), min_size=1, unique=True))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_recorded_ids_come_back(tmp_path: Path, ids: list[str]) -> None:
    write_ids(tmp_path / "ids.txt", ids)
    assert read_ids(tmp_path / "ids.txt") == tuple(ids)


def _halved(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


@pytest.mark.parametrize("content", ["", "a\na\n", '"open\n', "\n"])
def test_broken_lists_of_ids_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "ids.txt").write_text(content, encoding="utf-8")
    with pytest.raises(InputError):
        read_ids(tmp_path / "ids.txt")
    with pytest.raises(InputError):
        read_ids(tmp_path / "none.txt")
    with pytest.raises(InputError):
        write_ids(tmp_path / "none" / "ids.txt", ["a"])


class Shelf:
    """A retriever that finds the same passages whatever it is asked."""

    kind = identity = "shelf"
    remote = False

    def __init__(self, *texts: str) -> None:
        self.passages = tuple(Passage(str(n), "Title", text) for n, text in enumerate(texts))
        self.asked: list[int] = []

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        self.asked.append(k)
        return self.passages[:k]

    async def aclose(self) -> None:
        return None


def test_answers_that_no_document_says_are_filtered_out() -> None:
    examples = (
        Example("a", "Where?", ("Skagen", "The Skaw", "Ska", "…", "title skagens")),
        Example("b", "Who?", ("Nobody", "No one")),
    )
    data = DataSet(examples, digest_of(examples), "triviaqa", "triviaqa")
    shelf = Shelf("She lives at the skaw.", "It is called SKAGEN!")
    filtered = asyncio.run(filter_answers(data, shelf))
    assert [e.answers for e in filtered.data.examples] == [("Skagen", "The Skaw"), ("Nobody", "No one")]
    assert (filtered.left_out, filtered.untouched, shelf.asked) == (3, ("b",), [1000, 1000])
    assert filtered.data.digest == digest_of(filtered.data.examples) != data.digest


SOUND: dict[str, dict[str, Any]] = {
    "own": OWN,
    "hotpotqa": HOTPOT,
    "2wikimultihopqa": TWO_WIKI,
    "musique": MUSIQUE,
    "advhotpotqa": ADVERSARIAL,
    "strategyqa": STRATEGY,
    "iirc": IIRC,
    "triviaqa": TRIVIA,
    "webqsp": WEBQSP,
    "qald10": QALD,
    "popqa": dict(zip(POPQA_NAMES, POPQA, strict=True)),
    "nq": {"question": "who", "answer": ["Ada"]},
    "webquestions": {"utterance": "who", "targetValue": '(list (description "Ada"))'},
    "bamboogle": {"Question": "Who?", "Answer": "Ada"},
    "flashrag": {"id": "1", "question": "who", "golden_answers": ["Ada"], "metadata": {}},
    "beir": {"_id": "1", "text": "who", "metadata": {}},
    "simplequestions": {"subject": "Q1", "relation": "P1", "object": "Q2", "question": "who"},
}


@pytest.mark.parametrize("form", FORMS)
def test_a_sound_row_is_told_by_itself(tmp_path: Path, form: str) -> None:
    assert read_examples(lines(tmp_path / "x.jsonl", [SOUND[form]])).form == form


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
anything = st.recursive(
    plain | st.sampled_from(['["a"', "['a', \"b\\'\"]", "[[[", '{"a"', "(list (description", "\ud83d"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.parametrize("form", FORMS)
@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_row_with_anything_in_it_is_read_or_refused(tmp_path: Path, form: str, data: st.DataObject) -> None:
    row = json.loads(json.dumps(SOUND[form]))
    _spoil(row, data)
    path = lines(tmp_path / "spoiled.jsonl", [row])
    for told in (form, "auto"):
        found = read_or_refused(path, told)
        for example in found.examples if found else ():
            assert example.id and example.question and all(answer.strip() for answer in example.answers)
            json.dumps(dataclasses.asdict(example), ensure_ascii=False).encode()


def read_or_refused(path: Path, form: str = "auto") -> DataSet | None:
    """The set, or None where an error of the right kind names the file; any other error is raised."""
    try:
        return read_examples(path, form=form)
    except InputError as error:
        if path.name not in error.cause:
            raise AssertionError("the file is not named") from error
        return None


def _spoil(value: Any, data: st.DataObject) -> None:
    """Put anything in one place of a row, however deep."""
    while True:
        places = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not places:
            return
        place = data.draw(st.sampled_from(places))
        inner = value[place]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            value[place] = data.draw(anything)
            return
        value = inner


@given(content=st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_read_or_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "any.json").write_bytes(content)
    found = read_or_refused(tmp_path / "any.json")
    assert found is None or found.examples


SHARED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"


@pytest.mark.skipif(not SHARED.is_dir(), reason="the folder of data is not there")
def test_all_files_of_the_data_folder_are_read() -> None:
    paths = sorted(SHARED.glob("*/dev*.jsonl"))
    assert paths
    for path in paths:
        data = read_examples(path)
        count = sum(1 for line in path.read_bytes().split(b"\n") if line.strip())
        assert (data.form, len(data.examples), data.left_out) == ("own", count, ()), path
        assert all(example.answers for example in data.examples), path
