"""An audit without Spark, measured in its own process; prints one line of JSON.

    python -m benchmarks.in_process SEGMENTS LAKE [--profile]

`audit`: CPU seconds of this process and those that it forks, beyond imports. Into a lake that has the log already, it
is an audit with nothing new. `peak_bytes`: the largest resident size of this process, which plans, commits and looks
for findings; tasks run in others, if there is more than one. `--profile` prints the seconds by file instead, of one
process: they add up to the whole. Functions of libraries count where they are called; the profiler doubles Python's
share.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pstats

from benchmarks.process_tree import cpu_seconds, peak_bytes
from kgroups_spark.cli.entry import importing

with importing():  # as `kgroups` does
    from kgroups_spark.audit.run import AuditOptions, run_audit
    from kgroups_spark.lake.local import Local
    from kgroups_spark.spark.tasks import Processes

PACKAGE = str(Path(__file__).parent.parent / "kgroups_spark") + os.sep
MOST_FILES = 40


def main(arguments: list[str]) -> int:
    options = AuditOptions(lake=arguments[1], segments=[arguments[0]])
    if "--profile" in arguments:
        import cProfile  # they are no part of an audit, whose imports are measured
        import pstats

        profile = cProfile.Profile(time.process_time)
        profile.runcall(run_audit, Local(runner=Processes(slots=1)), options)
        sys.stdout.write(_table(pstats.Stats(profile)))
        return 0
    before = cpu_seconds()
    run_audit(Local(), options)
    result = {"audit": cpu_seconds() - before, "peak_bytes": peak_bytes(os.getpid())}
    sys.stdout.write(json.dumps(result) + "\n")
    return 0


def _table(stats: pstats.Stats) -> str:
    """Seconds by file of the package, and by library whose functions call others."""
    seconds = Counter[str]()
    for (file, _, _), (_, _, own, _, callers) in stats.stats.items():  # type: ignore[attr-defined]
        if file.startswith(PACKAGE) or not callers:
            seconds[_name(file)] += own
        else:
            for (caller, _, _), (_, _, its_own, _) in callers.items():
                seconds[_name(caller)] += its_own
    lines = [f"{each:8.2f}  {name}" for name, each in seconds.most_common(MOST_FILES)]
    rest = sum(seconds.values()) - sum(each for _, each in seconds.most_common(MOST_FILES))
    return "\n".join([*lines, f"{rest:8.2f}  others", f"{sum(seconds.values()):8.2f}  the whole"]) + "\n"


def _name(file: str) -> str:
    """A file of the package, or the name of the library that calls others."""
    found = file.removeprefix(PACKAGE).partition("site-packages/")
    return found[2].partition("/")[0] or (found[0] if file.startswith(PACKAGE) else "Python itself")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
