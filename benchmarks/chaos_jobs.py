"""The jobs that `benchmarks/chaos.py` troubles: what each begins with, its command, and what it leaves."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import resource
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import httpx
from tests.e2e.endpoint import Endpoint, Seen, film_question, films, index_of, number_of, script_films
from tests.forking import PROCESSES, Command
from tests.small_indexes import mention_pairs, rows, write_rows

import hoptree
from hoptree.core.errors import HoptreeError
from hoptree.evaluation.run_folder import read_rows
from hoptree.retrieval.bm25 import BM25
from hoptree.retrieval.index.folder import Index, read_manifest
from hoptree.retrieval.indexing import add_to_index, build_index, compact_index
from hoptree.retrieval.indexing import run as indexing_run
from hoptree.retrieval.indexing.check import check_all
from hoptree.retrieval.linked import Linked

__all__ = ["JOBS", "Job", "Kind", "Parts", "Trouble"]

Kind = Literal["none", "kill", "time", "full", "size", "read-only", "two", "clock"]
Parts = list[tuple[str, object]]
"""What a job leaves, each part by its name; a name that comes twice is a part that was made twice."""

_CHANGES = ("os.rename", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.remove", "os.rmdir")
_GROWS = ("os.mkdir", "os.link", "os.symlink")
_QUESTIONS = 8
_ROWS = 400
_TRAINING_SIZE = 21
_PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended."""

    code: int | None
    errors: str = ""


@dataclass(frozen=True)
class Trouble:
    """What happens to a process; `at` is a step, a share of a second, or a number of bytes."""

    kind: Kind = "none"
    at: float = 0.0
    folder: Path = Path()
    steps: Any = None
    seconds: Any = None

    def __call__(self) -> None:
        """Begin, in the process that is troubled."""
        indexing_run._SAVE_EVERY, indexing_run._AT_ONCE = 100, 50
        if self.kind == "time":
            signal.setitimer(signal.ITIMER_PROF, self.at)  # no Python handles the signal: it ends the process
        elif self.kind == "size":
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(self.at), resource.RLIM_INFINITY))
        elif self.kind == "clock":
            for name, value in (("time", 0.0), ("time_ns", 0)):
                setattr(time, name, lambda value=value: value)
        if self.kind in ("none", "kill", "full", "read-only"):
            self._watch()

    def _watch(self) -> None:
        """Count the steps that touch a file of the folder; kill at one of them, or refuse what changes anything."""
        watched, within, seen = os.getpid(), self.folder, 0

        def on_event(event: str, given: tuple[Any, ...]) -> None:
            nonlocal seen
            if event not in (*_CHANGES, "open") or os.getpid() != watched:
                return
            if not isinstance(given[0], str | bytes) or not Path(os.fsdecode(given[0])).absolute().is_relative_to(
                within
            ):
                return
            seen += 1
            if self.steps is not None:
                self.steps.value, self.seconds.value = seen, time.process_time()
            writes = event in _CHANGES or bool(given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
            if self.kind == "kill" and seen >= self.at:
                os.kill(watched, signal.SIGKILL)
            elif self.kind == "read-only" and writes:
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), given[0])
            elif self.kind == "full" and seen >= self.at and writes and (event == "open" or event in _GROWS):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), given[0])

        sys.addaudithook(on_event)


class Job(ABC):
    """Work that is troubled, the folder it begins with, and what it leaves there."""

    @abstractmethod
    def make(self, folder: Path) -> None:
        """Make what the work begins with."""

    @abstractmethod
    def attempt(self, folder: Path, trouble: Trouble) -> Ended:
        """Do the work once, in a process of its own; with `two`, twice at the same time."""

    @abstractmethod
    def read(self, folder: Path) -> Parts:
        """Read what the work left."""

    def close(self) -> None:  # noqa: B027, most jobs hold nothing
        """Release what the job holds."""


