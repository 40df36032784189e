"""Every finding: findings.txt has logs that raise it, and some as near to them as can be that do not. Recordings raise
what is true of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from kgroups_spark.audit import result
from kgroups_spark.audit.options import AuditOptions
from kgroups_spark.audit.result import findings_table
from kgroups_spark.audit.run import run_audit
from kgroups_spark.findings import finders
from kgroups_spark.findings.finders import look
from kgroups_spark.findings.finding import (
    KINDS,
    SQL,
    Evidence,
    Finding,
    LargeRecord,
    TimesOff,
    TransactionState,
    moment,
)
from kgroups_spark.offsets.expiry import DECIDED_BY, HELD_GROUPS, CleanUp
from kgroups_spark.replay.ranges import newest_time
from kgroups_spark.tables.columns import Condition, expression_of
from kgroups_spark.tables.schemas import TABLES, arrow_schema
from tests.chosen import one_of, some_of
from tests.findings.logs import DAY, HOUR, START, TOPIC_IDS, Log, classic_member
from tests.lake.table_rows import rows_of as table_rows
from tests.logs.corpora import ANSWERS, files_of
from tests.logs.in_words import Story, as_text, cases
from tests.logs.log_files import borders, files_of_nights
from tests.nights.nights_here import LOOKING, How, audit, audit_nights, in_memory, new_lake
from tests.nights.replayed_logs import replayed
from tests.nights.story import story
from tests.slow_messages import offsets_partition

RETENTION_MS = 7 * DAY
FOLDER = Path(__file__).parent
CASES = cases(FOLDER / "findings.txt")
OF_SHARES = (
    "share_partitions",
    "share_batches",
    "topic_offsets",
    "transactional_ids",
    "cluster_facts",
    "previous_offset_expiry",
)
Row = dict[str, Any]
AUDIT_ID = 1
# As if the lake were large: partition 0, where most logs are, then the others.
LOTS = [(Condition("offsets_partition", "<=", 0),), (Condition("offsets_partition", ">=", 1),)]


@dataclass(frozen=True)
class ArrowTables:
    """Tables in memory."""

    tables: Mapping[str, pa.Table]

    def rows(self, name, columns, *conditions):
        table = self.tables[name]
        if conditions and len(table):
            table = table.filter(expression_of(conditions))
        return table.select(columns)

    def source(self, name, *conditions):
        return self.rows(name, self.tables[name].column_names, *conditions)


def evidence_of(audited, *, as_of=None, retention_ms=RETENTION_MS, release="4.3"):
    """The evidence that the audit has. `as_of`: ms; None: the newest time in the log."""
    newest = newest_time(p.log_times for p in audited.progress) or 0
    at = newest if as_of is None else as_of
    tables = audited.tables()
    tables["offset_expiry"] = _offset_expiry(audited, at, retention_ms, release)
    moment_of = moment(at)
    assert moment_of is not None
    return Evidence(
        ArrowTables(tables),
        AUDIT_ID,
        moment_of,
        moment_of,
        retention_ms,
        [LargeRecord(p.offsets_partition, *fields) for p in audited.progress for fields in p.large_records],
        [TimesOff(p.offsets_partition, *fields) for p in audited.progress for fields in p.times_off],
    )


def all_findings(evidence):
    """Everything odd that can be found."""
    return look(evidence).findings


def findings(audited, *, tables=None, **how):
    """All findings; they fit the table, its nulls and its key. `tables`: rows of the other
    coordinators' tables, if their logs were read."""
    evidence = evidence_of(audited, **how)
    if tables:
        made = {name: pa.Table.from_pylist(tables.get(name, []), schema=arrow_schema(name)) for name in OF_SHARES}
        state = TransactionState(frozenset({0}))
        evidence = replace(with_tables(evidence, **made), log_starts={0: 0}, transaction_state=state)
    found = all_findings(evidence)
    with mock.patch.object(finders, "_lots", lambda _: LOTS):
        assert look(evidence) == (found, [])
    rows = findings_table(found, AUDIT_ID)
    rows.validate(full=True)
    keys = [tuple(v for k, v in row.items() if k not in ("detail", "since", "severity")) for row in rows.to_pylist()]
    assert len(set(keys)) == len(keys)
    return found


