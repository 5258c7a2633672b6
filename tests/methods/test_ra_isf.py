"""RA-ISF with a scripted model: every branch and option, the bound on its calls, its memory, and its robust form."""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from rich.console import Console
from tests.methods.asked import Asked, Shelf

from hoptree.cli.render import GrowingTree, draw_svg, show_result
from hoptree.engine import Engine
from hoptree.errors import ConfigError, CorpusError, EndpointError
from hoptree.models.scripted import Rule, ScriptedModel
from hoptree.runtime.budget import Budget
from hoptree.runtime.result import Result, TreeNode
from hoptree.values import Passage

ROOT = "Who is the mother of the director of the film Whiplash?"
FIRST, SECOND = "Who directed the film Whiplash?", "Who is the mother of Damien Chazelle?"
SPLIT = f"1. {FIRST}\n2. {SECOND}"
FOUND = (
    Passage("p1", "Whiplash", "Whiplash was directed by Damien Chazelle.", 2.5),
    Passage("p2", "Damien Chazelle", "Damien Chazelle is a son of Celia Martin.", 2.0),
    Passage("p3", "Guy Chazelle", "An unrelated text about swimming.", 1.0),
)


def listed(*questions: str) -> str:
    return "\n".join(f"{number}. {question}" for number, question in enumerate(questions, 1))


def rules(
    *first: Rule,
    know: str | list[str] = "No",
    relevance: str | list[str] = "irrelevance",
    decompose: str | list[str] = SPLIT,
    direct: str | list[str] = "direct answer",
    read: str | list[str] = "read answer",
    combine: str | list[str] = "combined answer",
    logprob: float = -0.01,
) -> list[Rule]:
    """A rule a step, after those that come first."""
    return [
        *first,
        Rule(know, step="know"),
        Rule(relevance, step="relevance"),
        Rule(decompose, step="decompose"),
        Rule(direct, step="direct", logprob=logprob),
        Rule(read, step="read", logprob=logprob),
        Rule(combine, step="combine", logprob=logprob),
    ]


def knows(question: str) -> Rule:
    return Rule("Yes", step="know", contains=f"Question: {question}")