class CommandJob(Job):
    """A job that is one command."""

    @abstractmethod
    def arguments(self) -> list[str]:
        """Return the command line after `hoptree`."""

    def attempt(self, folder: Path, trouble: Trouble) -> Ended:
        started = [Command(self.arguments(), _environment(folder), folder, replace(trouble, folder=folder))]
        if trouble.kind == "two":
            started.append(Command(self.arguments(), _environment(folder), folder, Trouble()))
        ends = [command.communicate(timeout=_PATIENCE_S) for command in started]
        errors = "".join(err for _, err in ends)
        return Ended(started[0].returncode, errors)


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "HOPTREE_"))}
    own = {"XDG_CACHE_HOME": str(folder / "cache"), "HOPTREE_CACHE": str(folder / "replies.sqlite"), "NO_COLOR": "1"}
    source = str(Path(hoptree.__file__).parent.parent)
    return {**kept, **own, "OPENAI_API_KEY": "none", "NO_PROXY": "127.0.0.1", "PYTHONPATH": source}


class Run(CommandJob):
    """A run over an endpoint; a call is repeated where the reply to an earlier one was already used."""

    def __init__(self, workers: int = 0) -> None:
        self._workers = workers
        self._held = ExitStack()
        self._endpoint = self._held.enter_context(Endpoint())
        script_films(self._endpoint)
        self._used: Counter[str] = Counter()
        self._open: set[str] = set()

    def close(self) -> None:
        self._held.close()

    def make(self, folder: Path) -> None:
        index_of(folder, *films(_QUESTIONS))
        asked = [{"id": f"f{n}", "question": film_question(n), "answers": [str(1900 + n)]} for n in range(_QUESTIONS)]
        write_rows(folder / "data.jsonl", asked)  # type: ignore[arg-type]

    def arguments(self) -> list[str]:
        words = (
            f"run --method taikc --data data.jsonl --corpus index --model openai/test --base-url {self._endpoint.url}"
        )
        more = ["--workers", str(self._workers)] if self._workers else []
        return [*words.split(), "--out", "out", "--json", "--concurrency", "4", *more]

    def attempt(self, folder: Path, trouble: Trouble) -> Ended:
        if not (folder / "out").exists():
            self._used.clear()
            self._open.clear()
        ended = super().attempt(folder, trouble)
        while not self._endpoint.is_idle():  # workers outlive a run that was killed by a moment
            time.sleep(0.01)
        seen: list[Seen] = self._endpoint.requests
        last = {number_of(request): request.key for request in seen} if ended.code else {}
        self._used.update(request.key for request in seen if last.get(number_of(request)) != request.key)
        self._open.update(last.values())
        seen.clear()
        return ended

    def read(self, folder: Path) -> Parts:
        counted = ("llm_calls", "prompt_tokens", "completion_tokens", "retrievals")
        found = read_rows(folder / "out")
        timeless = [
            replace(row, usage={name: row.usage[name] for name in counted}, trace="", rests_on="") for row in found
        ]
        lines = (folder / "out" / "results.jsonl").read_text(encoding="utf-8").splitlines()
        ids = [f"line {json.loads(line)['id']}" for line in lines]
        calls = [re.sub(r"\s+", " ", key) for key in (*self._used.elements(), *(self._open - set(self._used)))]
        return [*((f"row {row.id}", row) for row in timeless), *((name, 0) for name in (*ids, *calls))]


