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


QUESTION = "In which city did the director of The Hourglass Sanatorium die?"


def ask(folder: Path, name: str, block: int, replies: list[dict[str, Any]], *options: str) -> dict[str, Any]:
    """Ask a method of the page from a package of its own; return what `--json` prints."""
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[block]
    assert len(code.strip().splitlines()) <= (30 if block == 0 else 40)
    (folder / "my_methods.py").write_text(code, encoding="utf-8")
    info = folder / "my_methods-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-methods\nVersion: 0.1\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[hoptree.methods]\n{name} = my_methods\n", encoding="utf-8")
    script = folder / "model.json"
    script.write_text(json.dumps({"replies": replies}), encoding="utf-8")
    asked = ["ask", QUESTION, "--corpus", "sample", "--method", name, "--no-cache", "--json", *options]
    path = os.pathsep.join([str(folder), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    done = subprocess.run(
        [sys.executable, "-m", "hoptree", *asked, "--model", f"scripted/{script}"],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_a_method_of_another_package_answers(tmp_path: Path) -> None:
    result = ask(tmp_path, "twice", 0, [{"reply": ["Wojciech Has", "Łódź"]}], "--set", "k=3")
    assert result["answer"] == "Łódź"
    assert result["method"] == "twice" and result["options"] == {"k": 3, "titles": True}
    assert result["usage"]["retrievals"] == 2


def test_a_method_of_another_package_shows_its_tree_and_decisions(tmp_path: Path) -> None:
    first = "Who directed The Hourglass Sanatorium?"
    script = [
        {"step": "halves/first", "reply": first},
        {"contains": f"Question: {first}", "reply": "Wojciech Jerzy Has"},
        {"reply": "Łódź"},
    ]
    result = ask(tmp_path, "halves", 1, script)
    assert result["answer"] == "Łódź"
    assert [(node["question"], node["answer"]) for node in result["tree"]] == [(first, "Wojciech Jerzy Has")]
    assert [row["kind"] for row in result["decisions"]] == ["first_half"]
