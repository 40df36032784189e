"""Measures kgroups-spark against others on one generated log, and prints ratios.

    python -m benchmarks [--only audit live ...] [--records 5000000] [--rounds 5] [--audit-rounds 3] [--work DIR]
                         [--json FILE]

Sides alternate, so that a busy machine is busy for all of them. The result is CPU seconds (user and system) of the
whole process tree, and the median of each round's ratio. Exits 1 if the programs disagree about the state, 2 without Go
or /proc.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks import nights
from benchmarks.generate_log import SLOTS_PER_GROUP, Shape, generate, generate_live, generate_rebalance
from benchmarks.wire import CODECS
from kgroups_spark.sources.files import OF_WORKERS

HERE = Path(__file__).parent
PACKAGES = ("numpy", "pyarrow", "pyspark", "delta-spark", "crc32c", "zstandard", "lz4", "orjson")


@dataclass(frozen=True)
class Ratio:
    """One line of the table: our cost in relation to the other program's, and its maximum (None: no target is set)."""

    what: str
    ours: float
    other: float
    unit: str
    ratio: float
    target: float | None


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    if "decode" in options.only and shutil.which("go") is None:
        return _refuse("Go is needed to build the peer (franz-go): https://go.dev/dl, 1.26 or newer, on the PATH")
    if not Path("/proc/self/stat").exists():
        return _refuse("CPU seconds of a process tree are read from /proc: Linux is needed")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # with it each process would compile all modules
    work = options.work or Path(tempfile.mkdtemp(prefix="kgroups-benchmark-"))
    try:
        ratios = _measure(options, work.absolute())
    except Disagreement as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        if options.work is None:
            shutil.rmtree(work, ignore_errors=True)
    machine = _machine()
    sys.stdout.write(_table(ratios, machine))
    if options.json:
        options.json.write_text(
            json.dumps({"machine": machine, "ratios": [asdict(r) for r in ratios]}, indent=2) + "\n"
        )
    return 0


