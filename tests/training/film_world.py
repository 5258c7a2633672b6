"""A small world of films for tests of training sets: passages, questions, and a model that can answer some of them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from hoptree.engine.engine import Engine
from hoptree.models.model import Message, Reply, Request
from hoptree.models.scripted import ScriptedModel
from hoptree.retrieval.indexing import build_index
from hoptree.training.build import build
from hoptree.training.formats import Kind, SetSpec

__all__ = ["PLAN", "QUESTIONS", "REPLIES", "Recording", "built", "lines", "make_world", "sent_by", "turns"]

PLAN = {
    "query1": {
        "question": "Who is the director of the film Alpha?",
        "children": {"query2": {"question": "When was #query1 born?"}},
    }
}
QUESTIONS: list[dict[str, Any]] = [
    {
        "id": "q0",
        "question": "When was the director of film Alpha born?",
        "answers": ["1913"],
        "supporting_ids": ["alpha", "land"],
        "supporting_titles": ["Alpha", "Kurt Land"],
        "evidence_triples": [["Alpha", "director", "Kurt Land"], ["Kurt Land", "date of birth", "1913"]],
    },
    {
        "id": "q1",
        "question": "When was the director of film Beta born?",
        "answers": ["1920"],
        "supporting_ids": ["beta", "lost"],
        "supporting_titles": ["Beta", "Ida Chase"],
        "evidence_triples": [["Beta", "director", "Ida Chase"], ["Ida Chase", "date of birth", "1920"]],
    },
]
PASSAGES = [
    {"id": "alpha", "title": "Alpha", "text": "Alpha is a film of 1950 by Kurt Land, made in Peru."},
    {"id": "beta", "title": "Beta", "text": "Beta is a film of 1960 by its director Ida Chase."},
    {"id": "land", "title": "Kurt Land", "text": "Kurt Land came into the world in 1913."},
    {"id": "echo", "title": "Echo", "text": "Echo is a film director who was born to be seen."},
    {"id": "fox", "title": "Fox", "text": "Fox is the director of a film, born when nobody looked."},
]
REPLIES = [
    {"step": "decompose", "contains": "Alpha", "reply": json.dumps(PLAN)},
    {"step": "decompose", "reply": json.dumps(PLAN).replace("Alpha", "Beta")},
    {"step": "confident", "contains": "Kurt Land", "reply": "RAG_REQUIRED"},
    {"step": "confident", "contains": "film Alpha?", "reply": "RAG_REQUIRED"},
    {"step": "confident", "contains": "film Beta?", "reply": "Ida Chase"},
    {"step": "confident", "reply": "1900"},
    {"step": "read", "contains": "film Alpha?", "reply": "Kurt Land"},
    {"step": "read", "reply": " 1913\n"},
    {"step": "direct", "contains": "film Alpha", "reply": "1913"},
    {"step": "direct", "reply": "1900"},
    {"step": "summarise", "reply": "Alpha is by Kurt Land, who was born in 1913."},
    {"step": "final", "contains": "Alpha", "reply": "1913."},
    {"step": "final", "reply": "1900"},
]


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def make_world(folder: Path, replies: list[dict[str, Any]] | None = None) -> Path:
    """Questions, a model and an index in a folder."""
    lines(folder / "train.jsonl", [row | {"dataset": "films", "source_split": "train"} for row in QUESTIONS])
    (folder / "m.json").write_text(json.dumps({"replies": replies or REPLIES}), encoding="utf-8")
    build_index(lines(folder / "corpus.jsonl", PASSAGES), folder / "idx")
    return folder


def built(here: Path, kind: Kind, **more: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What is told of a set, and its rows."""
    given: dict[str, Any] = {"model": f"scripted/{here / 'm.json'}", "cache": None, "corpus": str(here / "idx")}
    out = here / "out.jsonl"
    told = asyncio.run(build(SetSpec(kind, (here / "train.jsonl",), out, **(given | more))))
    return told, [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


class Recording(ScriptedModel):
    """Keeps what the method asked, by its steps."""

    asked: dict[str, list[tuple[Message, ...]]]

    async def generate(self, request: Request, *, step: str) -> Reply:
        self.asked.setdefault(step.rpartition("/")[2], []).append(request.messages)
        return await super().generate(request, step=step)


def sent_by(here: Path, question: str, **options: Any) -> dict[str, list[list[dict[str, str]]]]:
    """All that TAIKC sends on the way to an answer, by its steps."""

    async def ask() -> Recording:
        model = Recording(str(here / "m.json"))
        model.asked = {}
        async with Engine(method="taikc", model=model, corpus=here / "idx", options=options, cache=None) as engine:
            await engine.ask(question)
        return model

    asked = asyncio.run(ask()).asked
    return {step: [turns(messages) for messages in requests] for step, requests in asked.items()}


def turns(messages: tuple[Message, ...]) -> list[dict[str, str]]:
    return [{"role": turn.role, "content": turn.content} for turn in messages]
