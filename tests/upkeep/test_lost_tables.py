"""Tables that were deleted or have lost their newest version: what maintenance says, and that the way out works."""

from __future__ import annotations

import shutil
from unittest import mock

import pyarrow.parquet as pq
import pytest

from kgroups_spark.audit.keep import MaintainOptions
from kgroups_spark.audit.maintain import run_maintain
from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.last_finished import lost_versions
from tests.findings.logs import Log
from tests.nights.nights_here import Audited, How, audit
from tests.protocol.local_spark import in_memory

LOG = Log().commit("g").commit("h").files


@pytest.fixture(scope="module")
def audited() -> Audited:
    lake = audit(LOG)
    lake.night(LOG, How())  # nothing is new
    return lake


def log_of(lake: Audited, name: str) -> str:
    return next(path for path in lake.session.store.logs if path.endswith(f"/{name}"))


def maintain(lake: Audited) -> None:
    # The logs of this lake are in memory, so there are no files to delete.
    with in_memory(), mock.patch("kgroups_spark.audit.maintain.remove_old_versions", lambda *_: 0):
        run_maintain(lake.session, MaintainOptions(lake=lake.lake, optimize=False))


@pytest.mark.parametrize("name", ["groups", "offset_expiry", "group_events", "findings"])
def test_the_next_audit_makes_a_deleted_table(audited: Audited, name: str) -> None:
    lake = Audited(audited)
    del lake.session.store.logs[log_of(lake, name)]
    shutil.rmtree(f"{lake.lake}/{name}", ignore_errors=True)
    with pytest.raises(KgroupsError, match=f"no table {name} any more.*kgroups audit makes it again"):
        maintain(lake)
    lake.night(LOG, How())
    maintain(lake)
    assert lake.rows("groups") == audited.rows("groups")


@pytest.mark.parametrize("name", ["groups", "committed_offsets", "group_expiry"])
def test_the_first_rows_of_a_current_table_are_missed_and_a_rebuild_makes_them_again(
    audited: Audited, name: str
) -> None:
    """After a power failure in the first audit, and an audit that had nothing to read."""
    lake = Audited(audited)
    log = lake.session.store.logs[log_of(lake, name)]
    assert len(log) == 2
    log.pop()
    for attempt in (maintain, lambda lake: lake.night(LOG, How())):
        with pytest.raises(
            KgroupsError, match=f"newest version of table {name} .*kgroups rebuild makes the table again"
        ):
            attempt(lake)
    rebuilt = lake.rebuilt()
    maintain(rebuilt)
    assert rebuilt.rows(name) == audited.rows(name) != []


def test_history_cannot_be_rebuilt(audited: Audited) -> None:
    lake = Audited(audit(LOG))
    lake.session.store.logs[log_of(lake, "offset_commits")].pop()
    with pytest.raises(KgroupsError, match=r"newest version of table offset_commits .*audit into a new lake"):
        maintain(lake)


def test_an_empty_current_table_that_had_no_rows_is_not_lost(audited: Audited) -> None:
    assert not lost_versions({"groups": 0, "group_members": 2}, 5, {"groups": 0, "group_members": 3}, lambda _: False)
    assert lost_versions({"groups": 3}, 5, {"groups": 0}, lambda _: True) == {"groups"}
    # An unfinished audit has emptied it.
    assert not lost_versions({"groups": 3}, 5, {"groups": 6}, lambda _: True)


def test_a_flipped_bit_of_a_data_file_is_an_error() -> None:
    lake = audit(Log().commit("g", times=2000).files)
    [path] = (lake.folder / "lake" / "offset_commits").glob("*.parquet")
    data, columns = bytearray(path.read_bytes()), pq.read_metadata(path).row_group(0)
    for number in range(columns.num_columns):
        if (column := columns.column(number)).path_in_schema == "log_offset":
            data[column.data_page_offset + column.total_compressed_size - 3] ^= 1
    path.write_bytes(data)
    lake._read, lake._left = {}, None
    with pytest.raises(KgroupsError, match=r"table offset_commits .* cannot be read: .*CRC"):
        lake.table("offset_commits")
