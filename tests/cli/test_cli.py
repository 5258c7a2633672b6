"""The command line as a person and as a machine use it: what is printed, exit codes, no tracebacks.

Where a process is the point (first steps, streams, encodings, Ctrl-C), it is a real one.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import call
from tests.timing import TIMEOUT_S

QUESTION = "Where was the director of the film Red Kite born?"
PLAN = {
    "query1": {
        "question": "Who directed the film Red Kite?",
        "children": {"query2": {"question": "Where was #query1 born?"}},
    }
}
REPLIES: list[dict[str, Any]] = [
    {"step": "taikc/decompose", "reply": json.dumps(PLAN)},
    {"step": "taikc/confident", "reply": "RAG_REQUIRED"},
    {"step": "taikc/read", "contains": "Question: Who directed", "reply": "Ada Moor"},
    {"step": "taikc/read", "contains": "Question: Where was Ada Moor", "reply": "Skagen"},
    {"step": "taikc/summarise", "reply": "Ada Moor, who directed Red Kite, was born in Skagen."},
    {"step": "taikc/final", "reply": "Skagen"},
    {"step": "direct/direct", "reply": "Paris"},
    {"step": "taikc/rewrite", "reply": QUESTION},
]


@pytest.fixture(scope="module")
def prepared_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with documents, their index and a script."""
    folder = tmp_path_factory.mktemp("made")
    documents = folder / "docs"
    documents.mkdir()
    (documents / "films.md").write_text("# Red Kite\n\nRed Kite is a film directed by Ada Moor.\n", encoding="utf-8")
    (documents / "people.txt").write_text("Ada Moor was born in Skagen.\n", encoding="utf-8")
    (folder / "script.json").write_text(json.dumps({"replies": REPLIES}), encoding="utf-8")
    (folder / "questions.jsonl").write_text(json.dumps({"id": 1, "question": QUESTION}), encoding="utf-8")
    done = process(folder, "index", "docs", "--out", "docs.idx")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def home(prepared_home: Path, tmp_path: Path) -> Path:
    """A copy of that folder, with a cache of its own."""
    return shutil.copytree(prepared_home, tmp_path / "home")


def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "HOPTREE_"))}
    return kept | {"XDG_CACHE_HOME": str(home / "cache"), "HOPTREE_MODELS": str(home / "models"), "NO_COLOR": "1"}


