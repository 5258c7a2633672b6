"""Settings from files: hoptree.toml and .env, what counts before what, and what they may not do."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import call
from tests.timing import TIMEOUT_S

from hoptree import ask
from hoptree.core.config import load_config
from hoptree.retrieval.index.folder import read_manifest

SCRIPT = {"replies": [{"reply": "Łódź"}]}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "model.json").write_text(json.dumps(SCRIPT), encoding="utf-8")
    (tmp_path / "user" / "hoptree").mkdir(parents=True)
    return tmp_path


def hoptree(home: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "HOPTREE_"))}
    own = {"XDG_CONFIG_HOME": str(home / "user"), "XDG_CACHE_HOME": str(home / "cache"), "NO_COLOR": "1"}
    return call(*arguments, folder=home, environment=kept | own | variables)


def config(home: Path, **variables: str) -> dict[str, tuple[str, str]]:
    done = hoptree(home, "config", "--json", **variables)
    assert done.returncode == 0, done.stderr
    return {row["setting"]: (row["value"], row["from"]) for row in json.loads(done.stdout)["settings"]}


def test_the_environment_counts_before_env_and_that_before_the_files(home: Path) -> None:
    (home / "user" / "hoptree" / "hoptree.toml").write_text('model = "ollama/a"\nmethod = "cot"\ncorpus = "a"\n')
    (home / "hoptree.toml").write_text('model = "ollama/b"\nmethod = "direct"\n', encoding="utf-8")
    (home / ".env").write_text("# mine\nexport HOPTREE_MODEL='ollama/c'\nPATH=/nowhere\n", encoding="utf-8")
    held = config(home)
    assert held["model"] == ("ollama/c", ".env") and held["method"] == ("direct", "hoptree.toml")
    assert held["corpus"] == ("a", str(home / "user" / "hoptree" / "hoptree.toml"))
    assert held["retriever"] == ("auto", "default")
    assert config(home, HOPTREE_MODEL="ollama/d")["model"] == ("ollama/d", "environment")


def test_an_unknown_method_is_refused_with_the_file_that_names_it(home: Path) -> None:
    asked = ("ask", "Where did Has die?", "--corpus", "sample", "-m", "scripted/model.json")
    (home / "hoptree.toml").write_text('method = "nix"\n', encoding="utf-8")
    done = hoptree(home, *asked)
    assert done.returncode == 2 and "hoptree.toml, method: There is no method 'nix'." in done.stderr
    given = hoptree(home, *asked, "--method", "nox")
    assert given.returncode == 2 and "no method 'nox'" in given.stderr and "hoptree.toml" not in given.stderr


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("[options.hop]\nefort = 1", "hoptree.toml, [options.hop]: hop has no option 'efort': did you mean 'effort'?"),
        ('budget = "apples=3"', "hoptree.toml, budget: 'apples=3' is not a budget."),
        ('prices = "dear"', "hoptree.toml, prices: 'dear'"),
        ('retriever = "bm52"', "hoptree.toml, retriever: There is no retriever 'bm52'."),
    ],
)
def test_a_setting_that_is_not_possible_is_refused_with_its_file_and_key(home: Path, line: str, error: str) -> None:
    (home / "hoptree.toml").write_text(f"{line}\n", encoding="utf-8")
    for command in (("config",), ("ask", "Where?", "--corpus", "sample", "-m", "scripted/model.json")):
        done = hoptree(home, *command)
        assert done.returncode == 2 and error in done.stderr, done.stderr


def test_options_of_an_unknown_method_are_refused_where_settings_are_shown(home: Path) -> None:
    (home / "hoptree.toml").write_text("[options.hopp]\neffort = 'high'\n", encoding="utf-8")
    done = hoptree(home, "config")
    assert done.returncode == 2 and "hoptree.toml, [options.hopp]: There is no method 'hopp'." in done.stderr
    assert hoptree(home, "ask", "Where?", "--corpus", "sample", "-m", "scripted/model.json").returncode == 0


def test_a_question_is_asked_with_what_the_files_say(home: Path) -> None:
    text = 'model = "scripted/model.json"\ncorpus = "sample"\nmethod = "oner"\n[options.oner]\nk = 2\n'
    (home / "hoptree.toml").write_text(text, encoding="utf-8")
    result = json.loads(hoptree(home, "ask", "Where did Has die?", "--json").stdout)
    assert (result["method"], result["model"], result["options"]["k"]) == ("oner", "scripted/model.json", 2)
    other = json.loads(hoptree(home, "ask", "Where?", "--method", "direct", "--json").stdout)
    assert other["method"] == "direct", "an option counts first"
    assert json.loads(hoptree(home, "ask", "Where?", "--set", "k=3", "--json").stdout)["options"]["k"] == 3


def test_a_budget_of_calls_may_be_a_number(home: Path) -> None:
    (home / "hoptree.toml").write_text("budget = 3\n", encoding="utf-8")
    values = json.loads(hoptree(home, "config", "--json").stdout)
    assert '"3"' in json.dumps(values)


def test_what_holds_is_shown_as_a_table_without_secrets(home: Path) -> None:
    done = hoptree(home, "config", OPENAI_API_KEY="sk-secret", OPENAI_BASE_URL="http://me:secret@host/v1")
    assert done.returncode == 0 and "secret" not in done.stdout
    assert "http://host/v1" in done.stdout and "environment" in done.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('modle = "x"', ("unknown setting 'modle'", "Did you mean model?")),
        ("model = 3", ("model is not text",)),
        ("budget = true", ("budget is not text",)),
        ("model = ", ("is not TOML",)),
        ("options = 3", ("[options] needs a method", "[options.hop]")),
        ("[options]\nfoo = 3", ("[options] needs a method", "[options.hop]")),
    ],
)
def test_a_wrong_file_is_refused_with_what_is_wrong(home: Path, text: str, words: tuple[str, ...]) -> None:
    (home / "hoptree.toml").write_text(text, encoding="utf-8")
    done = hoptree(home, "ask", "Where?")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert all(word in done.stderr for word in ("hoptree.toml", *words))
    assert hoptree(home, "--help").returncode == 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("HOPTREE_MODLE=x", ("unknown setting 'HOPTREE_MODLE'", "Did you mean HOPTREE_MODEL?")),
        ("export HOPTREE_ZZZZZZZ=x", ("unknown setting 'HOPTREE_ZZZZZZZ'", "There are: HOPTREE_BUDGET,")),
        ("HOPTREE_MODEL ollama/a", ("the line 'HOPTREE_MODEL ollama/a' without =", "NAME=VALUE")),
    ],
)
def test_a_wrong_line_of_env_is_refused(home: Path, line: str, words: tuple[str, ...]) -> None:
    (home / ".env").write_text(f"{line}\n", encoding="utf-8")
    done = hoptree(home, "config")
    assert done.returncode == 2 and done.stdout == "" and all(word in done.stderr for word in (".env", *words))


def test_what_env_holds_for_other_programs_and_every_documented_variable_is_taken(home: Path) -> None:
    (home / ".env").write_text("MODLE=x\nsource other\n# HOPTREE_X\nOPENAI_ORG=x\nHOPTREE_OTEL=\n", encoding="utf-8")
    assert hoptree(home, "config").returncode == 0
    sources = Path(__file__).parents[2] / "src"
    named = {
        name for path in sources.rglob("*.py") for name in re.findall(r"HOPTREE_[A-Z_]*[A-Z]", path.read_text("utf-8"))
    }
    (home / ".env").write_text("".join(f"{name}=\n" for name in named), encoding="utf-8")
    assert hoptree(home, "config").returncode == 0, named


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('method = "hopp"', ("There is no method 'hopp'", "Did you mean 'hop'?")),
        ('retriever = "bm52"', ("There is no retriever 'bm52'", "Did you mean bm25?")),
    ],
)
def test_settings_that_no_question_could_be_asked_with_are_refused(
    home: Path, text: str, words: tuple[str, ...]
) -> None:
    (home / "hoptree.toml").write_text(text, encoding="utf-8")
    done = hoptree(home, "config")
    assert done.returncode == 2 and done.stdout == "" and all(word in done.stderr for word in words)


@pytest.mark.parametrize(
    ("name", "purpose"),
    [
        ("chat", "Hold a conversation"),
        ("ask", "Answer a question"),
        ("config", "Show the settings"),
        ("doctor", "Find what"),
    ],
)
def test_help_has_the_name_and_the_purpose_of_what_was_typed(home: Path, name: str, purpose: str) -> None:
    done = hoptree(home, name, "--help")
    assert done.returncode == 0 and done.stdout.split()[:3] == ["Usage:", "hoptree", name]
    assert done.stdout.splitlines()[2].strip().startswith(purpose)


def test_a_key_is_not_sent_where_only_a_file_of_the_folder_says(tmp_path: Path) -> None:
    (tmp_path / "hoptree.toml").write_text('base_url = "https://models.example/v1"\n', encoding="utf-8")
    nobody = tmp_path / "nobody"

    def key(*, trusted: bool = False, **variables: str) -> str | None:
        environment = {"OPENAI_API_KEY": "sk-mine"} | variables
        notes = load_config(environment, tmp_path, nobody, trusted=trusted).notes
        assert ["is not sent there" in note for note in notes] == [True] * ("OPENAI_API_KEY" not in environment)
        return environment.get("OPENAI_API_KEY")

    assert key() is None
    assert key(trusted=True) == key(OPENAI_BASE_URL="https://mine.example/v1") == "sk-mine"
    (tmp_path / "hoptree.toml").write_text('base_url = "https://127.models.example/v1"\n', encoding="utf-8")
    assert key() is None
    (tmp_path / "hoptree.toml").write_text('base_url = "http://localhost:8000/v1"\n', encoding="utf-8")
    assert key() == "sk-mine"


def test_a_withheld_key_is_told_of_on_standard_error(tmp_path: Path) -> None:
    (tmp_path / "hoptree.toml").write_text('base_url = "https://models.example/v1"\n', encoding="utf-8")
    environment = {**os.environ, "OPENAI_API_KEY": "sk-mine"}
    done = subprocess.run(
        [sys.executable, "-m", "hoptree", "config"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0 and "is not sent there" in done.stderr


def configured(folder: Path) -> Path:
    """A folder with documents, a scripted model and a file that names both."""
    (folder / "docs").mkdir()
    (folder / "docs" / "film.md").write_text("# Whiplash\n\nWhiplash is a film of 2014 by Damien Chazelle.\n")
    (folder / "model.json").write_text(json.dumps({"replies": [{"reply": "Damien Chazelle"}]}))
    lines = ('model = "scripted/model.json"', 'corpus = "docs"', 'method = "oner"', "[options.oner]", "k = 3")
    (folder / "hoptree.toml").write_text("\n".join(lines))
    return folder


def test_python_reads_the_files_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(configured(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("HOPTREE_MODEL", "HOPTREE_CORPUS", "HOPTREE_METHOD"):
        monkeypatch.delenv(name, raising=False)
    before = dict(os.environ)
    result = ask("Who made the film Whiplash?", cache=None)
    assert (result.answer, result.method, result.options["k"]) == ("Damien Chazelle", "oner", 3)
    assert [passage.title for passage in result.evidence] == ["Whiplash"]
    own = ask("Who made it?", corpus="sample", method="direct", cache=None)
    assert own.method == "direct" and dict(os.environ) == before


def test_a_served_corpus_may_be_a_folder_or_come_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fastapi", reason="needs the extra [server]")
    from hoptree.cli import serve

    monkeypatch.chdir(configured(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert serve.read_corpora([], "") == {"sample": "sample"}
    for given, usual in (([], "docs"), (["docs"], ""), (["docs=docs"], "other.idx")):
        ((name, where),) = serve.read_corpora(given, usual).items()
        assert name == "docs" and read_manifest(Path(where)).passages == 1
    assert serve.read_corpora(["sample"], "docs") == {"sample": "sample"}


class _Models(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"data": [{"id": "llama3.1"}, {"id": "phi"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None: ...


@pytest.fixture
def endpoint() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Models)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_models_of_an_endpoint_are_listed_and_the_doctor_connects(home: Path, endpoint: str) -> None:
    done = hoptree(home, "models", "list", "--base-url", endpoint)
    assert done.stdout.split() == ["openai/llama3.1", "openai/phi"]
    checks = json.loads(hoptree(home, "doctor", "--json", OPENAI_BASE_URL=endpoint).stdout)
    (check,) = (check for check in checks if check["name"] == "Endpoint")
    assert check["ok"] and "it answers, with 2 models (llama3.1, phi)" in check["finding"]
    assert any(check["name"] == "Extras" for check in checks)
    for check in checks:
        if check["name"].startswith("Extra "):
            assert check["remedy"] == f"pip install 'hoptree[{check['name'][6:]}]'"


def test_an_endpoint_that_does_not_answer_is_found(home: Path) -> None:
    done = hoptree(home, "models", "list", "--base-url", "http://127.0.0.1:9/v1")
    assert done.returncode == 1 and done.stderr.count("cannot be reached") == 1
    checks = json.loads(hoptree(home, "doctor", "--json", OPENAI_BASE_URL="http://127.0.0.1:9/v1").stdout)
    (check,) = (check for check in checks if check["name"] == "Endpoint")
    assert check["ok"] is False and "cannot be reached" in check["finding"]


def test_a_shell_completes_commands(home: Path) -> None:
    done = hoptree(home, _HOPTREE_COMPLETE="complete_bash", COMP_WORDS="hoptree mo", COMP_CWORD="1")
    assert done.stdout.split() == ["models"]


def test_documents_that_are_named_count_before_the_corpus_of_a_file(home: Path) -> None:
    (home / "hoptree.toml").write_text('model = "scripted/model.json"\ncorpus = "sample"\nmethod = "oner"\n')
    (home / "docs").mkdir()
    (home / "docs" / "one.md").write_text("# Has\n\nHas died in Łódź.\n", encoding="utf-8")
    result = json.loads(hoptree(home, "ask", "Where did Has die?", "docs", "--json").stdout)
    assert [passage["title"] for passage in result["evidence"]] == ["Has"]


def test_a_search_takes_the_corpus_as_its_second_argument(home: Path) -> None:
    done = hoptree(home, "search", "Has", "sample")
    assert done.returncode == 0 and done.stdout == hoptree(home, "search", "Has", "--corpus", "sample").stdout
    missing = hoptree(home, "search", "Has")
    assert missing.returncode == 2 and 'hoptree search "…" docs.idx' in missing.stderr
    both = hoptree(home, "search", "Has", "sample", "--corpus", "docs.idx")
    assert both.returncode == 2 and "Give one of them" in both.stderr
