"""The method of docs/tutorials/your-own-method.md, in a package of its own, announced by an entry point."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "your-own-method.md"


def test_a_method_of_another_package_answers(tmp_path: Path) -> None:
    code, _, *_ = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(code.strip().splitlines()) <= 30
    (tmp_path / "my_methods.py").write_text(code, encoding="utf-8")
    info = tmp_path / "my_methods-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-methods\nVersion: 0.1\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[hoptree.methods]\ntwice = my_methods\n", encoding="utf-8")
    script = tmp_path / "model.json"
    script.write_text(json.dumps({"replies": [{"reply": ["Wojciech Has", "Łódź"]}]}), encoding="utf-8")
    question = "In which city did the director of The Hourglass Sanatorium die?"
    asked = ["ask", question, "--corpus", "sample", "--method", "twice", "--set", "k=3", "--no-cache", "--json"]
    path = os.pathsep.join([str(tmp_path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    done = subprocess.run(
        [sys.executable, "-m", "hoptree", *asked, "--model", f"scripted/{script}"],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    result = json.loads(done.stdout)
    assert result["answer"] == "Łódź"
    assert result["method"] == "twice" and result["options"] == {"k": 3, "titles": True}
    assert result["usage"]["retrievals"] == 2
