"""Audits of the three logs: nights and rebuild; against answers of brokers' Admin API."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from kgroups_spark.audit import run
from kgroups_spark.audit.run import AuditOptions, RebuildOptions, run_audit
from kgroups_spark.audit.state_log_plan import named_table
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger import Ledger
from kgroups_spark.tables.schemas import STATE_LOG_TABLES, TABLES
from tests.chosen import one_of
from tests.lake.table_rows import rows_of
from tests.nights.lakes import contents, rows
from tests.nights.state_nights import ends_of_batches
from tests.nights.story import story
from tests.recorded_state_logs import answers, log_dir
from tests.views.lag_cases import share_lag

pytestmark = pytest.mark.usefixtures("findings_not_sought")

TABLES_OF_USERS = [name for name in STATE_LOG_TABLES if TABLES[name].kind != "internal"]
COMPARED = [*TABLES_OF_USERS, "pending_offsets", "open_transactions", "groups"]
TOPIC_OF = {"share-4.4": "__share_group_state", "transactions-4.4": "__transaction_state"}
RECORDINGS = ["share-4.4", "transactions-4.4"]
of_one_recording = pytest.mark.parametrize("recorded", one_of(*RECORDINGS), indirect=True, scope="module")


def audit(spark, lake, segments, **options):
    return run_audit(spark, AuditOptions(lake=str(lake), segments=[str(segments)], **options)).audit


def cut(source, target, share):
    """The log directory with each log cut at a batch border after about that share of its batches."""
    for segment in source.glob("*/*.log"):
        path = target / segment.relative_to(source)
        path.parent.mkdir(parents=True, exist_ok=True)
        data = segment.read_bytes()
        ends = [0, *ends_of_batches(data)]
        path.write_bytes(data[: ends[int((len(ends) - 1) * share)]])
    return target


@pytest.fixture(scope="module", params=RECORDINGS)
def recorded(request, tmp_path_factory):
    return request.param, log_dir(request.param, tmp_path_factory.mktemp("log"))


@pytest.fixture(scope="module")
def whole(local, recorded, tmp_path_factory):
    """A lake of one audit of everything."""
    lake = tmp_path_factory.mktemp("whole") / "lake"
    audit(local, lake, recorded[1])
    return lake


def test_the_tables_agree_with_the_brokers_admin_api(recorded, whole):
    recording, _ = recorded
    reported = answers()[recording]
    if recording.startswith("share"):
        ends = reported["topic_end_offsets"]
        mine = {
            (row["group_id"], row["topic"], row["partition"]): (
                row["start_offset"],
                None if row["start_offset"] is None else row["leader_epoch"],
                share_lag(
                    row["start_offset"], row["delivery_complete_count"], ends[row["topic"]][str(row["partition"])]
                ),
            )
            for row in rows(whole, "share_partitions")
            if row["init_state"] == "initialized"
        }
        assert mine == {
            (group_id, one["topic"], one["partition"]): (
                one.get("start_offset"),
                one.get("leader_epoch"),
                one.get("lag"),
            )
            for group_id, offsets in reported["share_offsets"].items()
            for one in offsets
        }
        assert len(mine) == 10
        return
    mine = {row["transactional_id"]: row for row in rows(whole, "transactional_ids")}
    assert mine.keys() == {one["transactional_id"] for one in reported["transactions"]}
    for one in reported["transactions"]:
        row = mine[one["transactional_id"]]
        assert (row["producer_id"], row["producer_epoch"]) == (one["producer_id"], one["producer_epoch"])
        assert (row["state"], row["timeout_ms"]) == (one["state"], one["timeout_ms"])
        partitions = [[each["topic"], each["partition"]] for each in row["topic_partitions"]]
        assert partitions == sorted(one["partitions"])


def test_open_transactions_have_the_names_of_their_producers(recorded, whole):
    names = {row["producer_id"]: row["transactional_id"] for row in rows(whole, "transactional_ids")}
    opened = rows(whole, "open_transactions")
    for row in [*opened, *rows(whole, "pending_offsets")]:
        assert row["transactional_id"] == names.get(row["producer_id"])
    named = [row for row in opened if row["transactional_id"] is not None]
    assert [row["is_hanging"] for row in named] == [False] * len(named)  # the coordinator lists them
    # Offsets of share groups are never committed in transactions.
    assert (len(opened), len(named)) == {"share-4.4": (0, 0), "transactions-4.4": (2, 2)}[recorded[0]]


@of_one_recording
def test_nights_and_a_rebuild_give_the_tables_of_one_audit(local, recorded, whole, tmp_path):
    lake = tmp_path / "lake"
    for share in (0.4, 0.7, 1):
        row = audit(local, lake, cut(recorded[1], tmp_path / "night", share))
    expected = contents(whole, COMPARED)
    assert contents(lake, COMPARED) == expected
    assert {entry.topic for entry in row.state_partitions} == {TOPIC_OF[recorded[0]]}
    spans = {
        (one.topic, one.offsets_partition): (one.end_offset, one.records)
        for one in Ledger(Lake.open(local, str(lake))).last_finished().state_partitions
    }
    assert spans and all(end > 0 for end, _ in spans.values())
    run.run_rebuild(local, RebuildOptions(lake=str(lake)))
    assert contents(lake, COMPARED) == expected
    assert Ledger(Lake.open(local, str(lake))).last_finished().state_partitions != ()


@of_one_recording
def test_other_logs_are_left_out_if_unwanted_or_missing(session, recorded, tmp_path):
    row = audit(session, tmp_path / "lake", recorded[1], include=())
    assert row.state_partitions == ()
    assert not row.rows_added.keys() & set(STATE_LOG_TABLES)
    shutil.copytree(recorded[1], tmp_path / "groups", ignore=shutil.ignore_patterns("__share*", "__transaction*"))
    later = audit(session, tmp_path / "lake", tmp_path / "groups")
    assert later.state_partitions == ()
    # A log that comes later is read from its start.
    last = audit(session, tmp_path / "lake", recorded[1])
    assert {entry.start_offset for entry in last.state_partitions} == {0}
    assert sum(entry.records for entry in last.state_partitions) == sum(
        last.rows_added.get(name, 0) for name in ("share_group_state_records", "transaction_state_records")
    )
    # One that is no longer given keeps its rows, and is missing, unless it is unwanted.
    options = AuditOptions(str(tmp_path / "lake"), [str(tmp_path / "groups")])
    missing = run_audit(session, options)
    assert missing.shortfall.others == tuple(f"{each.topic}-{each.offsets_partition}" for each in last.state_partitions)
    topic, count = TOPIC_OF[recorded[0]], len(last.state_partitions)
    assert (
        f"{topic}: {count} partitions were not given: 0-{count - 1}; rows stay as they were last read"
        in missing.audit.notes
    )
    assert not run_audit(session, replace(options, include=())).shortfall


# open_transactions.is_hanging: by age alone where `__transaction_state` was not read, else by Kafka's rule.
OURS = {"topic": "__consumer_offsets", "partition": 0}
OTHERS = [{"topic": "orders", "partition": 0}, {"topic": "__consumer_offsets", "partition": 1}]


class ListedLake:
    """A lake that has only rows of transactional_ids."""

    def __init__(self, *listed):
        self.listed = rows_of(
            "transactional_ids", *({"state": "Ongoing", "timeout_ms": 60_000} | row for row in listed)
        )

    def rows(self, table, columns, conditions):
        assert table == "transactional_ids"
        return self.listed.select(columns)


@pytest.mark.parametrize(
    ("listed", "is_hanging"),
    [
        ([], True),
        ([{"topic_partitions": [OURS, *OTHERS]}], False),
        ([{"topic_partitions": OTHERS}], True),
        ([{"topic_partitions": [], "timeout_ms": 2147483647}], False),
        ([{"topic_partitions": [OURS], "state": "Dead"}], True),
        ([{"topic_partitions": [OURS], "producer_id": 8}], True),
    ],
)
def test_an_old_transaction_that_the_coordinator_will_end_does_not_hang(listed, is_hanging):
    row = {"producer_id": 7, "offsets_partition": 0, "open_since": datetime(2026, 1, 1, tzinfo=UTC)}
    opened = rows_of("open_transactions", *(row | {"is_hanging": old} for old in (True, False, None)))
    lake = ListedLake(*({"producer_id": 7} | each for each in listed))
    named = named_table(lake, opened)
    assert named["is_hanging"].to_pylist() == [is_hanging, False, None]


def test_without_that_log_an_old_transaction_hangs_and_a_young_one_does_not():
    opened = story().table("open_transactions").to_pylist()
    assert sorted((row["producer_id"], row["is_hanging"]) for row in opened) == [(4010, True), (4015, False)]
