"""The logs of rebalances.txt, and the rebalances in them: each case is an offsets partition of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from tests.views import group_logs as log
from tests.views.group_logs import GroupLog, tables_of


class Reported(NamedTuple):
    """One row. Times are seconds after T0; `before`, `after`: counts of members. A classic group's log has only the end
    of a rebalance."""

    number: int
    cause: str
    outcome: str
    started: float | None
    finished: float | None
    slowest: str | None
    before: int | None
    after: int


@dataclass(frozen=True)
class Case:
    name: str
    log: str
    reported: tuple[Reported, ...]
    release: str


def _reported(text: str) -> Reported:
    number, cause, outcome, started, finished, slowest, before, after = text.split()
    times = (None if time == "-" else float(time) for time in (started, finished))
    of_members = (None if slowest == "-" else slowest, None if before == "-" else int(before), int(after))
    return Reported(int(number), cause, outcome, *times, *of_members)


@cache
def _blocks() -> dict[str, tuple[Case, bool]]:
    """By name the case, and whether it is tested."""
    blocks: dict[str, tuple[Case, bool]] = {}
    text = re.sub("^#.*\n", "", (Path(__file__).parent / "rebalances.txt").read_text(), flags=re.MULTILINE)
    for kind, title, lines in re.findall(r"^(log|case) (.*)\n((?: .*\n)+)", text, re.MULTILINE):
        name, _, release = title.partition(" [release ")
        records, _, reported = lines.partition("=>")
        rows: list[Reported] = []
        for row in filter(None, map(str.strip, re.split("=>|;", reported))):
            rows += blocks[row[3:]][0].reported if row.startswith("as ") else [_reported(row)]
        case = Case(name.partition(": ")[0], records, tuple(rows), release.strip("]") or "4.3")
        blocks[case.name] = case, kind == "case"
    return blocks


CASES = tuple(case for case, is_tested in _blocks().values() if is_tested)
# The record types of a group's epoch, its members, the target's epoch, the targets of members, and members' epochs.
TYPES = {"consumer": (3, 5, 6, 7, 8), "share": (11, 10, 12, 13, 14), "streams": (17, 19, 20, 21, 22)}


class Writer:
    """Writes the records that a case names to a log."""

    def __init__(self, log: GroupLog) -> None:
        self.log, self.group, self.type = log, "g", "consumer"

    def write(self, text: str) -> None:
        for at, records in re.findall(r" *(?:(no time|[\d.]+s):)? *([^;\n]*)", text):
            if at:
                self.log.at(None if at == "no time" else float(at[:-1]))
            for each in filter(None, map(str.strip, records.split(","))):
                if each.startswith("+"):
                    self.write(_blocks()[each[2:]][0].log)
                else:
                    self._record(each.split())

    def _record(self, words: list[str]) -> None:
        epoch, member, target, member_target, current = TYPES[self.type]
        match words:
            case ["group" | "share" | "streams", *_]:
                self.type, self.group = words[0] if words[0] in TYPES else "consumer", words[-1]
            case ["commit"]:
                self.log.commit(self.group)
            case ["epoch", number]:
                self._add(epoch, log.epoch(*map(int, number.split("/"))))
            case ["target", number]:
                self._add(target, log.target(int(number)))
            case ["partitions", "of", "topics"]:
                self._add(4, {"topics": []})
            case ["no", "partitions", "of", "topics"]:
                self._add(4, None)
            case ["initialized"]:
                self._add(15, {"initializingTopics": [], "initializedTopics": [], "deletingTopics": []})
            case ["topology"]:
                self._add(23, {"epoch": 1, "subtopologies": []})
            case ["placeholder"]:
                self._add(2, log.PLACEHOLDER)
            case ["no", "generation"]:
                self._add(2, None)
            case ["generation", number, *members]:
                self._add(2, _generation(int(number), members))
            case ["removed", *members]:
                gone = [*((of, name) for of in (current, member_target) for name in members), (target, None)]
                for of, name in (*gone, *((member, name) for name in members), (4, None), (epoch, None)):
                    self._add(of, None, name)
            case [name, "gone"]:
                for of in (current, member_target, member):
                    self._add(of, None, name)
            case [name, "assigned"]:
                self._add(member_target, log.NO_TARGET, name)
            case [name, "joins", *rest]:
                given = {"topics": "t", **dict(each.split("=") for each in rest)}
                given["topics"] = given["topics"].replace("+", " ")
                self._add(member, log.streams_member() if self.type == "streams" else log.member(**given), name)
            case [name, "at", number, *rest]:
                value = log.current_tasks if self.type == "streams" else log.current
                self._add(current, value(int(number), *(int(each.removeprefix("state=")) for each in rest)), name)
            case _:
                raise ValueError(words)

    def _add(self, record_type: int, value: log.Json | None, member_id: str | None = None) -> None:
        self.log.record(record_type, self.group, value, member_id)


def _generation(number: int, words: list[str]) -> log.Json:
    members: list[dict[str, str]] = []
    protocol = {}
    for name, _, value in (word.partition("=") for word in words):
        if name == "protocol":
            protocol = {name: value}
        elif name == "of":
            members[-1]["topics"] = value.replace("+", " ")
        else:
            member_id, _, instance = name.partition("/")
            members.append({"member_id": member_id, "assigned": value.replace("+", " ")})
            members[-1] |= {"instance": instance} if instance else {}
    return log.generation(number, *(log.classic_member(**each) for each in members), **protocol)


def tables_of_cases() -> dict[str, pa.Table]:
    """The tables of a lake with all of them."""
    logs = [GroupLog(number, case.release) for number, case in enumerate(CASES)]
    for each, case in zip(logs, CASES, strict=True):
        Writer(each).write(case.log)
    return tables_of(*logs)
