"""Print how large the code base is, what one question touches and how fast a command starts, each against its goal.

    python benchmarks/house.py            # all figures; exit code 1 where a goal is missed
    python benchmarks/house.py --quick    # without the start-up times
    python benchmarks/house.py --tests    # also times `make test`

A question is asked in two hops with the default method and a scripted model over the packaged sample. Start-up is the
least processor time of several runs, which other work on the machine changes little, as a ratio to `python -c pass`.
"""

from __future__ import annotations

import argparse
import ast
import http.server
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "hoptree"
QUESTION = "In which city did the director of The Hourglass Sanatorium die?"
SCRIPT = [
    {"step": "decompose", "reply": '{"query1": {"question": "Who directed The Hourglass Sanatorium?", '
     '"children": {"query2": "In which city did #query1 die?"}}}'},
    {"step": "read", "contains": "did the director of", "reply": "unknown"},
    {"step": "final", "reply": "Łódź"},
    {"regex": r"Who (directed|is the director of) The Hourglass Sanatorium\?", "reply": "Wojciech Jerzy Has"},
    {"reply": "Łódź"},
]  # fmt: skip
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
_SMALL_FILE_LINES = 80
_RUNS = 7
_PROBE = """
import json, sys, threading
files = set()
def profile(frame, event, arg):
    code = frame.f_code
    # A function of ours: bodies of modules and classes are not optimised (flag 1).
    if event != "call" or "/hoptree/" not in code.co_filename or not code.co_flags & 1 or code.co_filename in files:
        return
    caller = frame.f_back
    while caller is not None and caller.f_code.co_name != "<module>":
        caller = caller.f_back
    if caller is None or "/hoptree/" not in caller.f_code.co_filename:  # else it only runs while a module is imported
        files.add(code.co_filename)
sys.setprofile(profile); threading.setprofile(profile)
from hoptree.__main__ import main
sys.argv = ["hoptree", *sys.argv[2:]]
out = sys.argv.pop(1)
try:
    main()
except SystemExit:
    pass
sys.setprofile(None)
modules = sorted(name for name in sys.modules if name.split(".")[0] == "hoptree")
json.dump({"files": sorted(files), "modules": modules}, open(out, "w"))
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured number and the most it may be; no goal: for information."""

    name: str
    value: float
    goal: float | None = None

    @property
    def missed(self) -> bool:
        return self.goal is not None and self.value > self.goal

    def line(self) -> str:
        verdict = "" if self.goal is None else f"goal {self.goal:>8,g}  {'FAIL' if self.missed else 'pass'}"
        return f"{self.name:<62} {self.value:>10,.{0 if self.value >= 100 else 1}f}  {verdict}".rstrip()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="leave out the start-up times")
    parser.add_argument("--tests", action="store_true", help="time `make test` as well")
    chosen = parser.parse_args()
    figures = [*measure_source(), *measure_docs(), *measure_ask()]
    if not chosen.quick:
        figures += measure_startup()
    if chosen.tests:
        figures.append(measure_tests())
    print("\n".join(figure.line() for figure in figures))
    return int(any(figure.missed for figure in figures))


def measure_source() -> Iterable[Figure]:
    """Count files, lines, large files, and small files that only one other file imports."""
    files = sorted(SOURCE.rglob("*.py"))
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    importers = count_importers(files)
    small = [path for path in files if importers[path] == 1 and lines[path] < _SMALL_FILE_LINES]
    small = [path for path in small if path.name != "__init__.py"]
    for path in small:
        print(f"  {path.relative_to(ROOT)}: {lines[path]} lines, one importer")
    yield Figure("source files", len(files), 330)
    yield Figure("source lines", sum(lines.values()), 64_000)
    yield Figure("longest file, lines", max(lines.values()), 450)
    yield Figure(f"files under {_SMALL_FILE_LINES} lines with one importer", len(small), 0)