class IndexChange(CommandJob):
    """A change of an index of two files."""

    def __init__(self, what: str) -> None:
        self._what = what

    def make(self, folder: Path) -> None:
        write_rows(folder / "docs" / "a.jsonl", rows(_ROWS), ns=10**18)
        write_rows(folder / "more.jsonl", rows(_ROWS, _ROWS), ns=10**18)
        if self._what == "build":
            return
        build_index(folder / "docs", folder / "idx")
        if self._what == "update":
            changed = [{**row, "text": f"{row['text']} Changed."} for row in rows(_ROWS // 2)]
            write_rows(folder / "docs" / "a.jsonl", changed, ns=10**18 + 1)
            write_rows(folder / "docs" / "b.jsonl", rows(_ROWS, _ROWS), ns=10**18)
        elif self._what in ("remove", "compact"):
            add_to_index([folder / "more.jsonl"], folder / "idx")

    def arguments(self) -> list[str]:
        words = {
            "build": ["docs"],
            "add": ["more.jsonl"],
            "remove": [str(rows(1, 7)[0]["id"]), "more.jsonl"],
        }
        return ["index", self._what, *words.get(self._what, []), "--out", "idx"]

    def read(self, folder: Path) -> Parts:
        check_all(Index(folder / "idx"))
        manifest = read_manifest(folder / "idx")
        links = sorted(mention_pairs(folder / "idx"))
        # What was removed counts in the scores until then, and a killed change may leave its old folder until the next.
        compact_index(folder / "idx")
        kept = [path.name for path in (folder / "idx").iterdir() if path.is_dir()]
        index = Index(folder / "idx")
        texts = [(f"passage {passage.id}", passage.text) for _, _, passage in index.texts.scan()]
        hits = [
            (f"search {type(finder).__name__} {query}", [passage.id for passage in finder.search_now(query, 10)])
            for finder in (BM25(index), Linked(index))
            for query in ("friend of Person Number77", "town3 number170", "lives in town5")
        ]
        return [("digest", manifest.digest), ("folders", len(kept)), ("links", links), *texts, *hits]


class GraphLoad(CommandJob):
    """More triples for a graph."""

    def make(self, folder: Path) -> None:
        from hoptree.graph.loading import load_graph

        for name, start in (("old", 0), ("new", 300)):
            facts = [{"s": f"Film {n}", "p": "directed by", "o": f"Person {n % 9}"} for n in range(start, start + 300)]
            write_rows(folder / f"{name}.jsonl", facts)
        load_graph(folder / "kg", [folder / "old.jsonl"])

    def arguments(self) -> list[str]:
        return ["graph", "load", "new.jsonl", "--out", "kg"]

    def read(self, folder: Path) -> Parts:
        from hoptree.graph.embedded import EmbeddedGraph

        graph = EmbeddedGraph(folder / "kg")
        found = asyncio.run(graph.query("SELECT ?s ?o WHERE { ?s ?p ?o }", limit=5_000)).rows
        sources = [(f"source {source.name}", source) for source in graph.manifest.sources]
        parts = [path.name for path in (folder / "kg").glob("*.part")]
        return [*sources, ("half", parts), *((json.dumps(row, sort_keys=True, default=str), 0) for row in found)]


@contextmanager
def _serving(folder: Path, trouble: Trouble) -> Iterator[tuple[Command, httpx.Client | None]]:
    words = f"serve --port 0 --no-cache --corpora own --corpus idx -m demo=scripted/{folder / 'script.json'}"
    server = Command(words.split(), _environment(folder), folder, replace(trouble, folder=folder / "own"))
    try:
        address = re.search(r"http://127\.0\.0\.1:\d+", server.stderr.readline())
        if address is None:
            yield server, None
            return
        with httpx.Client(base_url=address[0], timeout=_PATIENCE_S, trust_env=False) as client:
            yield server, client
    finally:
        server.kill()


class Upload(Job):
    """A client that makes a corpus, adds to it and removes from it, and repeats only what was not accepted."""

    def make(self, folder: Path) -> None:
        write_rows(folder / "rows.jsonl", rows(20))
        build_index(folder / "rows.jsonl", folder / "idx")
        (folder / "script.json").write_text(json.dumps({"replies": [{"reply": "1948"}]}), encoding="utf-8")

    def attempt(self, folder: Path, trouble: Trouble) -> Ended:
        with _serving(folder, trouble) as (server, client):
            if trouble.kind == "two":
                with _serving(folder, Trouble()) as (second, _):
                    second.communicate(timeout=_PATIENCE_S)
            try:
                code = 0 if client is not None and self._ask(client, folder) else 1
                server.kill()
            except httpx.TransportError:
                code = None
            errors = server.communicate(timeout=_PATIENCE_S)[1]
            return Ended(server.returncode if code is None else code, errors)

    def _ask(self, client: httpx.Client, folder: Path) -> bool:
        """Whether all changes are made; how many were accepted is in a file of the client's own."""
        accepted = folder / "accepted"
        done = int(accepted.read_text()) if accepted.exists() else 0
        more = {"files": ("more.jsonl", json.dumps(rows(1, 50)[0]).encode())}
        first = [("files", ("ada.txt", b"Ada keeps bees.")), ("files", ("bob.txt", b"Bob keeps ants."))]
        changes: list[tuple[Callable[[], httpx.Response], str]] = [
            (lambda: client.post("/v1/corpora", data={"name": "mine"}, files=first), "NameTaken"),
            (lambda: client.post("/v1/corpora/mine/documents", files=more), ""),
            (lambda: client.delete("/v1/corpora/mine/documents/bob.txt"), "NotFound"),
        ]
        while any(corpus.get("job") for corpus in client.get("/v1/corpora").json()["corpora"]):
            time.sleep(0.05)  # what was accepted before is taken up first
        for number, (change, refused_when_made) in enumerate(changes[done:], done + 1):
            while (reply := change()).status_code == 409 and "Retry-After" in reply.headers:  # another is under way
                time.sleep(0.05)
            made = reply.status_code != 202 and reply.json()["error"]["class"] == refused_when_made
            if not made and reply.status_code != 202:
                return False
            accepted.write_text(str(number))
            if not made and not self._is_done(client, reply.json()["job"]):
                accepted.write_text(str(number - 1))
                return False
        return True

    @staticmethod
    def _is_done(client: httpx.Client, job: str) -> bool:
        while (state := client.get(f"/v1/jobs/{job}").json()["state"]) == "running":
            time.sleep(0.05)
        return bool(state == "done")

    def read(self, folder: Path) -> Parts:
        mine = folder / "own" / "mine"
        files = [(f"document {path.name}", path.read_bytes()) for path in (mine / "documents").iterdir()]
        index = Index(mine / "index")
        texts = [(f"passage {passage.id}", passage.text) for _, _, passage in index.texts.scan()]
        return [*files, *texts, ("pending", (mine / "pending").exists())]


class Training(Job):
    """A LoRA training of a tiny random model."""

    def make(self, folder: Path) -> None:
        from tests.models.hf_models import saved
        from tests.training.lora.small_sets import many, write

        saved(folder / "base", "plain")
        write(folder / "set.jsonl", many(_TRAINING_SIZE, 10))

    def attempt(self, folder: Path, trouble: Trouble) -> Ended:
        started = [PROCESSES.Process(target=_train, args=(folder, replace(trouble, folder=folder / "out")))]
        if trouble.kind == "two":
            started.append(PROCESSES.Process(target=_train, args=(folder, Trouble())))
        for process in started:
            process.start()
        for process in started:
            process.join()
        errors = (folder / "errors").read_text(encoding="utf-8") if (folder / "errors").exists() else ""
        (folder / "errors").unlink(missing_ok=True)
        return Ended(started[0].exitcode, errors)

    def read(self, folder: Path) -> Parts:
        out = folder / "out"
        log = [json.loads(line) for line in (out / "log.jsonl").read_text(encoding="utf-8").splitlines()]
        files = [(path.name, path.read_bytes()) for path in out.glob("adapter*")]
        names = sorted(path.name for path in out.iterdir() if path.name != "write.lock")
        return [*files, ("files", names), *((f"step {row['step']}", row["loss"]) for row in log)]


def _train(folder: Path, trouble: Trouble) -> None:
    import traceback

    from tests.training.lora.test_lora_train import RECIPE

    from hoptree.training.lora.dataset import Pace
    from hoptree.training.lora.train import TrainingSpec, train

    spec = TrainingSpec(f"hf/{folder / 'base'}", (folder / "set.jsonl",), folder / "out", RECIPE, Pace("cpu", 2))
    trouble()
    try:
        train(spec)
    except HoptreeError as error:
        sys.exit(error.exit_code)
    except Exception:
        (folder / "errors").write_text(traceback.format_exc(), encoding="utf-8")
        sys.exit(1)


JOBS: dict[str, Callable[[], Job]] = {
    "run": Run,
    "workers": lambda: Run(workers=2),
    **{what: lambda what=what: IndexChange(what) for what in ("build", "add", "remove", "update", "compact")},  # type: ignore[misc]
    "graph": GraphLoad,
    "upload": Upload,
    **({"training": Training} if find_spec("torch") and find_spec("peft") else {}),
}
