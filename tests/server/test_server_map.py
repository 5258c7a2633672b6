"""The map of the server's modules names all of them."""

from __future__ import annotations

import re
from pathlib import Path

import hoptree.server


def test_every_module_is_on_the_map() -> None:
    folder = Path(hoptree.server.__file__).parent
    there = {path.stem for path in folder.glob("*.py")} - {"__init__", "app"}
    named = set(re.findall(r"[\w/]+", (hoptree.server.__doc__ or "").partition("at the door")[2]))
    assert there <= named
    assert {f"routes/{path.stem}" for path in folder.glob("routes/*.py")} - named <= {
        "routes/__init__",
        "routes/about",
        "routes/searches",
    }