class Disagreement(Exception):
    """Two programs found different states in the same log."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", nargs="+", choices=MEASURES, default=list(MEASURES), help="these lines (default: all)"
    )
    parser.add_argument("--records", type=int, default=5_000_000, help="records of the large log (default: 5,000,000)")
    parser.add_argument("--partitions", type=int, default=8, help="offsets partitions (default: 8)")
    parser.add_argument("--codec", choices=CODECS, default="none", help="compression of the batches (default: none)")
    parser.add_argument("--transactional", type=float, default=0.03, help="share of the commit batches (default: 0.03)")
    parser.add_argument("--groups", type=int, default=2000, help="consumer groups (default: 2000)")
    parser.add_argument("--seed", type=int, default=1, help="another seed, another log (default: 1)")
    parser.add_argument("--rounds", type=int, default=5, help="of decoding and replaying (default: 5)")
    parser.add_argument("--audit-rounds", type=int, default=3, help="of whole audits (default: 3)")
    parser.add_argument("--nights", type=int, default=20, help="of a fifth of the records (default: 20)")
    parser.add_argument(
        "--first-compiler-only",
        action="store_true",
        help="audits and Spark's writer in the JVM that kgroups starts (default: Spark's own, with both compilers)",
    )
    parser.add_argument("--work", type=Path, help="where logs and lakes go and stay (default: a temporary folder)")
    parser.add_argument("--json", type=Path, help="a file for the same in JSON")
    return parser


def _measure(options: argparse.Namespace, work: Path) -> list[Ratio]:
    return [ratio for name in options.only for ratio in MEASURES[name](options, work)]


def _shape(options: argparse.Namespace, records: int, **changes: Any) -> Shape:
    shape = Shape(records, options.partitions, options.codec, options.transactional, options.groups, options.seed)
    return replace(shape, **changes)


def _log(work: Path, shape: Shape, generator: Callable[[Path, Shape], int] = generate) -> Path:
    """The folder of the log, which is kept for the next run."""
    folder = work / "-".join([generator.__name__, *(str(value) for value in asdict(shape).values())])
    if not (folder / "whole").exists():
        _say(f"generating {shape.records or shape.groups * shape.slots:,} records")
        generator(folder, shape)
        (folder / "whole").touch()
    return folder


def _decode_and_replay(options: argparse.Namespace, work: Path) -> list[Ratio]:
    log, peer, rounds = _log(work, _shape(options, options.records)), work / "franz_go", options.rounds
    subprocess.run(["go", "build", "-o", peer, "."], cwd=HERE / "peers" / "franz_go", check=True)
    # The memory of a worker of Spark, in which all decoding is done.
    memory = [f"{name}={value}" for name, value in OF_WORKERS.items()]
    commands = {
        "ours": ["env", *memory, sys.executable, "-m", "benchmarks.decode_and_replay", str(log)],
        "franz-go": [str(peer), str(log)],
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds):
        _say(f"decode and replay, round {number + 1} of {rounds}")
        states = {}
        for name, command in commands.items():
            states[name], cpu = _run(command)
            seconds[name].append(cpu)
        if len(set(states.values())) > 1:
            raise Disagreement(f"the programs disagree about the state: {states}")
    return [_ratio("decode + replay, against franz-go with markers", seconds["ours"], seconds["franz-go"], 3.5)]


def _whole_audits(options: argparse.Namespace, work: Path) -> list[Ratio]:
    usual, hard = (_log(work, _shape(options, options.records, kind=kind)) for kind in ("usual", "hard"))
    return [
        *_against_spark(options, work, "whole audit of a usual log, against Spark's writer", usual, 0.9, 0.5),
        *_against_spark(options, work, "whole audit of a hard log, against Spark's writer", hard, 1.6),
    ]


def _large_log(options: argparse.Namespace, work: Path) -> list[Ratio]:
    """The costs for four times the records; their memory against that of a fifth of them."""
    small, large = (_log(work, _shape(options, n, kind="usual")) for n in (options.records // 5, 4 * options.records))
    what = f"whole audit of {4 * options.records:,} records, usual"
    ratios = _against_spark(options, work, what, large, 1.1)
    _say("memory of workers")
    few, many = (_json("whole_audit", options, log, work / "memory", 0)["worker_bytes"] / 1e6 for log in (small, large))
    return [*ratios, Ratio("largest worker, against 1/20 of the records", many, few, "MB", many / few, 1.15)]


def _against_spark(
    options: argparse.Namespace, work: Path, what: str, log: Path, target: float, of_local: float | None = None
) -> list[Ratio]:
    _say(f"{what}, {options.audit_rounds} rounds and one to warm up")
    result = _json("whole_audit", options, log, work / "audits", options.audit_rounds)
    rounds = {name: [each[name] for each in result["rounds"]] for name in ("audit", "write", "second", "local")}
    return [
        _ratio(what, rounds["audit"], rounds["write"], target),
        _ratio("  the same without Spark, against Spark's writer", rounds["local"], rounds["write"], of_local),
        _ratio("  one more with nothing new, against it", rounds["second"], rounds["audit"], None),
    ]


def _live_offsets(options: argparse.Namespace, work: Path) -> list[Ratio]:
    shape = _shape(options, 0, groups=options.records // SLOTS_PER_GROUP)
    log = _log(work, shape, generate_live)
    _say(f"second nights over {options.records:,} live offsets, {options.audit_rounds} rounds and one to warm up")
    rounds = _json("live_offsets", options, log, work / "live", options.audit_rounds)["rounds"]
    night, tables = ([each[name] for each in rounds] for name in ("night", "tables"))
    return [_ratio("a night of 1 % new offsets, against pyarrow", night, tables, 1.4)]


def _skewed_log(options: argparse.Namespace, work: Path) -> list[Ratio]:
    logs = [_log(work, _shape(options, options.records, kind="usual", skew=skew)) for skew in (0.8, 0.0)]
    _say(f"a partition with 80 % of the records, {options.audit_rounds} rounds and one to warm up")
    rounds = _json("skewed_log", options, *logs, work / "skewed", options.audit_rounds)["rounds"]
    skewed, even = ([each[name] for each in rounds] for name in ("skewed", "even"))
    return [_ratio("a partition with 80 % of the records, against even", skewed, even, 1.3, "s")]


def _small_partitions(options: argparse.Namespace, work: Path) -> list[Ratio]:
    """The costs of the same records in Kafka's 50 offsets partitions, and in 500, against 8."""
    logs = {n: _log(work, _shape(options, 200_000, kind="usual", partitions=n)) for n in (8, 50, 500)}
    audits = _in_process(options, work, logs)
    few = audits.pop(8)
    return [
        _ratio(f"200,000 records in {n} partitions, against 8", audits[n], few, target)
        for n, target in ((50, 1.2), (500, 2.3))
    ]


