"""The report's questions to the lake of the shipped segments, whose story is known, and `kgroups report` itself."""

from __future__ import annotations

import html
import io
import os
import re
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from kgroups_spark.audit.run import AuditOptions, run_audit
from kgroups_spark.cli.demo import SEGMENTS
from kgroups_spark.cli.main import main
from kgroups_spark.cli.open_lake import open_by_spark
from kgroups_spark.report.figures import GROUP_NAMES, NAMES, group_query, query
from kgroups_spark.sql.by_duckdb import duckdb_reader
from tests.cli.story_reader import ArrowReader, SparkArrowReader
from tests.report.made_lakes import AS_OF, DAY, asked, event_row, group_row, tables
from tests.views.arrow_tables import in_duckdb


@pytest.fixture(scope="module")
def lake(local, tmp_path_factory):
    location = str(tmp_path_factory.mktemp("story") / "lake")
    run_audit(local, AuditOptions(location, [str(SEGMENTS)]))
    return location


@pytest.fixture(scope="module")
def reader(lake):
    found = duckdb_reader(lake, must=True)
    assert found is not None
    return found


@pytest.mark.usefixtures("spark")
def test_spark_and_duckdb_agree(lake, reader, chosen):
    by_spark = open_by_spark(lake, "report")
    night = datetime(2026, 11, 11, tzinfo=UTC)
    of_group = {"group_id": "invoice-export", "since": night, "until": night + timedelta(hours=6)}
    for name in chosen.some([*NAMES, *GROUP_NAMES], 1):
        text, given = (group_query(name), of_group) if name in GROUP_NAMES else (query(name), {})
        rows, same = reader.sql(text, **given), by_spark.sql(by_spark.translated(text), **given)
        if name in NAMES:
            assert sorted(same, key=repr) == sorted(rows, key=repr), name
        else:
            assert same == rows != [], name


def test_groups_of_a_day_are_those_as_of_its_end(reader, chosen):
    days = {}
    for row in reader.sql(query("groups_by_day")):
        days.setdefault(row["day"], {})[row["group_type"], row["state"]] = row["group_count"]
    assert len(days) == 22
    for day, counts in chosen.some(days.items(), 2):
        end = day + timedelta(days=1) - timedelta(milliseconds=1)
        as_of = reader.sql("SELECT group_type, state FROM groups_as_of(:moment)", moment=end)
        reported = [(row["group_type"], row["state"]) for row in as_of]
        assert counts == {each: reported.count(each) for each in reported}, day


def test_expiring_offsets_by_day_by_group_and_in_all_agree(reader):
    by_day = reader.sql(query("expiring_by_day"))
    assert [(row["day"].date().isoformat(), row["is_due"], row["offsets"]) for row in by_day] == [
        ("2026-11-16", True, 4),
        ("2026-11-17", False, 8),
        ("2026-11-22", False, 3),
        ("2026-11-23", False, 3),
    ]
    groups = reader.sql(query("expiring_groups"))
    assert [row["group_id"] for row in groups][:3] == ["one-off-export", "cart-backfill", "orders-etl-v1"]
    assert sum(row["offsets"] for row in groups) == 18
    [soon] = reader.sql(query("expiring_soon"))
    assert (soon["due_offsets"], soon["week_offsets"], soon["week_groups"], soon["offsets"]) == (4, 18, 6, 186)


