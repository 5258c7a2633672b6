"""What scripted models say about the sample: a plan that compares, a guess that is refuted, a text in doubt."""

from __future__ import annotations

import json
from typing import Any

__all__ = [
    "CITY",
    "EARLIER",
    "EVIL",
    "FILMS",
    "GUESSED",
    "HURT",
    "WRITTEN",
    "dead",
    "doubting",
    "failing",
    "fickle",
    "films",
    "hostile",
    "thoughtful",
]

FILMS = "Which film has the director who was born later, Black Girl or Touki Bouki?"
EARLIER = "Which film is earlier, Black Girl or Touki Bouki?"
GUESSED = "In which city was the director of the film Touki Bouki born?"
WRITTEN = "In which city did the director of the film The Hourglass Sanatorium die?"
CITY = "Łódź"
EVIL = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"> javascript:alert(1)"
HURT = f"What does the lighthouse say? {EVIL}"

Script = dict[str, Any]


def _rule(step: str, reply: str | list[str], **more: Any) -> dict[str, Any]:
    return {"step": step, "reply": reply, **more}


def films(latency: float = 0.15) -> Script:
    """TAIKC: two branches of two steps each; one director is known, everything else is looked up."""
    plan = {
        "query1": {
            "question": "Who directed the film Black Girl?",
            "children": {"query2": {"question": "When was #query1 born?"}},
        },
        "query3": {
            "question": "Who directed the film Touki Bouki?",
            "children": {"query4": {"question": "When was #query3 born?"}},
        },
    }
    return {
        "latency": latency,
        "replies": [
            _rule("decompose", json.dumps(plan)),
            _rule("confident", "Ousmane Sembène", contains="Who directed the film Black Girl?"),
            _rule("confident", "RAG_REQUIRED"),
            _rule("read", "Djibril Diop Mambéty", contains="Who directed the film Touki Bouki?"),
            _rule("read", "1923", contains="When was Ousmane Sembène born?"),
            _rule("read", "1945", contains="When was Djibril Diop Mambéty born?"),
            _rule("summarise", "Black Girl was directed by Ousmane Sembène, who was born in 1923.", contains="Sembène"),
            _rule("summarise", "Touki Bouki was directed by Djibril Diop Mambéty, who was born in 1945."),
            _rule("final", "Touki Bouki"),
            _rule("rewrite", EARLIER),
            {"reply": "Touki Bouki"},
        ],
    }


def thoughtful(latency: float = 0.15) -> Script:
    """TreeQA: the director is guessed wrongly, refuted by a passage, and the branch is rebuilt with the right one."""
    director = "Who directed the film Touki Bouki?"

    def node(question: str, guess: str, *children: dict[str, Any]) -> dict[str, Any]:
        return {"sub_question": question, "hypothesis_answer": guess, "children": list(children)}

    tree = node(director, "Ousmane Sembène", node("In which city was Ousmane Sembène born?", "Ziguinchor"))
    right = node(director, "Djibril Diop Mambéty", node("Near which city was Djibril Diop Mambéty born?", "Dakar"))
    judged = {"fact_sufficient": True, "ref": {"wikipedia": ["T1"], "Wikidata": []}}
    refuted = judged | {
        "isTrue": False,
        "reason": "The text says that Touki Bouki was directed by Djibril Diop Mambéty.",
        "correct_answer": "Djibril Diop Mambéty",
    }
    built = {"input_question": GUESSED, "logic_tree": {"children": [tree]}, "answer": "Ziguinchor"}
    return {
        "latency": latency,
        "replies": [
            _rule("build", json.dumps(built)),
            _rule("validate", json.dumps(refuted), contains="Answer to check: Ousmane Sembène"),
            _rule("validate", json.dumps(judged | {"isTrue": True, "reason": "None"})),
            _rule("rebuild", json.dumps(right)),
            _rule("reason", json.dumps({"reason": refuted["reason"], "correct_answer": "Djibril Diop Mambéty"})),
            _rule("clue", '{"new_clue": "Djibril Diop Mambéty"}'),
            _rule("mentions", "[]"),
            _rule("final", "Dakar"),
            {"reply": "Dakar"},
        ],
    }


def doubting(latency: float = 0.1) -> Script:
    """MIND: two sentences are in doubt, looked up and written again; the last one is sure."""
    film, director = "The Hourglass Sanatorium", "Wojciech Jerzy Has"
    drafts = [
        f"{film} was directed by Andrzej Wajda.",
        f"The director {director} died in Warsaw.",
        f"So the answer is: {CITY}.",
    ]
    written = [f"{film} was directed by {director}.", f"The director {director} died in {CITY}."]
    facts = [f"{film} | director | {director}", f"{director} | place of death | {CITY}"]
    doubts = [0.1, 0.1, 0.1, 0.3, 0.1, 0.1, 1.2, 2.9, 0.1]  # of the eighth word, in both sentences
    return {
        "latency": latency,
        "replies": [
            _rule("extract", json.dumps({"entities": [film], "relations": ["director", "city of death"]})),
            _rule("restate", "", entropy=1.0, attention=0.2),
            _rule("filter", "[4]", contains=f"In doubt now: {drafts[1]}"),
            _rule("filter", "[1]"),
            _rule("facts", facts[1], contains=CITY, logprob=-0.05),
            _rule("facts", facts[0], logprob=-0.05),
            _rule("final", CITY),
            _rule("draft", drafts, entropy=doubts, attention=0.2),
            _rule("rewrite", written, entropy=0.1, attention=0.2),
            {"reply": CITY},
        ],
    }


def fickle(latency: float = 0.05) -> Script:
    """A model that answers at once, and otherwise than the others."""
    return {"latency": latency, "replies": [{"reply": "Black Girl"}]}


def hostile(latency: float = 0.02) -> Script:
    """A model whose every word is markup."""
    plan = {"query1": {"question": f"Who wrote this? {EVIL}"}}
    return {
        "latency": latency,
        "replies": [
            _rule("decompose", json.dumps(plan)),
            _rule("confident", "RAG_REQUIRED"),
            _rule("read", EVIL),
            _rule("summarise", f"A chain. {EVIL}"),
            _rule("final", EVIL),
            {"reply": EVIL},
        ],
    }


def dead() -> Script:
    """A model whose every call fails."""
    return {"replies": [{"fault": "broken"}]}


def failing() -> Script:
    """A model that makes the films' plan, and then fails."""
    return {"replies": [films()["replies"][0], {"fault": "broken"}]}
