"""The questions of the server's benchmark share no calls."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from benchmarks.server import SCRIPT, asked_about, make_index

from hoptree.engine.engine import Engine


def test_concurrent_questions_share_no_call(tmp_path: Path) -> None:
    make_index(tmp_path / "index")
    script = tmp_path / "films.json"
    script.write_text(json.dumps(SCRIPT | {"latency": 0.01}))

    async def both() -> None:
        async with Engine(method="taikc", model=f"scripted/{script}", corpus=tmp_path / "index", cache=None) as engine:
            results = await asyncio.gather(*(engine.ask(asked_about(film)) for film in ("1-1", "2-1")))
        for result in results:
            assert result.answer == "1948"
            assert result.usage.llm_calls == 11 and result.usage.cached_calls == 0

    asyncio.run(both())
