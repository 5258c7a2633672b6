"""The protocol of encoders, what all encoders share, and micro-batching of queries."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from hoptree.core.errors import ConfigError
from hoptree.core.lazy import lazy_import

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    FloatArray = NDArray[numpy.float32]
else:
    FloatArray = Any

np = lazy_import("numpy", "Dense retrieval", "dense")
Item = TypeVar("Item")
Result = TypeVar("Result")


class Window(Generic[Item, Result]):
    """Collects items for `seconds` after the first one, or until there are `most`, and sends them in one call.

    `call` returns a result for each item, in order. Its error reaches every caller of that batch; a cancelled caller
    does not affect the others. A window can be used in one event loop after another.
    """

    def __init__(
        self,
        call: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        seconds: float = 0.003,
        most: int = 64,
    ) -> None:
        self._call, self._seconds, self._most = call, seconds, most
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def __call__(self, item: Item) -> Result:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # callers of a loop that has ended cannot be answered
            self._loop, self._waiting, self._timer = loop, [], None
        future: asyncio.Future[Result] = loop.create_future()
        self._waiting.append((item, future))
        if len(self._waiting) >= self._most:
            self._send()
        elif self._timer is None:
            self._timer = loop.call_later(self._seconds, self._send)
        return await future

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch = [(item, future) for item, future in self._waiting if not future.done()]
        self._waiting = []
        if batch:
            task = asyncio.get_running_loop().create_task(self._answer(batch))
            self._running.add(task)  # the loop itself holds tasks only weakly
            task.add_done_callback(self._running.discard)

    async def _answer(self, batch: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await self._call([item for item, _ in batch])
            if len(results) != len(batch):
                raise ValueError(f"{len(results)} results for {len(batch)} items")
        except BaseException as error:
            for _, future in batch:
                if future.done():
                    continue
                if isinstance(error, asyncio.CancelledError):
                    future.cancel()
                else:
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)


Role = Literal["query", "passage"]

_E5 = re.compile(r"(?<![a-z0-9])e5(?![a-z0-9])")
_DIGEST_DIGITS = 12
_OTHER_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".h5")
_SAMPLE_BYTES = 2**20


class Encoder(Protocol):
    """Turns texts into rows of unit length, each independent of the texts beside it.

    `identity` is what determines the rows: the name, the digest of the weights or the endpoint, and the prefixes.
    `remote` says that texts leave the machine.
    """

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> str: ...

    @property
    def dimensions(self) -> int:
        """The length of a row; 0 for an endpoint that has not answered yet."""
        ...

    @property
    def remote(self) -> bool: ...

    async def encode(self, texts: Sequence[str], *, role: Role) -> FloatArray: ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Prefixes:
    """What a model was trained to see before a query and before a passage."""

    query: str = ""
    passage: str = ""

    @classmethod
    def of_name(cls, name: str) -> Prefixes:
        """Return the prefixes of the e5 family for its members, but for the instructed ones, which want a sentence."""
        lower = name.lower()
        return cls("query: ", "passage: ") if _E5.search(lower) and "instruct" not in lower else cls()

    def before(self, texts: Sequence[str], role: Role) -> list[str]:
        prefix = self.query if role == "query" else self.passage
        return [f"{prefix}{text}".encode("utf-8", "replace").decode() for text in texts]  # no lone surrogates

    def __str__(self) -> str:
        return json.dumps([self.query, self.passage]) if self.query or self.passage else ""


def folder_prefixes(folder: Path) -> Prefixes:
    """Return the prompts that a folder's own settings name, else those of its name."""
    prompts = read_settings(folder / "config_sentence_transformers.json").get("prompts")
    if isinstance(prompts, dict) and any(isinstance(prompt, str) and prompt for prompt in prompts.values()):
        passage = prompts.get("passage") or prompts.get("document") or ""
        return Prefixes(str(prompts.get("query") or ""), str(passage))
    return Prefixes.of_name(folder.resolve().name)


def read_settings(path: Path) -> dict[str, Any]:
    """Read the settings of a JSON file of a model; none where the file is missing."""
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read ({error}).", "Get the model's folder again.") from error
    return settings if isinstance(settings, dict) else {}


def digest_of(*files: Path) -> str:
    """Return the beginning of the SHA-256 of these files together."""
    digest = hashlib.sha256()
    for path in files:
        try:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            raise ConfigError(f"{path} cannot be read ({error}).", "Get the model's folder again.") from error
    return digest.hexdigest()[:_DIGEST_DIGITS]


def weights_digest(folder: Path) -> str:
    """Return a digest of a model's weights, "" if the folder holds none."""
    if not folder.is_dir():
        return ""
    if weights := sorted(folder.glob("*.safetensors")):
        return digest_of(*weights)
    digest = hashlib.sha256()
    others = sorted(path for path in folder.rglob("*") if path.suffix in _OTHER_WEIGHTS)
    for path in others:
        try:
            with path.open("rb") as file:
                size = file.seek(0, 2)
                digest.update(f"{path.relative_to(folder)}\0{size}\0".encode("utf-8", "replace"))
                for start in (0, max(size - _SAMPLE_BYTES, 0)):
                    file.seek(start)
                    digest.update(file.read(_SAMPLE_BYTES))
        except OSError as error:
            raise ConfigError(f"{path} cannot be read ({error}).", "Get the model's folder again.") from error
    return digest.hexdigest()[:_DIGEST_DIGITS] if others else ""


def unit_rows(rows: Any) -> FloatArray:
    """Return the rows at length one; a row of zeros, which an empty text gives, stays as it is."""
    wide = np.asarray(rows, dtype=np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    unit: FloatArray = (wide / np.where(lengths == 0, 1, lengths)).astype(np.float32)
    return unit


def query_window(encoder: Encoder) -> Window[str, FloatArray]:
    """Return a window that encodes queries which arrive almost at once together."""

    async def encode(queries: Sequence[str]) -> Sequence[FloatArray]:
        return list(await encoder.encode(queries, role="query"))

    return Window(encode)