class Run(Asked):
    """One question asked of RA-ISF."""

    def __init__(
        self,
        script: list[Rule],
        *,
        question: str = ROOT,
        shelf: Shelf | None = None,
        budget: Budget | None = None,
        latency: float = 0.0,
        roles: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        shelf = Shelf(*FOUND) if shelf is None else shelf
        super().__init__(
            "ra_isf", script, question, shelf, budget=budget, latency=latency, roles=roles, options=options
        )

    def texts(self, step: str) -> list[str]:
        return [text for said, text in self.model.requests if said == f"ra_isf/{step}"]

    @property
    def root(self) -> TreeNode:
        (root,) = self.result.tree
        return root


# Self-knowledge


def test_what_is_known_is_answered_without_looking_it_up() -> None:
    run = Run(rules(know="Yes"))
    assert (run.result.answer, run.steps, run.shelf.asked) == ("direct answer", ["know", "direct"], [])
    assert (run.root.id, run.root.source, run.root.children) == (0, "internal", [])
    node = run.node(0)
    assert (node["branch"], node["know"], node["know_raw"], node["depth"]) == ("self-knowledge", True, "Yes", 0)
    assert "relevance" not in node and "passages" not in node


def test_an_answer_given_with_the_yes_is_not_asked_for_again() -> None:
    run = Run(rules(know="Yes. The answer is Celia Martin."))
    assert (run.result.answer, run.steps) == ("Celia Martin", ["know"])
    assert run.root.source == "internal"


def test_a_yes_in_other_words_is_asked_for_its_answer() -> None:
    run = Run(rules(know="Yes, I am familiar with this topic.", direct="Celia Martin"))
    assert (run.result.answer, run.steps) == ("Celia Martin", ["know", "direct"])


def test_where_yes_or_no_is_asked_for_the_yes_is_in_the_answer() -> None:
    run = Run(rules(know="Yes, they are both Polish."), question="Are Has and Polanski both Polish?")
    assert (run.result.answer, run.steps) == ("Yes", ["know"])
    assert run.of("final")[0]["raw"] == "Yes, they are both Polish"


@pytest.mark.parametrize("reply", ["No", "unknow", "Perhaps", ""])
def test_everything_but_a_yes_leads_to_passages(reply: str) -> None:
    run = Run(rules(know=reply, relevance="relevance"))
    assert run.shelf.asked == [(ROOT, 5)]
    assert run.of("decision", kind="know", value=False)


# Passages


def test_only_the_relevant_passages_are_read() -> None:
    run = Run(rules(Rule("relevance", step="relevance", contains="Celia"), read="Celia Martin"))
    (read,) = run.texts("read")
    assert "Celia Martin" in read and "directed" not in read and "swimming" not in read
    assert (run.result.answer, run.root.source, run.root.evidence) == ("Celia Martin", "external", ("p2",))
    node = run.node(0)
    assert node["relevance"] == [["p1", False], ["p2", True], ["p3", False]]
    assert (node["branch"], node["sub_questions"], node["unknown"]) == ("passages", 0, False)
    assert [name for name, _ in node["passages"]] == ["p1", "p2", "p3"]
    assert Counter(run.steps) == {"know": 1, "relevance": 3, "read": 1}


def test_irrelevance_is_not_relevance() -> None:
    run = Run(rules(relevance="irrelevance"), no_decomposition=True)
    assert "read" not in run.steps and run.node(0)["relevance"] == [["p1", False], ["p2", False], ["p3", False]]


def test_listwise_judges_all_passages_in_one_call() -> None:
    run = Run(rules(relevance="Relevant paragraphs: [1], [2]\nNot relevant: [3]"), relevance="listwise")
    assert Counter(run.steps) == {"know": 1, "relevance": 1, "read": 1}
    assert "[1] Whiplash was" in run.texts("relevance")[0] and "[3] An" in run.texts("relevance")[0]
    assert "swimming" not in run.texts("read")[0]
    assert run.of("decision", kind="relevance")[0]["how"] == "listwise"


def test_a_search_that_finds_nothing_leads_to_sub_questions() -> None:
    run = Run(rules(knows(FIRST), knows(SECOND)), shelf=Shelf())
    assert "relevance" not in run.steps and run.root.why.startswith("nothing was found")
    assert run.result.answer == "combined answer"


def test_a_reader_that_finds_nothing_ends_it_as_in_the_paper() -> None:
    run = Run(rules(relevance="relevance", read="The passages do not mention the answer."))
    assert (run.result.answer, run.result.abstained, "decompose" in run.steps) == ("", True, False)
    assert (run.node(0)["branch"], run.node(0)["unknown"]) == ("passages", True)


def test_with_fallthrough_it_goes_on_to_sub_questions() -> None:
    script = rules(knows(FIRST), knows(SECOND), relevance="relevance", read="The passages do not mention the answer.")
    run = Run(script, fallthrough=True)
    assert run.result.answer == "combined answer"
    assert "without the answer" in run.root.why
    assert run.result.fidelity == "approx"


@pytest.mark.parametrize("k", [1, 2])
def test_as_many_passages_are_asked_for_as_k_says(k: int) -> None:
    run = Run(rules(relevance="relevance"), k=k)
    assert run.shelf.asked == [(ROOT, k)] and run.steps.count("relevance") == k


@pytest.mark.parametrize(("options", "shown"), [({"titles": True}, True), ({}, False), ({"robust": True}, True)])
def test_titles_are_shown_when_asked_for(options: dict[str, Any], shown: bool) -> None:
    """To those who judge and to those who read, and by `robust` in any case."""
    run = Run(rules(relevance="relevance"), **options)
    for step in ("relevance", "read"):
        assert ("Damien Chazelle: Damien" in "".join(run.texts(step))) is shown, step


# Sub-questions


def test_what_neither_knows_is_split_and_combined() -> None:
    script = rules(
        knows(FIRST),
        Rule("relevance", step="relevance", regex=f"(?s)Celia.*{re.escape(SECOND)}"),
        direct="Damien Chazelle",
        read="Celia Martin",
    )
    run = Run(script)
    assert run.result.answer == "combined answer"
    first, second = run.root.children
    assert [(one.id, one.question, one.answer, one.source) for one in (run.root, first, second)] == [
        (0, ROOT, "combined answer", "synthesis"),
        (1, FIRST, "Damien Chazelle", "internal"),
        (2, SECOND, "Celia Martin", "external"),
    ]
    assert run.root.why == "0 of 3 passages relevant; 2 sub-questions, 0 unknown"
    (combine,) = run.texts("combine")
    assert f"1. {FIRST}\nDamien Chazelle\n2. {SECOND}\nCelia Martin" in combine and f"Question: {ROOT}" in combine
    assert (run.node(0)["branch"], run.node(0)["sub_questions"]) == ("sub-questions", 2)
    assert [run.node(n)["depth"] for n in (0, 1, 2)] == [0, 1, 1]


def test_unknown_sub_answers_are_marked_as_such() -> None:
    run = Run(rules(knows(FIRST)), depth=1, depth_rule="prune")
    assert f"2. {SECOND}\n[unknown]" in run.texts("combine")[0]
    assert run.root.why.endswith("2 sub-questions, 1 unknown")
    assert (run.root.children[1].state, run.root.children[1].answer) == ("unanswered", "")


def test_a_combination_that_says_unknown_is_no_answer() -> None:
    run = Run(rules(knows(FIRST), knows(SECOND), combine="unknown"))
    assert (run.result.answer, run.result.abstained) == ("", True)


@pytest.mark.parametrize("reply", ["", "I cannot split this.", "1. One step"])
def test_what_cannot_be_split_is_unknown(reply: str) -> None:
    run = Run(rules(decompose=reply))
    assert (run.result.answer, run.root.children, run.steps.count("combine")) == ("", [], 0)
    assert run.root.why.endswith("no new sub-question")


def test_more_than_four_sub_questions_are_not_asked() -> None:
    run = Run(
        rules(know="Yes", decompose=listed(*(f"Who is number {n}?" for n in range(6)))), no_self_knowledge=True, depth=1
    )
    assert [node.question for node in run.root.children] == [f"Who is number {n}?" for n in range(4)]
    assert run.of("decision", kind="split", node=0)[0]["beyond"] == ["Who is number 4?", "Who is number 5?"]


def test_a_sub_question_that_was_asked_on_the_way_down_is_cut() -> None:
    """The paper's code would go round for ever; here neither the parent nor any other ancestor comes again."""
    script = rules(
        Rule(listed("Who is B?"), step="decompose", contains="Question: Who is A?"),
        Rule(listed("who is  A", "Who is B", "Who is C?"), step="decompose", contains="Question: Who is B?"),
        knows("Who is C?"),
    )
    run = Run(script, question="Who is A?", depth=9)
    (b,) = run.root.children
    assert [node.question for node in b.children] == ["Who is C?"]
    assert run.of("decision", kind="split", node=1)[0]["loops"] == ["who is A", "Who is B"]


def test_a_question_that_only_leads_back_to_itself_is_unknown() -> None:
    run = Run(rules(decompose=listed(ROOT.upper())))
    assert (run.result.answer, run.root.children) == ("", [])


def deeper(depth: int) -> list[Rule]:
    """A script under which nothing is ever known, and every question has one new sub-question."""
    asked = [
        Rule(listed(f"Who is number {n + 1}?"), step="decompose", contains=f"number {n}?") for n in range(depth + 3)
    ]
    return rules(*asked, combine="unknown")


def levels(node: TreeNode) -> int:
    return 1 + max((levels(child) for child in node.children), default=-1)


@pytest.mark.parametrize("depth", [0, 1, 2, 3, 5])
def test_depth_counts_levels_from_0_to_the_threshold(depth: int) -> None:
    """Algorithm 1 asks at levels 0 to D_th, and splits the last of them into what is unknown without being asked."""
    run = Run(deeper(depth), question="Who is number 0?", depth=depth)
    assert Counter(run.steps) == {
        "know": depth + 1,
        "relevance": 3 * (depth + 1),
        "decompose": depth + 1,
        "combine": depth + 1,
    }
    assert levels(run.root) == depth + 1
    last = run.of("node", depth=depth + 1)[0]
    assert (last["why"], last["spent"]["calls"]) == (f"deeper than {depth}", 0)


@pytest.mark.parametrize("depth", [0, 1, 2, 3, 5])
def test_prune_does_not_split_at_the_threshold(depth: int) -> None:
    run = Run(deeper(depth), question="Who is number 0?", depth=depth, depth_rule="prune")
    calls = Counter(run.steps)
    assert (calls["know"], calls["decompose"], calls["combine"]) == (depth + 1, depth, depth)
    assert levels(run.root) == depth


# Options


def test_without_self_knowledge_nobody_is_asked_whether_it_is_known() -> None:
    run = Run(rules(know="Yes", relevance="relevance"), no_self_knowledge=True)
    assert run.steps == ["relevance"] * 3 + ["read"]


def test_without_relevance_nothing_is_looked_up() -> None:
    run = Run(rules(knows(FIRST), knows(SECOND)), no_relevance=True)
    assert (run.shelf.asked, run.steps[:2]) == ([], ["know", "decompose"])
    assert run.result.answer == "combined answer" and run.result.fidelity == "exact"


def test_without_relevance_no_corpus_is_needed() -> None:
    async def ask() -> Result:
        model = ScriptedModel(rules=rules(know="Yes"))
        async with Engine(method="ra_isf", model=model, cache=None, options={"no_relevance": True}) as engine:
            return await engine.ask(ROOT)

    assert asyncio.run(ask()).answer == "direct answer"


def test_with_relevance_it_does_not_start_without_a_corpus() -> None:
    async def ask() -> Result:
        async with Engine(method="ra_isf", model=ScriptedModel(rules=rules()), cache=None) as engine:
            return await engine.ask(ROOT)

    assert isinstance(asyncio.run(ask()).failure, CorpusError)


def test_unfiltered_reads_all_passages() -> None:
    run = Run(rules(), unfiltered=True)
    assert run.steps == ["know", "read"] and "swimming" in run.texts("read")[0]
    assert run.result.fidelity == "approx"


def test_without_decomposition_it_is_unknown_where_no_passage_is_relevant() -> None:
    run = Run(rules(), no_decomposition=True)
    assert (run.result.answer, Counter(run.steps)) == ("", {"know": 1, "relevance": 3})


@pytest.mark.parametrize("options", [{"no_relevance": True, "unfiltered": True}, {"k": 0}])
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    failure = Run(rules(), **options).result.failure
    assert isinstance(failure, ConfigError) and failure.exit_code == 2


def test_linked_siblings_see_the_answers_before_them() -> None:
    second = "Who is the mother of that director?"
    script = rules(knows(FIRST), direct="Damien Chazelle", decompose=listed(FIRST, second))
    run = Run(script, link_siblings=True, depth=1, depth_rule="prune")
    linked = f"{second} ({FIRST} Damien Chazelle)"
    assert run.shelf.asked[-1][0] == linked
    assert (run.root.children[1].question, run.root.children[1].resolved) == (second, linked)
    assert f"2. {second}\n" in run.texts("combine")[0], "the context is for asking, not for combining"


def test_linked_siblings_are_asked_one_after_another() -> None:
    run = Run(rules(knows(FIRST), knows(SECOND)), link_siblings=True)
    states = [(event["id"], event["state"]) for event in run.of("node")]
    assert states == [(0, "asking"), (1, "asking"), (1, "answered"), (2, "asking"), (2, "answered"), (0, "answered")]


def test_siblings_that_are_not_linked_are_asked_at_once() -> None:
    run = Run(rules(knows(FIRST), knows(SECOND)))
    assert [(event["id"], event["state"]) for event in run.of("node")][:3] == [
        (0, "asking"),
        (1, "asking"),
        (2, "asking"),
    ]


def test_relevance_judgements_are_made_at_once() -> None:
    run = Run(rules(relevance="relevance"), latency=0.01)
    judged = [event["issued"] for event in run.of("llm", step="relevance")]
    first_end = run.of("llm", step="relevance")[0]["t"]
    assert len(judged) == 3 and max(judged) < first_end


def test_each_role_may_be_a_model_of_its_own() -> None:
    know = ScriptedModel(rules=[knows(FIRST), knows(SECOND), Rule("No")])
    relevance, split = ScriptedModel(rules=[Rule("irrelevance")]), ScriptedModel(rules=[Rule(listed(FIRST, SECOND))])
    run = Run(
        [Rule("an answer", step="direct"), Rule("all in all", step="combine")],
        roles={"know": know, "relevance": relevance, "decompose": split},
    )
    assert run.result.answer == "all in all"
    assert (len(know.requests), len(relevance.requests), len(split.requests)) == (3, 3, 1)
    assert Counter(event["role"] for event in run.of("llm")) == {"know": 3, "relevance": 3, "decompose": 1, "answer": 3}


# Memory


def test_a_question_asked_twice_at_the_same_time_is_computed_once() -> None:
    script = rules(
        Rule(listed("Who is A?", "Who is B?"), step="decompose", contains=ROOT),
        Rule(listed("Who is C?"), step="decompose", contains="Question: Who is A?"),
        Rule(listed("who is c"), step="decompose", contains="Question: Who is B?"),
        Rule("No", step="know", contains=ROOT),
        Rule("No", step="know", regex="Who is [AB]"),
        Rule("Yes", step="know", contains="C", latency=0.02),
    )
    run = Run(script)
    asked = [text for text in run.texts("know") if "who is c" in text.casefold()]
    assert len(asked) == 1 and run.steps.count("direct") == 1
    a, b = run.root.children
    assert [node.children[0].answer for node in (a, b)] == ["direct answer"] * 2, "and both have the answer"
    assert {run.node(11)["looked_by"], run.node(21)["looked_by"]} == {11}
    assert run.node(21)["know_raw"] == "Yes", "what was said of it is told of both"
    assert run.node(21)["spent"]["calls"] == 0


def test_a_question_that_comes_again_at_another_depth_is_not_asked_again() -> None:
    """And it comes to the same: what it is split into is asked again at its own depth, by memory alone."""
    script = rules(
        Rule(listed("Who is A?", "Who is B?"), step="decompose", contains=ROOT),
        Rule(listed("Who is B?"), step="decompose", contains="Question: Who is A?"),
        Rule(listed("Who is C?"), step="decompose", contains="Question: Who is B?"),
        knows("Who is C?"),
    )
    run = Run(script)
    asked = Counter(text for step, text in run.model.requests if "B?" in text.rpartition("Question:")[2])
    assert asked and max(asked.values()) == 1
    a, b = run.root.children
    assert (a.children[0].question, a.children[0].answer) == (b.question, b.answer)


def test_branches_that_lead_into_each_other_do_not_wait_for_ever() -> None:
    script = rules(
        Rule(listed("Who is A?", "Who is B?"), step="decompose", contains=ROOT),
        Rule(listed("Who is B?"), step="decompose", contains="Question: Who is A?"),
        Rule(listed("Who is A?"), step="decompose", contains="Question: Who is B?"),
    )
    run = Run(script, budget=Budget(seconds=5))
    assert run.result.stopped_by == ""
    assert run.steps.count("decompose") == 3


TANGLE = rules(
    Rule(listed("Who is A?", "Who is B?", "Who is C?"), step="decompose", contains=ROOT),
    Rule(listed("Who is B?", "Who is D?"), step="decompose", contains="Question: Who is A?"),
    Rule(listed("Who is D?", "Who is C?"), step="decompose", contains="Question: Who is B?"),
    Rule(listed("Who is E?", "Who is A?"), step="decompose", contains="Question: Who is C?"),
    Rule(listed("Who is E?"), step="decompose", contains="Question: Who is D?"),
    Rule("Yes. The answer is Eve.", step="know", contains="Who is E?"),
)


@pytest.mark.parametrize("robust", [False, True])
def test_which_branch_is_faster_changes_nothing(robust: bool) -> None:
    """The same tree, answer and calls, whatever takes long."""
    outcomes = []
    for slow in ("", "A?", "B?", "C?", "D?"):
        late = [Rule("No", step="know", contains=f"Question: Who is {slow}", latency=0.02)] if slow else []
        run = Run([*late, *(Rule(rule.reply, rule.step, rule.contains) for rule in TANGLE)], robust=robust)
        outcomes.append((run.result.tree, run.result.answer, run.result.evidence, Counter(run.model.requests)))
    assert all(outcome == outcomes[0] for outcome in outcomes)
    assert max(outcomes[0][3].values()) == 1, "no request is ever made twice"


# Budget

WIDE = 4


class Worst(ScriptedModel):
    """Knows nothing, finds nothing relevant, and splits every question into four that were never asked."""

    def __init__(self, script: list[Rule] | None = None) -> None:
        super().__init__(rules=script or rules(combine="unknown"))

    async def generate(self, request: Any, *, step: str) -> Any:
        if step.endswith("decompose"):
            asked = request.messages[-1].content.split("Question: ")[1].splitlines()[0]
            name = asked.removeprefix("Who is ").removesuffix("?")
            self.rules.insert(0, Rule(listed(*(f"Who is {name}{n}?" for n in range(WIDE))), "decompose", f"is {name}?"))
        return await super().generate(request, step=step)


def worst_case(
    depth: int, budget: Budget | None = None, script: list[Rule] | None = None, **options: Any
) -> tuple[Result, int]:
    async def ask() -> tuple[Result, int]:
        model = Worst(script)
        async with Engine(
            method="ra_isf",
            model=model,
            corpus=Shelf(*FOUND),
            cache=None,
            budget=budget,
            options={"depth": depth} | options,
        ) as engine:
            return await engine.ask("Who is x?"), len(model.requests)

    return asyncio.run(ask())


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_the_worst_case_is_known(depth: int) -> None:
    """(b^(D+1) - 1) / (b - 1) questions of 3 + k calls each: with b = 4, D = 3 and k = 5 that is 680."""
    questions = (WIDE ** (depth + 1) - 1) // (WIDE - 1)
    result, calls = worst_case(depth)
    assert calls == result.usage.llm_calls == questions * (3 + len(FOUND))
    assert result.usage.retrievals == questions


@pytest.mark.parametrize(
    ("options", "calls"),
    [
        ({}, 3 + len(FOUND)),
        ({"relevance": "listwise"}, 4),
        ({"link_siblings": True}, 3 + len(FOUND)),
        # a reading that does not answer
        ({"fallthrough": True}, 4 + len(FOUND)),
        # memory, which does not end it, and two readings
        ({"robust": True}, 6 + len(FOUND)),
        ({"robust": True, "fallthrough": True}, 6 + len(FOUND)),
        ({"robust": True, "relevance": "listwise"}, 7),
    ],
)
def test_the_worst_case_of_each_form_is_known(options: dict[str, Any], calls: int) -> None:
    read, direct = "The passages do not mention the answer.", "I do not know."
    relevance = "[1][2]" if options.get("relevance") == "listwise" else "relevance"
    worst = 0
    for know, judged in (("No", "irrelevance"), ("No", relevance), ("Yes", relevance)):
        script = rules(know=know, relevance=judged, read=read, direct=direct, combine="unknown")
        worst = max(worst, worst_case(1, script=script, **options)[0].usage.llm_calls)
    assert worst == (1 + WIDE) * calls


@pytest.mark.parametrize("calls", [1, 7, 60])
def test_a_budget_bounds_the_worst_case_over_the_whole_recursion(calls: int) -> None:
    result, made = worst_case(3, Budget(calls=calls))
    assert made == result.usage.llm_calls == calls
    assert result.stopped_by == "calls"


def test_a_spent_budget_does_not_make_the_answer_to_a_part_the_answer() -> None:
    run = Run(rules(knows(FIRST), direct="Damien Chazelle"), budget=Budget(calls=8))
    assert run.root.children[0].answer == "Damien Chazelle"
    assert (run.result.stopped_by, run.result.answer, run.result.abstained) == ("calls", "", True)


def test_a_failing_model_fails_the_question_and_nothing_hangs() -> None:
    run = Run(rules(Rule(fault="401", step="know", contains=SECOND)))
    assert isinstance(run.result.failure, EndpointError)


# Robust


def robust(script: list[Rule], **given: Any) -> Run:
    return Run(script, robust=True, **given)


def test_robust_takes_memory_for_a_candidate_and_not_for_an_exit() -> None:
    """Passages that say it, and name all that the question names, outdo a memory that is just as sure."""
    run = robust(rules(know="Yes", relevance="relevance", direct="Jane", read="Damien Chazelle"), question=FIRST)
    assert (run.result.answer, run.root.source) == ("Damien Chazelle", "external")
    assert {"know", "direct", "relevance", "read"} == set(run.steps)
    assert "enough for an answer" in run.root.why


@pytest.mark.parametrize(("memory", "answer"), [(-0.01, "Jane"), (-2.0, "John Doe")])
def test_robust_weighs_memory_against_a_reading_that_stands_in_no_passage(memory: float, answer: str) -> None:
    script = [Rule("Jane", step="direct", logprob=memory), *rules(know="Yes", read="John Doe", logprob=-1.0)]
    assert robust(script, question=FIRST, no_decomposition=True).result.answer == answer


@pytest.mark.parametrize(("memory", "answer"), [(-0.01, "Jane"), (-2.0, "John Doe")])
def test_robust_weighs_a_memory_told_with_the_yes_alike(memory: float, answer: str) -> None:
    script = [Rule("Yes. Jane", step="know", logprob=memory), *rules(read="John Doe", logprob=-1.0)]
    run = robust(script, question=FIRST, no_decomposition=True)
    assert (run.result.answer, "direct" in run.steps) == (answer, False)


class Silent(ScriptedModel):
    """A model that does not tell how likely its tokens were, and refuses to be asked."""

    capabilities = frozenset()

    async def generate(self, request: Any, *, step: str) -> Any:
        assert not request.top_logprobs
        return await super().generate(request, step=step)


@pytest.mark.parametrize(("memory", "answer"), [(-0.01, "Jane"), (-2.0, "John Doe")])
def test_robust_asks_again_for_a_memory_that_comes_without_its_probability(memory: float, answer: str) -> None:
    """One that could not be weighed would never be taken."""
    script = [Rule("Jane", step="direct", logprob=memory), *rules(read="John Doe", logprob=-1.0)]
    roles = {"know": Silent(rules=[Rule("Yes. Jane")])}
    run = robust(script, question=FIRST, no_decomposition=True, roles=roles)
    assert (run.result.answer, "direct" in run.steps) == (answer, True)


def test_robust_does_not_weigh_where_the_model_that_answers_tells_no_probability() -> None:
    """Memory alone would have one: all are counted instead, and of equals the last is taken."""
    know = ScriptedModel(rules=[Rule("Yes. Jane")])
    answers = Silent(rules=rules(read="John Doe"))
    run = robust(rules(), question=FIRST, no_decomposition=True, roles={"know": know, "answer": answers})
    assert run.result.answer == "Jane"
    assert run.of("decision", kind="surest", when="remembered")[0]["confidence"] == [None, None]


def test_robust_splits_where_the_relevant_passages_do_not_name_all_that_is_asked_about() -> None:
    question = "Which studio paid for Whiplash after La La Land was refused?"
    script = rules(
        Rule("relevance", step="relevance", contains="Whiplash was"), read="Damien Chazelle", decompose=listed(FIRST)
    )
    run = robust(script, question=question, depth=1, depth_rule="prune")
    assert len(run.root.children) == 1 and "enough" not in run.root.why
    assert "enough for an answer" in run.root.children[0].why


def test_robust_carries_relevant_passages_down() -> None:
    class Two(Shelf):
        async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
            return FOUND[:1] if query == ROOT else FOUND[2:]

    question = ROOT
    script = rules(
        Rule("relevance", step="relevance", contains="directed by"),
        Rule("Nobody", step="read", contains=f"Question: {ROOT}"),
        Rule("Damien Chazelle", step="read", contains="directed by"),
        decompose=listed(FIRST),
    )
    run = robust(script, question=question, shelf=Two(), depth=1, depth_rule="prune")
    (child,) = run.root.children
    assert child.answer == "Damien Chazelle", "found by the question above it"
    assert "passage: Whiplash: Whiplash was directed" in run.texts("combine")[0]


def test_robust_reads_more_than_is_called_relevant_where_that_is_little() -> None:
    """What a second step needs is easily judged irrelevant to the first."""
    run = robust(rules(Rule("relevance", step="relevance", contains="directed by"), read="Damien Chazelle"))
    first, second = (said for step, said in run.model.requests if step == "ra_isf/read" and f"Question: {ROOT}" in said)
    assert all(passage.text in said for said in (first, second) for passage in FOUND)


def test_robust_compares_in_code_what_the_parts_found() -> None:
    """The model would have said Emma, and passages that name all of it do not keep the question from being split."""
    question = "Who was born later, Alan Turing or Jane Austen?"
    born = ("When was Alan Turing born?", "When was Jane Austen born?")
    shelf = Shelf(
        Passage("t", "Alan Turing", "Alan Turing was born on 23 June 1912."),
        Passage("a", "Jane Austen", "Jane Austen was born on 16 December 1775."),
    )
    script = rules(
        Rule("23 June 1912", step="read", contains=f"Question: {born[0]}"),
        Rule("16 December 1775", step="read", contains=f"Question: {born[1]}"),
        relevance="relevance",
        read="Jane Austen",
        decompose=listed(*born),
    )
    run = robust(script, question=question, shelf=shelf)
    assert (run.result.answer, run.root.source) == ("Alan Turing", "synthesis")
    assert "to be compared" in run.root.why and "combine" not in run.steps


def test_a_spent_budget_leaves_what_was_read_for_the_question_and_not_for_a_part_of_it() -> None:
    script = rules(
        Rule("Nobody", step="read", contains=f"Question: {ROOT}"),
        Rule("Damien Chazelle", step="read"),
        relevance="irrelevance",
        decompose=listed(FIRST, "Who is unknown to all of these passages?"),
    )
    whole = robust(script).result.usage.llm_calls
    run = robust(script, budget=Budget(calls=whole - 1))
    assert run.result.stopped_by == "calls"
    assert run.root.children[0].answer == "Damien Chazelle"
    assert run.result.answer == "Nobody"


def test_robust_takes_the_surer_of_what_was_read_and_what_was_combined() -> None:
    for logprob, answer in ((-0.5, "Bob"), (-3.0, "read answer")):
        script = [Rule("Bob", step="combine", logprob=logprob), *rules(knows(FIRST), knows(SECOND), logprob=-1.0)]
        run = robust(script)
        assert (run.result.answer, run.result.fidelity) == (answer, "approx")
        assert run.of("decision", kind="surest", when="combined")


def test_robust_without_relevance_looks_nothing_up() -> None:
    run = robust(rules(knows(FIRST), knows(SECOND)), no_relevance=True)
    assert run.shelf.asked == [] and run.result.answer == "combined answer"


# What is seen of it


def drawn(run: Run) -> str:
    console = Console(record=True, width=200, force_terminal=True, file=io.StringIO())
    show_result(console, run.result)
    return console.export_text()


def test_a_person_sees_at_each_node_which_module_answered_and_why() -> None:
    script = rules(
        knows(FIRST), Rule("relevance", step="relevance", regex=f"(?s)Celia.*{re.escape(SECOND)}"), read="Celia Martin"
    )
    run = Run(script)
    text = drawn(run)
    assert (
        f"{ROOT}  → combined answer  [from its sub-questions; says that it does not know; "
        "0 of 3 passages relevant; 2 sub-questions, 0 unknown]" in text
    )
    assert f"1. {FIRST}  → direct answer  [from the model's own knowledge; the model says that it knows]" in text
    assert (
        f"2. {SECOND}  → Celia Martin  [from documents: p2; says that it does not know; 1 of 3 passages relevant]"
        in text
    )
    assert text.count(ROOT) == 1, "the question is drawn once"
    assert "Celia&#160;Martin" in draw_svg([run.result])


def test_the_tree_is_told_in_lines_while_it_grows() -> None:
    run = Run(deeper(1), question="Who is number 0?", depth=1)
    console = Console(record=True, width=200, file=io.StringIO())
    with GrowingTree(console) as growing:
        for event in run.events:
            growing(event)
    lines = console.export_text().splitlines()
    assert "  0. Who is number 0?" in lines and "plan: 1 sub-question" in lines and "plan of 1: 1 sub-question" in lines
    assert "  11. → ? [none; deeper than 1]" in lines


def test_the_result_as_json_holds_the_reasons() -> None:
    data = json.loads(json.dumps(Run(rules(know="Yes")).result.as_dict()))
    assert data["tree"][0]["why"] == "the model says that it knows"


def test_a_node_knows_what_its_subtree_cost() -> None:
    run = Run(rules(knows(FIRST)), depth=1, depth_rule="prune")
    assert {n: run.node(n)["spent"]["calls"] for n in (0, 1, 2)} == {0: len(run.steps), 1: 2, 2: 4}
    assert run.node(0)["spent"]["retrievals"] == run.result.usage.retrievals == 2
    assert run.node(0)["spent"]["tokens"] == run.result.usage.prompt_tokens + run.result.usage.completion_tokens
