"""A sound row of every form of questions, and how to write them to files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from hoptree.evaluation.datasets.examples import DataSet, Example

__all__ = [
    "ADVERSARIAL",
    "ALIASES",
    "CONTEXT",
    "HOTPOT",
    "IIRC",
    "MUSIQUE",
    "NQ_ANNOTATED",
    "OWN",
    "POPQA",
    "POPQA_NAMES",
    "QALD",
    "QALD_YES",
    "SOUND",
    "STRATEGY",
    "TRIVIA",
    "TWO_WIKI",
    "WEBQSP",
    "WEBQSP_EMPTY",
    "lines",
    "only",
    "whole",
]

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
NQ_ANNOTATED: dict[str, Any] = {
    "example_id": 7,
    "question_text": "where was ada moor born",
    "document_url": "https://en.wikipedia.org//w/index.php?title=Ada_Moor&amp;oldid=1",
    "document_text": "<P> Ada Moor was born in Skagen . </P> <P> She made films . </P>",
    "long_answer_candidates": [
        {"start_token": 0, "end_token": 9, "top_level": True},
        {"start_token": 9, "end_token": 15, "top_level": True},
    ],
    "annotations": [
        {
            "long_answer": {"start_token": 0, "end_token": 9, "candidate_index": 0},
            "short_answers": [{"start_token": 6, "end_token": 7}],
            "yes_no_answer": "NONE",
        },
        {"long_answer": {"start_token": -1, "end_token": -1}, "short_answers": [], "yes_no_answer": "NONE"},
    ],
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
    "nq_annotated": NQ_ANNOTATED,
    "nq": {"question": "who", "answer": ["Ada"]},
    "webquestions": {"utterance": "who", "targetValue": '(list (description "Ada"))'},
    "bamboogle": {"Question": "Who?", "Answer": "Ada"},
    "flashrag": {"id": "1", "question": "who", "golden_answers": ["Ada"], "metadata": {}},
    "beir": {"_id": "1", "text": "who", "metadata": {}},
    "simplequestions": {"subject": "Q1", "relation": "P1", "object": "Q2", "question": "who"},
}


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