def _offset_expiry(audited, as_of, retention_ms, release):
    held = arrow_schema("groups").empty_table().select(DECIDED_BY[HELD_GROUPS])
    given = {name: audited.table(name).select(DECIDED_BY[name]) for name in DECIDED_BY if name != HELD_GROUPS}
    return dict(CleanUp(as_of, retention_ms, release, AUDIT_ID).decided({**given, HELD_GROUPS: held}))["offset_expiry"]


def with_tables(evidence, **tables):
    """The same evidence with other tables."""
    assert isinstance(evidence.tables, ArrowTables)
    return replace(evidence, tables=ArrowTables({**evidence.tables.tables, **tables}))


@pytest.fixture(scope="module", autouse=True)
def one_database():
    """To start DuckDB for each log takes a quarter of the time."""
    with finders.connected() as database:

        def connect(*_):
            connection = database.cursor()
            connection.execute("SET TimeZone = 'UTC'; SET python_enable_replacements = false")
            return connection

        with mock.patch.object(finders, "connect", connect):
            yield


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.of}-{case.title}")
def test_a_log_raises_its_finding(case, monkeypatch, pytestconfig):
    if not pytestconfig.getoption("regen"):
        monkeypatch.setattr(finders, "SQL", {case.of: SQL[case.of]})
        case = case._replace(rows=own_rows(case))
    case.check(found_in(case), pytestconfig)


def test_and_no_other(chosen):
    for case in chosen.some(CASES, 8):
        assert found_in(case) == case.rows, case.title


def own_rows(case):
    return [row for row in case.rows if not row.startswith("also ")]


def found_in(case):
    """The finding in words, and the names of others."""
    story = Story(case.words)
    found = findings(replayed(story.log.files, case.how), release=case.how.release, tables=story.rows)
    rows = [finding_as_text(each._asdict()) for each in found if each.finding == case.of]
    return rows + [f"also {each.finding}" for each in found if each.finding != case.of]


def finding_as_text(row):
    columns = {name: row[name] for name in Finding._fields if name not in ("finding", "detail")}
    return f"{as_text(columns, {})}: {row['detail']}"


@pytest.mark.parametrize("case", cases(FOLDER / "nights.txt"), ids=lambda case: case.title)
def test_a_night_raises_its_findings(case, pytestconfig):
    story, nights, rows = Story(case.words), new_lake(), []
    ends = {end.next_offset: [end] for end in borders(story.log.files, 0)}
    cuts = {0: [ends[night] for night in (*story.nights, story.log.offset)]}
    for number, files in enumerate(files_of_nights(story.log.files, cuts), 1):
        nights.night(files, LOOKING)
        rows += [f"night {number}: {row['finding']} {finding_as_text(row)}" for row in nights.found()]
    case.check(rows, pytestconfig)


def test_each_finding_has_a_log_that_raises_it_and_one_that_does_not():
    # No log raises that one: tests/audit/test_whole_nights.py.
    of_logs = set(KINDS) - {"stale_checkpoint"}
    assert {case.of for case in CASES if own_rows(case)} == of_logs
    assert {case.of for case in CASES if not own_rows(case)} == of_logs
    assert sorted(SQL) == sorted(KINDS)


# These things were really done while the logs were recorded (capture.json is beside each of them): members committed
# for partitions that they did not have, plain commits came around a transaction, consumers and a share group were older
# than the retention.
MOVES = ("offset_rewound", "offset_skipped")
TRUE_OF_RECORDINGS = {
    "expiry-4.3-before": {
        ("committed_by_non_owner", "ledger-10b7d1", "gamma.events.1026b6"),
        ("committed_by_non_owner", "search-11028d", "alpha.100254"),
        ("committed_by_non_owner", "search-120953", "beta.1017b3"),
    },
    "expiry-4.3-after": {
        ("committed_by_non_owner", "search-120953", "beta.1017b3"),
        ("lost_when_emptied", "billing-112201", "gamma.events.1026b6"),
        ("lost_when_emptied", "search-11028d", "beta.1017b3"),
        ("idle_share_group", "audit-122229", None),
    },
    "mixed-upgrade": {
        ("committed_by_non_owner", "audit-1042ba", "after.upgrade.159380"),
        ("mixed_commits", "ledger-15099d", "input.133c3a"),
    },
    "scala-3.9-reloaded": {("mixed_commits", "ledger-15099d", "input.133c3a")},
    "transactions-4.3": {
        ("committed_by_non_owner", "search-11b239", "other.1017b3"),
        ("committed_by_non_owner", "shipping-118ced", "other.1017b3"),
        ("mixed_commits", "ledger-12046a", "input.100254"),
    },
}


