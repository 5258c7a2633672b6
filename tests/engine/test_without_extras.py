"""What the base install offers: optional packages are asked for where they are used, not to list methods."""

from __future__ import annotations

import subprocess
import sys

BLOCKED = ("pyoxigraph", "torch", "llama_cpp", "scipy", "starlette", "mcp", "ray", "onnxruntime")


def test_every_method_is_listed_without_any_optional_package() -> None:
    blocked = f"import sys; sys.modules.update(dict.fromkeys({BLOCKED!r}));"
    listed = "from hoptree.engine.registry import list_methods; print(len(list_methods()))"
    done = subprocess.run([sys.executable, "-c", blocked + listed], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20
