"""The verdicts of judges on a run's answers, in its folder: a line a verdict, each of which names its judge.

A line without a question says who judges from there on. A verdict counts for the very words it was given on: an answer
that changed since is not judged.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

from hoptree.errors import InputError
from hoptree.evaluation.judge import JudgeReport, Verdict
from hoptree.evaluation.lines import LineFile, read_lines

__all__ = ["JUDGEMENTS", "Answered", "Judge", "Judgements", "JudgementsFile", "read_judgements", "words_of"]

JUDGEMENTS = "judgements.jsonl"
_VERDICT = frozenset(one.name for one in fields(Verdict))


class Answered(Protocol):
    """A question with what was answered, and what would have been right."""

    @property
    def id(self) -> str: ...

    @property
    def question(self) -> str: ...

    @property
    def answers(self) -> tuple[str, ...]: ...

    @property
    def answer(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Judge:
    """Who judges: a model by its name and identity, and the prompt it is given."""

    name: str
    identity: str
    template: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.identity}\0{self.template}".encode("utf-8", "replace")).hexdigest()[:12]


@dataclass(slots=True)
class Judgements:
    """What one judge said of a run; with each verdict, the digest of the words it was given on."""

    judge: Judge
    verdicts: dict[str, tuple[str, Verdict]] = field(default_factory=dict)

    def on(self, row: Answered) -> Verdict | None:
        """The verdict on an answer, if it was judged as it is now."""
        words, verdict = self.verdicts.get(row.id, ("", None))
        return verdict if verdict is not None and words == words_of(row) else None

    def report(self, rows: Iterable[Answered]) -> JudgeReport:
        """The verdicts on those of the answers that were judged."""
        verdicts = tuple(verdict for row in rows if (verdict := self.on(row)) is not None)
        return JudgeReport(self.judge.name, self.judge.template, verdicts)


def words_of(row: Answered) -> str:
    """A digest of the question, the answer and the accepted ones."""
    words = json.dumps([row.question, row.answer, row.answers])
    return hashlib.sha256(words.encode()).hexdigest()[:16]


def read_judgements(folder: Path) -> list[Judgements]:
    """All judges of a run with their verdicts, the one that judged last at the end.

    Judges go by their names: verdicts of one that had other weights or another prompt at the time do not count.
    """
    found: dict[str, Judgements] = {}
    path = folder / JUDGEMENTS
    for number, line in read_lines(path):
        try:
            name, digest = line["judge"], line["digest"]
            if "id" not in line:
                judge = Judge(name, line["identity"], line["template"])
                before = found.pop(name, None)
                found[name] = before if before and before.judge == judge else Judgements(judge)
            elif digest == found[name].judge.digest:
                found[name].verdicts[line["id"]] = (line["words"], _verdict(line))
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"Line {number} of {path} is no verdict: {error}.", "Take the line out, and judge the run again."
            ) from error
    return list(found.values())


class JudgementsFile:
    """The file, open for the verdicts of one judge, who is named there with the first of them."""

    def __init__(self, folder: Path, judge: Judge) -> None:
        self._judge = judge
        self._named = False
        self._file = LineFile(folder / JUDGEMENTS)

    async def name(self) -> None:
        """Say who judges from here on."""
        if not self._named:
            self._named = True
            about = {"identity": self._judge.identity, "template": self._judge.template}
            await self._file.add({"judge": self._judge.name, "digest": self._judge.digest} | about)

    async def add(self, row: Answered, verdict: Verdict) -> None:
        await self.name()
        about = {"judge": self._judge.name, "digest": self._judge.digest, "words": words_of(row)}
        await self._file.add(about | asdict(verdict))

    def close(self) -> None:
        self._file.close()


def _verdict(line: Mapping[str, Any]) -> Verdict:
    verdict = Verdict(**{name: value for name, value in line.items() if name in _VERDICT})
    if type(verdict.correct) is not bool or not isinstance(verdict.id, str):
        raise TypeError("it is neither right nor wrong")
    return verdict