@pytest.mark.parametrize("corpus", some_of(2, *sorted(ANSWERS)))
def test_recordings_raise_the_findings_of_their_scripts_and_no_others(corpus):
    answers = ANSWERS[corpus]
    release = answers["release"]
    how = {"retention_ms": answers["retention_ms"]} if answers.get("retention_ms") else {}
    found = findings(replayed(files_of(corpus), How(release)), release=release, **how)
    # Their clients committed random offsets: tests/replay/test_event_truth.py has what moved.
    odd = {(each.finding, each.group_id, each.topic) for each in found if each.finding not in MOVES}
    assert odd == TRUE_OF_RECORDINGS.get(corpus, set())


def test_the_shipped_story_has_its_incidents():
    found = story().found()
    columns = ("finding", "group_id", "producer_id", "offsets_partition")
    assert [tuple(each[name] for name in columns) for each in found] == [
        ("hanging_transaction", "payments-ledger", 4010, 7),
        ("offset_skipped", "clickstream-sessions-b", None, 1),
        ("offset_skipped", "carrier-feedback", None, 6),
        ("offset_rewound", "email-sender", None, 2),
        ("offset_rewound", "invoice-export", None, 4),
        ("offset_rewound", "customer-360", None, 6),
        ("contested_static_member", "fraud-scoring", None, 6),
        ("lost_when_emptied", "audit-archiver", None, 2),
    ]
    assert "kafka-transactions.sh --bootstrap-server HOST:PORT abort" in found[0]["detail"]
    assert "--partition 7 --start-offset 2123" in found[0]["detail"]


ODD = {f"{case.of}-{case.title}": case for case in CASES if own_rows(case)}


@pytest.mark.parametrize("name", one_of(*ODD))
def test_ranges_do_not_matter(name):
    """Tables that count the records of a night belong to the night; where its ranges are cut changes nothing."""
    files, how = Story(ODD[name].words).log.files, replace(ODD[name].how, findings=True)
    in_ranges = audit_nights(files, {0: [borders(files, 0)[1:]]}, how)
    assert in_ranges.rows("findings") == audit(files, how).rows("findings")


@pytest.mark.parametrize("lots", [(), LOTS])
def test_lasting_findings_are_raised_again_when_nothing_new_is_read(lots, monkeypatch):
    monkeypatch.setattr(finders, "_lots", lambda _: lots)
    words = (
        "stable a=t:0, commit, x assigned t:1, group big, generation 1 m user_data=900000, group s, commit times=36000"
    )
    files = Story(words).log.files
    audited = audit(files, LOOKING)
    first = audited.found()
    audited.night(files, How(as_of=START + HOUR, findings=True))
    later = audited.found()
    names = {each["finding"] for each in first}
    assert names == {"target_for_unknown_member", "group_record_near_limit", "commit_storm"}
    assert [each for each in first if each["finding"] != "commit_storm"] == later


def test_nothing_is_overdue_by_a_time_that_the_log_does_not_reach():
    audited_log = replayed(Log().commit("g").commit("h", producer=7).files, How())
    evidence = evidence_of(audited_log, as_of=Log().now + 30 * 24 * HOUR)
    assert {each.finding for each in all_findings(evidence)} == {"hanging_transaction", "expiry_overdue"}
    assert all_findings(replace(evidence, known_until=datetime.fromtimestamp(Log().now / 1000, UTC))) == []


