"""Measures kgroups-spark against others on one generated log, and prints ratios.

    python -m benchmarks [--records 5000000] [--rounds 5] [--audit-rounds 3] [--nights 20] [--work DIR] [--json FILE]

Sides take turns, so that a busy machine is busy for all of them; what counts is CPU seconds (user and system) of the
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
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from benchmarks import nights
from benchmarks.generate_log import Shape, generate
from benchmarks.wire import CODECS

HERE = Path(__file__).parent
PACKAGES = ("numpy", "pyarrow", "pyspark", "delta-spark", "crc32c", "zstandard", "lz4", "orjson")


@dataclass(frozen=True)
class Ratio:
    """One line of the table: what ours costs in relation to the other's, and at most may (None: no target is set)."""

    what: str
    ours: float
    other: float
    unit: str
    ratio: float
    target: float | None


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    if shutil.which("go") is None:
        return _refuse("Go is needed to build the peer (franz-go): https://go.dev/dl, 1.26 or newer, on the PATH")
    if not Path("/proc/self/stat").exists():
        return _refuse("CPU seconds of a process tree are read from /proc: Linux is needed")
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
    parser.add_argument("--records", type=int, default=5_000_000, help="records of the large log (default: 5,000,000)")
    parser.add_argument("--partitions", type=int, default=8, help="offsets partitions (default: 8)")
    parser.add_argument("--codec", choices=CODECS, default="none", help="compression of the batches (default: none)")
    parser.add_argument("--transactional", type=float, default=0.03, help="share of the commit batches (default: 0.03)")
    parser.add_argument("--groups", type=int, default=2000, help="consumer groups (default: 2000)")
    parser.add_argument("--seed", type=int, default=1, help="another seed, another log (default: 1)")
    parser.add_argument("--rounds", type=int, default=5, help="of decoding and replaying (default: 5)")
    parser.add_argument("--audit-rounds", type=int, default=3, help="of whole audits; 0: none (default: 3)")
    parser.add_argument("--nights", type=int, default=20, help="of a fifth of the records; 0: none (default: 20)")
    parser.add_argument(
        "--first-compiler-only",
        action="store_true",
        help="audits and Spark's writer in the JVM that kgroups starts (default: Spark's own, with both compilers)",
    )
    parser.add_argument("--work", type=Path, help="where logs and lakes go and stay (default: a temporary folder)")
    parser.add_argument("--json", type=Path, help="a file for the same in JSON")
    return parser


def _measure(options: argparse.Namespace, work: Path) -> list[Ratio]:
    large = _log(options, work, options.records)
    peer = work / "franz_go"
    subprocess.run(["go", "build", "-o", peer, "."], cwd=HERE / "peers" / "franz_go", check=True)
    ratios = [_decode_and_replay(large, peer, options.rounds)]
    if options.audit_rounds:
        small = _log(options, work, options.records // 5)
        ratios += _whole_audits(options, work, small, large)
    if options.nights > 1:
        ratios += _nights(options, work)
    return ratios


def _shape(options: argparse.Namespace, records: int) -> Shape:
    return Shape(records, options.partitions, options.codec, options.transactional, options.groups, options.seed)


def _log(options: argparse.Namespace, work: Path, records: int) -> Path:
    shape = _shape(options, records)
    folder = work / "-".join(str(value) for value in asdict(shape).values())
    if not (folder / "whole").exists():
        _say(f"generating {records:,} records")
        generate(folder, shape)
        (folder / "whole").touch()
    return folder


def _decode_and_replay(log: Path, peer: Path, rounds: int) -> Ratio:
    commands = {
        "ours": [sys.executable, "-m", "benchmarks.decode_and_replay", str(log)],
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
    return _ratio("decode + replay, against franz-go with markers", seconds["ours"], seconds["franz-go"], 1.5)


def _whole_audits(options: argparse.Namespace, work: Path, small: Path, large: Path) -> list[Ratio]:
    flags = [] if options.first_compiler_only else ["--full-jit"]
    _say(f"whole audits against Spark's writer, {options.audit_rounds} rounds and one to warm up")
    result = _audits([str(large), str(work / "audits"), str(options.audit_rounds), *flags])
    rounds = {name: [each[name] for each in result["rounds"]] for name in ("audit", "write", "second")}
    _say("memory of workers")
    peaks = [_audits([str(log), str(work / "memory"), "0"])["worker_bytes"] / 1e6 for log in (small, large)]
    return [
        _ratio("whole audit, against Spark writing ready commits", rounds["audit"], rounds["write"], 0.8),
        _ratio("second audit with nothing new, against the first", rounds["second"], rounds["audit"], None),
        Ratio("largest worker, against a fifth of the records", peaks[1], peaks[0], "MB", peaks[1] / peaks[0], 1.25),
    ]


def _nights(options: argparse.Namespace, work: Path) -> list[Ratio]:
    seconds = nights.measure(work, _shape(options, options.records // 5), options.nights, options.rounds)
    second, last = seconds.nights[1], seconds.nights[-1]
    nothing, session = statistics.median(seconds.nothing_new), statistics.median(seconds.session)
    return [
        Ratio(f"night {options.nights}, against night 2", last, second, "CPU s", last / second, 1.3),
        Ratio("a night with nothing new, against a session", nothing, session, "CPU s", nothing / session, None),
    ]


def _audits(arguments: list[str]) -> dict:  # type: ignore[type-arg]
    command = [sys.executable, "-m", "benchmarks.whole_audit", *arguments]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=HERE.parent).stdout
    return json.loads(output.splitlines()[-1])  # type: ignore[no-any-return]


def _run(command: list[str]) -> tuple[str, float]:
    """The last line of what a command prints, and its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=HERE.parent).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return output.splitlines()[-1], after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def _ratio(what: str, ours: list[float], other: list[float], target: float | None) -> Ratio:
    ratio = statistics.median(a / b for a, b in zip(ours, other, strict=True))
    return Ratio(what, statistics.median(ours), statistics.median(other), "CPU s", ratio, target)


def _machine() -> dict[str, str]:
    go = subprocess.run(["go", "version"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()[2]
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


def _say(text: str) -> None:
    sys.stderr.write(f"{text} ...\n")


def _refuse(text: str) -> int:
    sys.stderr.write(f"{text}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
