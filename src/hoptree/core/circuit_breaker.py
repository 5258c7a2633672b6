"""Stop a long piece of work when every call fails for a reason that the next one would meet too."""

from __future__ import annotations

MAX_FAILURES_IN_A_ROW = 8
"""An endpoint refuses one prompt that is too long sooner than it answers all the others."""
SHUT_OUT_STATUS = (401, 403, 404)
"""What an endpoint says to everybody from then on: the key or the model is gone."""


class CircuitBreaker:
    """Count failures in a row, and raise the last one when there are too many.

    Once something has succeeded, as many calls as are under way `at_once` may fail together without being a sign.
    """

    def __init__(self, at_once: int = 1) -> None:
        self.succeeded = False
        self._at_once = at_once
        self._in_a_row = 0

    def success(self) -> None:
        self.succeeded = True
        self._in_a_row = 0

    def failure(self, error: Exception) -> None:
        """Count a failure that other calls would meet too."""
        self._in_a_row += 1
        together = 2 * self._at_once if self.succeeded else 0
        if self._in_a_row >= max(MAX_FAILURES_IN_A_ROW, together):
            raise error
