"""Two servers never share a folder of corpora: the second is told so, and a killed one is in nobody's way."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from tests.command_line import call
from tests.server.corpora_made import add, create, search_texts
from tests.server.running import running, settings

from hoptree.core.errors import ConfigError
from hoptree.server.app import open_state


def test_a_second_server_is_refused_and_touches_nothing(tmp_path: Path) -> None:
    own = tmp_path / "own"
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"replies": [{"reply": "1948"}]}))
    with running(settings(tmp_path, corpora_folder=own)) as server:
        create(server, {"a.txt": b"Ada keeps bees."})
        (own / ".incoming" / "under-way").mkdir(parents=True)
        words = ["serve", "--port", "0", "--no-cache", "--corpora", str(own), "-m", f"scripted/{script}"]
        done = call(*words, folder=tmp_path, environment={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")})
        assert (done.returncode, done.stdout) == (2, "")
        assert "Another server" in done.stderr and "--corpora" in done.stderr and "Traceback" not in done.stderr
        assert (own / ".incoming" / "under-way").exists()
        assert add(server, {"b.txt": b"Bob paints boats."})["state"] == "done" and search_texts(server, "boats")


def test_a_server_that_stopped_leaves_the_folder_to_the_next(tmp_path: Path) -> None:
    wanted = settings(tmp_path, corpora_folder=tmp_path / "own")
    first = open_state(wanted)
    with pytest.raises(ConfigError, match="Another server"):
        open_state(wanted)
    asyncio.run(first.aclose())
    asyncio.run(open_state(wanted).aclose())


def test_a_server_that_was_killed_leaves_the_folder_to_the_next(tmp_path: Path) -> None:
    held = (
        "import sys, time; from pathlib import Path; from tests.server.running import settings;"
        "from hoptree.server.app import open_state;"
        "folder = Path(sys.argv[1]); state = open_state(settings(folder, corpora_folder=folder / 'own'));"
        "print('open', flush=True); time.sleep(600)"
    )
    wanted = settings(tmp_path, corpora_folder=tmp_path / "own")
    process = subprocess.Popen([sys.executable, "-c", held, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "open\n"
        with pytest.raises(ConfigError, match="Another server"):
            open_state(wanted)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    asyncio.run(open_state(wanted).aclose())
