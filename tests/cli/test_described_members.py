"""`describe --members` counts the partitions of a member as the brokers of its release do."""

from __future__ import annotations

import pytest

from kgroups_spark.cli.describe import rows_of
from kgroups_spark.sql.reader import GroupReader
from kgroups_spark.words import to_datetime
from tests.cli.story_reader import STORY_END, ArrowReader
from tests.logs.corpora import ALL, audited


@pytest.mark.parametrize(("corpus", "revoking"), [("kip848-4.0", 1), ("kip848-4.3", 1), ("kip848-4.4", 1)])
def test_partitions_pending_revocation_count_since_4_3(corpus: str, revoking: int) -> None:
    answer = ALL[corpus]
    reader = ArrowReader(audited(corpus).tables(), to_datetime(STORY_END), answer["release"])
    names = [name for name, group in answer["groups"].items() if group["group_type"] == "consumer"]
    found, waiting = {}, 0
    for group in GroupReader(reader, None, "members", times_as_text=False).groups(names):
        for row in rows_of(group, "members", answer["release"]):
            if row["member_id"] is not None:
                found[group.group_id, row["member_id"]] = row["partition_count"]
                waiting += bool(row["pending_revocation_partitions"])
                listed = (row["current_assignment"] or "").replace(";", ",").split(",")
                assert len([*filter(None, listed)]) == row["partition_count"]
    said = {
        (name, member_id): len(member["assigned"])
        for name in names
        for member_id, member in answer["groups"][name]["members"].items()
    }
    assert found == said
    assert waiting >= revoking
