"""The logs of rebalances.txt, and the rebalances in them: each case is an offsets partition of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from tests.findings.logs import Log, classic_member
from tests.findings.record_bytes import Json, record
from tests.lake.table_rows import rows_of
from tests.nights.nights_here import How
from tests.nights.replayed_logs import replayed
from tests.views.outcome_cases import Record, at, lines_of, records

T0 = datetime(2026, 11, 16, tzinfo=UTC)
T0_MS = int(T0.timestamp() * 1000)


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
OF_A_STREAMS_MEMBER = {"topologyEpoch": 0, "processId": "p", "rebalanceTimeoutMs": 1000}


def topic_id(topic: str) -> str:
    """The id of a topic whose name is one letter."""
    return f"{topic * 21}A"


class Writer:
    """Writes the records that a case names to a log."""

    def __init__(self, log: Log) -> None:
        self.log, self.group, self.type = log, "g", "consumer"

    def write(self, text: str) -> None:
        for time, some in re.findall(r" *(?:(no time|[\d.]+s):)? *([^;\n]*)", text):
            if time:
                self.log.now = -1 if time == "no time" else T0_MS + round(1000 * float(time[:-1]))
            for each in filter(None, map(str.strip, some.split(","))):
                if each.startswith("+"):
                    self.write(_blocks()[each[2:]][0].log)
                else:
                    self._record(each.split())

    def _record(self, words: list[str]) -> None:
        epoch, member, of_targets, member_target, current = TYPES[self.type]
        match words:
            case ["group" | "share" | "streams", *_]:
                self.type, self.group = words[0] if words[0] in TYPES else "consumer", words[-1]
            case ["commit"]:
                self.log.commit(self.group)
            case ["epoch", number]:
                of_group, _, metadata_hash = number.partition("/")
                self._add(epoch, {"epoch": int(of_group), "metadataHash": int(metadata_hash or 7)})
            case ["target", number]:
                self._add(of_targets, {"assignmentEpoch": int(number)})
            case ["partitions", "of", "topics"]:
                self._add(4, {"topics": []})
            case ["no", "partitions", "of", "topics"]:
                self._add(4, None)
            case ["initialized"]:
                self._add(15, {"initializingTopics": [], "initializedTopics": [], "deletingTopics": []})
            case ["topology"]:
                self._add(23, {"epoch": 1, "subtopologies": []})
            case ["placeholder"]:
                self._add(2, _generation(0, ["type="]))
            case ["no", "generation"]:
                self._add(2, None)
            case ["generation", number, *members]:
                self._add(2, _generation(int(number), members))
            case ["removed", *members]:
                gone = [*((of, name) for of in (current, member_target) for name in members), (of_targets, None)]
                for of, name in (*gone, *((member, name) for name in members), (4, None), (epoch, None)):
                    self._add(of, None, name)
            case [name, "gone"]:
                for of in (current, member_target, member):
                    self._add(of, None, name)
            case [name, "assigned", *partitions]:
                held = [each.split(":") for each in partitions]
                target = [
                    {"topicId": topic_id(topic), "partitions": [*map(int, numbers.split("+"))]}
                    for topic, numbers in held
                ]
                self._add(member_target, {"topicPartitions": target}, name)
            case [name, "joins", *rest]:
                given = {"topics": "t", **dict(each.split("=") for each in rest)}
                fields = {FIELDS[each]: value for each, value in given.items() if each in FIELDS}
                fields |= OF_A_STREAMS_MEMBER if self.type == "streams" else {}
                topics = filter(None, given["topics"].split("+"))
                self.log.member(self.group, name, *topics, record_type=member, **fields)
            case [name, "at", number, *rest]:
                state = int(rest[0].removeprefix("state=")) if rest else 0
                epochs = {"memberEpoch": int(number), "previousMemberEpoch": int(number) - 1}
                self._add(current, {**epochs, "state": state}, name)
            case _:
                raise ValueError(words)

    def _add(self, record_type: int, value: Json | None, member_id: str | None = None) -> None:
        key = {"group" if record_type == 2 else "groupId": self.group}
        key |= {} if member_id is None else {"memberId": member_id}
        self.log.append(record(record_type, key, value, version=3 if record_type == 2 else 0))


FIELDS = {"regex": "subscribedTopicRegex", "instance": "instanceId", "assignor": "serverAssignor"}


def _generation(number: int, words: list[str]) -> Json:
    """A GroupMetadata value; its members had joined 2 s before T0 + `number` minutes, whatever the record's time is."""
    members: list[tuple[str, list[int], dict[str, Any]]] = []
    value: Json = {"protocolType": "consumer", "protocol": "range", "generation": number}
    for name, _, given in (word.partition("=") for word in words):
        if name in ("protocol", "type"):
            value["protocol" if name == "protocol" else "protocolType"] = given
        elif name == "of":
            members[-1][2]["topics"] = tuple(given.split("+"))
        else:
            member_id, _, instance = name.partition("/")
            partitions = [int(each.removeprefix("t:")) for each in given.split("+") if each]
            members.append((member_id, partitions, {"groupInstanceId": instance or None}))
    made = [classic_member(name, *partitions, **fields) for name, partitions, fields in members]
    value |= {"leader": made[0]["memberId"] if made else None, "currentStateTimestamp": T0_MS + 60_000 * number - 2_000}
    return value | {"members": made} | ({} if made else {"protocol": None})


def tables_of_cases() -> dict[str, pa.Table]:
    """The tables of a lake with all of them, whose logs are of several releases."""
    files: dict[str, dict[str, bytes]] = {}
    for number, case in enumerate(CASES):
        log = Log(number, T0_MS)
        Writer(log).write(case.log)
        files.setdefault(case.release, {}).update(log.files)
    audited = [replayed(each, How(release)) for release, each in files.items()]
    names = ("group_records", "group_versions", "group_member_versions")
    return {name: pa.concat_tables([each.table(name) for each in audited]) for name in names}


# The logs of unstable_periods.txt: each case is an offsets partition of its own.
Row = dict[str, Any]


class Period(NamedTuple):
    """From one log offset to another (None: it has no end), and what ended it."""

    start: int
    end: int | None = None
    ended_by: str | None = None


@dataclass(frozen=True)
class UnstableCase:
    """A log, in which a record has the time of its log offset, and the periods of the slot of outcome_cases."""

    name: str
    log: tuple[Record, ...]
    periods: tuple[Period, ...]


def _period(text: str) -> Period:
    places, _, ended_by = text.strip().partition(" ")
    start, _, end = places.partition("-")
    return Period(int(start), int(end) if end else None, ended_by or None)


UNSTABLE = tuple(
    UnstableCase(name, records(log), tuple(map(_period, periods.split(","))))
    for name, log, periods in lines_of("unstable_periods.txt")
)


def tables_of_unstable() -> dict[str, pa.Table]:
    """The tables of a lake in which each case is the offsets partition of its number."""
    rows: dict[str, list[Row]] = {}
    for number, case in enumerate(UNSTABLE):
        for each in case.log:
            place = {"offsets_partition": number, "log_timestamp": at(each.columns["log_offset"])}
            if each.table == "checkpoints":
                del place["log_timestamp"]
            rows.setdefault(each.table, []).append({**place, **each.columns})
    return {name: rows_of(name, *its) for name, its in rows.items()}