def count_importers(files: Iterable[Path]) -> Counter[Path]:
    """Count how many other files of the package import each file."""
    modules = {".".join(path.relative_to(SOURCE.parent).with_suffix("").parts): path for path in files}
    modules = {name.removesuffix(".__init__"): path for name, path in modules.items()}
    importers: Counter[Path] = Counter()
    for path in modules.values():
        imported = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = (f"{node.module}.{alias.name}" for alias in node.names)
                imported |= {modules.get(name) or modules.get(node.module) for name in names}
            elif isinstance(node, ast.Import):
                imported |= {modules.get(alias.name) for alias in node.names}
        importers.update(target for target in imported if target is not None and target != path)
    return importers


def measure_docs() -> Iterable[Figure]:
    """Count the words of all documents but the changelog and the generated reference."""
    paths = [
        path
        for path in ROOT.rglob("*.md")
        if not {".venv", ".git", ".pytest_cache", "build", "reference"} & set(path.parts)
    ]
    words = {path: len(path.read_text(encoding="utf-8").split()) for path in paths if path.name != "CHANGELOG.md"}
    readme = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    yield Figure("words of documents, reference not counted", sum(words.values()), 32_000)
    yield Figure("lines of README.md", len(readme), 130)


def measure_ask() -> Iterable[Figure]:
    """Ask a question of two hops, and count the files whose functions ran and the modules that were loaded."""
    with tempfile.TemporaryDirectory() as folder:
        script, out = Path(folder) / "model.json", Path(folder) / "seen.json"
        script.write_text(json.dumps({"replies": SCRIPT}), encoding="utf-8")
        asked = [
            "ask",
            QUESTION,
            "--corpus",
            "sample",
            "--model",
            f"scripted/{script}",
            "--set",
            "effort=high",
            "--no-cache",
        ]
        command = [sys.executable, "-c", _PROBE, "-", str(out), *asked]
        shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
        if not re.search("2[.] In which city did Wojciech Jerzy Has die.*Łódź", shown):
            raise SystemExit(f"the question was not answered in two hops:\n{shown}")
        seen = json.loads(out.read_text(encoding="utf-8"))
    yield Figure("files that one `hoptree ask` passes through", len(seen["files"]), 40)
    yield Figure("modules of hoptree that it loads", len(seen["modules"]), 150)


def measure_startup() -> Iterable[Figure]:
    """Compare the time to `--help`, and to the first request of `ask`, with that of a bare interpreter."""
    bare = least(lambda: processor_seconds(["-c", "pass"]))
    shown = least(lambda: processor_seconds(["-m", "hoptree", "--help"]))
    asked = least(time_to_first_request)
    yield Figure("bare interpreter, milliseconds", 1000 * bare)
    yield Figure("`hoptree --help`, times a bare interpreter", shown / bare, 8)
    yield Figure("`hoptree ask` to its first request, times a bare interpreter", asked / bare, 15)


def least(measure: Callable[[], float]) -> float:
    measure()  # warms the file cache and the bytecode
    return min(measure() for _ in range(_RUNS))


def processor_seconds(arguments: list[str], until: threading.Event | None = None) -> float:
    """Run Python, to its end or `until` something happens; return the processor time that it took."""
    command = [sys.executable, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=_ENVIRONMENT)
    if until is not None:
        happened = until.wait(60)
        process.kill()
        if not happened:
            raise SystemExit(f"no request came within a minute of: {' '.join(command)}")
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if until is None and process.returncode:
        raise SystemExit(f"this failed: {' '.join(command)}")
    return used.ru_utime + used.ru_stime


def time_to_first_request() -> float:
    """Start `hoptree ask` against an endpoint of this process; return its processor time until it gets there."""
    reached = threading.Event()

    class Endpoint(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            reached.set()

        def log_message(self, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}/v1"
    asked = ["ask", QUESTION, "--corpus", "sample", "-m", "openai/none", "--base-url", address, "--no-cache"]
    try:
        return processor_seconds(["-m", "hoptree", *asked], until=reached)
    finally:
        server.shutdown()
        server.server_close()


def measure_tests() -> Figure:
    began = time.perf_counter()
    subprocess.run(["make", "-C", str(ROOT), "test"], check=True)
    return Figure("`make test`, minutes", (time.perf_counter() - began) / 60, 5)


if __name__ == "__main__":
    sys.exit(main())
