"""How much one question may spend."""

from __future__ import annotations

from dataclasses import dataclass, fields

from hoptree.core.errors import BudgetSpent, ConfigError


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one question; None means no limit.

    Calls and tokens count whether or not the cache answered; `cost` counts what is really paid. It is checked before
    each call, so calls that are under way together may take tokens and cost a little over it.
    """

    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None

    def check(self, calls: int, tokens: int, cost: float) -> None:
        """Raise when after these a further call is not allowed any more."""
        if self.calls is not None and calls >= self.calls:
            raise BudgetSpent("calls", self.calls)
        if self.tokens is not None and tokens >= self.tokens:
            raise BudgetSpent("tokens", self.tokens)
        if self.cost is not None and cost >= self.cost:
            raise BudgetSpent("cost", self.cost)

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Read `calls=20,seconds=60`; a bare number means calls."""
        names = {field.name: field for field in fields(cls)}
        values: dict[str, float] = {}
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            name, _, value = part.rpartition("=")
            name = name.strip() or "calls"
            try:
                number = float(value)
            except ValueError:
                number = -1.0
            if name not in names or not 0 <= number < float("inf"):
                raise ConfigError(
                    f"'{part}' is no budget.", "Use calls, tokens, cost or seconds: --budget calls=20,seconds=60"
                )
            values[name] = int(number) if name in ("calls", "tokens") else number
            if not values[name]:
                raise ConfigError(f"A budget of '{part}' allows nothing.", "Give more, or leave that limit out.")
        return cls(**values)  # type: ignore[arg-type]
