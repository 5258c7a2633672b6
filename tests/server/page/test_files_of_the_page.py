"""The files of the page, without a browser: nothing from elsewhere, nothing that parses markup."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.evaluation.paired_scores import flipped
from tests.timing import TIMEOUT_S
from tests.traced import event

import hoptree
from hoptree.cli import render
from hoptree.core.errors import _PUBLIC_TEXTS, EndpointError, InternalError, public_error
from hoptree.core.values import Level, Passage
from hoptree.corpus.kinds import KNOWN_KINDS
from hoptree.engine.answer_sentence import NOT_SAID, OWN_KNOWLEDGE, cite_answer
from hoptree.engine.events import SOURCE_WORDS
from hoptree.engine.registry import list_methods
from hoptree.engine.result import UNSUPPORTED, TreeNode
from hoptree.engine.sentence_view import LEVELS
from hoptree.engine.support import _explain_unnamed, _weigh_support, describe_answer
from hoptree.engine.tasks import describe_task
from hoptree.engine.trace import ModelProgress
from hoptree.methods.hop import candidates
from hoptree.text.answer_fit import explain_misfit

PAGE = Path(hoptree.__file__).parent / "server" / "page"
SCRIPTS = {path.name: path.read_text(encoding="utf-8") for path in sorted(PAGE.glob("*.js"))}
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in sorted(PAGE.iterdir()) if path.is_file()}
PARSES = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|\beval\(|new Function"
    r"|srcdoc|setHTML"
)


def test_no_text_is_ever_parsed() -> None:
    assert len(SCRIPTS) >= 10
    assert [name for name, text in SCRIPTS.items() if PARSES.search(text)] == []


def test_nothing_comes_from_elsewhere() -> None:
    for name, text in TEXTS.items():
        addresses = re.findall(r"(?:https?:)?//[a-z][\w.-]+\.[a-z]{2,}|@import|url\(|data:image", text)
        assert addresses in ([], ["http://www.w3.org"]), name  # the name of SVG
    assert "http" not in TEXTS["index.html"] + TEXTS["docs.html"]


@pytest.mark.parametrize("page", ["index.html", "docs.html"])
def test_the_content_policy_holds(page: str) -> None:
    html = TEXTS[page]
    assert re.findall(r"<script[^>]*>[^<]", html) == [] and not re.search(r"\son\w+=|style=|<style", html)
    named = re.findall(r'(?:src|href)="page/([^"]+)"', html)
    assert named and all(name in TEXTS for name in named)
    imported = {name for text in SCRIPTS.values() for name in re.findall(r'from "\./([^"]+)"', text)}
    assert imported <= set(SCRIPTS) and imported | {"main.js", "docs.js", "standalone.js"} == set(SCRIPTS)


def test_every_text_is_there_in_all_languages() -> None:
    lines = [line.strip().rstrip(",") for line in SCRIPTS["translations.js"].splitlines() if line.startswith("  [")]
    rows = [json.loads(line) for line in lines]
    keys = [row[0] for row in rows]
    assert len(keys) == len(set(keys)) > 250
    for row in rows:
        assert len(row) == 3 and all(row), row
        assert len({tuple(sorted(re.findall(r"{\w+}", text))) for text in row}) == 1, row
    assert used_texts() == set(keys)


def server_rows(script: str = "server_texts.js") -> list[list[str]]:
    lines = [line.strip().rstrip(",") for line in SCRIPTS[script].splitlines() if line.startswith("  [")]
    return [json.loads(line) for line in lines]


def fitting(text: str) -> bool:
    """Whether a text of the server has words in other languages, as `translated` in texts.js looks for them."""
    for english, *_ in server_rows():
        parts = re.split(r"\{(\w+)\}", english)
        numbers = {"n": r"[\d.,]+", "m": r"[\d.,]+"}
        pattern = "".join(numbers.get(part, "(.+)") if at % 2 else re.escape(part) for at, part in enumerate(parts))
        if match := re.fullmatch(pattern, text, re.DOTALL):
            names = [name for name in parts[1::2] if name not in numbers]
            return all(not name.isupper() or fitting(value) for name, value in zip(names, match.groups(), strict=True))
    return False


@pytest.mark.parametrize("script", ["server_texts.js", "method_texts.js", "api_texts.js"])
def test_what_the_server_says_is_there_in_all_languages(script: str) -> None:
    rows = server_rows(script)
    assert len({row[0] for row in rows}) == len(rows) > 80
    for row in rows:
        assert len(row) == 3 and all(row), row
        assert len({tuple(sorted(re.findall(r"{\w+}", text))) for text in row}) == 1, row


def test_what_to_do_about_a_file_is_said_in_all_languages() -> None:
    from hoptree.server import indexing_worker as worker
    from hoptree.server.indexing import _left_out

    known = {row[0] for row in server_rows()}
    assert {KNOWN_KINDS, worker._DEFAULT_REMEDY, *worker._REMEDIES.values()} <= known
    troubles = ("is locked with a password", "is not text: it is binary", "is no UTF-8 text and was read as Latin-1")
    assert all(fitting(f"a.txt {trouble}.") for trouble in (*troubles, "is empty", "is not a document of a known kind"))
    assert all(fitting(f"{stage}: 1,234 passages") for stage in ("reading", "copying", "linking", "encoding"))
    assert fitting("2 of 3 pages of a.pdf hold no text; scanned pages need OCR.")
    left_out = [_left_out(name) for name in (".DS_Store", "a.zip", "a.png", "a.txt")]
    assert all(fitting(file["cause"]) and fitting(file["remedy"]) for file in left_out)


def test_failures_are_told_in_all_languages() -> None:
    errors = [error("x") for error, _, _ in _PUBLIC_TEXTS if error not in (InternalError, EndpointError)]
    errors += [EndpointError("x", status=status) for status in (None, 401, 404, 502)]
    errors += [InternalError(ValueError()), EndpointError("x", retryable=True)]
    texts = [text for error in errors for text in public_error(error, "")]
    assert len(texts) > 25 and [text for text in texts if text and not fitting(text)] == []


def refusals(module: str) -> set[str]:
    """The causes and remedies of the refusals in a module of the server, with 5 for every value."""
    tree = ast.parse(files("hoptree.server").joinpath(f"{module}.py").read_text(encoding="utf-8"))
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Refusal"
    ]
    written = [argument for call in calls for argument in call.args[2:4]]
    written += [
        node.value for node in ast.walk(tree) if isinstance(node, ast.Assign) and _names_a_text(node.targets[0])
    ]
    texts = {_filled(text) for text in written if isinstance(text, ast.JoinedStr | ast.Constant)}
    return {text.replace("5 A .zip", f"{KNOWN_KINDS} A .zip") for text in texts}


def _names_a_text(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and target.id.lower().endswith(("cause", "remedy"))


def _filled(text: ast.JoinedStr | ast.Constant) -> str:
    parts = text.values if isinstance(text, ast.JoinedStr) else [text]
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "5" for part in parts)


@pytest.mark.parametrize("module", ["uploads", "corpus_service", "resources", "ask_routes", "runs"])
def test_refusals_are_told_in_all_languages(module: str) -> None:
    for_programs = re.compile("GET |POST ")  # what to do by hand over HTTP; the page has words of its own
    texts = {text for text in refusals(module) if not for_programs.search(text)}
    assert texts and [text for text in sorted(texts) if not fitting(text)] == []


def test_why_a_method_cannot_be_chosen_is_told_in_all_languages() -> None:
    pytest.importorskip("fastapi", reason="needs the extra [server]")
    from hoptree.server.about_routes import NO_CORPUS, NO_GRAPH

    assert fitting(NO_GRAPH) and fitting(NO_CORPUS)


def test_why_files_are_not_taken_is_told_in_all_languages() -> None:
    pytest.importorskip("fastapi", reason="needs the extra [server]")
    from hoptree.server.corpus_routes import NO_RIGHT
    from hoptree.server.settings import Settings

    assert fitting(NO_RIGHT) and fitting(Settings(models={}).uploads_off)


def test_steps_of_the_methods_have_words_in_all_languages() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (Path(hoptree.__file__).parent / "methods").rglob("*.py")]
    call = r'\b(?:generate|write|ask|ask_twice|reply)\(\s*(?:[\w.]+,\s*)?"([a-z_]+)"|\bstep ?= ?"([a-z_]+)"'
    steps = {"".join(names).replace("_", " ") for source in sources for names in re.findall(call, source)}
    rows = {row[0] for row in server_rows()}
    assert {"read", "decompose", "go on"} <= steps
    assert sorted({describe_task(step.replace(" ", "_")) for step in steps} - rows) == []
    assert "{STEP}" in "".join(row for row in rows if row.startswith("Asked the model to"))


def test_what_a_comparison_can_detect_is_said_in_all_languages() -> None:
    notes = [flipped(*counts).power_note(scale=100, unit=" points") for counts in ((1, 0), (5, 0), (0, 0, 5), (3, 2))]
    assert len(set(notes)) == 4 and all(map(fitting, notes))


def test_methods_and_their_options_have_words_in_all_languages() -> None:
    pytest.importorskip("fastapi", reason="needs the extra [server]")
    from hoptree.server.about_routes import option_text

    texts = {method.summary for method in list_methods()}
    for method in list_methods():
        # A free text names a file or a model: the form does not offer it.
        texts |= {
            option_text(method, option)
            for option in method.options
            if option.choices or option.describe().startswith(("on|off", "int", "float"))
        }
    known = {row[0] for row in server_rows("method_texts.js")}
    assert sorted(text for text in texts - known if not fitting(text)) == []
    assert sorted(known - texts) == [], "what nobody says any more"


def test_the_api_has_words_in_all_languages(tmp_path: Path) -> None:
    pytest.importorskip("fastapi", reason="needs the extra [server]")
    from tests.server.running import settings

    from hoptree.server.app import create_app

    texts = set(said_in(create_app(settings(tmp_path)).openapi()))
    known = {row[0] for row in server_rows("api_texts.js")}
    assert len(texts) > 100 and sorted(texts - known) == [] and sorted(known - texts) == []


def said_in(part: Any) -> Iterator[str]:
    """The summaries and descriptions in a part of an OpenAPI document."""
    if isinstance(part, dict):
        for name, value in part.items():
            if name in ("summary", "description") and isinstance(value, str):
                yield value
            yield from said_in(value)
    for each in part if isinstance(part, list) else ():
        yield from said_in(each)


def test_reasons_have_words_in_all_languages() -> None:
    passages = [Passage(name, name, f"Bo was born in {name}, in Lund.") for name in ("A", "B")]
    reasons = {
        OWN_KNOWLEDGE,
        NOT_SAID,
        UNSUPPORTED,
        *candidates._WORDS.values(),
    }
    misfits = [
        explain_misfit("Who is it?", "1 May 1990"),
        explain_misfit("Where is it?", "1 May 1990"),
        explain_misfit("When is it?", "Bo Lund"),
        explain_misfit("How many are there?", "Bo Lund"),
    ]
    assert all(misfits)
    doubts = ["", ", but its last step says “Rome”", ", but the question asks for two things"]
    doubts += [f", but {misfit}" for misfit in misfits]
    doubts += [
        ", but only in a list of contents",
        ", but step 2 has no answer",
        ", but nothing cited is from a.log",
        ", but steps 1, 2 have no answer",
    ]
    for holding, backed, steps, doubt, chance in product(
        (1, 2), (0, 1, 3), (0, 1, 3), (*doubts, None), (None, 0.1, 0.5, 0.9)
    ):
        for answer in ("Lund", "yes"):
            known = min(backed, steps)
            against = _explain_unnamed(answer, steps, known) if doubt is None else doubt
            reasons.add(_weigh_support(holding, known, steps, against, chance, concluded=answer == "yes")[1])
    for read in (0, 1, 7):
        nothing: dict[str, Any] = {
            "computed": False,
            "nodes": (),
            "evidence": passages,
            "cited": (),
            "measured": None,
            "read": passages[:1] * read,
        }
        reasons.add(describe_answer("Where is it?", "", "external", **nothing)[0])
    assert len(reasons) > 30 and UNSUPPORTED in SCRIPTS["answer.js"]
    assert [reason for reason in sorted(reasons) if not fitting(reason)] == []


def test_steps_have_words_in_all_languages() -> None:
    passages = [{"id": "p", "title": "Lund", "text": "t", "score": 1.0}]
    plan: list[dict[str, Any]] = [{"id": number, "question": "?", "parent": None, "refs": []} for number in (1, 2)]
    events = [
        event("start", question="q", method="hop", model="m", fidelity="exact", options={}),
        event("rewritten", question="Who is it?"),
        event("plan", nodes=plan[:1], issues=[]),
        event("plan", nodes=plan, issues=[]),
        event("plan", nodes=plan, issues=[], under=1),
        event("plan", nodes=plan, issues=[], under=1, rebuilt=True),
        event("retrieve", query="x", passages=passages, issued=0.0, seconds=0.1),
        event("retrieve", query="y", passages=[], issued=0.0, seconds=0.1),
        event("retrieve", query="Who is Ada? Ada", where={"title": "Ada"}, passages=[], issued=0.0, seconds=0.1),
        event("retry", step="read", error="x", wait=15.52),
        event("warning", kind="unsupported", message=UNSUPPORTED),
    ]
    for number, source in product((0, 1), ("internal", "external", "synthesis", "fallback", "graph", "")):
        events.append(
            event("node", id=number, state="answered", answer=f"A{number}{source}", source=source, evidence=[])
        )
        events.append(event("node", id=number, state="answered", answer="", source=source, evidence=[]))
    from hoptree.server.streaming import ProgressText

    telling = ProgressText()
    texts = [step["text"] for each in events if (step := telling.step(each))]
    progress = [
        ModelProgress(step="s", read=read, total=9, written=written, seconds=2.0)
        for read, written in ((4, 0), (9, 0), (9, 3))
    ]
    progress.append(ModelProgress(step="s"))
    texts += [f"The model is {each.describe()}" for each in progress]
    assert len(texts) > 20 and "Looked for a page named “Ada”: nothing found" in texts
    assert [text for text in texts if not fitting(text)] == []


def used_texts() -> set[str]:
    """All English texts that the scripts and the page ask for."""
    scripts = "".join(SCRIPTS.values())
    used = {json.loads(text) for text in re.findall(r'\bt\(("(?:[^"\\]|\\.)*")', scripts)}
    for singular, many in re.findall(r'\bcount\([^"`]*?, "(\w+)"(?:, "(\w+)")?\)', scripts):
        used |= {f"{{n}} {singular}", f"{{n}} {many or singular + 's'}"}
    used |= set(re.findall(r"<\w+[^>]* data-text[^>]*>([^<]+)<", TEXTS["index.html"]))
    for table in ("SOURCES", "LOOKED_IN", "VERDICTS"):
        listed = re.search(rf"{table} = {{(.*?)}};", SCRIPTS["words.js"], re.DOTALL)
        assert listed
        used |= set(re.findall(r': "([^"]+)"', listed[1]))
    return used | set(get_args(Level)) | {"method", "model", "corpus", "graph", "retriever", "reranker"}


def test_shades_begin_where_the_terminal_has_them() -> None:
    levels = re.search(r"LEVELS = (\[[^\]]*\])", SCRIPTS["writing.js"])
    assert levels and tuple(json.loads(levels[1])) == LEVELS


def test_the_questions_it_offers_are_the_samples() -> None:
    listed = re.search(r"EXAMPLES = (\[.*?\]);", SCRIPTS["ask.js"], re.DOTALL)
    assert listed
    offered = json.loads(re.sub(r",\s*\]", "]", listed[1]))
    lines = files("hoptree.sample").joinpath("questions.jsonl").read_text(encoding="utf-8").splitlines()
    known = {row["question"] for row in map(json.loads, lines) if row["answerable"]}
    assert len(offered) == 3 and set(offered) <= known


def test_sources_and_verdicts_are_told_as_in_the_terminal() -> None:
    script = SCRIPTS["words.js"].replace("’", "'")
    for words in (*SOURCE_WORDS.values(), *render._LOOKED_IN.values(), *render._VERDICT_WORDS.values()):
        assert f'"{words}"' in script


def results_of_the_page(function: str, *values: Any, of: str = "en", script: str = "words.js") -> list[Any]:
    """What a function of a script makes of each value in a language."""
    module, given = json.dumps(str(PAGE / script)), json.dumps(values)
    program = (
        f"Object.defineProperty(globalThis, 'navigator', {{ value: {{ languages: ['{of}'] }} }});"
        "globalThis.document = { baseURI: 'http://127.0.0.1/' };"
        f"import({module}).then((words) => {given}.map((one) => words.{function}(...[one].flat())))"
        ".then((result) => console.log(JSON.stringify(result)))"
    )
    done = subprocess.run(["node", "-e", program], capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    results: list[Any] = json.loads(done.stdout)
    return results


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_seconds_are_written_as_the_language_writes_numbers() -> None:
    usage = {"prompt_tokens": 1234, "seconds": 2.5}
    assert results_of_the_page("cost", usage)[0].endswith("1,234 tokens read, 0 written · 0 searches · 2.5 s")
    (german,) = results_of_the_page("cost", usage, of="de")
    assert "1.234" in german and german.endswith("2,5 s")
    steps = (
        "Asked the model to read what was found (0.0 s)",
        "The model is reading 1,024 of 2,048 tokens",
        "Sub-question 1.2",
    )
    assert results_of_the_page("translated", *steps, of="de", script="texts.js") == [
        "Das Modell hat geantwortet: lesen (0,0 s)",
        "Das Modell liest 1.024 von 2.048 Tokens",
        "Teilfrage 1.2",
    ]


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_problems_of_several_files_are_translated_each() -> None:
    from hoptree.server.indexing_worker import _nothing_readable, _remedy

    causes = [
        "Dr. X.png is not a document of a known kind.",
        "b.pdf cannot be read as PDF: it is damaged.",
        "c.txt is empty.",
    ]
    error = _nothing_readable([{"cause": cause, "remedy": _remedy(cause)} for cause in causes])
    german = results_of_the_page("translated", error.cause, error.remedy, "Huh. c.txt is.", of="de", script="texts.js")
    assert german == [
        "Nichts von dem Gesendeten ist lesbar: Dr. X.png ist kein Dokument einer bekannten Art. "
        "b.pdf ist nicht als PDF lesbar: beschädigt. c.txt ist leer.",
        "Berichtigen Sie sie, und senden Sie sie noch einmal. Speichern Sie sie noch einmal als PDF, oder senden Sie "
        "ihren Text. Lassen Sie sie weg, oder senden Sie eine mit Text.",
        "Huh. c.txt is.",
    ]
    (chinese,) = results_of_the_page("translated", error.cause, of="zh", script="texts.js")
    assert chinese.endswith("不是已知类型的文档。b.pdf 无法作为 PDF 读取：已损坏。c.txt 是空的。")


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_a_search_for_a_page_is_told_in_german() -> None:
    searches = ("Looked for pages called “Rom”", "Looked for a page named “Rom”: nothing found")
    assert results_of_the_page("translated", *searches, of="de", script="texts.js") == [
        "Seiten namens „Rom“ gesucht",
        "Eine Seite namens „Rom“ gesucht: keine gefunden",
    ]


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
@pytest.mark.parametrize(
    ("passed", "words"),
    [
        (0, "The model is reading 714 of 9,917 tokens, 7 a second, about 1,271 s left"),
        (70.2, "The model is reading 714 of 9,917 tokens, 7 a second, about 1,201 s left"),
        (1271, "The model is reading 714 of 9,917 tokens"),
    ],
)
def test_the_estimate_counts_down(passed: float, words: str) -> None:
    now = ModelProgress(step="read", read=714, total=9917, seconds=714 / 7.2406)
    text = f"The model is {now.describe()}"
    assert results_of_the_page("translated", words, of="de", script="texts.js") != [words]
    assert results_of_the_page("countedDown", [text, passed]) == [words]


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_the_quoted_sentence_is_the_marked_one() -> None:
    has = Passage("p", "Has", "He led Łódź's school. He died in Łódź, as Foo [3] says, in 2000. Ada did not.")
    bach = Passage("b", "Bach", "Bach war alt. Er starb in Köln.")
    quoted = cite_answer("Where was it in 2000?", "Łódź", [0], [has, bach])
    german = cite_answer("Wo starb Bach?", "Köln", [0, 1], [has, bach])
    words = results_of_the_page("quotation", [quoted, 1], [quoted, 2], [german, 2], ["It is A [1].", 1], ["", 1])
    assert words == ["He died in Łódź, as Foo […] says, in 2000.", "", "Er starb in Köln.", "", ""]
    both = "Yes [3]: “Has said: “so”.” [2] “He did.” [1]"
    assert results_of_the_page("quotation", [both, 1], [both, 2], [both, 3]) == ["He did.", "Has said: “so”.", ""]
    sentences = ["He led Łódź.", "He died in Łódź, as Foo [3] says, in 2000."]
    led = {"answers": ["Łódź"], "question": "Who led?"}
    marked = results_of_the_page(
        "usedSentence",
        *([sentences, led | {"quote": quote}] for quote in ("", words[0], "…died in Łódź, as…", "Of another text.")),
        [["Bo; x: 1", "Bo; b: 2; c: 3"], {"quote": "Bo; …; c: 3"}],
        script="evidence.js",
    )
    assert marked == [0, 1, 1, 0, 1]


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_files_are_named_in_the_letters_of_the_question() -> None:
    questions = ("Wie heißt die Schlange für u\u0308ble Uploads?", "他在哪里去世？", "कहाँ है?", "?", "\U00020000" * 70)
    named = ["wie-heißt-die-schlange-für-üble-uploads", "他在哪里去世", "कहाँ-है", "answer", "\U00020000" * 60]
    assert results_of_the_page("fileName", *questions, script="export.js") == named


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_a_guess_is_told_once_and_an_export_speaks_the_readers_language() -> None:
    result = {"question": "q?", "answer": "a", "sentence": "Possibly a: so.", "tree": []}
    guessed, supported = (
        {**result, "confidence": {"level": level, "reason": reason}}
        for level, reason in (
            ("a guess", NOT_SAID),
            ("well supported", "a passage that was read says so"),
        )
    )
    own = {**guessed, "confidence": {"level": "a guess", "reason": OWN_KNOWLEDGE}}
    bare = {**guessed, "sentence": ""}
    expected = ["", "", "Geraten: nichts Gelesenes sagt es.", "Gut belegt: eine gelesene Stelle sagt es."]
    assert results_of_the_page("support", guessed, own, bare, supported, of="de") == expected
    (saved,) = results_of_the_page("markdown", supported, of="de", script="export.js")
    assert "*Gut belegt: eine gelesene Stelle sagt es.*" in saved


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_a_verdict_is_told_in_the_same_words_as_in_the_terminal() -> None:
    answered = TreeNode(1, "q?", answer="a", hypothesis="a", state="answered")
    cases = product(("supported", "refuted", "unknown"), ((), ("wrong",)), ("internal", "external", "synthesis"))
    nodes = [replace(answered, verdict=verdict, struck=struck, source=source) for verdict, struck, source in cases]
    verdicts = results_of_the_page("verdict", *(node.as_dict() for node in nodes))
    for node, words in zip(nodes, verdicts, strict=True):
        assert words and render._validated(node).plain.endswith(f"[{words}]"), node


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_only_marks_of_its_own_are_citations_in_a_sentence() -> None:
    sentence = "sys.argv[1] is read [2][1]: “As Foo[3] says, argv[0][1] is the name.” [3]"
    (pieces,) = results_of_the_page("pieces", sentence)
    assert [part for part in pieces if isinstance(part, int)] == [2, 1, 3]
    assert "".join(f"[{part}]" if isinstance(part, int) else part for part in pieces) == sentence


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_an_answer_is_saved_in_the_language_of_its_page() -> None:
    confidence = {"level": "partly supported", "reason": "a passage that was read says so"}
    asked = {"question": "Wer?", "answer": "Ada", "sentence": "Ada.", "confidence": confidence}
    (markdown,) = results_of_the_page("markdown", asked, of="de", script="export.js")
    assert "*Teilweise belegt: eine gelesene Stelle sagt es" in markdown


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
@pytest.mark.parametrize(
    ("answer", "text", "held"),
    [
        ("Rome", "Romeo is a play.", False),
        ("Rome", "He died in rome.", True),
        ("北京", "首都是北京。", True),
        ("I", "I saw the codes I2, I-2 and I.4.", False),
        ("I", "He wrote an I in the sand.", True),
        ("B", "The codes B-4, 4.B and B 12.", False),
        ("B", "It is rich in vitamin B.", True),
    ],
)
def test_a_passage_of_the_graph_is_joined_to_an_answer_it_holds(answer: str, text: str, held: bool) -> None:
    passages = [{"id": "a", "title": "Play", "text": text}, {"id": "b", "title": "Rom", "text": "x"}]
    (edges,) = results_of_the_page("graphOf", {"answer": answer, "evidence": passages}, script="graph.js")
    assert len(edges["edges"]) == held


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_without_an_answer_it_is_told_how_much_was_read() -> None:
    stopped = {"sentence": "No answer was found.", "stopped_by": "calls"}
    read = {"sentence": "No answer was found in the 2 passages that were read."}
    sentences = results_of_the_page("noAnswer", read, stopped, {})
    assert sentences[0].endswith("in the 2 passages that were read.")
    assert sentences[1].endswith("None yet: it was stopped (calls).")
    assert sentences[2].endswith("None: no answer was found.")
