"""Extract facts from every passage of a corpus, durably and resumably."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from hoptree import __version__
from hoptree.core.backoff import SHUT_OUT_STATUS, CircuitBreaker
from hoptree.core.errors import BudgetSpent, CorpusError, InputError, ModelError
from hoptree.core.values import Passage
from hoptree.corpus.document import Problems
from hoptree.corpus.files import find_files
from hoptree.corpus.read import read_passages
from hoptree.engine.calls import Calls, open_calls
from hoptree.engine.context import Budget, Context, Prices
from hoptree.engine.events import PassageTruncated, TextQuarantined
from hoptree.engine.prompts import prompt_for, show_texts
from hoptree.engine.schedule import together
from hoptree.engine.trace import ModelCalled, Trace
from hoptree.extraction.folder import FACTS, Entry, ExtractionFolder, Spent
from hoptree.methods.steps.fact_extraction import LeftOut, StatedFact, ground_triples, read_triples
from hoptree.models.model import Model
from hoptree.retrieval.index.folder import MANIFEST, Index, sample_index
from hoptree.retrieval.retriever import is_remote

_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Passages:
    """A corpus to read."""

    name: str
    identity: str  # a digest of its content
    known: int | None  # number of passages, if known
    stream: Callable[[Problems], Iterator[Passage]]
    problems: Problems = field(default_factory=Problems)

    def distinct(self, limit: int | None = None) -> Iterator[tuple[int, Passage]]:
        """Yield the first `limit` distinct passages with their keys."""
        return islice(_each_once(self.stream(Problems(self.problems.limit))), limit)

    def count(self, limit: int | None = None) -> int:
        """Return the number of passages, at most `limit`; none is an error."""
        if self.known is None:
            total = sum(1 for _ in islice(_each_once(self.stream(self.problems)), limit))
        else:
            total = self.known if limit is None else min(limit, self.known)
        if not total:
            why = f" ({self.problems.summary()})" if self.problems.counts else ""
            raise CorpusError(f"{self.name} holds no passage{why}.", "Give a corpus with text in it.")
        return total


def _each_once(passages: Iterator[Passage]) -> Iterator[tuple[int, Passage]]:
    seen: set[int] = set()
    for passage in passages:
        if (key := passage_key(passage)) not in seen:
            seen.add(key)
            yield key, passage


def passage_key(passage: Passage) -> int:
    """Return a digest of a passage's id, title and text as a number."""
    content = f"{passage.id}\0{passage.title}\0{passage.text}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest())


def open_passages(corpus: str) -> Passages:
    """Open an index, a file or folder of documents, or the packaged sample."""
    if is_remote(corpus):
        cause = f"{corpus} is an engine elsewhere, which cannot be read through."
        raise InputError(cause, "Give an index made by hoptree index, or the documents themselves.")
    path = sample_index() if corpus == "sample" else Path(corpus)
    if (path / MANIFEST).exists():
        index = Index(path)
        identity, known = f"index:{index.manifest.digest}", index.manifest.passages
        return Passages(corpus, identity, known, lambda _: (passage for _, _, passage in index.texts.scan()))
    return Passages(corpus, f"files:{_digest(path)}", None, lambda problems: read_passages(path, problems=problems))


def _digest(path: Path) -> str:
    """Return the digest of all files of a corpus with their names below it."""
    digest = hashlib.sha256()
    for file in find_files(path):
        name = "" if path.is_file() else file.name
        digest.update(f"{name}\0{file.size}\0".encode("utf-8", "surrogatepass"))
        try:
            with file.path.open("rb") as stream:
                while block := stream.read(_BLOCK_BYTES):
                    digest.update(block)
        except OSError:
            digest.update(b"unreadable")  # reading the passages reports it
    return digest.hexdigest()[:32]


_MAX_TOKENS = 512  # about thirty facts; a small model that repeats itself would use any limit up
_PROMPT_SET, _STEP = "graph", "facts"


@dataclass(frozen=True, slots=True)
class Extracted:
    """The facts of a passage, why triples were left out, and how the reply ended."""

    facts: tuple[StatedFact, ...] = ()
    left_out: Mapping[LeftOut, int] = field(default_factory=dict)
    readable: bool = True
    cut_off: bool = False


def _prompt_template() -> str:
    """Return the name and digest of the prompt."""
    return prompt_for(_PROMPT_SET, _STEP).template


