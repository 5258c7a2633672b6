"""A world for any method: a model that says what a test wants, a corpus and a graph that fit on a page."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.methods.small_knowledge import Pages, SmallGraph
from tests.traced import as_dicts

from hoptree.core.errors import EndpointError
from hoptree.core.values import Fact, Passage
from hoptree.engine.context import Budget
from hoptree.engine.engine import Engine
from hoptree.engine.events import Event
from hoptree.engine.result import Result
from hoptree.models.model import Capability, Reply, Request
from hoptree.models.scripted import Rule, ScriptedModel

__all__ = ["ASKED", "BAD", "FOUND", "TRIPLES", "Library", "Say", "Voice", "World", "always", "by_chance"]

ASKED = "In which city was the director of the film Whiplash born?"
FOUND = (
    Passage("Whiplash", "Whiplash", "Whiplash is a film of 2014. It was directed by Damien Chazelle."),
    Passage("Chazelle", "Damien Chazelle", "Damien Chazelle is a director. He was born in the city of Providence."),
    Passage("Providence", "Providence", "Providence is the capital city of Rhode Island."),
    Passage("Island", "Rhode Island", "Rhode Island is the smallest state of the United States."),
)
TRIPLES = (
    ("Whiplash", "directed by", "Damien Chazelle"),
    ("Damien Chazelle", "born in", "Providence"),
    ("Providence", "capital of", "Rhode Island"),
)
BAD = {
    "empty": "",
    "white space": " \n\t  \r\n ",
    "garbage": "\x00\ufffd)(*&^%$ {{{]] >><< ;;--== ÿþ \u202e ''' \\",
    "half of JSON": '{"query1": {"question": "Who directed Whipl',
    "JSON of another kind": '[null, 3, {"answer": {"answer": []}}, "x"]',
    "deep JSON": "[" * 1_500,
    "very long": "and then some more words of no use " * 80,
    "one long line": "x" * 3_000,
    "refusal": "I'm sorry, but I can't assist with that request.",
    "wrong language": "Das weiß ich leider nicht. 答案是巴黎。 Ответ неизвестен.",
    "tags in wrong order": "</answer>x<answer></search><search></think><information></information><think>",
    "open tag": "<search>Who directed Whiplash",
    "brackets": "[COMPLETE][INCOMPLETE][Retrieval][No Retrieval][Irrelevant][Utility:9][No support / Contradictory]",
    "turns of its own": "<|im_end|>\n<|im_start|>user\nQuestion: Why?\n<|im_start|>assistant\nBecause.",
    "the whole dialogue": "Follow up: Who is it?\nIntermediate answer: A man.\n" * 40 + "So the final answer is: 1.",
    "a loop": "He was born in the city. " * 40,
    "only the lead": "So the answer is",
    "numbers": "99999999999999999999 -1 1e999 NaN 0/0 [0] [77]",
}
"""Replies that no step asks for."""
_CHAINS = (
    "So the answer is: Providence.",
    "Whiplash was directed by Damien Chazelle.",
    "Whiplash was directed by Damien Chazelle. He was born in Providence. So the answer is: Providence.",
    "First, Whiplash was directed by Damien Chazelle. Second, he was born in Boston. The answer is {Boston}.",
)
_TREE = (
    '{"logic_tree": {"children": [{"sub_question": "Who directed Whiplash?", "hypothesis_answer": "Damien Chazelle", '
    '"children": [{"sub_question": "Where was Damien Chazelle born?", "hypothesis_answer": "Paris"}]}]}, '
    '"answer": "Paris"}',
)
_YES_NO = ("Yes", "No")
_NUMBERS = ("[1]", "[2][1]", "None")
_SCORES = ("[1] {directed by (Score: 0.8)}\n[2] {born in (Score: 0.2)}", "[2] {Providence (Score: 1)}", "None")
SUITED: dict[str, tuple[str, ...]] = {
    "act": ("He directed it. <search>director of Whiplash</search>", "<answer>Providence</answer>"),
    "build": _TREE,
    "cite": ("Answer: Providence\nCitation: He was born in the city of Providence.", "Insufficient information"),
    "clue": ('{"new_clue": "Chazelle"}',),
    "compress": (
        "Summary: Damien Chazelle directed Whiplash.\nEvaluation: [COMPLETE] All is there.",
        "Summary: Whiplash is a film.\nEvaluation: [INCOMPLETE] Where he was born is missing.",
    ),
    "conclude": ("Providence.", "Boston"),
    "confident": ("RAG_REQUIRED", "Damien Chazelle"),
    "decompose": (
        "1. Who directed Whiplash?\n2. Where was that person born?",
        '{"query1": {"question": "Who directed Whiplash?", "children": {"query2": "Where was #query1 born?"}}}',
    ),
    "deduce": (
        "Thought 1: Who directed Whiplash?\nAnswer 1: Damien Chazelle",
        "Thought 2: Where was Damien Chazelle born?\nAnswer 2: Paris",
        "FINISH[Providence]",
    ),
    "draft": _CHAINS,
    "enough": ("Enough: No\nAnswer: unknown\nClue: his place of birth", "Enough: Yes\nAnswer: Providence\nClue: none"),
    "entities": _NUMBERS,
    "extract": ('{"entities": ["Whiplash"], "relations": ["director"]}',),
    "facts": ("Whiplash | director | Damien Chazelle\nDamien Chazelle | place of birth | Providence",),
    "filter": _NUMBERS,
    "follow_up": (
        "Yes.\nFollow up: Who directed Whiplash?",
        "Follow up: Where was Damien Chazelle born?",
        "So the final answer is: Providence.",
    ),
    "sub_query": ("Who directed Whiplash?", "Question: where was Damien Chazelle born", "I do not know."),
    "domains": ("factual", "medical, factual"),
    "know": _YES_NO,
    "mentions": ('["Whiplash", "Damien Chazelle"]', "[]"),
    "need": _YES_NO,
    "query": ("SELECT ?x WHERE { wd:/Whiplash/ wdt:/directed by/ ?x }",),
    "rebuild": _TREE,
    "recognise": _NUMBERS,
    "relations": _NUMBERS,
    "relevance": ("relevant", "irrelevant"),
    "relevant": _YES_NO,
    "revise": ('{"answer": "Providence", "citation": "He was born in the city of Providence."}',),
    "rewrite": _CHAINS,
    "route": ("A", "B", "C", "Direct", "Plan", "Reason", "Retrieval"),
    "sample": _CHAINS,
    "score_entities": _SCORES,
    "score_relations": _SCORES,
    "supported": ("Fully", "Partially", "None"),
    "think": _CHAINS,
    "useful": ("5", "2"),
    "validate": (
        '{"isTrue": true, "fact_sufficient": true, "reason": "None", "ref": ["T1"]}',
        '{"isTrue": false, "fact_sufficient": true, "reason": "No.", "correct_answer": "Providence", "ref": ["T1"]}',
        '{"isTrue": "unknown", "fact_sufficient": false, "reason": "None", "ref": []}',
    ),
    "verify": _YES_NO,
}
"""Replies that a step of this name asks for, so that a method gets far; a step without any gets those of others."""
_ANYWHERE = (
    "",
    "Providence",
    "Damien Chazelle",
    "RAG_REQUIRED",
    "NOT FOUND",
    "Unknown",
    "[Retrieval]",
    "[Relevant] Providence [Fully supported] [Utility:5]",
    "I do not know.",
)
LIKELY = (*_ANYWHERE, *dict.fromkeys(reply for replies in SUITED.values() for reply in replies))


class Library(Pages):
    """The passages, which can also be searched for by what they state."""

    signals = frozenset(("facts", "synonyms"))

    async def facts_near(self, query: str, *, k: int) -> tuple[Fact, ...]:
        ids = [passage.id for passage in self.passages]
        return tuple(Fact(*triple, passage_id=place) for triple, place in zip(TRIPLES, ids, strict=False))[:k]

    def guided(self, facts: Sequence[Fact]) -> Library:
        places = {fact.passage_id for fact in facts}
        return Library(*(passage for passage in self.passages if not places or passage.id in places))


Say = Callable[[str, random.Random], str]
"""What is said in a step; chance is the same for the same request."""


def always(reply: str) -> Say:
    return lambda step, chance: reply


def by_chance(step: str, chance: random.Random) -> str:
    """Mostly what the step asks for, else what any step does."""
    suited = SUITED.get(step.rpartition("/")[2], _ANYWHERE[:6])
    return chance.choice(suited if chance.random() < 0.7 else LIKELY)


class Voice:
    """A model that tells all that a model can tell, but for what it `lacks`; the same for the same request.

    It fails from its call number `fails` on, and says nothing for ever in call number `stalls`. With `unsteady`, one
    reply takes longer than another.
    """

    name = identity = endpoint = "voice"
    slots = 1024
    ALL: frozenset[Capability] = frozenset(
        ("logprobs", "entropy", "attention", "hidden_states", "prefix", "n_samples", "json_schema", "top_p", "top_k")
    )

    def __init__(
        self,
        say: Say,
        *,
        lacks: frozenset[str] = frozenset(),
        fails: int = 0,
        stalls: int = 0,
        unsteady: bool = False,
        most: int = 1_500,
    ) -> None:
        self.capabilities = frozenset(capability for capability in self.ALL if capability not in lacks)
        self.requests: list[tuple[str, Request]] = []
        self.stalled = asyncio.Event()
        self._say, self._fails, self._stalls, self._unsteady, self._most = say, fails, stalls, unsteady, most

    async def generate(self, request: Request, *, step: str) -> Reply:
        self.requests.append((step, request))
        number = len(self.requests)
        assert number <= self._most, "the method does not come to an end"
        if self._fails and number >= self._fails:
            raise EndpointError("The endpoint is gone.", "Start it again.", status=401)
        if number == self._stalls:
            self.stalled.set()
            await asyncio.Event().wait()
        key = f"{step}|{request.messages[-1].content}|{request.prefix}|{request.seed}"
        chance = random.Random(hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest())
        if self._unsteady:
            for _ in range(len(self.requests) * 7 % 5):
                await asyncio.sleep(0)
        replies = [await self._reply(step, request, chance) for _ in range(min(request.n, 3))]
        choices = tuple(replies[number % len(replies)].choices[0] for number in range(request.n))
        return Reply(choices, replies[0].usage)

    async def _reply(self, step: str, request: Request, chance: random.Random) -> Reply:
        inside = [[chance.random() * most for _ in range(7)] for most in (3.0, 1.0, 1.0)]
        rule = Rule(
            self._say(step, chance),
            logprob=[-number for number in inside[0]],
            entropy=inside[0],
            attention=inside[1],
            attended={"director": 0.5, "film": 0.3},
            hidden=inside[2],
        )
        return await ScriptedModel(rules=[rule]).generate(replace(request, n=1), step=step)

    async def aclose(self) -> None:
        return None


@dataclass(slots=True)
class World:
    """A method with all that it may need; `corpus` and `graph` may be taken away."""

    method: str
    voice: Voice
    options: Mapping[str, Any] = field(default_factory=dict)
    budget: Budget | None = None
    corpus: Any = field(default_factory=lambda: Library(*FOUND))
    graph: Any = field(default_factory=lambda: SmallGraph(*TRIPLES))
    events: list[Event] = field(default_factory=list)

    def engine(self) -> Engine:
        return Engine(
            method=self.method,
            model=self.voice,
            corpus=self.corpus,
            graph=self.graph,
            options=self.options,
            budget=self.budget,
            cache=None,
            listeners=(self.events.append,),
        )

    def ask(self, question: str = ASKED) -> Result:
        async def asked() -> Result:
            async with self.engine() as engine:
                return await engine.ask(question)

        return asyncio.run(asked())

    def of(self, kind: str) -> list[dict[str, Any]]:
        return as_dicts(event for event in self.events if event.event == kind)
