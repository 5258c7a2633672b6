"""The map of the server's modules names all of them."""

from __future__ import annotations

import re
from pathlib import Path

import hoptree.server


def test_every_module_is_on_the_map() -> None:
    folder = Path(hoptree.server.__file__).parent
    there = {path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.py")}
    named = set(re.findall(r"[\w/]+", hoptree.server.__doc__ or ""))
    assert there - {"__init__"} <= named