def test_what_if_retention_agrees_with_expiring(reader):
    rows = {row["retention_ms"] // 86_400_000: row for row in reader.sql(query("what_if_retention"))}
    assert list(rows) == [1, 3, 7, 14, 30]
    as_of = reader.last_audit["as_of"]
    for days, row in rows.items():
        offsets = reader.sql(f"SELECT expires_at FROM expiring(NULL, INTERVAL '{days}' DAY)")
        within = [sum(each["expires_at"] <= as_of + timedelta(days=until) for each in offsets) for until in (0, 7, 30)]
        assert [row["due_offsets"], row["week_offsets"], row["month_offsets"]] == within
    assert [rows[days]["due_offsets"] for days in (1, 7, 14)] == [12, 4, 0]


def test_moves_and_removals_agree_with_the_story(reader):
    moves = {(row["group_id"], row["topic"]): row for row in reader.sql(query("offset_moves"))}
    reset = moves["invoice-export", "payments"]
    assert (reset["event"], reset["cause"], reset["partitions"]) == ("offset_rewound", "no_members", 3)
    assert reset["read_again"] == 12192
    assert reset["event_timestamp"] == datetime(2026, 11, 11, 2, 47, 36, 564000, tzinfo=UTC)
    assert moves["session-replay", "sessions"]["read_again"] is None  # of another topic of that name
    removals = reader.sql(query("removals"))
    [deleted] = [row for row in removals if row["cause"] == "group_deleted"]
    assert (deleted["group_id"], deleted["offsets"], deleted["is_group_removed"]) == ("newsletter-2024", 6, True)
    assert {row["group_id"] for row in reader.sql(query("type_changes"))} == {"shipment-tracker", "loyalty-points"}


def test_moves_between_any_two_numbers_have_a_size():
    """A broker stores any number that a client commits."""
    lowest, greatest = -(2**63), 2**63 - 1
    moved = [
        event_row("offset_rewound", cause="unknown", partition=number, offset_before=before, offset_after=after)
        for number, (before, after) in enumerate(((greatest, lowest), (greatest, 0), (5, 3)))
    ]
    skipped = [
        event_row(
            "offset_skipped", topic=topic, partition=0, cause="no_members", offset_before=0, offset_after=greatest
        )
        for topic in ("t", "u")
    ]
    lake = tables(group_events=[*moved, *(row | {"group_id": "s"} for row in skipped)])
    with asked(lake) as ask:
        sizes = [(row["event"], row["read_again"], row["skipped"]) for row in ask(query("offset_moves"))]
    assert sorted(sizes) == [("offset_rewound", greatest, None), *[("offset_skipped", None, greatest)] * 2]
    reader = ArrowReader(lake, AS_OF)
    rewound = reader.sql(group_query("rewound"), group_id="g", since=AS_OF - DAY, until=AS_OF + DAY)
    assert [row["read_again"] for row in rewound] == [greatest, greatest, 2]


BACK, AHEAD, AGAIN, GONE = "offset_rewound", "offset_skipped", "offset_restarted", "offset_removed"


@pytest.mark.parametrize(
    ("moves", "again", "never"),
    [
        ([(BACK, 9, 4)], 5, None),
        ([(AHEAD, 10, 100)], None, 90),
        ([(AHEAD, 10, 100, "unknown")], None, None),
        ([(AHEAD, 10, 100), (AHEAD, 100, 150), (AHEAD, 170, 200)], None, 170),
        # The skipped records are read after all, or were read before.
        ([(AHEAD, 10, 100), (BACK, 100, 10)], 90, None),
        ([(AHEAD, 10, 100), (BACK, 120, 40)], 80, 30),
        ([(BACK, 100, 10), (AHEAD, 10, 100)], 90, None),
        ([(BACK, 100, 10), (AHEAD, 10, 130)], 90, 30),
        ([(BACK, 100, 10), (AHEAD, 200, 250)], 90, 50),
        ([(AHEAD, 10, 100), (BACK, 100, 10), (AHEAD, 10, 100)], 90, 90),
        # After a removal: of a consumer that went on meanwhile, or of another log, there is nothing to say.
        ([(GONE, 10, None, "expired"), (AGAIN, 10, 100, "with_members")], None, 90),
        ([(GONE, 10, None, "probably_expired"), (AGAIN, 10, 100, "no_members")], None, 90),
        ([(GONE, 100, None, "offset_deleted"), (AGAIN, 100, 10, "with_members")], 90, None),
        ([(GONE, 100, None, "group_deleted"), (AGAIN, 100, 10, "self_assigned")], 90, None),
        ([(GONE, 10, None, "expired"), (AGAIN, 10, 10, "with_members")], None, None),
        ([(GONE, 10, None, "expired"), (AGAIN, 10, 11, "transaction")], None, None),
        ([(GONE, 10, None, "group_deleted"), (AGAIN, 10, 11, "self_assigned")], None, None),
        ([(GONE, 10, None, "offset_deleted"), (AGAIN, 10, 11, "with_members")], None, None),
        ([(GONE, 900, None, "topic_deleted"), (AGAIN, 900, 3, "with_members")], None, None),
        ([(GONE, 3, None, "topic_deleted"), (AGAIN, 3, 900, "with_members")], None, None),
        ([(GONE, 900, None, "unknown"), (AGAIN, 900, 3, "with_members")], None, None),
        ([(AGAIN, 900, 3, "with_members")], None, None),
        # Offsets of two topics of one name are not compared.
        ([(BACK, 900, 3, "topic_recreated")], None, None),
        ([(GONE, 3, None, "expired"), (AGAIN, 3, 900, "topic_recreated")], None, None),
        ([(BACK, 900, 3, "topic_recreated"), (AHEAD, 10, 100)], None, 90),
        ([(AHEAD, 10, 100), (BACK, 100, 3, "topic_recreated")], None, 90),
        # A negative offset is none.
        ([(BACK, 7, -1)], None, None),
        ([(BACK, 7, -1), (AHEAD, -1, 50)], None, None),
    ],
)
def test_what_is_read_again_and_what_is_never_read(moves, again, never):
    events = [
        event_row(event, topic="t", partition=0, offset_before=before, offset_after=after, log_offset=2 * number)
        | {"cause": cause[0] if cause else "no_members"}
        for number, (event, before, after, *cause) in enumerate(moves)
    ]
    # Members come and go between any two.
    events += [event_row("state_changed", log_offset=2 * number + 1) for number in range(len(moves))]
    with asked(tables(group_events=events)) as ask:
        rows = ask(query("offset_moves"))
    for name, wanted in (("read_again", again), ("skipped", never)):
        known = [row[name] for row in rows if row[name] is not None]
        assert (sum(known) if known else None) == wanted, name


def rewound_twice_by_one_marker():
    """A transaction rewinds two partitions of a member without a client.id, which got them later than another one. That
    one has released only the first. Each is committed as far as before at a time of its own."""

    def member(member_id, client_id, second, *partitions):
        held = [{"topic": "t", "partition": partition} for partition in partitions]
        version = {"member_id": member_id, "client_id": client_id, "client_host": client_id and "/host"}
        return version | {"assigned_partitions": held, **at(second)}

    def at(second):
        return {"group_id": "g", "log_offset": second, "log_timestamp": AS_OF - DAY + timedelta(seconds=second)}

    moved = {"topic": "t", "offset_before": 9, "offset_after": 4, "cause": "unknown"}
    return tables(
        group_member_versions=[member("a", "old", 1, 0, 1), member("a", "old", 2, 1), member("b", None, 3, 0, 1)],
        group_events=[
            event_row("offset_rewound", event_index=index, partition=index, **moved, **at(10))
            | {"event_timestamp": at(10)["log_timestamp"]}
            for index in (0, 1)
        ],
        committed_offsets=[
            {**at(second), "topic": "t", "partition": partition} for partition, second in ((0, 20), (1, 30))
        ],
        offset_commits=[
            {**at(second), "topic": "t", "partition": partition, "committed_offset": 9}
            | {"outcome": "committed", "record_type": 1, "value_version": 3}
            for partition, second in ((0, 20), (1, 30))
        ],
    )


def assert_newest_owner(reader):
    given = {"group_id": "g", "since": AS_OF - DAY, "until": AS_OF}
    rewound = reader.sql(group_query("rewound"), **given)
    assert [(row["owner_before"], row["owned_until"]) for row in rewound] == [(None, None)] * 2
    caught_up = [(row["caught_up_at"] - AS_OF + DAY).total_seconds() for row in rewound]
    assert caught_up == [20, 30]
    now = [(row["client_id"], row["client_host"]) for row in reader.sql(query("group_offsets"))]
    assert now == [(None, None)] * 2


def test_a_rewound_partition_and_a_partition_now_have_their_newest_owner():
    assert_newest_owner(ArrowReader(rewound_twice_by_one_marker(), AS_OF))


@pytest.mark.in_turn("owners in Spark")
def test_in_spark_too(spark):
    assert_newest_owner(SparkArrowReader(spark, ArrowReader(rewound_twice_by_one_marker(), AS_OF)))


def test_rows_have_the_same_order_in_spark_which_sorts_nulls_first():
    held = [{"topic": "t", "topic_id": "A", "partition": 0}, {"topic": None, "topic_id": "B", "partition": 0}]
    lake = tables(
        groups=[group_row(), group_row("h", state="Stable")],
        open_transactions=[
            {"open_since": since, "producer_id": 1, "offsets_partition": partition}
            for since, partition in ((None, 0), (AS_OF, 2), (AS_OF, 1))
        ],
        transactional_ids=[
            {"transactional_id": name, "state": "Ongoing", "start_timestamp": start}
            for name, start in (("a", None), ("b", AS_OF))
        ],
        findings=[
            {"audit_id": 1, "finding": "hanging_transaction", "severity": "error", "group_id": group}
            for group in (None, "g", "h")
        ],
        group_member_versions=[{"group_id": "g", "assigned_partitions": held}],
    )
    orders = []
    with in_duckdb(lake, alone=True) as connection:
        for nulls in ("nulls_last", "nulls_first_on_asc_last_on_desc"):
            connection.execute(f"SET default_null_order = '{nulls}'")
            of_lake = {name: connection.sql(query(name)).fetchall() for name in NAMES}
            owners = connection.execute(group_query("owners").replace(":group_id", "'g'")).fetchall()
            orders.append(of_lake | {"owners": owners})
    assert orders[0] == orders[1]
    asked_about = ("groups_now", "open_transactions", "named_transactions", "findings", "owners")
    assert [len(orders[0][name]) for name in asked_about] == [3, 3, 2, 3, 2]


def test_the_copies_of_a_group_in_two_offsets_partitions_have_an_order():
    """Whatever the order of the tables' rows."""
    copies = [{"group_id": "g", "topic": "t", "partition": 0, "offsets_partition": number} for number in (1, 0)]
    removed = {"event": "offset_removed", "cause": "expired", "event_timestamp": AS_OF}
    found = {"audit_id": 1, "finding": "offsets_lost", "severity": "error"}
    orders = []
    for some in (copies, copies[::-1]):
        lake = tables(
            committed_offsets=[dict(committed_offset=each["offsets_partition"], **each) for each in some],
            findings=[dict(detail=str(each["offsets_partition"]), **found, **each) for each in some],
            group_events=[
                dict(offset_before=each["offsets_partition"], event_index=index, **removed, **each)
                for each in some
                for index in range(1 + each["offsets_partition"])
            ],
        )
        with in_duckdb(lake) as connection:
            asked_about = ("findings", "group_offsets", "newest_events", "removals")
            orders.append([connection.sql(query(name)).fetchall() for name in asked_about])
    assert orders[0] == orders[1] and all(orders[0])


def test_share_partitions_with_any_offsets_have_a_size_and_a_lag_if_it_is_a_bigint():
    lowest, greatest = -(2**63), 2**63 - 1
    starts = ("A", lowest), ("B", -9), ("a topic of that name created later", 3)
    partitions = [
        share_row(topic_id=topic_id, start_offset=start, delivery_complete_count=0) for topic_id, start in starts
    ]
    batch = {"topic_id": "A", "first_offset": lowest, "last_offset": greatest - 1, "delivery_count": 4}
    batches = [share_row(attempts_left=1, delivery_state="available", **batch)]
    batches += [share_row(delivery_state="archived", **batch) for _ in range(2)]
    backward = {"topic_id": "B", "first_offset": greatest, "last_offset": lowest, "attempts_left": 1}
    batches += [share_row(delivery_state=state, **backward) for state in ("available", "archived")]
    ends = [share_row(status="ok", seen_at=AS_OF, topic_id="B", log_end_offset=0)]
    ends += [ends[0] | {"topic_id": None, "partition": 1}]
    partitions.append(partitions[0] | {"partition": 1})
    with asked(tables(share_partitions=partitions, share_batches=batches, topic_offsets=ends)) as ask:
        assert [row["records"] for row in ask(query("share_near_limit"))] == [greatest]
        found = {(row["start_offset"], row["partition"]): row for row in ask(query("share_partitions"))}
    assert {place: (row["lag"], row["archived"]) for place, row in found.items()} == {
        (lowest, 0): (None, greatest),
        (lowest, 1): (None, 0),
        (-9, 0): (9, 0),
        (3, 0): (None, 0),
    }


def share_row(**columns):
    """A row about a share partition."""
    return {"group_id": "s", "topic": "jobs", "partition": 0, **columns}


def test_one_transaction_hangs(reader):
    rows = reader.sql(query("open_transactions"))
    assert [(row["producer_id"], row["is_hanging"], row["offsets"], row["records_held"]) for row in rows] == [
        (4010, True, 1, 288),
        (4015, False, 4, 4),
    ]


class Written(NamedTuple):
    """The page that `kgroups report` wrote over an older file, and its output."""

    output: Path
    out: str
    err: str


@pytest.fixture(scope="module")
def written(lake, tmp_path_factory):
    output = tmp_path_factory.mktemp("written") / "report.html"
    output.write_text("an older one")
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        assert main(["report", "--lake", lake, "--output", str(output)]) == 0
    return Written(output, out.getvalue(), err.getvalue())


def test_the_command_writes_the_page_and_overwrites_an_older_one(written):
    output = written.output
    assert written.out == ""
    assert f"{output}: " in written.err and "audit 1, as of 2026-11-16 06:41:21 UTC" in written.err
    page = output.read_text()
    assert "6 groups lose 18 offsets within 7 days: one-off-export, cart-backfill" in page
    assert "4 of those offsets are due now." in page
    assert "1 transaction hangs, with offsets of payments-ledger." in page
    assert [path.name for path in output.parent.iterdir()] == ["report.html"]
    assert output.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask():
    umask = os.umask(0)
    os.umask(umask)
    return umask


def test_the_sql_in_the_page_gives_the_figures_in_it(reader, written, chosen):
    """As it is there, for a reader who copies it."""
    page = written.output.read_text()
    figures = re.findall(r'<figure id="figure-(\w+)" class="\w+.*?<pre[^>]*>(.*?)</pre>', page, re.DOTALL)
    texts = {name: html.unescape(text) for name, text in figures}
    assert len(texts) == len(figures) > 15
    asked = {name: reader.sql(texts[name]) for name in chosen.some(texts, 5, always=["expiring_groups"])}
    assert [row["offsets"] for row in asked["expiring_groups"]] == [2, 2, 6, 2, 3, 3]
    assert all(asked.values())


@pytest.mark.parametrize(
    ("output", "message"),
    [("missing/report.html", "no folder missing; create it first"), (".", "is a folder; name a file in it")],
)
def test_a_place_that_cannot_hold_a_file_is_reported_before_any_work(output, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["report", "--lake", "no-lake", "--output", output]) == 2
    assert message in capsys.readouterr().err
