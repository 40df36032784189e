"""Trying again for a while."""

import random
import time

SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds; a pause is about twice the one before
# What an attempt gets at least, even the last one: a broker that answers at all does so in less.
LEAST_TIME = 1.0


class Patience:
    """Time for attempts with growing pauses between them; begins when it is made."""

    def __init__(self, timeout_ms: float) -> None:
        self._began = time.monotonic()
        self._timeout = timeout_ms / 1000
        self._pause = SHORTEST_PAUSE

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._began

    def left(self, at_most: float) -> float:
        """Seconds that an attempt may take."""
        return max(min(self._timeout - self.elapsed, at_most), LEAST_TIME)

    @property
    def left_ms(self) -> float:
        """Milliseconds that are left for attempts."""
        return 1000 * self.left(self._timeout)

    def pause(self) -> bool:
        """Waits before the next attempt; False, and no wait: time is up."""
        left = self._timeout - self.elapsed
        if left <= 0:
            return False
        # Not all tasks at the same moment.
        time.sleep(min(self._pause * random.uniform(0.8, 1.2), left))
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        return True