async def extract_facts(ctx: Context, passage: Passage) -> Extracted:
    """Ask for the facts of a passage, in its spelling, without instructions in it."""
    parts = [Passage(passage.id, "", passage.title), replace(passage, title="")]
    title, text = (shown.strip() for shown in show_texts(ctx, parts, titles=False))
    if not text:
        return Extracted()
    prompt = prompt_for(_PROMPT_SET, _STEP).fill(title=title or "(none)", passage=text)
    reply = await ctx.generate(_STEP, prompt, role="extract", max_tokens=_MAX_TOKENS)
    cut_off = reply.finish == "length"
    read = read_triples(reply.text, cut=cut_off)
    facts, left_out = ground_triples(read.triples, title, text)
    if read.malformed:
        left_out["malformed"] = read.malformed
    return Extracted(facts, left_out, read.understood, cut_off)


_MAX_AT_ONCE, _PASSAGES_PER_SLOT = 512, 2
_SKIPPED_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class ExtractionSpec:
    """The settings of an extraction.

    `limit` takes the first passages of the corpus. Once this call's `budget` is spent, no further passage is started.
    `only` reads that many and stops, to estimate the cost. `anyway` resumes in a folder of another corpus, model or
    prompt.
    """

    corpus: str
    out: Path
    limit: int | None = None
    only: int | None = None
    budget: Budget = field(default_factory=Budget)
    prices: Prices = field(default_factory=Prices)
    cache: str | Path | None = "default"
    concurrency: int | None = None
    anyway: bool = False


@dataclass(slots=True)
class Progress:
    """Progress of an extraction; `new` passages were read in this call."""

    total: int
    done: int = 0
    new: int = 0
    facts: int = 0
    calls: int = 0
    cached: int = 0
    tokens: int = 0
    cost: float = 0.0
    failed: list[dict[str, str]] = field(default_factory=list)
    stopped_by: str = ""
    began: float = 0.0


Listener = Callable[[Progress], None]


async def extract(
    spec: ExtractionSpec, model: Model, *, on_progress: Listener = lambda progress: None
) -> dict[str, Any]:
    """Extract the facts of all passages that are not done, and report on all.

    A passage whose call fails is listed, and the next run of the command reads it. If all fail, the error is raised.
    """
    passages = open_passages(spec.corpus)
    if spec.out.resolve().is_relative_to(Path(spec.corpus).resolve()):
        cause = f"{spec.out} lies inside the corpus, and would be read as a part of it."
        raise InputError(cause, "Give another --out.")
    total = passages.count(spec.limit)
    folder = ExtractionFolder(spec.out)
    rests_on = {
        "corpus": passages.identity,
        "model": model.identity,
        "prompt": f"{_prompt_template()}, {_MAX_TOKENS} tokens",
        "corpus_name": passages.name,
        "model_name": model.name,
        "hoptree": __version__,
    }
    folder.begin(rests_on, anyway=spec.anyway, current=lambda: {key for key, _ in passages.distinct()})
    calls = open_calls(spec.cache, concurrency=spec.concurrency)
    try:
        reading = _Reading(spec, model, calls, folder, total, on_progress)
        try:
            await reading.read_all(passages)
        finally:
            folder.name_failed(reading.progress.failed)
    finally:
        folder.close()
        calls.close()
    return _report(spec, model, passages, folder, reading.progress, calls)


