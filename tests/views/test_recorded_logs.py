"""View topic_health over recorded logs; topic_health.sql has its cases."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.chosen import some_of
from tests.cli.written_lake import AS_OF, ledger
from tests.logs.corpora import ALL
from tests.views.arrow_tables import in_duckdb, rows_of
from tests.views.recorded import LOGS, STORY, audited_log, tables_of

COLUMNS = (
    *("offsets_partition", "log_start_offset", "end_offset", "span", "records", "bytes", "live_records"),
    *("garbage_records", "tombstones", "open_transactions", "oldest_open_transaction_offset", "oldest_open_since"),
    *("oldest_open_producer_id", "commits_per_hour"),
)


def health(tables):
    with in_duckdb(tables) as connection:
        return connection.sql(f"SELECT {', '.join(COLUMNS)} FROM topic_health ORDER BY offsets_partition").fetchall()


@pytest.mark.parametrize("log", some_of(2, *LOGS))
def test_the_numbers_of_a_recorded_log_are_those_of_its_records(log):
    """Counted by hand: keys whose newest record is a value, tombstones, and the rest."""
    result = audited_log(log)
    read = result.nights[-1].audit.partitions or ()
    pending = {(row["offsets_partition"], row["log_offset"]) for row in result.rows("pending_offsets")}
    keys = {}
    tombstones = {}
    for row in result.rows("group_records"):
        its = [row[name] for name in ("record_type", "group_id", "member_id", "regular_expression")]
        keys[(row["offsets_partition"], *its)] = row["value"] is not None
        tombstones[row["offsets_partition"]] = tombstones.get(row["offsets_partition"], 0) + (row["value"] is None)
    committed = [row["offsets_partition"] for row in result.rows("committed_offsets")]
    for row in result.rows("offset_commits"):
        gone = row["committed_offset"] is None
        tombstones[row["offsets_partition"]] = tombstones.get(row["offsets_partition"], 0) + gone
    reported = {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in health(tables_of(log))}
    assert sorted(reported) == sorted({each.offsets_partition for each in read})
    for partition, row in reported.items():
        live = committed.count(partition) + sum(p == partition for p, _ in pending)
        live += sum(is_live for key, is_live in keys.items() if key[0] == partition)
        records = sum(each.records for each in read if each.offsets_partition == partition)
        assert (row["records"], row["live_records"]) == (records, live)
        assert row["garbage_records"] == records - live >= 0
        assert row["tombstones"] == tombstones.get(partition, 0) <= row["garbage_records"]
        opened = [r for r in result.rows("open_transactions") if r["offsets_partition"] == partition]
        first = min((r["transaction_start_offset"] for r in opened), default=None)
        assert (row["open_transactions"], row["oldest_open_transaction_offset"]) == (len(opened), first)


# Views topic_ids and stale_offsets over recorded logs; topic_ids.sql has their cases.


def rows(tables, query):
    with in_duckdb(tables) as connection:
        return connection.sql(query).fetchall()


CREATED_AGAIN = "SELECT DISTINCT topic FROM topic_ids WHERE number > 1"


def test_a_topic_that_a_broker_created_again():
    """`doomed` was deleted and created again; one of its two groups, a simple one, committed on it again."""
    tables = tables_of("classic-4.3")
    assert rows(tables, CREATED_AGAIN) == [("doomed.10356e",)]
    query = f"SELECT committed_offset_count FROM topic_ids WHERE topic IN ({CREATED_AGAIN}) ORDER BY number"
    assert rows(tables, query) == [(0,), (1,)]
    assert rows(tables, "SELECT * FROM stale_offsets") == []


def test_the_one_topic_that_the_story_created_again_is_reported():
    (recreated,) = {event["topic"] for event in STORY["events"] if event["what"] == "topic_recreated"}
    first = min(e["at_ms"] for e in STORY["events"] if e["what"] == "first_commit_of_new_topic")
    tables = tables_of("story")
    assert rows(tables, CREATED_AGAIN) == [(recreated,)]
    query = f"SELECT epoch_ms(valid_to) FROM topic_ids WHERE topic = '{recreated}' AND number = 1"
    assert rows(tables, query) == [(first,)]


# View group_topics over the story; group_topics.sql has its cases.


def test_members_in_the_story_read_the_topics_that_it_names():
    reported = {}
    sources = {}
    for _, group_id, topic, source in in_duckdb(tables_of("story")).sql("FROM group_topics").fetchall():
        if source != "committed":
            reported.setdefault(group_id, set()).add(topic)
            sources.setdefault(source, set()).add(group_id)
    # One group subscribes by an expression, and the story does not say which topics match it.
    assert sources.pop("regex") == {"ml-features"}
    assert reported.pop("ml-features") == {"orders", "fraud-scores", "price-changes"}
    assert reported == {group_id: set(STORY["groups"][group_id]["topics"]) for group_id in reported}
    assert len(reported) > 15 and sources["topology"] == {"order-totals"}


# Owners of partitions in the groups of Kafka Streams, as the brokers described them: a streams group, whose members
# have tasks, and the same application with the classic protocol.
CORPUS = "streams-4.3"
# The application counts words: subtopology 0 reads the topic, 1 what 0 has repartitioned.
TOPIC_OF = {"0": "words", "1": "repartition"}


def test_active_tasks_are_partitions_of_their_subtopologies_topics():
    query = "SELECT group_id, member_id, topic, partition FROM partition_owners WHERE valid_to IS NULL"
    owned = {tuple(row.values()) for row in rows_of(in_duckdb(tables_of(CORPUS)), query)}
    expected = set()
    for group_id, group in ALL[CORPUS]["groups"].items():
        topics = sorted({topic for topic, *_ in ALL[CORPUS]["committed"][group_id]})
        for member_id, member in group["members"].items():
            held = [(topic, partition) for topic, partition in member.get("assigned", ())]
            for role, subtopology, partition in member.get("assigned_tasks", ()):
                [topic] = [topic for topic in topics if TOPIC_OF[subtopology] in topic.replace("wordcount", "")]
                held += [(topic, partition)] if role == "active" else []
            expected |= {(group_id, member_id, *slot) for slot in held}
    assert owned == expected
    assert {group["group_type"] for group in ALL[CORPUS]["groups"].values() if group["members"]} == {
        "classic",
        "streams",
    }


def test_each_committed_offset_of_a_streams_group_has_an_owner():
    query = "SELECT group_id, owner_member_id, topic, partition FROM offset_history WHERE committed_offset IS NOT NULL"
    rows = rows_of(in_duckdb(tables_of(CORPUS)), query)
    [group_id] = [
        name for name, group in ALL[CORPUS]["groups"].items() if group["state"] == "Stable" and "topology" in group
    ]
    owners = {row["owner_member_id"] for row in rows if row["group_id"] == group_id}
    assert owners == set(ALL[CORPUS]["groups"][group_id]["members"])


# Views of history over a log without times (message format 0): `valid_to IS NULL` means still valid.


# Views, and the columns that name what a row is a state of.
VIEWS = {
    "group_history": "offsets_partition, group_id",
    "group_member_history": "offsets_partition, group_id, member_id",
    "offset_history": "offsets_partition, group_id, topic, partition",
    "partition_owners": "offsets_partition, group_id, member_id, topic_id, topic, partition",
}


@pytest.fixture(scope="module")
def views():
    """A recording whose records have no times."""
    found = dict(tables_of("kip848-4.3"))
    for name, table in found.items():
        at = table.schema.get_field_index("log_timestamp")
        if at >= 0:
            field = table.schema.field(at)
            found[name] = table.set_column(at, field, pa.nulls(table.num_rows, field.type))
    return in_duckdb(found | {"audits": ledger({}, {"audit_id": 2, "status": "running"})})


@pytest.mark.parametrize("view", VIEWS)
def test_valid_to_is_null_for_the_current_state_alone(views, view):
    is_newest = f"row_number() OVER (PARTITION BY {VIEWS[view]} ORDER BY log_offset DESC) = 1"
    if view == "partition_owners":
        is_newest = "released_log_offset IS NULL"
    condition = "took_effect" if view == "offset_history" else "true"
    rows = rows_of(views, f"SELECT valid_to, {is_newest} AS is_newest FROM {view} WHERE {condition}")
    assert {(row["valid_to"], row["is_newest"]) for row in rows} == {(None, True), (AS_OF, False)}
