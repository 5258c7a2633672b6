"""What a key may still do now: requests of this minute, and the budget of this day."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from hoptree.runtime.budget import Budget
from hoptree.runtime.trace import Event
from hoptree.server.keys import Key
from hoptree.server.refusals import Refusal

__all__ = ["Allowances"]

_DAY = 86_400
_MINUTE = 60.0


@dataclass(slots=True)
class _Account:
    """The bucket of a key, full at first, and what it spent on a day."""

    tokens_left: float
    filled_at: float
    day: int = 0
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0


class Allowances:
    """The accounts of all keys since the server was started. `clock` tells the seconds since 1970."""

    def __init__(self, rate: int, clock: Callable[[], float] = time.time) -> None:
        self._rate = rate
        self._clock = clock
        self._accounts: dict[str, _Account] = {}

    def take(self, key: Key) -> None:
        """Count a request; refuse it where the key had its share of this minute."""
        rate = self._rate_of(key)
        if not rate:
            return
        account, now = self._account(key), self._clock()
        earned = max(0.0, now - account.filled_at) * rate / _MINUTE
        account.tokens_left, account.filled_at = min(float(rate), account.tokens_left + earned), now
        if account.tokens_left < 1:
            raise Refusal(
                429,
                "RateLimited",
                f"This key is allowed {rate} requests a minute.",
                "Wait as long as Retry-After says.",
                retry_after=(1 - account.tokens_left) * _MINUTE / rate,
            )
        account.tokens_left -= 1

    def left(self, key: Key) -> Budget:
        """What the key may still spend today; refused where that is nothing."""
        account = self._today(key)
        spent = {"calls": account.calls, "tokens": account.tokens, "cost": account.cost}
        for name, amount in spent.items():
            allowed = getattr(key.budget, name)
            if allowed is not None and amount >= allowed:
                raise Refusal(
                    429,
                    "BudgetSpent",
                    f"This key has spent its {allowed:g} {name} of today.",
                    "Wait for the next day (UTC), or ask whoever runs the server for more.",
                    retry_after=_DAY - self._clock() % _DAY,
                    lasting=True,
                )
        allowed_calls, allowed_tokens, allowed_cost = key.budget.calls, key.budget.tokens, key.budget.cost
        return Budget(
            calls=None if allowed_calls is None else allowed_calls - account.calls,
            tokens=None if allowed_tokens is None else allowed_tokens - account.tokens,
            cost=None if allowed_cost is None else allowed_cost - account.cost,
        )

    def charge(self, key: Key, event: Event) -> None:
        """Count what an event cost; also of questions that come to nothing, or whose client goes away."""
        if event["event"] == "llm":
            account = self._today(key)
            account.calls += 1
            account.tokens += event["prompt_tokens"] + event["completion_tokens"]
            account.cost += event["cost"]

    def charge_unheard(self, key: Key, prompt_tokens: int) -> None:
        """Count a call whose reply nobody waited for: the endpoint was asked all the same."""
        account = self._today(key)
        account.calls += 1
        account.tokens += prompt_tokens

    def _today(self, key: Key) -> _Account:
        account, day = self._account(key), int(self._clock() // _DAY)
        if account.day != day:
            account.day, account.calls, account.tokens, account.cost = day, 0, 0, 0.0
        return account

    def _account(self, key: Key) -> _Account:
        if key.name not in self._accounts:
            self._accounts[key.name] = _Account(float(self._rate_of(key)), self._clock())
        return self._accounts[key.name]

    def _rate_of(self, key: Key) -> int:
        return self._rate if key.rate is None else key.rate