class _Reading:
    """Reads passages concurrently, within the budget of one call of the command."""

    def __init__(
        self,
        spec: ExtractionSpec,
        model: Model,
        calls: Calls,
        folder: ExtractionFolder,
        total: int,
        on_progress: Listener,
    ) -> None:
        self._spec, self._model, self._calls, self._folder = spec, model, calls, folder
        self._on_progress = on_progress
        self.progress = Progress(total, facts=folder.totals.counts["facts"], began=time.monotonic())
        self._begun = 0
        slots = min(model.slots, spec.concurrency or model.slots)
        self._at_once = max(1, min(_MAX_AT_ONCE, _PASSAGES_PER_SLOT * slots))
        self._breaker = CircuitBreaker(self._at_once)
        self._last_failure: ModelError | None = None

    async def read_all(self, passages: Passages) -> None:
        waiting = passages.distinct(self._spec.limit)
        self._on_progress(self.progress)
        await together(self._work(waiting) for _ in range(self._at_once))
        if self._last_failure is not None and not self._folder.done:
            raise self._last_failure
        self._on_progress(self.progress)

    async def _work(self, waiting: Iterator[tuple[int, Passage]]) -> None:
        while (keyed := await self._next(waiting)) is not None:
            key, passage = keyed
            try:
                entry = await self._read(key, passage)
            except ModelError as error:
                self._fail(passage, error)
            else:
                self._breaker.success()
                await self._keep(entry)
            self._on_progress(self.progress)

    async def _next(self, waiting: Iterator[tuple[int, Passage]]) -> tuple[int, Passage] | None:
        """Return the next passage that is not done; None at the end or limit."""
        while not self._spent():
            keyed = next(waiting, None)
            if keyed is None or keyed[0] not in self._folder.done:
                self._begun += keyed is not None
                return keyed
            self.progress.done += 1
            if self.progress.done % _SKIPPED_AT_ONCE == 0:
                self._on_progress(self.progress)
                await asyncio.sleep(0)  # let others process their replies
        return None

    def _spent(self) -> bool:
        if self.progress.stopped_by or self._begun == self._spec.only:
            return True
        try:
            self._spec.budget.check(self._begun, self.progress.tokens, self.progress.cost)
        except BudgetSpent as spent:
            self.progress.stopped_by = spent.limit
        seconds = self._spec.budget.seconds
        if seconds is not None and time.monotonic() - self.progress.began >= seconds:
            self.progress.stopped_by = "seconds"
        return bool(self.progress.stopped_by)

    async def _read(self, key: int, passage: Passage) -> Entry:
        prices, trace = self._spec.prices, Trace(passage.id)
        ctx = Context(method="graph", model=self._model, calls=self._calls, trace=trace, prices=prices)
        extracted = await extract_facts(ctx, passage)
        events = ctx.trace.events
        calls = [event for event in events if isinstance(event, ModelCalled)]
        names = ("prompt_tokens", "completion_tokens", "cost", "seconds")
        sums = {name: sum(getattr(call, name) for call in calls) for name in names}
        price = sum(call.full_price for call in calls)
        return Entry(
            key,
            passage.id,
            passage.document,
            extracted.facts,
            {str(why): count for why, count in extracted.left_out.items()},
            extracted.readable,
            extracted.cut_off,
            shortened=any(isinstance(event, PassageTruncated) for event in events),
            orders=any(isinstance(event, TextQuarantined) for event in events),
            spent=Spent(len(calls), sum(call.cached for call in calls), price=price, **sums),
        )

    async def _keep(self, entry: Entry) -> None:
        await self._folder.add(entry)
        progress, spent = self.progress, entry.spent
        progress.done += 1
        progress.new += 1
        progress.facts += len(entry.facts)
        progress.calls += spent.calls
        progress.cached += spent.cached
        progress.tokens += spent.prompt_tokens + spent.completion_tokens
        progress.cost += spent.cost

    def _fail(self, passage: Passage, error: ModelError) -> None:
        failure = {"passage": passage.id, "error": type(error).__name__, "message": str(error)}
        self.progress.failed.append(failure)
        self._last_failure = error
        # A prompt that is too long is not a failure of the endpoint.
        if error.retryable or getattr(error, "status", None) in SHUT_OUT_STATUS:
            self._breaker.failure(error)


def _report(
    spec: ExtractionSpec, model: Model, passages: Passages, folder: ExtractionFolder, progress: Progress, calls: Calls
) -> dict[str, Any]:
    totals, seconds = folder.totals, time.monotonic() - progress.began
    warnings = [str(calls.cache_failure)] if calls.cache_failure else []
    if totals.spent["calls"] and not totals.spent["prompt_tokens"]:
        warnings.append("The model does not say how many tokens it used: they and their price are counted as none.")
    report = {
        "corpus": passages.name,
        "model": model.name,
        "prompt": _prompt_template(),
        "folder": str(spec.out),
        "file": str(spec.out / FACTS),
        "passages": progress.total,
        **totals.as_dict(),
        "new": progress.new,
        "now": {"calls": progress.calls, "cached": progress.cached, "tokens": progress.tokens, "cost": progress.cost},
        "seconds": round(seconds, 1),
        "failed": progress.failed,
        "stopped_by": progress.stopped_by,
        "passed_over": dict(passages.problems.counts),
        "warnings": warnings,
    }
    if spec.only is not None:
        report["estimate"] = _estimate(folder, progress, seconds)
    return report


def _estimate(folder: ExtractionFolder, progress: Progress, seconds: float) -> dict[str, float | None]:
    """Estimate the cost of the remaining passages from those that are done."""
    counts, spent = folder.totals.counts, folder.totals.spent
    left = max(0, progress.total - counts["finished"])
    share = left / max(counts["finished"], 1)
    return {
        "passages": left,
        "llm_calls": round(spent["calls"] * share),
        "tokens": round((spent["prompt_tokens"] + spent["completion_tokens"]) * share),
        "facts": round(counts["facts"] * share),
        "cost": round(spent["price"] * share, 6),
        "seconds_one_by_one": round(spent["seconds"] * share, 1),
        "seconds_like_the_sample": round(seconds * left / progress.new, 1) if progress.new else None,
    }
