"""Night after night into one lake: does an audit cost what the night brought, or what the lake holds?

    python -m benchmarks.nights [--nights 20] [--records 1000000] [--work DIR] [--json FILE]

Every night is `kgroups audit` in its own process. Its cost is the CPU seconds (user and system) of all processes that
it started. After the nights come audits without new records, alternating with sessions that start and do nothing.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.generate_log import Shape, generate_nights

HERE = Path(__file__).parent
SESSION = "from kgroups_spark.spark.session import spark_session as start; start('benchmark').stop()"
PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class NightSeconds:
    """CPU seconds of each night, of audits without new records, and of a session alone (one after each of those)."""

    nights: list[float]
    nothing_new: list[float]
    session: list[float]

    def last_against_second(self) -> float:
        """The last night in relation to the second; the first also creates the tables."""
        return self.nights[-1] / self.nights[1]

    def nothing_new_beyond_session(self) -> float:
        """Seconds that an audit without new records takes beyond the session's start."""
        return statistics.median(a - b for a, b in zip(self.nothing_new, self.session, strict=True))


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    work = (options.work or Path(tempfile.mkdtemp(prefix="kgroups-nights-"))).absolute()
    try:
        seconds = measure(work, Shape(options.records, options.partitions), options.nights, options.rounds)
    finally:
        if options.work is None:
            shutil.rmtree(work, ignore_errors=True)
    sys.stdout.write(
        f"nights: {' '.join(f'{each:.1f}' for each in seconds.nights)} CPU s\n"
        f"night {options.nights} against night 2: {seconds.last_against_second():.2f} (target <= 1.3)\n"
        f"nothing new: {statistics.median(seconds.nothing_new):.1f} CPU s, "
        f"{seconds.nothing_new_beyond_session():.1f} beyond the session's start (target <= 3)\n"
    )
    if options.json:
        options.json.write_text(json.dumps(asdict(seconds), indent=2) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nights", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nights", type=int, default=20, help="audits of a log that has grown (default: 20)")
    parser.add_argument("--records", type=int, default=1_000_000, help="records a night (default: 1,000,000)")
    parser.add_argument("--partitions", type=int, default=8, help="offsets partitions (default: 8)")
    parser.add_argument("--rounds", type=int, default=3, help="audits with nothing new (default: 3)")
    parser.add_argument("--work", type=Path, help="where log and lake go and stay (default: a temporary folder)")
    parser.add_argument("--json", type=Path, help="a file for the same in JSON")
    return parser


def measure(work: Path, shape: Shape, nights: int, rounds: int) -> NightSeconds:
    """Audits the log of these nights into a new lake below `work`. An existing log is used again."""
    log = work / "-".join(["nights", str(nights), *(str(value) for value in asdict(shape).values())])
    if not (log / "whole").exists():
        _say(f"generating {nights} nights of {shape.records:,} records")
        generate_nights(log, shape, nights)
        (log / "whole").touch()
    lake, broker = work / "nights-lake", work / "nights-broker"
    for made in (lake, broker):
        shutil.rmtree(made, ignore_errors=True)
    audit = [sys.executable, "-m", "kgroups_spark.cli.main", "audit", "--lake", str(lake), "--segments", str(broker)]
    seconds = NightSeconds([], [], [])
    for night in range(1, nights + 1):
        add_night(log / str(night), broker)
        seconds.nights.append(cpu_of(audit))
        _say(f"night {night} of {nights}: {seconds.nights[-1]:.1f} CPU s")
    for _ in range(rounds):
        seconds.nothing_new.append(cpu_of(audit))
        seconds.session.append(cpu_of([sys.executable, "-c", SESSION]))
    return seconds


def add_night(night: Path, broker: Path) -> None:
    """Adds a night's segments to the broker's folder, without a copy."""
    for segment in night.glob("*/*.log"):
        (broker / segment.parent.name).mkdir(parents=True, exist_ok=True)
        os.link(segment, broker / segment.parent.name / segment.name)


def cpu_of(command: list[str]) -> float:
    """CPU seconds of the command and its descendants. Raises CalledProcessError if it fails."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # orphans, as the JVM is, become ours
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=HERE.parent)
    _wait_for_orphans()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def _wait_for_orphans() -> None:
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _say(text: str) -> None:
    sys.stderr.write(f"{text} ...\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
