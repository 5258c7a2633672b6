"""Runs of methods that guess hypotheses: written by hand, event by event, and a world for TreeQA to make one in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.evaluation.report_runs import HOSTILE

from hoptree.core.values import Usage
from hoptree.evaluation.metrics import score_answer
from hoptree.evaluation.run_folder import RESULTS, RUN, TRACES, Row

__all__ = ["Asked", "checked", "llm", "looked_up", "made_by_hand", "moon_world", "planned"]

Event = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """A question with its outcome and the events of its trace, but for those every trace has."""

    id: str
    answer: str
    answers: Sequence[str] = ("Rome",)
    titles: Sequence[str] = ()
    gold: Sequence[str] = ()
    question: str = "What is asked?"
    error: str = ""
    stopped_by: str = ""
    events: Sequence[Event] = field(default_factory=list)

    def row(self) -> Row:
        tokens = [event for event in self.events if event["event"] == "llm"]
        usage = Usage(
            llm_calls=len(tokens),
            prompt_tokens=sum(event["prompt_tokens"] for event in tokens),
            completion_tokens=sum(event["completion_tokens"] for event in tokens),
        )
        return Row(
            self.id,
            self.question,
            tuple(self.answers),
            self.answer,
            error=self.error,
            stopped_by=self.stopped_by,
            scores=score_answer(self.answer, self.answers),
            usage=usage.as_dict(),
            gold=tuple(self.gold),
            gold_titles=tuple(self.titles),
            trace=f"t-{self.id}",
        )


def planned(*nodes: tuple[int, str, str], under: int | None = None) -> Event:
    """Nodes as number, question and hypothesis; under a node, they take the place of what hung there."""
    told: list[Event] = [
        {"id": n, "question": q, "parent": 0 if n else None, "refs": [], "hypothesis": h} for n, q, h in nodes
    ]
    return {"event": "plan", "nodes": told, "issues": []} | ({} if under is None else {"under": under, "rebuilt": True})


def checked(number: int, question: str, hypothesis: str, *verdicts: str, **more: Any) -> Event:
    """A node as TreeQA records it; `shown` are the passages, and `facts_shown` the facts, of every attempt."""
    shown, facts = more.pop("shown", []), more.pop("facts_shown", [])
    attempts = [
        {"query": f"query {n}", "verdict": one, "reason": "", "passages": shown, "facts": facts}
        for n, one in enumerate(verdicts)
    ]
    base = {"event": "node", "id": number, "state": "answered", "question": question, "resolved": question}
    told = {"hypothesis": hypothesis, "answer": hypothesis, "source": "external", "verdict": verdicts[-1]}
    struck = more.get("struck", [])
    rest = {"path": [0, number], "attempts": attempts, "clues": [one["query"] for one in attempts[1:]]}
    return {**base, **told, **rest, "rebuilt": bool(struck), "evidence": [], **more}


def llm(step: str, tokens: int, seconds: float = 1.0, node: int | None = None) -> Event:
    counts = {"prompt_tokens": tokens - 1, "completion_tokens": 1, "cached_tokens": 0, "reasoning_tokens": 0}
    about = {"event": "llm", "step": step, "cached": False, "cost": 0.0, "issued": 0.0, "seconds": seconds}
    return {**about, **counts} | ({} if node is None else {"node": node})


def looked_up(*passages: tuple[str, str, str], seconds: float = 0.5, node: int | None = 1) -> Event:
    """A search for a node, or for the question itself, that found these passages: id, title and text."""
    found = [{"id": name, "title": title, "text": text, "score": 1.0} for name, title, text in passages]
    about = {"event": "retrieve", "query": "q", "kind": "bm25", "k": 5, "cached": False, "issued": 0.0}
    return {**about, "seconds": seconds, "passages": found} | ({} if node is None else {"node": node})


def made_by_hand(folder: Path, asked: Iterable[Asked], *, name: str = "tree", questions: str = "same") -> Path:
    """The folder of a run with these outcomes."""
    some = list(asked)
    out = folder / name
    out.mkdir(parents=True)
    about = {
        "format": 1,
        "id": f"id-{name}",
        "name": f"{name} on hand",
        "questions": [one.id for one in some],
        "rests_on": {"data": "d", "questions": questions, "method": "treeqa", "options": {}},
        "experiment": {"data": "hand.jsonl"},
    }
    (out / RUN).write_text(json.dumps(about), encoding="utf-8")
    (out / RESULTS).write_text("".join(json.dumps(asdict(one.row())) + "\n" for one in some), encoding="utf-8")
    lines = []
    for one in some:
        start = {"event": "start", "question": one.question, "method": "treeqa"}
        end = {"event": "final", "answer": one.answer, "support": []}
        for t, event in enumerate((start, *one.events, end)):
            lines.append(json.dumps({"run": f"t-{one.id}", "t": float(t), **event}) + "\n")
    (out / TRACES).write_text("".join(lines), encoding="utf-8")
    return out


MOON = "Who was the President of the United States when humans made their third landing on the moon?"
LANDING = "When was the third manned moon landing of the Apollo program?"
OLD = "Who was the President of the United States in December 1968?"
NEW = "Who was the President of the United States on February 5, 1971?"
JAVA = "On which island is the Indonesian capital located?"
JAKARTA = "On which island is Jakarta?"
TRIPLES = (
    ("Apollo program", "third crewed lunar landing", "Apollo 14"),
    ("Apollo 14", "date of lunar landing", f"5 February 1971 {HOSTILE}"),
    ("United States", "head of government in 1971", "Richard Nixon"),
    ("Jakarta", "located in/on physical feature", "Java"),
)
PASSAGES = (
    ("p1", "Apollo program", f"The third landing of the Apollo program was that of Apollo 14. {HOSTILE}"),
    ("p2", "Richard Nixon", "Richard Nixon was the President of the United States from 1969."),
    ("p3", "Jakarta", "Jakarta is on the northwest coast of Java."),
)
QUESTIONS = (
    {"id": "moon", "question": MOON, "answers": ["Richard Nixon"], "supporting_titles": ["Apollo program"]},
    {"id": "java", "question": JAVA, "answers": ["Java"], "supporting_titles": ["Jakarta", "Indonesia"]},
    {"id": "none", "question": "What fails?", "answers": ["Nothing"], "supporting_titles": ["Failure"]},
)


def _node(question: str, hypothesis: str, *children: Any) -> dict[str, Any]:
    return {"sub_question": question, "hypothesis_answer": hypothesis, "children": list(children)}


def _says(is_true: object, *refs: str, reason: str = "None", correct: str = "") -> str:
    said = {"isTrue": is_true, "fact_sufficient": is_true != "unknown", "reason": reason, "ref": list(refs)}
    return json.dumps(said | ({"correct_answer": correct} if correct else {}))


def _replies() -> list[dict[str, Any]]:
    wrong = f"In December 1968, by Apollo 8. {HOSTILE}"
    moon = {
        "logic_tree": {"children": [_node(LANDING, wrong, _node(OLD, "Lyndon Johnson"))]},
        "answer": "Lyndon Johnson",
    }
    java = {"logic_tree": {"children": [_node(JAKARTA, "Java")]}, "answer": "Sumatra"}
    rebuilt = _node(LANDING, "On February 5, 1971, by Apollo 14.", _node(NEW, "Richard Nixon"))
    why = f"It was that of Apollo 14. {HOSTILE}"
    return [
        {"step": "build", "contains": MOON, "reply": json.dumps(moon)},
        {"step": "build", "contains": JAVA, "reply": json.dumps(java)},
        {"step": "build", "contains": "What fails?", "fault": "401"},
        {
            "step": "validate",
            "contains": f"Question: {LANDING}",
            "reply": _says(False, "T1", "F1", reason=why, correct="1971"),
        },
        {
            "step": "validate",
            "contains": f"Question: {NEW}",
            "reply": [_says("unknown"), _says(True, "T1", "F1", "T9")],
        },
        {"step": "validate", "contains": f"Question: {JAKARTA}", "reply": _says("unknown")},
        {"step": "clue", "contains": NEW, "reply": '{"new_clue": "Richard Nixon"}'},
        {"step": "clue", "reply": f'{{"new_clue": "Jakarta Java {HOSTILE[:20]}"}}'},
        {"step": "rebuild", "reply": json.dumps(rebuilt)},
        {"step": "final", "contains": MOON, "reply": "Richard Nixon"},
        {"step": "final", "reply": "The island of Java"},
        {"reply": "[1][2][3]"},
    ]


def moon_world(folder: Path) -> dict[str, Path]:
    """Questions, corpus, triples and a scripted model as files, by what they are."""
    triples = [dict(zip("spo", one, strict=True)) for one in TRIPLES]
    passages = [dict(zip(("id", "title", "text"), one, strict=True)) for one in PASSAGES]
    files: dict[str, Iterable[dict[str, Any]]] = {"questions": QUESTIONS, "corpus": passages, "triples": triples}
    found = {}
    for name, rows in files.items():
        found[name] = folder / f"{name}.jsonl"
        found[name].write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found["model"] = folder / "model.json"
    found["model"].write_text(json.dumps({"replies": _replies()}), encoding="utf-8")
    return found
