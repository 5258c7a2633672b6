"""Requests and replies of llama.cpp's server, and the choice of its KV slots."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hoptree.core.errors import EndpointError, ModelError, RequestTooLong, UnusableReply
from hoptree.core.files import cache_dir
from hoptree.core.values import Token
from hoptree.models.model import (
    Message,
    Progress,
    Reply,
    Request,
    TokenUsage,
    read_choice,
    read_finish,
    read_token,
    read_usage,
)

_PROGRESS_INTERVAL_S = 1.0


@dataclass(slots=True)
class Completion:
    """One streamed completion, put together."""

    text: str = ""
    reasoning: str = ""
    finish: str = ""
    tokens: list[Token] = field(default_factory=list)
    usage: TokenUsage = field(default_factory=TokenUsage)


def request_body(request: Request, seed: int) -> dict[str, Any]:
    messages = [{"role": message.role, "content": message.content} for message in request.messages]
    if request.prefix:
        messages.append({"role": "assistant", "content": request.prefix})
    body: dict[str, Any] = {
        "messages": messages,
        "max_tokens": request.max_tokens,
        "seed": seed,
        # Streaming lets a call be stopped, progress also while a long prompt is read.
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,
        **sampling(request.temperature, request.top_p, request.top_k),
    }
    if request.stop:
        body["stop"] = list(request.stop)
    if request.top_logprobs:
        body.update(logprobs=True, top_logprobs=request.top_logprobs)
    if request.json_schema:
        try:
            schema = json.loads(request.json_schema)
        except ValueError as error:
            raise EndpointError("The request's JSON schema is not JSON.", "Correct the schema.") from error
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}
    return body


def sampling(temperature: float, top_p: float = 1.0, top_k: int = 0) -> dict[str, Any]:
    """Return sampling parameters, with the cut-offs of llama.cpp and the file off."""
    plain = {"temperature": temperature, "top_p": 1.0, "min_p": 0.0, "repeat_penalty": 1.0}
    if temperature == 0:
        return {**plain, "top_k": 1}
    if top_p == 1 and not top_k:
        return {**plain, "top_k": 0}
    # llama.cpp would cut off before applying the temperature.
    return {**plain, "top_p": top_p, "top_k": top_k, "samplers": ["temperature", "top_k", "top_p"]}


def assemble(chunks: Sequence[dict[str, Any]]) -> Completion:
    done = Completion()
    for chunk in chunks:
        if "choices" not in chunk:
            raise refusal_error(chunk)
        for choice in chunk["choices"]:
            delta = choice.get("delta") or {}
            done.text += delta.get("content") or ""
            done.reasoning += delta.get("reasoning_content") or ""
            done.finish = choice.get("finish_reason") or done.finish
            done.tokens.extend(map(read_token, (choice.get("logprobs") or {}).get("content") or ()))
        if usage := chunk.get("usage"):
            done.usage = read_usage(usage)
    if not done.finish:
        raise UnusableReply("llama.cpp ended a completion without saying why.", "Try again.")
    return done


def progress_of_chunks(clock: Callable[[], float] = time.monotonic) -> Callable[[dict[str, Any]], Progress | None]:
    """Return a function that reads the progress of a completion from its chunks.

    It returns a Progress for every batch of the prompt, and once a second while the reply is written; otherwise None.
    """
    read = Progress(0, 0)
    written, next_time = 0, 0.0

    def follow(chunk: dict[str, Any]) -> Progress | None:
        nonlocal read, written, next_time
        now = chunk.get("prompt_progress")
        if isinstance(now, dict):
            seconds = float(now.get("time_ms", 0)) / 1000
            read = Progress(int(now["processed"]), int(now["total"]), int(now.get("cache", 0)), 0, seconds)
            return read
        written += any((choice.get("delta") or {}).get("content") for choice in chunk.get("choices") or ())
        if not written or clock() < next_time:
            return None
        next_time = clock() + _PROGRESS_INTERVAL_S
        return read._replace(written=written)

    return follow


def refusal_error(chunk: dict[str, Any]) -> ModelError:
    detail = chunk.get("error")
    if not isinstance(detail, dict):
        cause = f"llama.cpp answered with something other than a completion: {str(chunk)[:200]}."
        return UnusableReply(cause, "Try again.")
    status = detail.get("code") if isinstance(detail.get("code"), int) else None
    if detail.get("type") == "exceed_context_size_error":
        cause = f"The prompt has {detail.get('n_prompt_tokens')} tokens and the model's context {detail.get('n_ctx')}."
        remedy = "Raise it (local/NAME?n_ctx=8192), or read fewer passages (--set k=…)."
        return RequestTooLong(cause, remedy, status=status)
    message = str(detail.get("message", detail)).rstrip(".")
    return EndpointError(f"llama.cpp refused the request: {message}.", status=status, retryable=(status or 0) >= 500)


def build_reply(completions: Sequence[Completion], prefix: str) -> Reply:
    choices = []
    for done in completions:
        # llama.cpp repeats the beginning it was given; the reply holds the continuation, as its tokens do.
        text, finish = done.text.removeprefix(prefix), read_finish(done.finish)
        choices.append(read_choice(text, reasoning=done.reasoning, finish=finish, tokens=done.tokens))
    usages = [done.usage for done in completions]
    written, thought = sum(usage.completion for usage in usages), sum(usage.reasoning for usage in usages)
    # The samples share one prompt: it is counted once, as endpoints count it.
    return Reply(tuple(choices), replace(usages[0], completion=written, reasoning=thought))


@dataclass(slots=True)
class Slot:
    """A KV slot: its last prompt, the key of its opening, and its adapter scale."""

    number: int
    step: str = ""
    prompt: str = ""
    used: int = 0
    busy: bool = False
    opening: str = ""
    adapted: float | None = None


class SlotPool:
    """Chooses the slot of a call: one that its step used before, or the longest idle.

    llama.cpp would choose by how much of the prompt matches: the few words that all prompts of a chat template share
    would suffice to give one step's slot to another.
    """

    def __init__(self, count: int) -> None:
        self._slots = [Slot(number) for number in range(count)]
        self._lock = threading.Lock()
        self._clock = 0

    def take(self, step: str, prompt: str) -> Slot:
        with self._lock:
            idle = [slot for slot in self._slots if not slot.busy]
            if same := [slot for slot in idle if slot.step == step]:
                slot = max(same, key=lambda slot: len(os.path.commonprefix((slot.prompt, prompt))))  # noqa: RUF071
            else:
                slot = min(idle, key=lambda slot: slot.used)
            self._clock += 1
            slot.step, slot.prompt, slot.used, slot.busy = step, prompt, self._clock, True
            return slot

    def give_back(self, slot: Slot) -> None:
        with self._lock:
            slot.busy = False


_MAX_FOLDER_BYTES = 512 * 2**20
_MIN_OPENING_CHARS = 80  # shorter beginnings are read again as quickly as a file
_TIMEOUT_S = 600.0  # a state is saved and restored between the batches of other calls, which may be long ones
_SUFFIX, _PART_SUFFIX = ".state", ".part"
_DIGEST_BYTES = hashlib.sha256().digest_size


def states_folder() -> Path:
    return cache_dir() / "states"


@dataclass(frozen=True, slots=True)
class Opening:
    """The beginning of a prompt that its template fixes, and the key of its state."""

    messages: tuple[Message, ...]
    key: str


def find_opening(request: Request, identity: str) -> Opening | None:
    """Return the opening of a request, unless it is too short to be worth a file.

    `identity` names everything but the text that a state depends on: weights, context, build of the library.
    """
    if sum(len(message.content) for message in request.opening) < _MIN_OPENING_CHARS:
        return None
    parts = [identity, *(f"{message.role}\n{message.content}" for message in request.opening)]
    return Opening(request.opening, hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest())


class PromptStates:
    """State files of one llama.cpp server, each ending in a digest of key and content.

    llama.cpp reads and writes them in `folder` and trusts what it reads, so files are checked first. Errors are not
    reported: the prompt is then read again.
    """

    def __init__(self, folder: Path, api_key: str, *, max_bytes: int = _MAX_FOLDER_BYTES) -> None:
        self._folder, self._api_key, self._max_bytes = folder, api_key, max_bytes

    def has(self, key: str) -> bool:
        """Return whether a state has a file, sound or not."""
        return (self._folder / (key + _SUFFIX)).is_file()

    def restore(self, server: Any, slot: int, key: str) -> bool:
        """Load a state into a slot; return False if it has no sound file."""
        path = self._folder / (key + _SUFFIX)
        try:
            content = path.read_bytes()
            if _checksum(key, content[:-_DIGEST_BYTES]) != content[-_DIGEST_BYTES:]:
                return False
            os.utime(path)  # the oldest are deleted first
        except OSError:
            return False
        return self._act(server, slot, "restore", path.name)

    def save(self, server: Any, slot: int, key: str) -> None:
        """Write the state of a slot atomically; delete the oldest files over the limit."""
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            part = self._folder / f"{key}-{secrets.token_hex(4)}{_PART_SUFFIX}"
            try:
                if self._act(server, slot, "save", part.name):
                    with part.open("r+b") as file:
                        file.write(_checksum(key, file.read()))
                        file.flush()
                        os.fsync(file.fileno())
                    part.replace(self._folder / (key + _SUFFIX))
            finally:
                part.unlink(missing_ok=True)
            self._evict()

    def _evict(self) -> None:
        """Delete the oldest files over the limit, leftovers of killed processes included."""
        files = [path for path in self._folder.iterdir() if path.suffix in (_SUFFIX, _PART_SUFFIX)]
        total = 0
        for path, stat in sorted(((path, path.stat()) for path in files), key=lambda entry: -entry[1].st_mtime):
            total += stat.st_size
            if total > self._max_bytes:
                path.unlink(missing_ok=True)

    def _act(self, server: Any, slot: int, action: str, name: str) -> bool:
        """Have the server save or restore a slot; only its HTTP port offers that."""
        connection = http.client.HTTPConnection(urlsplit(server.listening_address).netloc, timeout=_TIMEOUT_S)
        headers = {"Authorization": f"Bearer {self._api_key}", "Content-Type": "application/json"}
        try:
            connection.request("POST", f"/slots/{slot}?action={action}", json.dumps({"filename": name}), headers)
            response = connection.getresponse()
            response.read()
            return response.status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def _checksum(key: str, content: bytes) -> bytes:
    return hashlib.sha256(key.encode() + content).digest()
