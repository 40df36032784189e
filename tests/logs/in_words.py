"""Files NAME.txt: logs and rows of tables in words, and the rows that come out of each.

    log TITLE                  is only used by others
    case TITLE [release 4.2]   is tested, too
        + TITLE; 4s: WORDS, WORDS
        => COLUMN=VALUE COLUMN=VALUE

"+ TITLE" stands for the words of that log or case, and "=> as TITLE" for its rows. Columns that are null or as usual
are left out; times are from the first record. `pytest --regen` writes the rows again: a person reads the difference.

"4s:" is the time of the records after it (7d1m: days, hours, minutes), "no time:" takes it away; the first one is 0s. A
record is of group g, which is a consumer group, until "group h", "share group s" or "streams group s" says another.

    commit, commit u-1 offset=9  a committed offset; producer=7: in its transaction; id=u, ago=10m, times=2, idempotent
    remove u-1, commits 7        the tombstone of an offset; the marker of a producer ("aborts 7")
    b joins, b at 3, b gone      its subscription, its current epoch, its tombstones; "state=1": it has to give up
    b assigned, target 3         its part of the target assignment ("b assigned t:0+2 u:1"), the target's epoch
    epoch 4, epoch 4/8           the group's epoch, and another hash of its topics' metadata
    stable a=t:0+1 b             all that at epoch 2, of a group with these members
    wide 100                     the same of 28 members, whose names have that size
    generation 2 a=t:0+1 b       a classic group's record: members with what they are assigned; "a/i": instance i;
                                 "of=t+u" after a member: its topics, if they are not only t
    removed a b, no generation   all tombstones of a group with these members, the tombstone of a classic group
    matching t.* t u             the topics that match an expression; "clock": a record of group clock
    night                        an audit reads the log up to here
    value 10, tombstone 10       a row of offset_commits whose log offset is its second; "pending 10": in a transaction
                                 of producer 7, which "marker 15 committed 10" ends: its log offset, where it began
    TABLE column=value           a row of a table; "every TABLE column=value" in the file's head is what its rows have
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from kgroups_spark.tables.schemas import TABLES, arrow_schema
from tests.findings.logs import START, TOPIC_IDS, Log, classic_member
from tests.findings.record_bytes import Json, blob, record
from tests.lake.table_rows import rows_of
from tests.nights.nights_here import How
from tests.nights.replayed_logs import replayed

Row = dict[str, Any]
BEGIN = datetime.fromtimestamp(START / 1000, UTC)
UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}
SLOT = {"group_id": "g", "topic": "t", "partition": 0}
PRODUCER = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
# The record types of a group's epoch, its members, the target's epoch, the targets of members, and members' epochs.
TYPES = {"consumer": (3, 5, 6, 7, 8), "share": (11, 10, 12, 13, 14), "streams": (17, 19, 20, 21, 22)}
OF_A_STREAMS_MEMBER = {"topologyEpoch": 0, "processId": "p", "rebalanceTimeoutMs": 1000}
FIELDS = {"regex": "subscribedTopicRegex", "instance": "instanceId", "assignor": "serverAssignor"}


def at(second: int) -> datetime:
    return BEGIN + timedelta(seconds=second)


def ms_of(span: str) -> int:
    parts = re.findall(r"([\d.]+)([dhms])", span)
    return round(sum(float(number) * UNITS[unit] for number, unit in parts)) * (-1 if span[0] == "-" else 1)


def span_of(ms: int) -> str:
    if ms < 0:
        return f"-{span_of(-ms)}"
    text = ""
    for unit, size in [*UNITS.items()][:-1]:
        text += f"{ms // size}{unit}" if ms >= size else ""
        ms %= size
    return f"{text}{ms / 1000:g}s" if ms or not text else text


class Case(NamedTuple):
    """`of`: the line "of ..." above it. `given`, `text`: its text without rows and with them. `words`, `rows`: with
    those of the cases that it names, of which `base` is the first."""

    file: Path
    of: str
    title: str
    how: How
    given: str
    text: str
    words: str
    rows: list[str]
    base: str

    def check(self, rows: list[str], config: pytest.Config) -> None:
        if not config.getoption("regen"):
            assert rows == self.rows
            return
        others, base = {each.title: each for each in blocks(self.file)}, self.base
        while base and rows[: len(others[base].rows)] != others[base].rows:
            base = others[base].base
        if base and others[base].rows:
            rows = [f"as {base}", *rows[len(others[base].rows) :]]
        now = "".join(textwrap.fill(f"=> {row}", 120, **OF_ROWS) + "\n" for row in rows)
        head, of, rest = self.file.read_text().rpartition(f"\nof {self.of}\n" if self.of else "\0")
        self.file.write_text(head + of + rest.replace(self.text, self.given + now, 1))
        blocks.cache_clear()


OF_ROWS: Any = {"initial_indent": " " * 4, "subsequent_indent": " " * 7, "break_long_words": False}
OF_ROWS |= {"break_on_hyphens": False}


def cases(file: Path) -> list[Case]:
    """Those that are tested."""
    return [case for case in blocks(file) if case.text.startswith("case")]


@cache
def blocks(file: Path) -> list[Case]:
    """Logs and cases."""
    found, named, of = list[Case](), dict[str, Case](), ""
    text = re.sub("^#.*\n", "", file.read_text(), flags=re.MULTILINE)
    usual = "\n".join(" ".join(each.split()) for each in re.findall(r"^every .*\n(?: .*\n)*", text, re.MULTILINE))
    for section, head, lines in re.findall(r"^(?:of (.*)|((?:log|case) .*))\n((?: .*\n)*)", text, re.MULTILINE):
        of = section or of
        if section:
            continue
        title, _, options = head.partition(" ")[2].partition(" [")
        name = title.partition(": ")[0]
        how: dict[str, Any] = dict(re.findall(r"(\w+) ([^,\]]+)", options))
        if partitions := how.pop("partitions", None):
            how["offsets_partitions"] = int(partitions)
        given = re.match(r"(?:(?! *=>) .*\n)*", lines)[0]
        bases = [named[name] for name in re.findall(r"\+ ([^,;\n]+)", given)]
        rows = [" ".join(row.split()) for row in re.split("^ *=> ", lines[len(given) :], flags=re.MULTILINE)[1:]]
        case = Case(
            file,
            of,
            name,
            How(**how),
            f"{head}\n{given}",
            f"{head}\n{lines}",
            f"{usual}\n" + re.sub(r"\+ ([^,;\n]+)", lambda name: f"\n{named[name[1]].words}\n", given),
            [its for row in rows for its in (named[row[3:]].rows if row.startswith("as ") else [row])],
            bases[0].title if bases and given.lstrip().startswith("+") else "",
        )
        found.append(case)
        named[name] = case
    return found


class Story:
    """The log and the rows of tables that words name. `nights`: the log offsets up to which audits read it."""

    def __init__(self, words: str, partition: int = 0) -> None:
        self.log, self.group, self.type = Log(partition), "g", "consumer"
        self.rows: dict[str, list[Row]] = {}
        self.nights: list[int] = []
        self._usual: dict[str, Row] = {}
        for time, some in re.findall(r" *(?:(no time|-?[\d.dhms]+):)? *([^;\n]*)", words):
            if time:
                self.log.now = -1 if time == "no time" else START + ms_of(time)
            for each in re.split(", |,$", some):
                if each.strip():
                    self._say(each.split())

    def _say(self, words: list[str]) -> None:
        match words:
            case ["every", table, *columns]:
                self._usual[table] = _columns(table, columns)
            case [table, *columns] if table in TABLES:
                self._row(table, _columns(table, columns))
            case ["value" | "pending" | "tombstone" as kind, place, *more]:
                value = {} if kind == "tombstone" else {"committed_offset": 1}
                transaction = PRODUCER if kind == "pending" or "transactional" in more else {}
                self._row("offset_commits", {**SLOT, **value, **transaction}, place, more)
            case ["marker", place, outcome, start, *more]:
                began = json.loads(start)
                ended = {"outcome": None if outcome == "null" else outcome, "transaction_start_offset": began}
                self._row("transaction_markers", {**ended, **PRODUCER}, place, more)
            case ["still_pending", place, *places]:
                held = [["g", "t", 0, int(each), 1, 0, 5] for each in places]
                payload = json.dumps({"producer_id": 7, "transaction": None, "pending": held})
                of_producer = {"reason": "reread", "entry_type": "producer", "payload": payload}
                self._row("checkpoints", of_producer, place)
            case ["night"]:
                self.nights.append(self.log.offset)
            case ["group" | "share" | "streams" as kind, *_]:
                self.type, self.group = kind if kind in TYPES else "consumer", words[-1]
            case _:
                self._record(words)

    def _row(self, table: str, row: Row, place: str = "", more: Iterable[str] = ()) -> None:
        if place:
            row = {
                "log_offset": int(place),
                "log_timestamp": at(int(place)),
                "audit_id": 1 + (int(place) >= 100),
                **row,
            }
            row |= _columns(table, (each for each in more if "=" in each))
        self.rows.setdefault(table, []).append(self._usual.get(table, {}) | row)

    def _record(self, words: list[str]) -> None:
        log = self.log
        epoch, member, of_targets, member_target, current = TYPES[self.type]
        match words:
            case ["commit", *rest]:
                slot = _slot(rest.pop(0)) if re.match(r"\w+-", " ".join(rest)) else {}
                given = dict(each.partition("=")[::2] for each in rest)
                numbers = {name: int(given[name]) for name in ("offset", "producer", "times") if name in given}
                ids = {"topic_id": TOPIC_IDS[given["id"]]} if "id" in given else {}
                ago = ms_of(given.get("ago", "0s"))
                more = {"in_transaction": "idempotent" not in given, "committed_ago": ago}
                log.commit(self.group, **slot, **numbers, **ids, **more)
            case ["remove", slot]:
                log.remove_offset(self.group, **_slot(slot))
            case ["commits" | "aborts" as ends, producer]:
                log.end(int(producer), commit=ends == "commits")
            case ["clock"]:
                log.commit("clock")
            case ["epoch", number]:
                of_group, _, metadata_hash = number.partition("/")
                self._add(epoch, {"epoch": int(of_group), "metadataHash": int(metadata_hash or 7)})
            case ["target", number]:
                self._add(of_targets, {"assignmentEpoch": int(number)})
            case ["stable", *members]:
                held = [each.partition("=")[::2] for each in members]
                steps = [f"{name} joins" for name, _ in held] + ["epoch 2"]
                steps += [f"{name} assigned {its}" for name, its in held] + ["target 2"]
                for step in steps + [f"{name} at 2 {its}" for name, its in held]:
                    self._record(step.split())
            case ["wide", size]:
                self._record(["stable", *(f"{n:02}".rjust(int(size), "x") + f"=t:{n}" for n in range(28))])
            case ["partitions", "of", "topics"]:
                self._add(4, {"topics": []})
            case ["no", "partitions", "of", "topics"]:
                self._add(4, None)
            case ["initialized"]:
                self._add(15, {"initializingTopics": [], "initializedTopics": [], "deletingTopics": []})
            case ["topology", *of]:
                self._add(23, {"epoch": int(of[0]) if of else 1, "subtopologies": []})
            case ["placeholder"]:
                self._add(2, self._generation(0, ["type="]))
            case ["no", "generation"]:
                self._add(2, None)
            case ["generation", number, *members]:
                self._add(2, self._generation(int(number), members))
            case ["matching", expression, *topics]:
                key = {"groupId": self.group, "regularExpression": expression}
                log.append(record(16, key, {"topics": topics, "version": 1, "timestamp": log.now}))
            case ["removed", *members]:
                gone = [*((of, name) for of in (current, member_target) for name in members), (of_targets, None)]
                for of, name in (*gone, *((member, name) for name in members), (4, None), (epoch, None)):
                    self._add(of, None, name)
            case [name, "gone", *types]:
                for of in map(int, types or (current, member_target, member)):
                    self._add(of, None, name)
            case [name, "assigned", *partitions]:
                self._add(member_target, {"topicPartitions": _held(partitions)}, name)
            case [name, "joins", *rest]:
                given = {"topics": "t", **dict(each.split("=") for each in rest)}
                fields = {FIELDS.get(each, each): value for each, value in given.items() if each != "topics"}
                fields |= OF_A_STREAMS_MEMBER if self.type == "streams" else {}
                topics = filter(None, given["topics"].split("+"))
                log.member(self.group, name, *topics, record_type=member, **fields)
            case [name, "at", number, *rest]:
                given = dict(each.split("=") for each in rest if "=" in each)
                value = {"memberEpoch": int(number), "previousMemberEpoch": int(number) - 1}
                value["state"] = int(given.get("state", 0))
                if self.type != "streams":
                    value["assignedPartitions"] = _held(each for each in rest if "=" not in each)
                if "revoking" in given:
                    value["partitionsPendingRevocation"] = _held([given["revoking"]])
                for role in given.keys() & {"activeTasks", "standbyTasks"}:
                    value[role] = [{"subtopologyId": "0", "partitions": _numbers(given[role])}]
                self._add(current, value, name)
            case _:
                raise ValueError(words)

    def _add(self, record_type: int, value: Json | None, member_id: str | None = None) -> None:
        key = {"group" if record_type == 2 else "groupId": self.group}
        key |= {} if member_id is None else {"memberId": member_id}
        self.log.append(record(record_type, key, value, version=3 if record_type == 2 else 0))

    def _generation(self, number: int, words: list[str]) -> Json:
        """A GroupMetadata value; its members had joined 2 s before the record."""
        members: list[tuple[str, list[int], dict[str, Any]]] = []
        value: Json = {"protocolType": "consumer", "protocol": "range", "generation": number}
        for name, _, given in (word.partition("=") for word in words):
            match name:
                case "protocol" | "type":
                    value["protocol" if name == "protocol" else "protocolType"] = given
                case "of":
                    members[-1][2]["topics"] = tuple(given.split("+"))
                case "host":
                    members[-1][2]["clientHost"] = given
                case "subscription" | "assignment":
                    members[-1][2][name] = bytes.fromhex(given)
                case "user_data":
                    subscription = {"topics": ["t"], "userData": b"x" * int(given)}
                    members[-1][2]["subscription"] = blob("ConsumerProtocolSubscription", subscription)
                case _:
                    member_id, _, instance = name.partition("/")
                    members.append((member_id, _numbers(given), {"groupInstanceId": instance or None}))
        made = [classic_member(name, *partitions, **fields) for name, partitions, fields in members]
        value |= {"leader": made[0]["memberId"] if made else None, "currentStateTimestamp": self.log.now - 2_000}
        return value | {"members": made} | ({} if made else {"protocol": None})


def _slot(text: str) -> dict[str, Any]:
    topic, _, partition = text.partition("-")
    return {"topic": topic, "partition": int(partition)}


def _numbers(text: str) -> list[int]:
    return [int(each.rpartition(":")[2]) for each in text.split("+") if each]


def _held(partitions: Iterable[str]) -> list[Json]:
    held = [each.partition(":") for each in partitions]
    return [{"topicId": TOPIC_IDS[topic], "partitions": _numbers(numbers)} for topic, _, numbers in held]


def _columns(table: str, words: Iterable[str]) -> Row:
    schema = arrow_schema(table)
    return {name: _value(schema.field(name).type, text) for name, _, text in (each.partition("=") for each in words)}


def _value(of: pa.DataType, text: str) -> Any:
    if pa.types.is_timestamp(of) and text != "null":
        return BEGIN + timedelta(milliseconds=ms_of(text))
    if pa.types.is_string(of):
        return TOPIC_IDS[text[3:]] if text.startswith("id:") else text if text != "null" else None
    return json.loads(text)


def tables_of(file: Path) -> dict[str, pa.Table]:
    """The tables of a lake with all cases, each of which is the offsets partition of its number."""
    logs: dict[How, dict[str, bytes]] = {}
    tables: dict[str, list[pa.Table]] = {}
    for number, case in enumerate(cases(file)):
        story = Story(case.words, number)
        if story.log.offset:
            logs.setdefault(case.how, {}).update(story.log.files)
        for name, rows in story.rows.items():
            tables.setdefault(name, []).append(rows_of(name, *({"offsets_partition": number} | row for row in rows)))
    for audited in [replayed(files, how) for how, files in logs.items()]:
        for name in ("group_records", "group_versions", "group_member_versions"):
            tables.setdefault(name, []).append(audited.table(name))
    return {name: pa.concat_tables(some) for name, some in tables.items()}


def as_text(row: Row, usual: Row = SLOT, begin: datetime = BEGIN) -> str:
    """A row as a case has it."""
    some = {name: value for name, value in row.items() if value is not None and value != usual.get(name)}
    return " ".join(f"{name}={_as_text(value, begin)}" for name, value in some.items())


NAMES = {topic_id: f"id:{topic}" for topic, topic_id in TOPIC_IDS.items()}


def _as_text(value: Any, begin: datetime) -> str:
    if isinstance(value, datetime):
        return span_of(round((value - begin).total_seconds() * 1000))
    if isinstance(value, list):
        return f"[{','.join(_as_text(each, begin) for each in value)}]"
    return NAMES.get(value, value) if isinstance(value, str) else json.dumps(value)
