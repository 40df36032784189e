"""`kgroups` as a process that sends its process group a signal when it calls a chosen function: as Ctrl-C at a terminal
does while that function works.

`python -m tests.crash.signalled '{"number": 2, "call": "module:name", "nth": 1, "after_s": 0.1}' WORDS...`
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import time
from typing import Any


def signal_at(call: str, number: int, nth: int = 1, after_s: float = 0.0) -> None:
    """At the nth call of `module:name` (or `module:Class.name`) the signal comes, so many seconds after it began."""
    module, _, path = call.partition(":")
    *owners, name = path.split(".")
    holder: Any = importlib.import_module(module)
    for owner in owners:
        holder = getattr(holder, owner)
    work, calls = getattr(holder, name), 0

    def called(*arguments: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth:
            threading.Thread(target=_send, args=(number, after_s), daemon=True).start()
        return work(*arguments, **more)

    setattr(holder, name, called)


def _send(number: int, after_s: float) -> None:
    time.sleep(after_s)
    os.killpg(os.getpgrp(), number)


if __name__ == "__main__":
    signal_at(**json.loads(sys.argv.pop(1)))
    from kgroups_spark.cli.entry import entry_point

    sys.argv[0] = "kgroups"
    entry_point()
