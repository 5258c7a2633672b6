"""`hoptree methods`: the table, one method, what it costs, and the page of the docs."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import call
from tests.methods.another import registered

from hoptree.cli.method_costs import Cost, made_from, read_costs
from hoptree.cli.method_facts import _MODELS_WITH, PAPERS, MethodFacts, fidelity_with, how_to_meet
from hoptree.cli.methods import _fit, show_one
from hoptree.core.errors import InputError
from hoptree.core.values import Answer, Question
from hoptree.engine.context import Context
from hoptree.engine.registry import Method, find_method, list_methods
from hoptree.methods.steps.answer import answer_from, direct_answer
from hoptree.models.local import LocalModel
from hoptree.models.openai import OpenAIModel
from hoptree.sample import sample_questions

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "methods.md"  # tests/test_docs.py keeps it up to date
REPLIES = [{"step": "read", "reply": "a b c"}, {"step": "direct", "reply": "one two"}]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "script.json").write_text(json.dumps({"replies": REPLIES}), encoding="utf-8")
    return tmp_path


def hoptree(home: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "HOPTREE_"))}
    own = {"HOPTREE_CACHE": str(home / "replies.sqlite"), "HOPTREE_MODELS": str(home / "models"), "NO_COLOR": "1"}
    return call("methods", *arguments, folder=home, environment=kept | own | environment)


def stdout_of(home: Path, *arguments: str, **environment: str) -> str:
    done = hoptree(home, *arguments, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def unwrapped(home: Path, *arguments: str) -> str:
    return " ".join(stdout_of(home, *arguments).split())


def rows(home: Path, *arguments: str, **environment: str) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in json.loads(stdout_of(home, *arguments, "--json", **environment))}


async def needy(question: Question, ctx: Context, *, careful: bool = False) -> Answer:
    """Ask and ask again.

    Much of it [bold]twice[/bold].
    """
    if careful:
        return await answer_from(ctx, question.text, await ctx.search(question.text, k=1))
    return await direct_answer(ctx, question.text)


@pytest.fixture
def strange() -> Iterator[Method]:
    facts: dict[str, Any] = {"needs": ("corpus", "moonlight", "logprobs"), "signals": ("entropy",), "trained": False}
    with registered(needy, paper="P [red]", **facts) as method:
        yield method


def test_all_methods_are_in_the_table(home: Path) -> None:
    table = stdout_of(home)
    lines = [line.split("  ")[0] for line in table.splitlines()]
    assert [name for name in lines if name in {method.name for method in list_methods()}] == [
        method.name for method in list_methods()
    ]
    for title in ("title", "paper", "needs", "iterative", "dynamic", "strategy", "query", "as published", "calls"):
        assert title in table.splitlines()[0]
    assert "hoptree methods show NAME" in table


def test_columns_go_into_as_many_tables_as_it_takes() -> None:
    class Wide:
        def __init__(self, width: int) -> None:
            self.width = width

    def split(widths: list[int], width: int) -> list[list[int]]:
        return [[column.width for column in table] for table in _fit([Wide(column) for column in widths], width)]  # type: ignore[misc]

    assert split([5, 5, 5], 15) == [[5, 5, 5]]
    assert split([5, 5, 5], 14) == [[5, 5], [5]]
    assert split([50, 5], 10) == [[50], [5]], "what does not fit anywhere has a table to itself"


def test_fidelity_is_told_for_each_model_without_loading_it(home: Path, strange: Method) -> None:
    models = ("-m", "openai/x", "-m", "scripted/script.json")
    methods = rows(home, *models)
    assert methods["oner"]["fidelity"] == {"openai/x": "exact", "scripted/script.json": "exact"}
    assert methods["flare"]["fidelity"] == {"openai/x": "approx", "scripted/script.json": "exact"}, (
        "openai has no prefix"
    )
    for name in ("ircot", "self_ask", "cot", "hipporag_ircot"):
        assert methods[name]["fidelity"]["openai/x"] == "approx", "it has texts continued, too"
    for name in ("search_r1", "adaptive_rag", "skr", "dyplan"):
        assert methods[name]["fidelity"]["openai/x"] == "prompted", "which says more"
    assert methods["needy"]["fidelity"]["scripted/script.json"] == "approx"
    table = stdout_of(home, *models)
    assert "as published 1: with openai/x" in table and "as published 2: with scripted/script.json" in table


def test_a_method_of_no_paper_is_measured_against_none(home: Path) -> None:
    line = next(line for line in stdout_of(home).splitlines() if line.startswith("hop "))
    assert "of no paper" in line and "approx" not in line
    shown = stdout_of(home, "show", "hop")
    assert "\nof no paper\n" in shown and "approx" not in shown and "as published" not in shown


def test_a_model_that_is_not_here_leaves_only_what_hangs_on_it_open(home: Path) -> None:
    methods = rows(home)
    model = "local/qwen2.5-coder-1.5b-instruct"
    assert methods["oner"]["fidelity"] == {model: "exact"} and methods["flare"]["fidelity"] == {model: None}
    assert f"{model} is not on this machine" in stdout_of(home)
    assert f"as published: ? with {model}, which is not on this machine" in unwrapped(home, "show", "flare")


def test_what_the_corpus_must_have_and_which_values_leave_the_paper_is_told(home: Path) -> None:
    methods = rows(home)
    model = "local/qwen2.5-coder-1.5b-instruct"
    assert methods["hipporag"]["fidelity"] == {model: "exact/approx"}, "it hangs on no model, but on a corpus"
    assert rows(home, "-m", "scripted/script.json")["hipporag_ircot"]["fidelity"] == {
        "scripted/script.json": "exact/approx"
    }
    assert "yes/not exactly: by what the corpus holds" in stdout_of(home)
    assert "yes/not exactly: by what" not in stdout_of(home, "show", "hipporag"), "there a note says what it must hold"
    assert methods["tog2"]["fidelity"] == {model: "approx"}, "by its default"
    hipporag = unwrapped(home, "show", "hipporag")
    assert "approx unless the corpus has facts (hoptree graph extract DIR --out FACTS, hoptree index facts " in hipporag
    needs = hipporag.partition("needs:")[2]
    assert "facts in the corpus, else it is approx: hoptree graph extract DIR --out FACTS" in needs
    assert "--corpus DIR --retriever hippo" in needs.partition("for example:")[2], "a corpus that has them"
    assert methods["tog"]["fidelity"] == {model: "approx"} and methods["cok"]["fidelity"] == {model: "prompted"}
    assert "be it extracted from passages" in unwrapped(home, "show", "tog").partition("approx: ")[2]
    assert "approx with fall_back=reading: the paper drops what was found" in unwrapped(home, "show", "tog2")


def test_a_signal_is_told_of_where_it_changes_something(home: Path) -> None:
    continues = "unless the model that answers gives prefix (local/NAME or hf/NAME)"
    assert f"approx {continues}" in unwrapped(home, "show", "ircot")
    assert f"approx with checkpoint=on {continues}" in unwrapped(home, "show", "adaptive_rag")
    assert f"approx with how=knn {continues}" in unwrapped(home, "show", "skr")
    assert continues not in unwrapped(home, "show", "search_r1"), "its own checkpoint is approx whatever is given"
    assert "approx unless the model that answers gives logprobs (" in unwrapped(home, "show", "self_rag")


def test_the_model_of_the_environment_is_the_one_told_of(home: Path) -> None:
    (home / "of mine.json").write_text((home / "script.json").read_text("utf-8"), encoding="utf-8")
    methods = rows(home, HOPTREE_MODEL="scripted/of mine.json")
    assert methods["flare"]["fidelity"] == {"scripted/of mine.json": "exact"}


def test_a_model_without_what_a_method_needs_cannot_be_asked(strange: Method) -> None:
    assert fidelity_with(strange, {"entropy"}) == "not possible"
    assert fidelity_with(strange, {"entropy", "logprobs"}) == "exact"
    assert fidelity_with(strange, None) == "?"


@pytest.mark.parametrize("arguments", [("show", "needy"), ("needy",), ("--model", "openai/x", "needy")])
def test_one_is_explained(home: Path, strange: Method, arguments: tuple[str, ...]) -> None:
    shown = unwrapped(home, *arguments)
    for part in (
        "needy: Needy (P [red])",
        "Much of it [bold]twice[/bold].",
        "--set careful=off on|off",
        "corpus: hoptree index FOLDER",
        "moonlight: see its description",
        "logprobs: a model that gives it",
        "approx unless the model that answers gives entropy (hf/NAME)",
        "a question costs: not measured",
        "--method needy --corpus sample",
    ):
        assert part in shown


def test_one_as_json(home: Path) -> None:
    details = json.loads(stdout_of(home, "show", "taikc", "--json"))
    assert list(details["steps"])[:2] == ["decompose", "confident"] and details["steps"]["decompose"] > 0
    assert "shared/decompose.txt" in details["prompts"]
    assert {"name": "k", "type": "int", "default": 5} in details["options"]
    assert set(details["how"]) == {"corpus"} and "--method taikc" in details["example"]
    assert details["about"].startswith(details["summary"])
    assert json.loads(stdout_of(home, "--json", "taikc")) == details


def test_the_paper_is_told_with_year_and_link(home: Path) -> None:
    shown = unwrapped(home, "show", "replug")
    assert "REPLUG: Retrieval-Augmented Black-Box Language Models (2023) https://arxiv.org/abs/2301.12652" in shown
    (paper,) = json.loads(stdout_of(home, "show", "replug", "--json"))["papers"]
    assert (paper["year"], paper["link"]) == (2023, "https://arxiv.org/abs/2301.12652")
    assert json.loads(stdout_of(home, "show", "direct", "--json"))["papers"] == []
    for line in (
        "- Paper: [REPLUG: Retrieval-Augmented Black-Box Language Models](https://arxiv.org/abs/2301.12652), 2023.",
        "- Paper: TAIKC: Tree-Organized Active Internal Knowledge Completion for Multi-Hop Question Answering.",
    ):
        assert f"\n{line}\n" in PAGE.read_text(encoding="utf-8")


def test_every_paper_is_known_and_belongs_to_a_method() -> None:
    named = {method.paper for method in list_methods() if method.run.__module__.startswith("hoptree.")} - {""}
    assert named == set(PAPERS)
    links = [paper.link for papers in PAPERS.values() for paper in papers if paper.link]
    assert len(set(links)) == len(links) and all(link.startswith("https://") for link in links)


def test_the_docs_say_what_is_known_of_checkpoints() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert ".." not in text.replace("...", ""), "no sentence ends twice"
    part = " ".join(text.partition("## Trained checkpoints")[2].partition("\n## ")[0].split())
    reworded = "The templates of `cok`, `compact`, `dyplan` and `search_r1` for these checkpoints are in our own words"
    assert reworded in part
    assert "Those of `adaptive_rag` and `self_rag` have the form of the training" in part
    assert "No run with the real weights of any of these checkpoints has been made." in part


@pytest.mark.parametrize("method", list_methods(), ids=lambda method: method.name)
def test_every_method_can_be_explained(method: Method, capsys: pytest.CaptureFixture[str]) -> None:
    show_one(MethodFacts(method, {}, None))
    assert f"--method {method.name}" in capsys.readouterr().out
    for need in method.needs:
        assert how_to_meet(need) != "see its description", f"say in method_facts how {need} is met"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("taikk",), ("taikc",)),
        (("show", "onr"), ("oner",)),
        (("show", "zzzz"), ("There are:", "taikc")),
        (("-m", "opnai/x"), ("names no model", "openai/")),
        (("show", "oner", "-m", "scripted/none.json"), ("none.json",)),
        (("--costs", "none.json"), ("none.json", "hoptree methods measure")),
        (("--costs", "script.json"), ("script.json", "cannot be read")),
        (("measure", "taikk"), ("taikc",)),
        (("measure", "direct", "--from", "nowhere"), ("nowhere",)),
        (("measure", "direct", "--from", "."), ("no run on the sample",)),
        (
            ("measure", "direct", "-m", "scripted/script.json", "--limit", "1", "--out", "no/file"),
            ("cannot be written",),
        ),
    ],
)
def test_bad_input_is_one_sentence_with_a_remedy(
    home: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    done = hoptree(home, *arguments)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    for word in words:
        assert word in done.stderr


def test_costs_are_measured_and_shown(home: Path) -> None:
    measure = ("measure", "direct", "oner", "-m", "scripted/script.json", "--limit", "3", "--out", "costs.json")
    assert "oner: 1.0 calls" in stdout_of(home, *measure)
    cost = read_costs(home / "costs.json")["oner"]
    assert (cost.questions, cost.failed, cost.calls, cost.completion_tokens, cost.retrievals) == (3, 0, 1.0, 3.0, 1.0)
    assert cost.model == "scripted/script.json" and "--limit 3" in cost.command and cost.steps == {"read": 1.0}
    assert cost.made_from == made_from(find_method("oner"))
    methods = rows(home, "--costs", "costs.json")
    assert methods["direct"]["cost"]["completion_tokens"] == 2.0 and not methods["direct"]["cost"]["changed_since"]
    assert methods["oner"]["cost"]["retrievals"] == 1.0 and methods["taikc"]["cost"] is None
    table = stdout_of(home, "--costs", "costs.json")
    assert cost.command in table and "not measured" in table
    assert "steps that ask the model, in order, with their calls a question: read 1" in unwrapped(
        home, "show", "oner", "--costs", "costs.json"
    )


def test_a_cost_is_not_claimed_for_other_prompts(home: Path) -> None:
    measure = ("measure", "oner", "-m", "scripted/script.json", "--limit", "1", "--out")
    stdout_of(home, *measure, "ours.json")
    assert stdout_of(home, "prompts", "oner", "--out", "mine").splitlines() == [
        "mine/oner/read.txt",
        "mine/oner/read_asked_first.txt",
    ]
    assert "mine/oner/read.txt exists already" in hoptree(home, "prompts", "oner", "--out", "mine").stderr
    show = ("show", "oner", "--prompts", "mine", "--costs")
    assert "a question costs 1.0 calls" in stdout_of(home, *show, "ours.json"), "unchanged"
    (home / "mine" / "oner" / "read.txt").write_text("{documents}\nBriefly: {question}", encoding="utf-8")
    details = stdout_of(home, *show, "ours.json")
    assert "not measured with these prompts" in details and "of your own: oner/read.txt (" in details
    stdout_of(home, *measure, "mine.json", "--prompts", "mine")
    assert "a question costs 1.0 calls" in stdout_of(home, *show, "mine.json")
    assert "code or prompts changed" in unwrapped(home, "show", "oner", "--costs", "mine.json")
    (home / "mine" / "oner" / "read.txt").write_text("{documents}", encoding="utf-8")
    refused = hoptree(home, *show, "ours.json")
    assert refused.returncode == 2 and "lacks the variable {question}" in refused.stderr


def test_a_method_that_is_measured_without_what_it_goes_by_says_so(home: Path) -> None:
    measure = ("measure", "hipporag", "-m", "scripted/script.json", "--limit", "2", "--out", "costs.json")
    assert "\n  2 of 2 with a warning (no_facts): hipporag goes out from facts" in stdout_of(home, *measure)


def test_what_cannot_be_measured_is_said_and_left_out(home: Path) -> None:
    measure = ("measure", "-m", "scripted/script.json", "--limit", "1", "--out", "costs.json")
    done = hoptree(home, *measure, "taikc", "oner")
    assert done.returncode == 0 and "taikc could not be measured: The script has no reply" in done.stderr
    assert set(read_costs(home / "costs.json")) == {"oner"}
    assert hoptree(home, *measure, "taikc").returncode == 1, "nothing could be"
    assert set(read_costs(home / "costs.json")) == {"oner"}, "what was there stays"


def test_failed_questions_count_as_failed_and_not_as_cheap(home: Path) -> None:
    first = sample_questions()[0]["question"]
    (home / "script.json").write_text(
        json.dumps({"replies": [{"contains": first, "fault": "401"}, {"reply": "a b"}]}), encoding="utf-8"
    )
    stdout_of(home, "measure", "direct", "-m", "scripted/script.json", "--limit", "3", "--out", "costs.json")
    cost = read_costs(home / "costs.json")["direct"]
    assert (cost.questions, cost.failed, cost.calls, cost.completion_tokens, cost.steps) == (
        3,
        1,
        1.0,
        2.0,
        {"direct": 1.0},
    )
    assert "1 of which failed" in unwrapped(home, "show", "direct", "--costs", "costs.json")


def test_costs_of_a_method_that_changed_since_are_marked(home: Path) -> None:
    stdout_of(home, "measure", "direct", "-m", "scripted/script.json", "--limit", "1", "--out", "costs.json")
    data = json.loads((home / "costs.json").read_text("utf-8"))
    data["methods"]["direct"]["made_from"] = "another"
    (home / "costs.json").write_text(json.dumps(data), encoding="utf-8")
    table = stdout_of(home, "--costs", "costs.json")
    assert "1.0*" in table and "before the method's code or prompts changed" in table
    assert "before the method's code or prompts changed" in unwrapped(home, "show", "direct", "--costs", "costs.json")
    assert rows(home, "--costs", "costs.json")["direct"]["cost"]["changed_since"]


def test_costs_are_taken_from_runs_of_the_sample(home: Path) -> None:
    asked = [row for row in sample_questions() if row["answerable"]][:4]
    (home / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked), encoding="utf-8")
    (home / "others.jsonl").write_text(json.dumps({"id": "x", "question": "Why?", "answers": ["y"]}), encoding="utf-8")

    def run(out: str, *arguments: str, data: str = "data.jsonl") -> None:
        usual = ("run", "--data", data, "--corpus", "sample", "-m", f"scripted/{home / 'script.json'}")
        done = call(*usual, *arguments, "--out", f"runs/{out}", folder=home, environment=dict(os.environ))
        assert done.returncode == 0, done.stderr

    run("oner", "--method", "oner")
    run("oner3", "--method", "oner", "--set", "k=3")
    run("direct", "--method", "direct", "--budget", "calls=9")
    run("others", "--method", "direct", data="others.jsonl")
    stdout_of(home, "measure", "--from", "runs", "--out", "costs.json")
    costs = read_costs(home / "costs.json")
    assert set(costs) == {"oner", "direct"}
    assert (costs["oner"].questions, costs["oner"].calls, costs["oner"].steps) == (4, 1.0, {"read": 1.0})
    assert costs["oner"].command == "hoptree run --corpus sample --model scripted/script.json", "not where it lies"
    assert costs["direct"].command.endswith("--budget calls=9")
    assert costs["oner"].made_from == made_from(find_method("oner"))
    (home / "runs" / "oner" / "traces.jsonl").unlink()
    stdout_of(home, "measure", "--from", "runs", "--out", "costs.json")
    assert (read_costs(home / "costs.json")["oner"].calls, read_costs(home / "costs.json")["oner"].steps) == (1.0, {})
    run("again", "--method", "oner")
    twice = hoptree(home, "measure", "--from", "runs", "--out", "costs.json")
    assert twice.returncode == 2 and "both runs of oner" in twice.stderr


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"format": 2, "methods": {}}', '{"format": 1, "methods": {"a": {}}}', '{"format": 1}', "\0"],
)
def test_a_damaged_file_of_costs_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "costs.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="cannot be read"):
        read_costs(tmp_path / "costs.json")


def test_the_figures_of_the_package_are_whole_and_of_its_methods() -> None:
    costs = read_costs()
    assert set(costs) <= {method.name for method in list_methods()}
    for name, cost in costs.items():
        assert isinstance(cost, Cost) and cost.model and "hoptree" in cost.command, name
        assert cost.questions > cost.failed >= 0 and cost.calls > 0, name
        assert cost.steps or name == "seakr", "its traces are too large to carry about"
        if cost.steps:
            assert sum(cost.steps.values()) == pytest.approx(cost.calls, abs=0.05 * len(cost.steps)), name


def test_who_gives_a_signal_is_told_right() -> None:
    endpoint = OpenAIModel.capabilities
    embedded = LocalModel.capabilities
    for signal, models in _MODELS_WITH.items():
        every = models.startswith("every kind of model")
        assert (signal in endpoint) == (every or "openai/" in models), signal
        assert (signal in embedded) == (every or "local/" in models), signal
