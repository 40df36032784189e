"""After `maintain --keep`, a view says of what is left the same as before, or null (cause: unknown) where the evidence
is gone; never another value."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from kgroups_spark.audit.maintain import run_maintain
from kgroups_spark.audit.options import MaintainOptions
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger import Ledger
from kgroups_spark.tables.schemas import TABLES
from tests.chosen import one_of
from tests.findings.logs import DAY
from tests.logs.log_files import borders, files_of_nights
from tests.nights.nights_here import Audited, How, new_lake
from tests.protocol.fake_delta import in_memory
from tests.views.arrow_tables import rows_of, with_known_history

DEMO = Path(__file__).parents[2] / "kgroups_spark" / "demo" / "segments"
# Views over history, and the columns that name a row.
VIEWS = {
    "partition_owners": ("group_id", "topic", "partition", "member_id", "released_log_offset"),
    "rebalances": ("group_id", "log_offset"),
    "offset_history": ("log_offset",),
    "group_history": ("group_id", "log_offset"),
    "group_member_history": ("group_id", "member_id", "log_offset"),
    "transactions": ("producer_id", "marker_offset"),
    "expiry_outcomes": ("group_id", "topic", "partition"),
    "handovers": ("group_id", "topic", "partition", "log_offset"),
    "unstable_periods": ("group_id", "topic", "partition", "from_log_offset"),
    "waiting_partitions": ("group_id", "topic", "partition", "wanted_by"),
    "all_events": ("group_id", "log_offset", "event", "topic", "partition", "member_id"),
}
# After maintenance these are the same for moments that are kept.
AS_OF = ("committed_offsets_as_of", "pending_offsets_as_of", "groups_as_of", "group_members_as_of")
# Where a row begins is its first record that is left, if that is not known.
FIRST_LEFT = {"partition_owners": {"log_offset"}}


def tables(lake: Audited) -> dict[str, pa.Table]:
    """The tables as the last finished audit, which may be a maintenance, left them."""
    with in_memory():
        opened = Lake.open(lake.session, lake.lake)
        last = Ledger(opened).last_finished()
        assert last is not None
        left = LakeAsOfAudit(opened, last.audit_id)
        return {name: left.rows(name) for name in TABLES}


def views(lake: Audited) -> dict[str, list[dict[str, Any]]]:
    left = tables(lake)
    connection = with_known_history(left)
    later = max(left["offset_commits"]["log_timestamp"].to_pylist()) - timedelta(days=1)
    found = {name: rows_of(connection, f"FROM {name}(TIMESTAMPTZ '{later}')") for name in AS_OF}
    return found | {name: rows_of(connection, f"FROM {name}") for name in VIEWS}


@pytest.fixture(scope="module")
def demo() -> Audited:
    """A partition of the demo's log, read in three nights."""
    files = {f"{path.parent.name}/{path.name}": path.read_bytes() for path in DEMO.glob("*-0/*.log")}
    ends = borders(files, 0)
    lake = new_lake()
    for night in files_of_nights(files, {0: [[ends[len(ends) // 3]], [ends[2 * len(ends) // 3]], [ends[-1]]]}):
        lake.night(night, How("4.3", offsets_partitions=8))
    return lake


@pytest.mark.parametrize("days", one_of(3, 10))
def test_what_is_left_of_history_says_the_same_or_nothing(demo: Audited, days: int) -> None:
    kept = Audited(demo)
    # The logs of this lake are in memory, so there are no files to delete.
    no_files = mock.patch("kgroups_spark.audit.maintain.old_versions", lambda *_, **__: 0)
    with in_memory(), no_files:
        options = MaintainOptions(lake=kept.lake, keep_ms=days * DAY, optimize=False)
        assert run_maintain(kept.session, options).rows_removed["group_member_versions"]
    before, after = views(demo), views(kept)
    for name in AS_OF:
        assert [row["known"] for row in after[name][:1]] in ([], ["complete"])
        assert after[name] == before[name] and (before[name] or name.startswith("pending"))
    lost: dict[str, set[str]] = {}
    for name, key in VIEWS.items():
        was = {tuple(row[column] for column in key): row for row in before[name]}
        assert len(was) == len(before[name])
        for row in after[name]:
            then = was.pop(tuple(row[column] for column in key))
            changed = {column for column in row.keys() - {"audit_id"} if row[column] != then[column]}
            lost.setdefault(name, set()).update(changed)
            assert {row[column] for column in changed - FIRST_LEFT.get(name, set())} <= {None, "unknown"}, (name, row)
            assert "valid_to" not in changed, "null would say that it still holds"
            if "log_offset" in changed:
                assert row["valid_from"] is None
    assert "valid_from" in lost["partition_owners"]
    assert lost["rebalances"] <= {"cause", "members_before", "joined_member_ids", "left_member_ids"}
    still = [row for row in after["partition_owners"] if row["valid_to"] is None]
    assert len(still) == sum(row["valid_to"] is None for row in before["partition_owners"])
    assert any(row["valid_from"] is not None for row in after["partition_owners"])
    assert any(row["cause"] != "unknown" for row in after["rebalances"])
