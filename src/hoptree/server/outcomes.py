"""How the last change of a corpus ended, kept with it: its job can be asked for after a restart, too."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict

from hoptree.server.corpora import Managed
from hoptree.server.jobs import Job
from hoptree.server.pending import Failure
from hoptree.whole_files import write_whole

__all__ = ["keep_outcome", "last_outcome"]

_LOG = logging.getLogger("hoptree.server")


def keep_outcome(corpus: Managed, job: Job) -> None:
    """Write down how a job has ended; without that it is known until the server's next start."""
    told = job.as_dict() | {"error": asdict(Failure.of(job.error)) if job.error else None}
    try:
        write_whole(corpus.outcome, [json.dumps(told)])
    except OSError as error:
        _LOG.warning("the outcome of a job of corpus %s cannot be kept: %s", corpus.name, error.strerror)


def last_outcome(corpus: Managed) -> Job | None:
    """The last job of a corpus that has ended, as far as that is known."""
    try:
        data = json.loads(corpus.outcome.read_text(encoding="utf-8"))
        if data["corpus"] != corpus.name:  # it was copied
            return None
        failure = Failure.read(data["error"])
        return Job(
            str(data["kind"]),
            corpus.name,
            str(data["id"]),
            state="failed" if failure else "done",
            done=int(data["done"]),
            total=None if data["total"] is None else int(data["total"]),
            message=str(data["message"]),
            passed_over=[{part: str(one[part]) for part in ("file", "cause", "remedy")} for one in data["passed_over"]],
            error=failure.refusal() if failure else None,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
