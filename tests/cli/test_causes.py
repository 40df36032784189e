"""Each cause that a removal, a move or a take-over of a member has: a log in which it is right, and a log as similar as
possible in which the product must not say it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kgroups_spark.coordinator.classic_group import ClassicGroup
from kgroups_spark.coordinator.releases import release
from kgroups_spark.replay.groups import facts_of
from kgroups_spark.words import CAUSES, to_datetime
from tests.cli.story_reader import ArrowReader
from tests.findings.logs import DAY, HOUR, MINUTE, TOPIC_IDS, TRANSACTIONAL, Log, classic_member, member_record
from tests.findings.record_bytes import record
from tests.lake.table_rows import rows_of
from tests.nights.nights_here import How, audit

T0 = 1_790_000_000_000  # 2026-09-21
UNITS = {"m": MINUTE, "h": HOUR, "d": DAY}


class Case(NamedTuple):
    """`logs`: the partitions. `reported`: the events of group g from record `since` on, each with its cause."""

    name: str
    logs: tuple[Log, ...]
    reported: list[tuple[str, str | None]]
    since: int
    release: str
    is_alone: bool  # no other case may write while its brokers are off


def log_of(text):
    """The log of a text as in causes.txt, and the number of its records before "|"."""
    log, since = Log(now=T0), 0
    for act in filter(None, map(str.strip, text.split(";"))):
        if act.startswith("|"):
            since = log.offset
        at, _, records = act.strip("| ").partition(": ")
        time, _, producer = at.partition(" in ")
        log.now = T0 + int(time[:-1]) * UNITS[time[-1]]
        if records.startswith(("commits", "aborts")):
            log.end(int(records.split()[1]), commit=records.startswith("commits"))
            continue
        fields = {"attributes": TRANSACTIONAL, "producer_id": int(producer), "producer_epoch": 0} if producer else {}
        given = [each for text in records.split(", ") for each in _records(log.now, *text.split())]
        log.append(*given, **fields)
    return log, since


def _records(now, *words):
    group = words[words.index("of") + 1] if "of" in words else "g"
    given = dict(word.split("=") for word in words if "=" in word)
    of_group: dict[str, Any] = {"groupId": "g"}
    match words:
        case ["commit" | "remove", *_]:
            topic, _, partition = next((word for word in words[1:] if "-" in word[1:]), "t-0").partition("-")
            key = {"group": group, "topic": topic, "partition": int(partition)}
            value = {"offset": int(words[1]), "commitTimestamp": now} if words[0] == "commit" else None
            if value is not None and "id" in given:
                value["topicId"] = TOPIC_IDS["?tu"[int(given["id"])]]
            yield record(1, key, value, version=4 if "id" in given else 3)
        case ["classic", generation, *members]:
            made = [classic_member(name, topics=(given.get("topics", "t"),), groupInstanceId=instance or None)
                    for name, _, instance in (each.partition("/") for each in members if "=" not in each)]  # fmt: skip
            value = {"protocolType": given.get("type", "consumer"), "generation": int(generation), "members": made}
            value |= {"protocol": "range", "leader": made[0]["memberId"]} if made else {}
            yield record(2, {"group": "g"}, value | {"currentStateTimestamp": now}, version=3)
        case ["gone"]:
            yield record(2, {"group": "g"}, None)
        case ["epoch", number]:
            yield record(3, of_group, {"epoch": int(number)})
        case ["joins", member]:
            name, _, instance = member.partition("/")
            yield member_record(name, "t", instanceId=instance or None)
        case [name, "at", number]:
            value = {"memberEpoch": int(number), "previousMemberEpoch": int(number)}
            yield record(8, of_group | {"memberId": name}, value)
        case [name, "leaves"]:
            yield from (record(kind, of_group | {"memberId": name}, None) for kind in (8, 7, 5))
        case _:
            raise ValueError(words)


def cases_of(text):
    logs: dict[str, str] = {}
    for kind, title, lines in re.findall(r"^(log|case) (.*)\n((?: .*\n)+)", text, re.MULTILINE):
        name, *options = re.split(r" \[|\]", title)
        written, _, reported = lines.partition("=>")
        parts = [re.sub(r"\+ ([^;]*)", lambda found: logs[found[1]], part).strip() for part in written.split("&")]
        logs[name] = parts[0]
        if kind == "case":
            made = [log_of(part) for part in parts]
            release = next((each.split()[1] for each in options if each.startswith("release")), "4.3")
            events = [
                (each.split()[0], (each.split()[1:] or [None])[0]) for each in reported.split(";") if each.strip()
            ]
            yield Case(name, tuple(log for log, _ in made), events, made[0][1], release, "alone" in options)


CASES = tuple(cases_of((Path(__file__).parent / "causes.txt").read_text()))
WEEK = 7 * DAY


def reader(*cases, **tables):
    """A lake with the partitions of these cases, which are of one release."""
    logs = [log for case in cases for log in case.logs]
    files = {f"__consumer_offsets-{number}/{0:020d}.log": log.data for number, log in enumerate(logs)}
    audited = audit(files, How(cases[0].release, retention_ms=WEEK))
    return ArrowReader({**audited.tables(), **tables}, to_datetime(T0 + 101 * DAY), cases[0].release)


def has_company(case):
    return not case.is_alone and case.release == "4.3" and len(case.logs) == 1


TOGETHER = [case for case in CASES if has_company(case)]


@cache
def together():
    """The events of all cases that may share a lake: each is an offsets partition."""
    columns = ("offsets_partition", "log_offset", "event", "cause")
    return reader(*TOGETHER).sql(f"SELECT {', '.join(columns)} FROM all_events WHERE group_id = 'g' ORDER BY ALL")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_event_has_the_cause_that_the_log_shows(case, rows):
    number = 0
    if has_company(case):
        number, found = TOGETHER.index(case), together()
    else:
        found = rows("history --group g", reader(case))
    reported = [
        (row["event"], row["cause"])
        for row in found
        if row["offsets_partition"] == number and row["log_offset"] >= case.since and row["event"] != "state_changed"
    ]
    assert sorted(reported, key=str) == sorted(case.reported, key=str)


@pytest.mark.parametrize(("protocol_type", "is_self_assigned"), [("consumer", False), ("", True)])
def test_a_release_that_forgets_the_protocol_type_of_an_empty_group(protocol_type, is_self_assigned):
    value = {"protocolType": protocol_type, "members": []}
    assert facts_of(ClassicGroup(release("0.11"), "g", value)).is_self_assigned is is_self_assigned


def test_every_cause_has_a_case():
    causes = {cause for case in CASES for _, cause in case.reported} - {None}
    known = {cause if cause in CAUSES else cause.removeprefix("probably_") for cause in causes}
    # The others are in tests/views/departures.sql.
    assert set(CAUSES) - known == {"session_expired", "put_out_while_revoking"}
    assert known <= set(CAUSES)


@pytest.mark.parametrize(
    ("status", "cause"), [("unknown_topic", "topic_deleted"), ("ok", "unknown"), ("not_authorized", "unknown")]
)
def test_a_topic_that_the_cluster_no_longer_has_was_deleted(status, cause, rows):
    case = next(case for case in CASES if case.name.startswith("an offset of a topic that no other group has"))
    seen = rows_of(
        "topic_offsets", {"audit_id": 1, "topic": "t", "partition": 0, "status": status, "seen_at": to_datetime(T0)}
    )
    (row,) = rows("history --group g --event offset_removed", reader(case, topic_offsets=seen))
    assert row["cause"] == cause


def test_what_keep_has_removed_is_no_evidence(rows):
    case = next(case for case in CASES if case.name.startswith("an admin resets an Empty"))
    events = reader(case).sql("FROM group_events")
    keep = rows_of("checkpoints", {"audit_id": 1, "offsets_partition": 0, "reason": "keep", "log_offset": case.since})
    for since, cause in ((0, "no_members"), (case.since, "unknown")):
        left = rows_of("group_events", *(row for row in events if row["log_offset"] >= since))
        (row,) = rows("history --group g --event offset_rewound", reader(case, group_events=left, checkpoints=keep))
        assert row["cause"] == cause


def test_a_removed_group_is_no_deleted_topic_even_if_that_is_gone_too(rows):
    case = next(case for case in CASES if case.name.startswith("Scala: all offsets"))
    seen = [
        {"audit_id": 1, "topic": "t", "partition": number, "status": "unknown_topic", "seen_at": to_datetime(T0)}
        for number in (0, 1)
    ]
    found = rows("history --group g", reader(case, topic_offsets=rows_of("topic_offsets", *seen)))
    assert {row["cause"] for row in found if row["event"].endswith("removed")} == {"unknown"}
