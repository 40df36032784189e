"""Views over recorded logs: what their scripts did, what their brokers said, and the rows in recorded.txt.
`pytest --regen` writes these again, and a person reads the difference."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

from kgroups_spark.words import to_epoch_ms
from tests.chosen import some_of
from tests.cli.written_lake import AS_OF, ledger
from tests.logs.corpora import ALL, ANSWERS
from tests.logs.in_words import as_text, cases
from tests.nights import broker_answers
from tests.views.arrow_tables import in_duckdb, rows_of
from tests.views.recorded import STORY, tables_of


@pytest.mark.parametrize(
    "case", cases(Path(__file__).with_name("recorded.txt")), ids=lambda case: f"{case.of}-{case.title}"
)
def test_rows_of_a_view(case, pytestconfig):
    """Times are from the log's first one."""
    tables = tables_of(case.title)
    times = {time for name in ("offset_commits", "group_records") for time in tables[name]["log_timestamp"].to_pylist()}
    found = rows(tables, f"FROM {case.of} ORDER BY ALL")
    case.check([as_text(row, {"audit_id": 1}, min(times - {None})) for row in found], pytestconfig)


def rows(tables, query):
    with in_duckdb(tables) as connection:
        return connection.sql(query).to_arrow_table().to_pylist()


@cache
def recorded(view, log):
    return rows(tables_of(log), f"FROM {view}")


# Views topic_ids and stale_offsets; topic_ids.sql has their cases.


def test_the_one_topic_that_the_story_created_again_is_reported():
    (recreated,) = {event["topic"] for event in STORY["events"] if event["what"] == "topic_recreated"}
    first = min(e["at_ms"] for e in STORY["events"] if e["what"] == "first_commit_of_new_topic")
    again = [(row["topic"], row["number"]) for row in recorded("topic_ids", "story") if row["number"] > 1]
    assert again == [(recreated, 2)]
    [before] = [row for row in recorded("topic_ids", "story") if (row["topic"], row["number"]) == (recreated, 1)]
    assert to_epoch_ms(before["valid_to"]) == first


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


# View unstable_periods; unstable_periods.txt has its cases.


# Scala's loader lets a tombstone take other things with it.
JAVA = sorted(name for name, answer in ANSWERS.items() if "unstable" in answer and answer["release"] >= "4.0")


@pytest.mark.parametrize("log", some_of(3, *JAVA))
def test_offsets_that_are_still_unstable_are_those_that_the_broker_calls_unstable(log):
    still = [row for row in recorded("unstable_periods", log) if row["ended_by"] is None]
    ours, said = broker_answers.pending_offsets(lambda _: still, ANSWERS[log])
    assert ours == said


def test_recordings_have_periods_with_every_kind_of_end():
    ends = {row["ended_by"] for row in recorded("unstable_periods", "transactions-4.3")}
    assert ends == {None, "committed", "aborted", "tombstone"}


def test_the_storys_aborted_and_open_transactions_are_reported_and_no_others():
    reported = {
        (r["group_id"], r["topic"], r["partition"], r["from_log_offset"], r["ended_by"])
        for r in recorded("unstable_periods", "story")
    }
    events = [event for event in STORY["events"] if event["cause"] == "transaction"]
    ended_by = {"transaction_aborted": "aborted", "transaction_open_at_end": None, "transaction_left_open": None}
    happened = {
        (event["group"], event["topic"], partition, place, ended_by[event["what"]])
        for event in events
        for partition, place in zip(event["partitions"], event["log_offsets"], strict=False)
    }
    assert {period for period in reported if period[-1] != "committed"} == happened
    assert len(happened) > 40


# View rebalances; rebalances.txt has its cases.


# The causes that may be reported of each kind of event in the story.
STORY_CAUSES = {
    "started": {"member_joined"},
    "visitor": {"member_joined", "member_left"},
    "deploy": {"member_joined", "member_left", "member_replaced"},
    "unsubscribed": {"member_joined", "member_left"},  # by a deploy, whose members subscribe to less
    "member_flaps": {"member_joined", "member_left"},
    "member_lost": {"member_joined", "member_left"},
    "stopped": {"member_left"},
    "last_member_left": {"member_left"},
    "upgraded": {"member_joined", "member_left", "group_type_changed"},
    "downgraded": {"member_joined", "member_left", "group_type_changed"},
    "instance_fenced": {"member_replaced"},
    # Consumers of the classic protocol said that they no longer subscribe to the deleted topic. That one has a new id
    # that their records do not have.
    "reassigned": {"subscription_changed", "topic_metadata_changed", "unknown"},
}


# Causes in the last hour: two pods fight over a static member, two members join.
LAST_HOUR = {"fraud-scoring": {"member_replaced"}, "returns-sync": {"member_joined"}}


def test_every_rebalance_of_the_story_is_reported_and_no_other():
    events = {(e["offsets_partition"], place): e for e in STORY["events"] for place in e["log_offsets"]}
    reported = defaultdict(set)
    for row in recorded("rebalances", "story"):
        event = events.get((row["offsets_partition"], row["log_offset"]))
        if event is None:
            assert row["cause"] in LAST_HOUR[row["group_id"]]
            continue
        assert event["group"] == row["group_id"]
        assert row["cause"] in STORY_CAUSES[event["what"]], (event, row)
        reported[event["scene"]].add(row["cause"])
    # None joined or left: committed without members, and static members that came back, of which KIP-848 makes none.
    quiet = {e["scene"] for e in STORY["events"] if e["cause"] == "assign and commit, no members"}
    quiet |= {e["scene"] for e in STORY["events"] if (e["what"], e["group"]) == ("deploy", "payments-monitor-b")}
    scenes = {event["scene"] for event in STORY["events"] if event["what"] in STORY_CAUSES and event["log_offsets"]}
    assert scenes - quiet == set(reported)
    by_what = defaultdict(set)
    for event in STORY["events"]:
        by_what[event["what"]] |= reported[event["scene"]]
    assert by_what["upgraded"] >= {"group_type_changed"} and by_what["downgraded"] >= {"group_type_changed"}
    assert by_what["instance_fenced"] == {"member_replaced"}
