"""Call the command line within this process, which is faster than starting another."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import patch

from hoptree.__main__ import main


def call(*arguments: str, folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Return what `python -m hoptree` with these arguments prints in this folder, and its exit code.

    Tests of signals, standard input and encodings need another process.
    """
    out, err = io.BytesIO(), io.BytesIO()
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(io.TextIOWrapper(out, encoding="utf-8", write_through=True)),
        contextlib.redirect_stderr(io.TextIOWrapper(err, encoding="utf-8", write_through=True)),
        patch.dict(os.environ, environment, clear=True),
        patch.multiple(sys, argv=["hoptree", *arguments], stdin=io.StringIO()),
        patch.object(os, "_exit", sys.exit),  # a model that another test left open must not end the tests
    ):
        code = _exit_code()
        printed = [stream.getvalue().decode() for stream in (out, err)]
    return subprocess.CompletedProcess(["hoptree", *arguments], code, *printed)


def _exit_code() -> int:
    try:
        main()
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 1 if leaving.code else 0
    except BaseException:
        traceback.print_exc()
        return 1
    return 0
