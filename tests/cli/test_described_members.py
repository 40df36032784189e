"""`describe --members` counts the partitions of a member as the brokers of its release do, and `describe` names members
that wait for others."""

from __future__ import annotations

import pytest

from kgroups_spark.cli.describe import rows_of
from kgroups_spark.sql.reader import GroupReader, _waits, about_waiting
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


def test_the_member_that_waits_and_the_one_that_it_waits_for() -> None:
    """In this recording one member has been asked to release what another one wants."""
    reader = ArrowReader(audited("kip848-4.3").tables(), to_datetime(1_795_190_529_894), "4.3")
    (line,) = about_waiting(reader, ["ledger-1363b6"])
    assert line == (
        "Group 'ledger-1363b6': 3wwzGuLyTYuqktn_TaOPQA waits for beta.events.1017b3-3, beta.events.1017b3-4, "
        "beta.events.1017b3-5, held by syWrt-5hRPyifOYfOaG-1w, revoking for 1m 1s, out in 3m 59s."
    )
    others = [name for name in ALL["kip848-4.3"]["groups"] if name != "ledger-1363b6"]
    assert about_waiting(reader, others) == []


def test_who_holds_a_partition_decides_what_is_said() -> None:
    row = {"group_id": "g", "wanted_by": "b", "held_by": "a", "partitions": ["t-1", "t-2", "t-3", "t-4"]}
    row |= {
        "since": to_datetime(0),
        "is_asked": True,
        "revoking_since": to_datetime(60_000),
        "out_by": to_datetime(360_000),
    }
    waits = "Group 'g': b waits for t-1, t-2, t-3 and 1 more, held by "
    assert _waits(row, 300_000) == f"{waits}a, revoking for 4m, out in 1m."
    assert _waits(row, 360_000) == f"{waits}a, revoking for 5m, should have been out by now."
    assert _waits(row | {"out_by": None}, 300_000) == f"{waits}a, revoking for 4m."
    not_known = row | {"revoking_since": None}
    assert _waits(not_known, 300_000) == f"{waits}a, which has been asked to release it."
    assert _waits(not_known | {"is_asked": False}, 300_000) == f"{waits}a, which has not been asked to release it."
    nobody = row | {"held_by": None}
    assert _waits(nobody, 300_000) == f"{waits}no member: it gets them with its next heartbeat."
