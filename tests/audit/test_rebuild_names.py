"""A rebuild keeps the names that nights saw in records which were replaced later."""

from __future__ import annotations

from tests.findings.logs import Log
from tests.nights.nights_here import How, new_lake

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def test_a_rebuild_keeps_names_of_topics_that_only_replaced_records_have() -> None:
    lake = new_lake()
    lake.night(Log().commit("g", topic="orders", topic_id=TOPIC_ID).commit("g").files, How())
    lake.night(Log().commit("h", offset=6).commit("h", offset=7).commit("i").files, How(accept_log_change=True))
    assert [(row["group_id"], row["topic"]) for row in lake.rows("committed_offsets")] == [("h", "t"), ("i", "t")]
    names = [(row["topic_id"], row["topic"]) for row in lake.rows("topics")]
    assert names == [(TOPIC_ID, "orders")]
    assert [(row["topic_id"], row["topic"]) for row in lake.rebuilt().rows("topics")] == names
