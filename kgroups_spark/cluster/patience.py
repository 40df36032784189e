"""Retries for a limited time."""

import random
import time

SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds
# Even the last attempt gets this time: a broker that answers at all needs less.
LEAST_TIME = 1.0


class Patience:
    """Time for attempts with pauses between them, each about twice the one before; begins when it is made."""

    def __init__(self, timeout_ms: float, shortest: float = SHORTEST_PAUSE, longest: float = LONGEST_PAUSE) -> None:
        """`shortest` and `longest`: pauses in seconds."""
        self._began = time.monotonic()
        self._timeout = timeout_ms / 1000
        self._pause = shortest
        self._longest = longest

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._began

    def left(self, at_most: float) -> float:
        """Seconds that an attempt may take."""
        return min(max(self._timeout - self.elapsed, LEAST_TIME), at_most)

    @property
    def left_ms(self) -> float:
        """Milliseconds that are left for attempts."""
        return 1000 * max(self._timeout - self.elapsed, 0.0)

    def pause(self) -> bool:
        """Waits before the next attempt; False, and no wait: time is up."""
        left = self._timeout - self.elapsed
        if left <= 0:
            return False
        # Not all tasks at the same moment.
        time.sleep(min(self._pause * random.uniform(0.8, 1.2), left))
        self._pause = min(2 * self._pause, self._longest)
        return True