def _stuck_rebalance(options: argparse.Namespace, work: Path) -> list[Ratio]:
    """Snapshots of a group of 2,000 members, against as many members in groups of 20."""
    shape = _shape(options, options.records // 25, groups=100)
    logs = {n: _log(work, replace(shape, members=n, groups=2000 // n), generate_rebalance) for n in (2000, 20)}
    audits = _in_process(options, work, logs)
    return [_ratio("a stuck rebalance of 2,000 members, against 20", audits[2000], audits[20], None)]


def _many_groups(options: argparse.Namespace, work: Path) -> list[Ratio]:
    """The driver's peak for a hundred times the groups, with an offset and three members each."""
    counts = (options.records // 5, options.records // 500)
    logs = {n: _log(work, _shape(options, 0, groups=n, slots=1), generate_live) / "1" for n in counts}
    many, few = (_audited(log, work / "groups")["peak_bytes"] / 1e6 for log in logs.values())
    return [Ratio(f"driver's peak, {counts[0]:,} groups, against {counts[1]:,}", many, few, "MB", many / few, 1.5)]


def _in_process(options: argparse.Namespace, work: Path, logs: dict[int, Path]) -> dict[int, list[float]]:
    """CPU seconds of audits without Spark, by log, in alternation."""
    seconds: dict[int, list[float]] = {name: [] for name in logs}
    for number in range(options.audit_rounds):
        _say(f"audits without Spark, round {number + 1} of {options.audit_rounds}")
        for name, log in logs.items():
            seconds[name].append(_audited(log, work / "in-process")["audit"])
    return seconds


def _audited(log: Path, lake: Path, *, is_new: bool = True) -> dict[str, float]:
    """The result of benchmarks.in_process for an audit into a new lake, or into the lake as it is."""
    if is_new:
        shutil.rmtree(lake, ignore_errors=True)
    command = [sys.executable, "-m", "benchmarks.in_process", str(log), str(lake)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=HERE.parent).stdout
    found: dict[str, float] = json.loads(output)
    return found


IMPORTS = "import benchmarks.in_process"
SESSION = "from kgroups_spark.spark.session import spark_session; spark_session().range(1).collect()"
# Java's own classes alone.
WITHOUT_ARCHIVE = {"SPARK_SUBMIT_OPTS": "-XX:SharedArchiveFile=none"}


def _start(options: argparse.Namespace, work: Path) -> list[Ratio]:
    """Imports, an audit with nothing new beyond them, and a session with and without the archive of classes."""
    log, lake = _log(work, _shape(options, options.records // 5, kind="usual")), work / "start"
    _audited(log, lake)
    ours, libraries, nothing_new = list[float](), list[float](), list[float]()
    with_archive, without = list[float](), list[float]()
    nights.cpu_of([sys.executable, "-c", SESSION])  # writes the archive, if there is none
    for number in range(options.audit_rounds):
        _say(f"imports and nothing new, round {number + 1} of {options.audit_rounds}")
        ours.append(nights.cpu_of([sys.executable, "-c", IMPORTS]))
        libraries.append(nights.cpu_of([sys.executable, "-c", "import numpy, pyarrow"]))
        nothing_new.append(_audited(log, lake, is_new=False)["audit"])
        with_archive.append(nights.cpu_of([sys.executable, "-c", SESSION]))
        with mock.patch.dict(os.environ, WITHOUT_ARCHIVE):
            without.append(nights.cpu_of([sys.executable, "-c", SESSION]))
    return [
        _ratio("imports of an audit without Spark, against NumPy, pyarrow", ours, libraries, 1.5),
        _ratio("nothing new without Spark, against its imports", nothing_new, ours, None),
        _ratio("a session with the archive of Spark's classes, without", with_archive, without, 0.75),
    ]


def _nights(options: argparse.Namespace, work: Path) -> list[Ratio]:
    assert options.nights > 1, "--nights: two at least"
    seconds = nights.measure(work, _shape(options, options.records // 5), options.nights, options.rounds)
    second, last = seconds.nights[1], seconds.nights[-1]
    nothing, session = statistics.median(seconds.nothing_new), statistics.median(seconds.session)
    return [
        Ratio(f"night {options.nights}, against night 2", last, second, "CPU s", last / second, 1.3),
        Ratio("a night with nothing new, against a session", nothing, session, "CPU s", nothing / session, None),
    ]


def _without_spark(options: argparse.Namespace, work: Path) -> list[Ratio]:
    """`kgroups demo` in its own process, and once more with nothing new."""
    seconds: dict[str, tuple[list[float], list[float]]] = {engine: ([], []) for engine in ("local", "spark")}
    for number in range(options.audit_rounds):
        for engine, rounds in seconds.items():
            _say(f"kgroups demo --engine {engine}, round {number + 1} of {options.audit_rounds}")
            lake = work / f"demo-{engine}"
            shutil.rmtree(lake, ignore_errors=True)
            command = [sys.executable, "-m", "kgroups_spark", "demo", "--engine", engine, "--lake", str(lake)]
            for each in rounds:
                each.append(nights.cpu_of(command))
    (local, local_again), (spark, spark_again) = seconds.values()
    return [
        _ratio("demo, whole command, local / Spark", local, spark, 0.2),
        _ratio("  one more with nothing new", local_again, spark_again, None),
    ]


def _json(module: str, options: argparse.Namespace, *arguments: object) -> dict[str, Any]:
    """The last line that the module prints, as JSON."""
    flags = [] if options.first_compiler_only else ["--full-jit"]
    command = [sys.executable, "-m", f"benchmarks.{module}", *map(str, arguments), *flags]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=HERE.parent).stdout
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found


def _run(command: list[str]) -> tuple[str, float]:
    """The last line of what a command prints, and its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=HERE.parent).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return output.splitlines()[-1], after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def _ratio(what: str, ours: list[float], other: list[float], target: float | None, unit: str = "CPU s") -> Ratio:
    ratio = statistics.median(a / b for a, b in zip(ours, other, strict=True))
    return Ratio(what, statistics.median(ours), statistics.median(other), unit, ratio, target)


def _machine() -> dict[str, str]:
    command = ["go", "version"] if shutil.which("go") else ["echo", "no Go"]
    go = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    module = (HERE / "peers" / "franz_go" / "go.mod").read_text()
    franz_go = next(line.split()[1] for line in module.splitlines() if "twmb/franz-go v" in line)
    return {
        "machine": f"{_processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}, {go}",
        "packages": ", ".join([f"franz-go {franz_go}", *(f"{name} {version(name)}" for name in PACKAGES)]),
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _table(ratios: list[Ratio], machine: dict[str, str]) -> str:
    lines = [f"{'':52}{'ours':>10}{'other':>10}{'':>7}{'ratio':>8}{'target':>9}"]
    for r in ratios:
        target = "" if r.target is None else f"<= {r.target}"
        lines.append(f"{r.what:52}{r.ours:>10.2f}{r.other:>10.2f}{r.unit:>7}{r.ratio:>8.2f}{target:>9}")
    return "\n".join([*lines, "", *machine.values()]) + "\n"


MEASURES: dict[str, Callable[[argparse.Namespace, Path], list[Ratio]]] = {
    "decode": _decode_and_replay,
    "audit": _whole_audits,
    "large": _large_log,
    "live": _live_offsets,
    "skew": _skewed_log,
    "partitions": _small_partitions,
    "rebalance": _stuck_rebalance,
    "groups": _many_groups,
    "start": _start,
    "nights": _nights,
    "local": _without_spark,
}


def _say(text: str) -> None:
    sys.stderr.write(f"{text} ...\n")


def _refuse(text: str) -> int:
    sys.stderr.write(f"{text}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