def test_a_record_that_the_log_has_lost_no_longer_stops_a_load():
    evidence = evidence_of(replayed(Story("stable a=t:0, a gone 5").log.files, How()))
    assert [each.finding for each in all_findings(replace(evidence, log_starts={0: 5}))] == ["load_would_fail"]
    assert all_findings(replace(evidence, log_starts={0: 6})) == []


def test_a_record_with_two_reasons_not_to_load_is_one_record_whatever_their_order():
    evidence = evidence_of(replayed(Story("stable a=t:0, a gone 5").log.files, How()))
    (row,) = evidence.tables.rows("quarantine", TABLES["quarantine"].schema.names).to_pylist()
    rows = [row, row | {"detail": "Another reason"}]
    found = [
        all_findings(with_tables(evidence, quarantine=pa.Table.from_pylist(each, schema=arrow_schema("quarantine"))))
        for each in (rows, rows[::-1])
    ]
    (first,), (second,) = found
    assert first == second
    assert "Another reason" in first.detail
    assert "like it" not in first.detail


def test_an_id_that_only_the_cluster_reported_is_the_newest():
    committed = TOPIC_IDS["t"]
    evidence = evidence_of(replayed(Log().commit("g", topic_id=committed).files, How()))
    (row,) = evidence.tables.rows("topics", TABLES["topics"].schema.names).to_pylist()
    for seen, found in ((None, ["topic_recreated"]), (row["seen_log_timestamp"] - timedelta(hours=1), [])):
        other = row | {"topic_id": TOPIC_IDS["u"], "seen_log_timestamp": seen, "source": "cluster"}
        topics = pa.Table.from_pylist([row, other], schema=arrow_schema("topics"))
        assert [each.finding for each in all_findings(with_tables(evidence, topics=topics))] == found


def test_offsets_that_were_not_read_now_are_not_compared_with_the_ends_of_now():
    evidence = evidence_of(replayed(Log().commit("g").files, How()))
    seen = {
        "topic": "t",
        "log_start_offset": 6,
        "log_end_offset": 100,
        "status": "ok",
        "seen_at": Log().later(HOUR).moment,
    }
    ends = table_rows("topic_offsets", {"audit_id": 1, **seen})
    asked = with_tables(evidence, topic_offsets=ends)
    assert [each.finding for each in all_findings(asked)] == ["records_lost", "offset_below_log_start"]
    assert all_findings(replace(asked, known_until_of={0: Log().moment})) == []


def test_rows_are_those_of_the_table_errors_first():
    words = "group z, commit producer=7, group a, commit producer=7, group x, commit, no generation; 1h: clock"
    log = Story(f"{words}, group g, generation 1 a=t:0, commit t-3").log
    rows = findings_table(findings(replayed(log.files, How())), audit_id=9).to_pylist()
    assert [(row["severity"], row["finding"], row["audit_id"]) for row in rows] == [
        ("error", "orphaned_offsets", 9),
        ("error", "hanging_transaction", 9),
        ("warning", "partition_assigned_to_nobody", 9),
        ("warning", "committed_by_non_owner", 9),
    ]
    assert list(rows[0]) == TABLES["findings"].schema.names
    assert rows[1]["since"] == datetime.fromtimestamp(Log().now / 1000, UTC)
    assert rows[1]["group_id"] is None and "2 offsets of a, z" in rows[1]["detail"]


def test_of_a_transaction_whose_coordinators_partition_was_not_read_nothing_is_said_of_it():
    evidence = evidence_of(replayed(Log().commit("g", producer=7).tick(HOUR).files, How()))
    ids = table_rows("transactional_ids", {"audit_id": 1, "producer_id": 8})
    partly = replace(evidence, transaction_state=TransactionState(frozenset({1})))
    [found] = all_findings(with_tables(partly, transactional_ids=ids))
    assert found.producer_id == 7 and "was not read" in found.detail


def test_odd_times_stop_no_finder():
    for now in (-1, 1 << 61):
        log = Log(now=now).commit("g", committed_ago=-HOUR).commit("h", producer=7).classic("c", classic_member("m", 0))
        assert all_findings(evidence_of(replayed(log.files, How()), as_of=Log().now)) is not None


