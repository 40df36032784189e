"""Owners of partitions in the groups of Kafka Streams, as the brokers described them: a streams group, whose members
have tasks, and the same application with the classic protocol."""

from __future__ import annotations

from tests.logs.corpora import ALL
from tests.views.arrow_tables import in_duckdb, rows_of
from tests.views.recorded import tables_of

CORPUS = "streams-4.3"
# The application counts words: subtopology 0 reads the topic, 1 what 0 has repartitioned.
TOPIC_OF = {"0": "words", "1": "repartition"}


def test_active_tasks_are_partitions_of_their_subtopologies_topics() -> None:
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


def test_each_committed_offset_of_a_streams_group_has_an_owner() -> None:
    query = "SELECT group_id, owner_member_id, topic, partition FROM offset_history WHERE committed_offset IS NOT NULL"
    rows = rows_of(in_duckdb(tables_of(CORPUS)), query)
    [group_id] = [
        name for name, group in ALL[CORPUS]["groups"].items() if group["state"] == "Stable" and "topology" in group
    ]
    owners = {row["owner_member_id"] for row in rows if row["group_id"] == group_id}
    assert owners == set(ALL[CORPUS]["groups"][group_id]["members"])
