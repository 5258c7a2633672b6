"""The method of docs/tutorials/your-own-method.md, in a package of its own, announced by an entry point."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "your-own-method.md"


def twice(folder: Path, code: str) -> tuple[dict[str, Any], str]:
    """Ask the page's method as another package's: what JSON says, and what `hoptree show` draws of its trace."""
    (folder / "my_methods.py").write_text(code, encoding="utf-8")
    info = folder / "my_methods-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-methods\nVersion: 0.1\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[hoptree.methods]\ntwice = my_methods\n", encoding="utf-8")
    script, trace = folder / "model.json", str(folder / "trace.jsonl")
    script.write_text(json.dumps({"replies": [{"reply": ["Wojciech Has", "Łódź"]}]}), encoding="utf-8")
    path = os.pathsep.join([str(folder), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])

    def hoptree(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "hoptree", *arguments],
            capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        return done.stdout

    question = "In which city did the director of The Hourglass Sanatorium die?"
    asked = ["ask", question, "--corpus", "sample", "--method", "twice", "--set", "k=3", "--no-cache", "--json"]
    result: dict[str, Any] = json.loads(hoptree(*asked, "--model", f"scripted/{script}", "--trace", trace))
    assert json.loads(hoptree("show", trace, "--json"))["decisions"] == result["decisions"]
    return result, hoptree("show", trace)


def test_a_method_of_another_package_answers(tmp_path: Path) -> None:
    code, _, *_ = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(code.strip().splitlines()) <= 30
    result, drawn = twice(tmp_path, code)
    assert result["answer"] == "Łódź"
    assert result["decisions"] == [] and "second" not in drawn, "decided by name: it stands in the trace"
    assert result["method"] == "twice" and result["options"] == {"k": 3, "titles": True}
    assert result["usage"]["retrievals"] == 2


def test_a_decision_of_another_package_is_shown_as_its_class_says(tmp_path: Path) -> None:
    code, decided, *_ = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert "@decision" in decided
    imports, line, rest = code.partition("@method")
    by_name = 'ctx.decide("second_search", len(new), query=draft.text)'
    assert by_name in rest
    by_type = rest.replace(by_name, "ctx.emit(SecondSearch(value=len(new), query=draft.text))")
    result, drawn = twice(tmp_path, f"{imports}{decided}\n\n{line}{by_type}")
    [shown] = result["decisions"]
    assert (shown["kind"], shown["query"]) == ("second_search", "Wojciech Has")
    assert f"\nsecond search: {shown['value']} (query Wojciech Has)\n" in drawn