def test_a_partition_that_was_not_given_is_judged_as_of_its_last_read():
    """Each finding that waits for time to pass, in an offsets partition that this audit was not given."""
    timed = {"hanging_transaction", "expiry_overdue", "idle_share_group", "member_not_reconciled", "ghost_member"}
    reported = set()
    for case in ODD.values():
        story = Story(case.words)
        if case.of in timed and not story.rows:
            evidence = evidence_of(replayed(story.log.files, How()))
            known = replace(evidence, known_until_of={0: evidence.known_until, 1: Log().later(-HOUR).moment})
            assert [each.finding for each in all_findings(known)] == [case.of], case.title
            if all_findings(replace(evidence, known_until_of={0: Log().moment})) == []:
                reported.add((case.of, case.title))
    # The ghost that is one whatever the time.
    assert {finding for finding, _ in reported} == timed
    assert ("ghost_member", "assigned after it was removed") not in reported


def test_a_group_in_a_partition_that_was_not_read_may_be_in_one_that_the_topic_no_longer_has():
    evidence = evidence_of(replayed(Log(1).commit("a").files, How(offsets_partitions=50)))
    details = [
        next(each.detail for each in all_findings(replace(evidence, known_until_of=known)))
        for known in ({}, {1: Log().moment})
    ]
    assert "hashes to another: most likely the topic's partition count was raised. Clients" in details[0]
    assert "hashes to another: the topic no longer has that partition, or its partition count was" in details[1]


def test_a_group_in_two_partitions_gets_no_advice_to_import_what_it_has(monkeypatch):
    """An export of it has the offsets of the partition to which its name hashes: with them it would be rewound."""
    monkeypatch.setattr(finders, "AT_ONCE", 1)
    a, other, home = "a", 1, 47
    assert (offsets_partition(a, 50), offsets_partition(a, 4)) == (home, other)
    files = Log(other).commit(a, offset=5).files
    how = How(offsets_partitions=50, findings=True)
    (alone,) = audit(files, how).found()
    assert "so none can fetch these offsets. Move them: kgroups export-offsets --group a --output" in alone["detail"]
    (twice,) = audit(files | Log(home).commit(a, offset=900).files, how).found()
    assert (twice["finding"], twice["offsets_partition"]) == ("group_in_wrong_partition", other)
    assert "where the group is, too (partition 47), so they fetch those offsets" in twice["detail"]
    assert twice["detail"].endswith("kgroups describe --group a") and "export" not in twice["detail"]


def test_only_the_second_audit_in_a_row_that_reads_nothing_keeps_the_findings():
    log = Story("stable a=t:0 b=t:1, commit ago=10m0.001s; 7d: clock").log
    lake = audit(log.files, LOOKING)
    first = lake.found()
    assert [each["finding"] for each in first] == ["commit_time_skew", "lost_when_emptied"]
    other = replace(LOOKING, retention_ms=8 * DAY)
    nights = [(LOOKING, 1), (LOOKING, 0), (LOOKING, 0), (other, 1), (other, 0), (LOOKING, 1)]
    for how, looks in nights:
        with mock.patch.object(result, "look", side_effect=look) as looked:
            lake.night(log.files, how)
        assert looked.call_count == looks
        # Only the first audit had read the commit with another time.
        assert lake.found() == [each for each in first[1:] if how is LOOKING]
        assert lake.newest.rows_added == {"findings": len(lake.found())}
    with mock.patch.object(result, "look", side_effect=look) as looked:
        lake.night(log.commit("g").files, LOOKING)
    assert looked.call_count == 1


def test_after_an_audit_of_chosen_partitions_the_next_one_looks():
    log = Story("stable a=t:0 b=t:1, commit; 7d: clock").log
    lake = audit(log.files, LOOKING)
    lake.night(log.files, LOOKING)
    options = AuditOptions(lake=lake.lake, segments=[str(lake.folder / "log")], partitions=[0], **LOOKING.rules)
    with mock.patch.object(result, "look", side_effect=look) as looked:
        with in_memory():
            chosen = run_audit(lake.session, options)
        lake.night(log.files, LOOKING)
    assert chosen.audit.notes == ("only partition 0 was asked for: --partitions",)
    assert looked.call_count == 2
