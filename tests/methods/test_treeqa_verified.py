"""What TreeQA beyond its paper takes for verified: what evidence says of what is asked about, as it is asked now."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.methods.small_knowledge import Pages, SmallGraph
from tests.methods.treeqa_asked import Run, node, rules, tree, verdict

from hoptree.core.values import Passage
from hoptree.engine.result import UNSUPPORTED
from hoptree.methods.treeqa.method import golden_tree
from hoptree.models.scripted import Rule

MADE = "Who made Film Alpha?"
BEHIND = "Who is behind Film Alpha?"
FILM = Passage("A", "Film Alpha", "Film Alpha is a film by Zed Quux.")
ZED = Passage("B", "Zed Quux", "Zed Quux was born in Rome.")
BOB = Passage("C", "Bob Ray", "Bob Ray was born in Milan.")
BAKER = Passage("E", "Bob Ray", "Bob Ray, who made bread, is a baker.")
MILAN = Passage("M", "Milan", "Milan is a city in Italy.")
GREECE = Passage("R", "Rome", "Rome is a city in Latium.")
UNKNOWN = verdict("unknown")
TRAVERSALS = pytest.mark.parametrize("traversal", ["serial", "level", "speculative"])


def says(question: str, reply: str) -> Rule:
    return Rule(reply, step="validate", contains=f"Question: {question}")


def read(*replies: str, logprob: float = -0.2) -> Rule:
    return Rule(list(replies), step="read", logprob=logprob)


def ask(question: str, *script: Rule, pages: tuple[Passage, ...], nodes: list[Any], **given: Any) -> Run:
    """A run over passages alone, in which nothing is known but what is told."""
    final = Rule(given.pop("final", "unknown"), step="final", logprob=-0.001)
    build = tree(*nodes, question=question, answer="")
    rest = rules(build=build, validate=UNKNOWN, clue="{}", rebuild="{}")
    further = [Rule("{}", step="conditions"), Rule("unknown", step="read")]
    return Run(
        [*script, final, *further, *rest],
        question=question,
        graph=SmallGraph(),
        pages=Pages(*pages),
        evidence="text",
        robust=True,
        **given,
    )


def decided(run: Run) -> list[str]:
    (last,) = [event for event in run.of("decision", kind="surest") if event["when"] == "final"]
    return [str(name) for name in last["named"]]


# What bears out a correction


BOB_MADE_IT = says(MADE, verdict(False, "T2", reason="It was Bob Ray.", correct="Bob Ray"))


@pytest.mark.parametrize("rebuilt", [node(MADE, "Bob Ray"), node(MADE, "Ann Bee"), node(MADE, "Tom Cruise"), {}])
@pytest.mark.parametrize("children", [[], [node("Where does Tom Cruise live?", "Ghent")]])
def test_a_correction_that_stands_beside_nothing_of_its_question_is_not_borne_out(
    rebuilt: dict[str, Any], children: list[Any]
) -> None:
    new = Rule(json.dumps(rebuilt), step="rebuild")
    nodes = [node(MADE, "Tom Cruise", *children)]
    run = ask(BEHIND, BOB_MADE_IT, new, read("Zed Quux"), pages=(FILM, BAKER), nodes=nodes, final="Bob Ray")
    assert run.result.answer == "Zed Quux" and "final" not in run.steps
    assert (run.tops[0].answer, run.tops[0].source) == ("Bob Ray", "internal")
    (told,) = golden_tree(run.result)["logic_tree"]["children"]
    assert told["verdict"] == "unknown" and "ref" not in told


def test_a_correction_that_stands_beside_a_name_of_its_question_is_borne_out() -> None:
    zed = says(MADE, verdict(False, "T1", reason="It was Zed Quux.", correct="Zed Quux"))
    run = ask(BEHIND, zed, read("Bob Ray", "Ann Bee"), pages=(FILM, BAKER), nodes=[node(MADE, "Tom")], final="Zed Quux")
    assert run.tops[0].source == "external" and run.result.answer == "Zed Quux"
    assert [one.id for one in run.result.evidence] == ["A"]


def test_a_tree_alone_does_not_overrule_readings_that_agree() -> None:
    right = says(MADE, verdict(True, "T1", correct="Zed Quux"))
    nodes = [node(MADE, "Zed Quux")]
    agreed = ask(BEHIND, right, read("Ann Bee", "Ann Bee", "unknown"), pages=(FILM,), nodes=nodes, final="Zed Quux")
    assert agreed.result.answer == "Ann Bee" and "the tree and what it cites" not in decided(agreed)
    apart = ask(BEHIND, right, read("Ann Bee", "Bob Ray", "unknown"), pages=(FILM,), nodes=nodes, final="Zed Quux")
    assert apart.result.answer == "Zed Quux" and "the tree and what it cites" in decided(apart)


# Questions that changed


BORN = "Where was the maker of Film Alpha born?"
WHERE_BOB, WHERE_ZED = "Where was Bob Ray born?", "Where was Zed Quux born?"
ZED_MADE_IT = says(MADE, verdict(False, "T1", reason="It is by Zed Quux.", correct="Zed Quux"))
BOB_IN_MILAN = says(WHERE_BOB, verdict(True, "T1", correct="Milan"))
BESIDE = [node(MADE, "Bob Ray"), node(WHERE_BOB, "Milan")]
BELOW = [node(MADE, "Bob Ray", node(WHERE_BOB, "Milan"))]


@TRAVERSALS
@pytest.mark.parametrize("nodes", [BESIDE, BELOW])
def test_an_answer_to_another_question_is_not_kept(nodes: list[Any], traversal: str) -> None:
    pages = (FILM, Passage("Z", "Zed Quux", "Zed Quux is a man."), BOB)
    run = ask(BORN, ZED_MADE_IT, BOB_IN_MILAN, pages=pages, nodes=nodes, final="Milan", traversal=traversal)
    last = (run.tops[0].children or run.tops[1:])[0]
    assert (last.resolved, last.answer, last.verdict, last.evidence) == (WHERE_ZED, "", "unknown", ())
    assert run.of("final")[0]["source"] == "fallback" and run.result.warnings
    assert run.node(0)["evidence"] == [], "Milan is told of somebody else"


@TRAVERSALS
@pytest.mark.parametrize("nodes", [BESIDE, BELOW])
def test_a_question_that_changed_is_answered_from_evidence(nodes: list[Any], traversal: str) -> None:
    said = says(WHERE_ZED, verdict("unknown", "T1", enough=True, correct="Rome"))
    script = (ZED_MADE_IT, BOB_IN_MILAN, said)
    run = ask(BORN, *script, pages=(FILM, ZED, BOB), nodes=nodes, final="Rome", traversal=traversal)
    last = (run.tops[0].children or run.tops[1:])[0]
    assert (last.resolved, last.answer, last.verdict, last.evidence) == (WHERE_ZED, "Rome", "supported", ("B",))
    assert run.result.answer == "Rome" and {one.id for one in run.result.evidence} == {"A", "B"}


@TRAVERSALS
@pytest.mark.parametrize("reply", [verdict("unknown", "T1", enough=True, correct="Rome"), UNKNOWN])
@pytest.mark.parametrize(
    "nodes",
    [
        [*BESIDE, node("Where is Milan?", "Italy")],
        [node(MADE, "Bob Ray", node(WHERE_BOB, "Milan", node("Where is Milan?", "Italy")))],
        [node(MADE, "Bob Ray"), node(WHERE_BOB, "Milan", node("Where is Milan?", "Italy"))],
    ],
    ids=["beside", "below", "below a sibling"],
)
def test_what_named_an_answer_that_is_gone_is_put_right_or_counts_for_nothing(
    nodes: list[Any], reply: str, traversal: str
) -> None:
    """Nothing is refuted where a question has no hypothesis any more; what rests on the old one must not stand."""
    italy = says("Where is Milan?", verdict(True, "T1", correct="Italy"))
    latium = says("Where is Rome?", verdict("unknown", "T1", enough=True, correct="Latium"))
    run = ask(
        "Where is the place where the maker of Film Alpha was born?",
        *(ZED_MADE_IT, BOB_IN_MILAN, says(WHERE_ZED, reply), italy, latium),
        pages=(FILM, ZED, BOB, MILAN, GREECE),
        nodes=nodes,
        final="Latium" if reply != UNKNOWN else "Italy",
        traversal=traversal,
    )
    cited = {one.id for one in run.result.evidence}
    if reply == UNKNOWN:
        assert run.of("final")[0]["source"] == "fallback" and not run.node(0)["evidence"]
    else:
        assert run.result.answer == "Latium" and {"A", "B", "R"} <= cited and not cited & {"C", "M"}


# The question as its own tree


ELDER = "Who was born first, Zed Quux or Bob Ray?"
NO_NODES = Rule("No tree.", step="build")


def test_an_echo_of_the_question_is_no_verified_tree() -> None:
    said = says(MADE, verdict("unknown", "T1", enough=True, correct="Zed Quux"))
    run = ask(MADE, NO_NODES, said, read("Ann Bee", "Bob Ray", "unknown"), pages=(FILM,), nodes=[], final="Zed Quux")
    assert run.tops[0].resolved == MADE and run.tops[0].answer == "Zed Quux"
    assert "final" not in run.steps and run.result.answer == "Ann Bee", "the tree tells nothing that was not asked"
    alone = ask(MADE, NO_NODES, said, pages=(FILM,), nodes=[], final="Zed Quux")
    assert alone.result.answer == "Zed Quux" and [one.id for one in alone.result.evidence] == ["A"]


@pytest.mark.parametrize("script", [[NO_NODES], []], ids=["echo", "node"])
def test_a_choice_is_not_supported_because_its_name_stands_in_a_text(script: list[Rule]) -> None:
    said = says(ELDER, verdict("unknown", "T1", enough=True, correct="Zed Quux"))
    nodes = [{"sub_question": ELDER}]
    run = ask(ELDER, *script, said, pages=(ZED, BOB), nodes=nodes, final="Zed Quux")
    assert (run.tops[0].answer, run.tops[0].verdict) == ("Zed Quux", "unknown")
    assert run.of("final")[0]["source"] == "fallback" and not run.result.evidence


def test_a_choice_out_of_a_tree_that_is_verified_in_part_is_a_guess() -> None:
    rome = says(WHERE_ZED, verdict(True, "T1", correct="Rome"))
    nodes = [node(WHERE_ZED, "Rome"), node(WHERE_BOB, "Oslo")]
    run = ask(ELDER, rome, pages=(ZED, BOB), nodes=nodes, final="Zed Quux")
    assert run.of("final")[0]["source"] == "fallback" and run.node(0)["evidence"] == []
    assert any("not all that it rests on" in warning for warning in run.result.warnings)


ZED_ROME = Passage("Z", "Zed Quux", "Zed Quux was born in Rome in 1920.")
BOB_MILAN = Passage("Y", "Bob Ray", "Bob Ray was born in Milan in 1950.")


@pytest.mark.parametrize("pages", [(ZED_ROME, BOB_MILAN), (BOB_MILAN,)], ids=["both pages", "one page"])
@pytest.mark.parametrize(("hypothesis", "is_true"), [("Bob Ray", True), ("Zed Quux", False)])
def test_a_choice_is_not_verified_by_the_models_word(
    pages: tuple[Passage, ...], hypothesis: str, is_true: bool
) -> None:
    said = says(ELDER, verdict(is_true, "T1", reason="He is older.", correct="Bob Ray"))
    run = ask(ELDER, said, pages=pages, nodes=[node(ELDER, hypothesis)], final="Bob Ray")
    assert (run.tops[0].answer, run.tops[0].source) == ("Bob Ray", "internal")
    assert run.of("final")[0]["source"] == "fallback" and run.result.warnings


def test_a_choice_that_a_model_calls_true_does_not_outvote_what_is_read() -> None:
    where = "In which city was the elder of Zed Quux and Bob Ray born?"
    script = [says(ELDER, verdict(True, "T1")), says(WHERE_BOB, verdict(True, "T1", correct="Milan"))]
    nodes = [node(ELDER, "Bob Ray"), node(WHERE_BOB, "Milan")]
    read_rome = read("Rome", "Milan", "Rome")
    run = ask(where, *script, read_rome, pages=(ZED_ROME, BOB_MILAN), nodes=nodes, final="Milan")
    assert run.result.answer == "Rome" and "final" not in run.steps


# A kind that is plainly another


def test_a_date_does_not_settle_where_something_was() -> None:
    born = Passage("Z", "Zed Quux", "Zed Quux was born on 30 March 1967 in Rome.")
    said = says(WHERE_ZED, verdict("unknown", "T1", enough=True, correct="30 March 1967"))
    run = ask(BORN, said, pages=(FILM, born), nodes=[{"sub_question": WHERE_ZED}])
    assert (run.tops[0].answer, run.tops[0].verdict) == ("", "unknown")


def test_a_rebuilt_hypothesis_of_another_kind_is_not_borne_out() -> None:
    born = Passage("Z", "Zed Quux", "Zed Quux was born on 30 March 1967 in Rome.")
    wrong = says(WHERE_ZED, verdict(False, "T1", reason="It was not Oslo."))
    new = Rule(json.dumps(node(WHERE_ZED, "30 March 1967")), step="rebuild")
    run = ask(BORN, wrong, new, read("Rome"), pages=(FILM, born), nodes=[node(WHERE_ZED, "Oslo")])
    assert run.tops[0].source == "internal" and run.result.answer == "Rome"


# Guesses


SPOUSE = "Where was the spouse of Film Alpha's maker born?"


def test_a_guess_behind_a_verified_node_is_called_one_and_cites_nothing() -> None:
    made = says(MADE, verdict(True, "T1", correct="Zed Quux"))
    run = ask(SPOUSE, made, pages=(FILM,), nodes=[node(MADE, "Zed Quux")], final="Oslo")
    assert run.result.answer == "Oslo" and run.of("final")[0]["source"] == "fallback"
    assert any("stands in nothing that was found" in warning for warning in run.result.warnings)
    assert run.node(0)["evidence"] == []


DIRECTED = "Who directed Film Alpha?"
SET_IN = Passage("A", "Film Alpha", "Film Alpha is a drama.")
BOB_BORN = says(WHERE_BOB, verdict(True, "T1", correct="Milan"))


@pytest.mark.parametrize("reply", [UNKNOWN, verdict(False, "T1", reason="It was Bob Ray.")], ids=["unknown", "refuted"])
@pytest.mark.parametrize("evidence", ["text", "graph"])
def test_what_is_verified_of_a_guess_is_a_guess(reply: str, evidence: str) -> None:
    """That Bob Ray was born in Milan is true; that he directed the film is what nothing says."""
    guessed = "Bob Ray" if reply == UNKNOWN else "Tom Cruise"
    new = Rule(json.dumps(node(DIRECTED, "Bob Ray", node(WHERE_BOB, "Milan"))), step="rebuild")
    nodes = [node(DIRECTED, guessed, node(WHERE_BOB if reply == UNKNOWN else "Where does he live?", "Milan"))]
    script = [
        *(says(DIRECTED, reply), says(WHERE_BOB, verdict(True, "F1" if evidence == "graph" else "T1"))),
        *(Rule("Milan", step="final"), Rule("{}", step="conditions"), Rule("unknown", step="read"), new),
        *rules(build=tree(*nodes, question=BORN, answer=""), validate=UNKNOWN, clue="{}"),
    ]
    graph = SmallGraph(("Bob Ray", "born in", "Milan"), ("Film Alpha", "genre", "drama"))
    run = Run(script, question=BORN, graph=graph, pages=Pages(SET_IN, BOB), evidence=evidence, robust=True)
    (top,) = run.tops
    assert (top.answer, top.source) == ("Bob Ray", "internal") and top.children[0].verdict == "supported"
    assert run.result.answer == "Milan" and run.of("final")[0]["source"] == "fallback"
    assert any("not all that it rests on is verified" in warning for warning in run.result.warnings)


def test_a_yes_to_one_thing_is_no_yes_to_another() -> None:
    prize = "Did Zed Quux win the Rome Prize?"
    won = Passage("Z", "Zed Quux", "Zed Quux won the Rome Prize.")
    nodes = [node(prize, "Yes"), node("Is Bob Ray from Italy?", "Yes")]
    same = "Are Zed Quux and Bob Ray from the same country?"
    run = ask(same, says(prize, verdict(True, "T1", correct="Yes")), pages=(won, BOB), nodes=nodes, final="Yes")
    assert run.tops[0].verdict == "supported" and run.of("final")[0]["source"] == "fallback"


WHEN_ZED = "When was Zed Quux born?"


@pytest.mark.parametrize(
    ("final", "source"), [("12 May 1920", "fallback"), ("1920", "synthesis"), ("Zed Quux", "fallback")]
)
def test_a_verified_year_is_no_day_and_a_name_no_date(final: str, source: str) -> None:
    made = says(MADE, verdict(True, "T1", correct="Zed Quux"))
    born = says(WHEN_ZED, verdict(True, "T1", correct="1920"))
    nodes = [node(MADE, "Zed Quux", node(WHEN_ZED, "1920"))]
    run = ask("When was the maker of Film Alpha born?", made, born, pages=(FILM, ZED_ROME), nodes=nodes, final=final)
    assert run.result.answer == final and run.of("final")[0]["source"] == source


def test_days_that_are_invented_decide_no_comparison() -> None:
    ann = Passage("X", "Ann Bee", "Ann Bee was born in 1920.")
    nodes = [node(WHEN_ZED, "12 May 1920"), node("When was Ann Bee born?", "3 March 1920")]
    script = [says(one["sub_question"], verdict(True, "T1")) for one in nodes]
    question = "Who was born first, Zed Quux or Ann Bee?"
    run = ask(question, *script, read("Zed Quux"), pages=(ZED_ROME, ann), nodes=nodes)
    assert [top.verdict for top in run.tops] == ["unknown", "unknown"] and run.result.answer == "Zed Quux"


def test_what_refuted_another_answer_is_not_told_below_one_that_it_does_not_say() -> None:
    wrong = says(MADE, verdict(False, "F1", reason="It was somebody else."))
    build = tree(node(MADE, "Tom Cruise"), question=BEHIND, answer="")
    new = Rule(json.dumps(node(MADE, "Ann Bee")), step="rebuild")
    script = [Rule("{}", step="conditions"), wrong, new, *rules(build=build, final="Ann Bee")]
    graph = SmallGraph(("Film Alpha", "maker", "Zed Quux"))
    run = Run(script, question=BEHIND, graph=graph, pages=Pages(), evidence="graph", robust=True)
    (said,) = run.texts("final")
    assert "Ann Bee (not verified" in said and "Film Alpha | maker" not in said


def test_an_answer_that_a_verified_node_has_is_no_guess() -> None:
    made = says(MADE, verdict(True, "T1", correct="Zed Quux"))
    run = ask(BEHIND, made, pages=(FILM,), nodes=[node(MADE, "Zed Quux")], final="Zed Quux")
    assert run.of("final")[0]["source"] == "synthesis" and not run.result.warnings
    assert [one.id for one in run.result.evidence] == ["A"]


def test_an_answer_of_passages_does_not_cite_what_the_tree_cites() -> None:
    gamma = Passage("G", "Film Gamma", "Film Gamma is a film by Bob Ray, of Milan.")
    made = says("Who made Film Gamma?", verdict(True, "T1", correct="Bob Ray"))
    nodes = [node("Who made Film Gamma?", "Bob Ray"), node(WHERE_ZED, "Oslo")]
    run = ask(BORN, made, read("Rome"), pages=(FILM, ZED, gamma), nodes=nodes)
    assert run.tops[0].evidence == ("G",) and run.result.answer == "Rome"
    assert "G" not in run.node(0)["evidence"]


def test_beyond_the_paper_what_is_not_borne_out_is_told_as_what_the_model_says() -> None:
    wrong = says(MADE, verdict(False, "T1", reason="It was made in 1999."))
    new = Rule(json.dumps(node(MADE, "Ann Bee")), step="rebuild")
    run = ask(BEHIND, wrong, new, pages=(FILM,), nodes=[node(MADE, "Tom Cruise")], final="Ann Bee")
    assert "Ann Bee (not verified; the model says: It was made in 1999.)" in run.texts("final")[-1]


def test_an_answer_out_of_unverified_nodes_has_a_note_in_the_papers_form_too() -> None:
    build = tree(node(MADE, "Tom Cruise"), question=MADE, answer="Tom Cruise")
    script = rules(build=build, validate=UNKNOWN, clue="{}", final="Tom Cruise")
    run = Run(script, question=MADE, graph=SmallGraph(), pages=Pages(FILM), evidence="text")
    assert any("None of the answers below was verified" in warning for warning in run.result.warnings)
    assert run.result.tree[0].source == "fallback"


def in_the_papers_form(final: str, *, pages: tuple[Passage, ...] = (FILM,), **given: Any) -> Run:
    """A node that is supported, and one below it that is not."""
    build = tree(node(MADE, "Zed Quux", node("Where was Zed Quux born?", "Paris")), question=BORN, answer="Paris")
    holds = says(MADE, verdict(True, "T1"))
    script = rules(holds, build=build, validate=UNKNOWN, clue="{}", final=final)
    return Run(script, question=BORN, graph=SmallGraph(), pages=Pages(*pages), evidence="text", **given)


def test_an_answer_that_nothing_read_holds_is_called_a_guess_in_the_papers_form_too() -> None:
    run = in_the_papers_form("Lodz")
    assert run.result.answer == "Lodz" and UNSUPPORTED in run.result.warnings
    root, (final,) = run.result.tree[0], run.of("final")
    assert (root.source, root.evidence, final["source"]) == ("fallback", (), "fallback")
    assert final["support"] == in_the_papers_form("Zed Quux").of("final")[0]["support"], "what was cited stays"


@pytest.mark.parametrize("final", ["Zed Quux", "yes"])
def test_an_answer_that_something_read_holds_is_none(final: str) -> None:
    run = in_the_papers_form(final)
    assert run.result.answer == final and not run.result.warnings
    assert (run.result.tree[0].source, run.of("final")[0]["source"]) == ("synthesis", "synthesis")


def test_an_answer_that_a_fact_holds_is_none() -> None:
    build = tree(node(MADE, "Zed Quux"), question=MADE, answer="Zed Quux")
    graph = SmallGraph(("Film Alpha", "director", "Cy Dee"))
    script = rules(build=build, validate=verdict(True, "F1"), final="Cy Dee")
    run = Run(script, question=MADE, graph=graph, evidence="graph")
    assert run.node(1)["attempts"][0]["facts"] and not run.result.warnings


def test_an_answer_of_a_verified_node_is_none_however_evidence_writes_it() -> None:
    build = tree(node(MADE, "Mr Z. Q."), question=MADE, answer="Mr Z. Q.")
    script = rules(build=build, validate=verdict(True, "T1"), final="Mr Z. Q.")
    run = Run(script, question=MADE, graph=SmallGraph(), pages=Pages(FILM), evidence="text")
    assert run.result.answer == "Mr Z. Q." and not run.result.warnings
