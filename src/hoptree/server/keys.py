"""Bearer keys, their request rates and daily budgets."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import os
import stat
import time
import tomllib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hoptree.core.errors import ConfigError
from hoptree.engine.context import Budget, Prices
from hoptree.models.model import Request
from hoptree.server.error_responses import Refusal

_MIN_SECRET_CHARS = 16
_MAX_RATE = 10**6
_REMEDY = (
    'Write [[key]] with name = "…", secret = "…" (or sha256 = "…"), and optionally rate = 60, '
    'budget = "tokens=100000" and corpora = true.'
)
_DAY_SECONDS = 86_400
_MINUTE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Key:
    """A client and its permissions."""

    name: str
    digest: bytes = b""  # SHA-256 of its secret, so that the secret is not stored
    rate: int | None = None  # requests a minute; None: the limit of the settings
    budget: Budget = field(default_factory=Budget)  # of all its questions of one day
    corpora: bool = False  # whether it may make, change and remove corpora


ANYBODY = Key("anybody", corpora=True)  # any client of a server without keys, which listens on this machine only


def find_key(keys: Sequence[Key], secret: str) -> Key | None:
    """Find the key with this secret, in constant time."""
    digest = hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
    matches = [key for key in keys if hmac.compare_digest(key.digest, digest)]
    return matches[0] if matches else None


class _KeyRow(BaseModel):
    """A [[key]] of the file."""

    model_config = ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True)

    name: Annotated[str, Field(pattern=r"^[\w.@-]{1,64}$")]
    secret: Annotated[str, Field(min_length=_MIN_SECRET_CHARS, pattern="^[!-~]+$")] | None = None
    sha256: Annotated[str, Field(pattern="^[0-9a-fA-F]{64}$")] | None = None
    rate: Annotated[int, Field(ge=1, le=_MAX_RATE)] | None = None
    budget: str = ""
    corpora: bool = False

    def key(self) -> Key:
        if (self.secret is None) == (self.sha256 is None):
            raise ValueError(f"{self.name} needs either a secret or a sha256")
        budget = Budget.parse(self.budget)
        if budget.seconds is not None:
            raise ValueError(f"the budget of {self.name} names seconds; a day's budget is of calls, tokens or cost")
        secret = (self.secret or "").encode()
        digest = bytes.fromhex(self.sha256) if self.sha256 else hashlib.sha256(secret).digest()
        return Key(self.name, digest, self.rate, budget, self.corpora)


class _KeyFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    key: Annotated[list[_KeyRow], Field(min_length=1)]


def read_keys(path: Path) -> tuple[Key, ...]:
    """Read the keys of a TOML file; no message quotes a secret."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        if os.name == "posix" and path.stat().st_mode & stat.S_IWOTH:
            cause = f"The keys in {path} cannot be used: anybody on this machine may change them."
            raise ConfigError(cause, f"Make them yours alone: chmod 600 {path}")
        keys = tuple(row.key() for row in _KeyFile.model_validate(data).key)
        if len({key.name for key in keys}) < len(keys) or len({key.digest for key in keys}) < len(keys):
            raise ValueError("a name or secret is there twice")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        form = "TOML" if isinstance(error, tomllib.TOMLDecodeError) else "UTF-8"
        why = error.strerror if isinstance(error, OSError) else f"it is no {form}"
        raise ConfigError(f"The keys in {path} cannot be read: {why}.", _REMEDY) from error
    except ValidationError as error:
        problem = error.errors(include_input=False)[0]
        why = f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
        raise ConfigError(f"The keys in {path} cannot be used: {why}.", _REMEDY) from None
    except ValueError as error:
        raise ConfigError(f"The keys in {path} cannot be used: {error}.", _REMEDY) from error
    return keys


_CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class CallSize:
    """Estimates for a model call: the most it may take, and its prompt alone."""

    tokens: int
    cost: float
    prompt_tokens: int
    prompt_cost: float

    @classmethod
    def of(cls, request: Request, prices: Prices | None) -> CallSize:
        chars = sum(len(message.content) for message in request.messages) + len(request.prefix)
        prompt, reply = chars // _CHARS_PER_TOKEN, request.max_tokens * request.n
        price = (prices or Prices()).of
        return cls(prompt + reply, price(prompt, 0, reply), prompt, price(prompt, 0, 0))


@dataclass(slots=True)
class _Account:
    """A key's token bucket, its spending of a day, and its running calls."""

    bucket: float
    filled_at: float
    day: int = 0
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    held: list[CallSize] = field(default_factory=list)
    waiting: list[asyncio.Future[None]] = field(default_factory=list)