def process(home: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hoptree", *arguments]
    return subprocess.run(
        command,
        cwd=home,
        env=environment(home),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def hoptree(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return call(*arguments, folder=home, environment=environment(home))


ASK = ("ask", QUESTION, "--corpus", "docs.idx", "-m", "scripted/script.json", "--method", "taikc")


def ask(home: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return hoptree(home, *ASK, *more)


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """The command said in one line what is wrong and what to do, and left with 2."""
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


def test_help_names_the_first_steps(tmp_path: Path) -> None:
    done = process(tmp_path, "--help")
    assert done.returncode == 0
    assert "hoptree demo" in done.stdout
    for command in ("ask", "show", "index", "search", "methods", "models", "doctor", "demo"):
        assert hoptree(tmp_path, command, "--help").returncode == 0


def test_json_is_one_object_with_the_promised_fields(home: Path) -> None:
    done = process(home, *ASK, "--json")
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["question"] == QUESTION
    assert result["answer"] == "Skagen"
    assert (result["method"], result["fidelity"], result["model"]) == ("taikc", "exact", "scripted/script.json")
    (top,) = result["tree"]
    assert (top["id"], top["answer"], top["source"]) == (1, "Ada Moor", "external")
    assert top["evidence"] == ["films.md#1"]
    (below,) = top["children"]
    assert (below["question"], below["resolved"]) == ("Where was #query1 born?", "Where was Ada Moor born?")
    assert result["chains"] == ["Ada Moor, who directed Red Kite, was born in Skagen."]
    first = result["evidence"][0]
    assert [*first] == ["id", "title", "text", "score", "document", "start", "end", "metadata"]
    assert (first["document"], first["start"], first["end"]) == ("films.md", 0, 40)
    usage = result["usage"]
    assert (usage["llm_calls"], usage["cached_calls"], usage["retrievals"]) == (7, 0, 2)
    assert usage["prompt_tokens"] > 0 and usage["completion_tokens"] > 0
    assert usage["seconds"] >= usage["critical_path_seconds"] >= 0
    assert result["stopped_by"] is None and result["warnings"] == []


def test_the_same_command_again_pays_for_nothing(home: Path) -> None:
    first, second = (json.loads(done.stdout) for done in (ask(home, "--json"), process(home, *ASK, "--json")))
    assert second["usage"]["cached_calls"] == second["usage"]["llm_calls"] == 7
    assert second["tree"] == first["tree"]
    assert json.loads(ask(home, "--json", "--no-cache").stdout)["usage"]["cached_calls"] == 0


def test_a_person_sees_tree_evidence_answer_and_cost(home: Path) -> None:
    done = ask(home)
    assert done.returncode == 0, done.stderr
    for piece in (
        "1. Who directed the film Red Kite?",
        "Ada Moor",
        "from documents",
        "films.md#1",
        "Skagen",
        "reasoning  Ada Moor, who directed Red Kite, was born in Skagen.",
        "7 model calls · ",
    ):
        assert piece in done.stdout
    assert "7 model calls (7 from the cache) · " in ask(home).stdout
    assert "plan: 2 sub-questions" in done.stderr


def test_a_conversation_goes_on_until_there_are_no_more_questions(home: Path) -> None:
    made_with = ASK[2:]
    done = process(home, "chat", *made_with, stdin=f"{QUESTION}\n\nWhere was its director born?\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("The director of the film Red Kite was born in Skagen") == 2
    assert f"Read as: {QUESTION}" in done.stdout and f"read as: {QUESTION}" in done.stderr
    left = process(home, "chat", *made_with, stdin=f"Quit\n{QUESTION}\n")
    assert left.returncode == 0 and left.stdout == "", "exit and quit end a conversation in a pipe too"
    begun = process(home, "ask", QUESTION, "--chat", *made_with, stdin="")
    assert begun.returncode == 0 and begun.stdout.count("model calls") == 1
    refused(hoptree(home, "ask"), "no question", "hoptree chat")


@pytest.mark.parametrize("name", ["nope/", "my nope/", "docs/nope", "nope.pdf"])
def test_a_conversation_about_a_misspelt_folder_does_not_begin(home: Path, name: str) -> None:
    refused(hoptree(home, "chat", name), f"There is no {name}.", "hoptree chat docs/")


@pytest.mark.parametrize("question", ["Who?", "Who is and/or was he", "AC/DC?", "Who lived in St. Ives?" * 30])
def test_a_conversation_may_begin_with_any_question(home: Path, question: str) -> None:
    begun = hoptree(home, "chat", question, "--method", "direct", *ASK[4:6])
    assert begun.returncode == 0 and question[:20] in begun.stdout, begun.stderr


def test_show_draws_a_trace_again(home: Path) -> None:
    answered = ask(home, "--json", "--trace", "run.jsonl")
    shown = hoptree(home, "show", "run.jsonl", "--json")
    assert json.loads(shown.stdout) == json.loads(answered.stdout)
    drawn = hoptree(home, "show", "run.jsonl", "--svg", "tree.svg")
    assert "Ada Moor" in drawn.stdout
    picture = (home / "tree.svg").read_text(encoding="utf-8")
    assert picture.startswith("<svg") and "http" not in picture.replace("http://www.w3.org", "")


def test_show_keeps_every_question_of_an_appended_trace(home: Path) -> None:
    ask(home, "--trace", "run.jsonl")
    ask(home, "--trace", "run.jsonl", "--method", "direct")
    shown = json.loads(hoptree(home, "show", "run.jsonl", "--json").stdout)
    assert [result["method"] for result in shown] == ["taikc", "direct"]


def test_question_from_standard_input(home: Path) -> None:
    done = process(
        home, "ask", "-", "--method", "direct", "-m", "scripted/script.json", "--json", stdin="Where is it?\n"
    )
    answered = json.loads(done.stdout)
    assert (answered["question"], answered["answer"]) == ("Where is it?", "Paris")


def test_budget_stops_without_the_answer_to_a_part_which_the_tree_tells(home: Path) -> None:
    result = json.loads(ask(home, "--json", "--budget", "calls=5").stdout)
    assert result["stopped_by"] == "calls"
    assert (result["answer"], result["abstained"]) == ("", True)
    assert "Skagen" in json.dumps(result["tree"])
    assert result["usage"]["llm_calls"] == 5
    assert any("budget" in warning for warning in result["warnings"])


def test_search_lists_passages(home: Path) -> None:
    passages = json.loads(hoptree(home, "search", "who directed Red Kite", "--corpus", "docs.idx", "--json").stdout)
    assert passages[0]["id"] == "films.md#1"
    nothing = hoptree(home, "search", "zebra", "--corpus", "docs.idx")
    assert nothing.returncode == 0 and "Nothing was found" in nothing.stdout


def test_methods_and_models_are_listed(home: Path) -> None:
    listed = {row["name"]: row for row in json.loads(hoptree(home, "methods", "--json").stdout)}
    assert {"taikc", "direct", "oner"} <= listed.keys()
    assert {"name": "k", "type": "int", "default": 5} in listed["taikc"]["options"]
    assert "--set strict=on" in hoptree(home, "methods", "taikc").stdout
    models = json.loads(hoptree(home, "models", "list", "--json").stdout)
    assert [model["here"] for model in models] == [False, False]
    assert [model["whitebox"] for model in models] == ["hf/qwen", "hf/smollm"]
    listing = hoptree(home, "models", "list").stdout
    assert "hf/smollm" in listing and "hf/qwen" in listing and "hoptree[whitebox]" in listing and "entropy" in listing


def test_doctor_finds_a_missing_model_and_says_how_to_get_it(home: Path) -> None:
    done = process(home, "doctor")
    assert "hoptree models pull" in done.stdout
    checks = json.loads(hoptree(home, "doctor", "--json").stdout)
    assert all({"name", "ok", "finding", "remedy"} == set(check) for check in checks)
    # What the processor and the runtime built for it are is this machine's.
    assert done.returncode == any(check["ok"] is False for check in checks)


def test_demo_scores_every_question(home: Path) -> None:
    (home / "demo.json").write_text(json.dumps({"replies": [{"step": "direct", "reply": "Belgica"}]}), encoding="utf-8")
    arguments = ("demo", "--all", "--method", "direct", "-m", "scripted/demo.json")
    score = json.loads(hoptree(home, *arguments, "--json").stdout)
    assert (score["questions"], score["right"], score["exact"]) == (20, 1, 1)
    assert "1 of 20 right" in hoptree(home, *arguments).stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("ask", QUESTION, "-m", "scripted/script.json"), ("no corpus", "hoptree index")),
        (("ask", QUESTION, "--corpus", "nowhere", "-m", "scripted/script.json"), ("nowhere", "hoptree index")),
        (("ask", QUESTION, "docs", "--corpus", "docs.idx"), ("Both docs and --corpus docs.idx",)),
        (("ask", QUESTION, "nowhere/"), ("There is no nowhere/", "docs/")),
        (("ask", QUESTION, "questions.jsonl", "-m", "scripted/script.json"), ("questions without passages",)),
        (("ask", QUESTION, "--corpus", "docs.idx"), ("not on this machine", "hoptree models pull")),
        (("ask", QUESTION, "--corpus", "docs.idx", "-m", "local/none.gguf"), ("none.gguf",)),
        (("ask", QUESTION, "--corpus", "docs.idx", "-m", "opnai/x"), ("names no model", "openai/")),
        (("ask", QUESTION, "--corpus", "docs.idx", "-m", "openai/x"), ("key", "OPENAI_API_KEY")),
        (("ask", QUESTION, "-m", "scripted/none.json"), ("none.json",)),
        (("ask", "  ", "-m", "scripted/script.json"), ("empty",)),
        (("ask", "x" * 100_000, "-m", "scripted/script.json"), ("100,000 characters",)),
        (("ask", QUESTION, "--method", "taikk", "-m", "scripted/script.json"), ("taikk", "taikc")),
        (
            ("ask", QUESTION, "--method", "taikc", "--set", "strct=on", "-m", "scripted/script.json"),
            ("strct", "strict"),
        ),
        (("ask", QUESTION, "--set", "k=many", "-m", "scripted/script.json"), ("k=many", "int")),
        (("ask", QUESTION, "--set", "k", "-m", "scripted/script.json"), ("KEY=VALUE",)),
        (("ask", QUESTION, "--set", "k=0", "--corpus", "docs.idx", "-m", "scripted/script.json"), ("--set k=5",)),
        (("ask", QUESTION, "--budget", "calls=lots", "-m", "scripted/script.json"), ("budget",)),
        (("ask", QUESTION, "--budget", "cost=1", "-m", "scripted/script.json"), ("--prices",)),
        (("ask", QUESTION, "--prices=-1/2", "-m", "scripted/script.json"), ("not prices", "IN/OUT")),
        (("ask", QUESTION, "--prices", "nan/2", "-m", "scripted/script.json"), ("not prices", "IN/OUT")),
        (
            ("ask", QUESTION, "--trace", "new/run.jsonl", "-m", "scripted/script.json"),
            ("no folder new", "mkdir -p new"),
        ),
        (("index", "nowhere", "--out", "x.idx"), ("nowhere",)),
        (("index", "questions.jsonl", "--out", "x.idx"), ("no passage", "questions without passages")),
        (("index", "docs", "--out", "docs"), ("not an index",)),
        (("search", "film", "--corpus", "nowhere"), ("nowhere",)),
        (("show", "nowhere.jsonl"), ("nowhere.jsonl",)),
        (("show", "script.json"), ("not a trace",)),
        (("models", "pull", "qwem"), ("qwem", "qwen")),
        (("methods", "taikk"), ("taikc",)),
    ],
)
def test_bad_input_is_one_sentence_with_a_remedy(
    home: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    refused(hoptree(home, *arguments), *words)


def test_a_file_of_an_unknown_kind_is_refused(home: Path) -> None:
    (home / "picture.png").write_bytes(b"\x89PNG")
    refused(hoptree(home, "index", "picture.png", "--out", "x.idx"), "kind")


def test_an_empty_corpus_is_refused(home: Path) -> None:
    (home / "empty").mkdir()
    refused(hoptree(home, "index", "empty", "--out", "empty.idx"), "no document")
    (home / "empty" / "blank.txt").write_text("  \n", encoding="utf-8")
    refused(hoptree(home, "index", "empty", "--out", "empty.idx"), "empty")
    assert not (home / "empty.idx").exists()


def test_an_unreachable_endpoint_is_named(home: Path, no_backoff: None) -> None:
    done = hoptree(
        home, "ask", QUESTION, "--corpus", "docs.idx", "-m", "openai/x", "--base-url", "http://127.0.0.1:9/v1"
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.count("Start the server, or correct --base-url.") == 1 and not done.stdout.strip()


def test_ctrl_c_keeps_what_was_paid_for(home: Path) -> None:
    replies = [dict(reply) for reply in REPLIES]
    replies[5]["latency"] = 600
    (home / "slow.json").write_text(json.dumps({"replies": replies}), encoding="utf-8")
    command = [sys.executable, "-m", "hoptree", *ASK, "-m", "scripted/slow.json"]
    trace = home / "run.jsonl"
    process = subprocess.Popen(
        [*command, "--trace", str(trace)],
        cwd=home,
        env=environment(home),
        stderr=subprocess.PIPE,
        text=True,
        # Tests that run in the background of a shell would hand on that Ctrl-C is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    deadline = time.monotonic() + TIMEOUT_S
    while not (trace.exists() and '"chain"' in trace.read_text(encoding="utf-8")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, output = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    assert "Stopped." in output and "Traceback" not in output
    result = json.loads(hoptree(home, *command[3:], "--json", "--budget", "calls=6").stdout)
    assert result["usage"]["cached_calls"] == 6


def test_terminal_escapes_in_replies_are_not_printed(home: Path) -> None:
    (home / "evil.json").write_text(json.dumps({"replies": [{"reply": "Pa\u001b[31mris\u0007"}]}), encoding="utf-8")
    done = hoptree(home, "ask", QUESTION, "--method", "direct", "-m", "scripted/evil.json")
    assert "\x1b" not in done.stdout and "\x07" not in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_an_answer_is_worth_more_than_its_trace(home: Path) -> None:
    done = process(home, *ASK, "--json", "--trace", "/dev/full")
    assert json.loads(done.stdout)["answer"] == "Skagen"
    assert done.returncode == 1 and "No space left" in done.stderr and "Traceback" not in done.stderr


def test_odd_characters_are_escaped_for_machines_and_dropped_for_people(home: Path) -> None:
    (home / "odd.json").write_text(json.dumps({"replies": [{"reply": "Pa\ud800ris\u009b\u202e!"}]}), encoding="utf-8")
    arguments = ("ask", QUESTION, "--method", "direct", "-m", "scripted/odd.json")
    done = process(home, *arguments, "--json")
    assert done.returncode == 0 and done.stdout.isascii()
    assert json.loads(done.stdout)["answer"] == "Pa\ud800ris\u009b\u202e!"
    assert "Paris!" in process(home, *arguments).stdout


def test_show_draws_and_prints_json_too(home: Path) -> None:
    ask(home, "--trace", "run.jsonl")
    done = hoptree(home, "show", "run.jsonl", "--json", "--svg", "tree.svg")
    assert json.loads(done.stdout)["answer"] == "Skagen"
    assert (home / "tree.svg").exists()


def test_a_budget_of_money_needs_prices_in_python_too() -> None:
    import hoptree as package
    from hoptree.core.errors import ConfigError

    with pytest.raises(ConfigError, match="needs prices"):
        package.Engine(method="direct", model="scripted/none.json", budget=package.Budget(cost=1))


def test_an_answer_reaches_an_output_that_knows_no_arrows(home: Path) -> None:
    command = [sys.executable, "-m", "hoptree", *ASK]
    encoding = {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}
    done = subprocess.run(
        command, cwd=home, env=environment(home) | encoding, capture_output=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0 and b"Skagen" in done.stdout


def test_a_repaired_plan_and_a_cut_reply_are_told(home: Path) -> None:
    replies = [dict(reply) for reply in REPLIES]
    replies[0]["reply"] = json.dumps({f"query{number}": "Who directed the film Red Kite?" for number in range(1, 20)})
    replies[5]["finish"] = "length"
    (home / "script.json").write_text(json.dumps({"replies": replies}), encoding="utf-8")
    warnings = json.loads(ask(home, "--json").stdout)["warnings"]
    assert any("dropped" in warning for warning in warnings)
    assert any("cut off" in warning for warning in warnings)


@pytest.mark.parametrize("rule", [{"reply": 5}, {"reply": []}, {"reply": "x", "latency": "slow"}, {"replay": "x"}])
def test_a_script_with_a_wrong_rule_is_refused(home: Path, rule: dict[str, Any]) -> None:
    (home / "wrong.json").write_text(json.dumps({"replies": [rule]}), encoding="utf-8")
    refused(hoptree(home, "ask", QUESTION, "--method", "direct", "-m", "scripted/wrong.json"), "wrong.json")