class Quotas:
    """Rates and budgets of all keys since the start; `clock` gives Unix time."""

    def __init__(self, rate: int, clock: Callable[[], float] = time.time) -> None:
        self._rate = rate
        self._clock = clock
        self._accounts: dict[str, _Account] = {}

    def take(self, key: Key) -> None:
        """Count a request; refuse it if the key has used up its rate."""
        rate = self._rate_of(key)
        if not rate:
            return
        account, now = self._account(key), self._clock()
        earned = max(0.0, now - account.filled_at) * rate / _MINUTE_SECONDS
        account.bucket, account.filled_at = min(float(rate), account.bucket + earned), now
        if account.bucket < 1:
            wait = (1 - account.bucket) * _MINUTE_SECONDS / rate
            cause = f"This key is allowed {rate} requests a minute."
            raise Refusal(429, "RateLimited", cause, "Wait as long as Retry-After says.", retry_after=wait)
        account.bucket -= 1

    def remaining(self, key: Key) -> Budget:
        """Return what the key may still spend today; refuse if nothing is left."""
        account, left = self._today(key), dict[str, Any]()
        for name, spent in (("calls", account.calls), ("tokens", account.tokens), ("cost", account.cost)):
            allowed = getattr(key.budget, name)
            if allowed is None:
                continue
            if spent >= allowed:
                raise Refusal(
                    429,
                    "BudgetSpent",
                    f"This key has spent its {allowed:g} {name} of today.",
                    "Wait for the next day (UTC), or ask the server's administrator for more.",
                    retry_after=_DAY_SECONDS - self._clock() % _DAY_SECONDS,
                    lasting=True,
                )
            left[name] = allowed - spent
        return Budget(**left)

    async def hold(self, key: Key, size: CallSize) -> None:
        """Reserve what a call may take; wait while running calls may take the rest.

        Refuses the call once the key has spent its budget. Each `hold` needs a `settle`.
        """
        while not self._has_room(key):
            account = self._account(key)
            settled = asyncio.get_running_loop().create_future()
            account.waiting.append(settled)
            try:
                await settled
            finally:
                if settled in account.waiting:
                    account.waiting.remove(settled)
        self._account(key).held.append(size)

    def settle(self, key: Key, size: CallSize, *, lost: bool) -> None:
        """Release what a call held; a `lost` call is charged here, with its prompt alone.

        Other calls are charged when their usage is known.
        """
        account = self._account(key)
        account.held.remove(size)
        if lost:
            self.charge(key, size.prompt_tokens, size.prompt_cost)
        for waiting in account.waiting:
            if not waiting.done():
                waiting.set_result(None)
        account.waiting.clear()

    def _has_room(self, key: Key) -> bool:
        left, held = self.remaining(key), self._account(key).held
        return not held or (
            (left.calls is None or len(held) < left.calls)
            and (left.tokens is None or sum(size.tokens for size in held) < left.tokens)
            and (left.cost is None or sum(size.cost for size in held) < left.cost)
        )

    def charge(self, key: Key, tokens: int, cost: float = 0.0) -> None:
        """Count a call, also of a question that fails or whose client disconnects."""
        account = self._today(key)
        account.calls += 1
        account.tokens += tokens
        account.cost += cost

    def _today(self, key: Key) -> _Account:
        account, day = self._account(key), int(self._clock() // _DAY_SECONDS)
        if account.day != day:
            account.day, account.calls, account.tokens, account.cost = day, 0, 0, 0.0
        return account

    def _account(self, key: Key) -> _Account:
        if key.name not in self._accounts:
            self._accounts[key.name] = _Account(float(self._rate_of(key)), self._clock())
        return self._accounts[key.name]

    def _rate_of(self, key: Key) -> int:
        return self._rate if key.rate is None else key.rate


class HeldCalls:
    """The running calls of one question, held against the budget of its key."""

    def __init__(self, quotas: Quotas, key: Key, prices: Prices | None) -> None:
        self._quotas = quotas
        self._key = key
        self._prices = prices
        self._sizes: dict[int, CallSize] = {}
        self._numbers = itertools.count()

    async def hold(self, number: int, size: CallSize) -> None:
        """Hold a call; its number is unique within the question."""
        await self._quotas.hold(self._key, size)
        self._sizes[number] = size

    def settle(self, number: int, *, lost: bool) -> None:
        """Settle a call, if it is held."""
        size = self._sizes.pop(number, None)
        if size is not None:
            self._quotas.settle(self._key, size, lost=lost)

    def close(self) -> None:
        """Settle the calls that a worker process left behind."""
        for number in list(self._sizes):
            self.settle(number, lost=True)

    @asynccontextmanager
    async def admit(self, request: Request) -> AsyncIterator[None]:
        """Hold a call of this process; a cancelled one has cost its prompt."""
        number = next(self._numbers)
        await self.hold(number, CallSize.of(request, self._prices))
        lost = False
        try:
            yield
        except asyncio.CancelledError:
            lost = True
            raise
        finally:
            self.settle(number, lost=lost)
