"""Tables that were deleted or have lost their newest version: what maintenance says, and that the way out works."""

from __future__ import annotations

import shutil
from unittest import mock

import pyarrow.parquet as pq
import pytest

from kgroups_spark.audit.maintain import run_maintain
from kgroups_spark.audit.options import MaintainOptions
from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import is_lost
from tests.findings.logs import Log
from tests.nights.nights_here import Audited, How, audit
from tests.protocol.fake_delta import in_memory

LOG = Log().commit("g").commit("h").files


@pytest.fixture(scope="module")
def audited():
    lake = audit(LOG)
    lake.night(LOG, How())  # nothing is new
    return lake


def log_of(lake, name):
    return next(path for path in lake.session.store.logs if path.endswith(f"/{name}"))


def read(lake, name):
    """The number of rows that a reader by Spark gets."""
    with in_memory():
        return LakeAsOfAudit.last_finished(Lake.open(lake.session, lake.lake)).rows(name).num_rows


def maintain(lake):
    # The logs of this lake are in memory, so there are no files to delete.
    with in_memory(), mock.patch("kgroups_spark.audit.maintain.old_versions", lambda *_, **__: 0):
        run_maintain(lake.session, MaintainOptions(lake=lake.lake, optimize=False))


@pytest.mark.parametrize("name", ["groups", "offset_expiry", "group_events", "findings"])
def test_the_next_audit_makes_a_deleted_table(audited, name):
    lake = Audited(audited)
    del lake.session.store.logs[log_of(lake, name)]
    shutil.rmtree(f"{lake.lake}/{name}", ignore_errors=True)
    with pytest.raises(KgroupsError, match=f"no table {name} any more.*kgroups audit makes it again"):
        maintain(lake)
    lake.night(LOG, How())
    maintain(lake)
    assert lake.rows("groups") == audited.rows("groups")


@pytest.mark.parametrize("name", ["groups", "committed_offsets", "group_expiry", "group_versions"])
def test_the_first_rows_of_a_current_table_are_missed_and_a_rebuild_makes_them_again(audited, name):
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


def test_history_cannot_be_rebuilt(audited):
    lake = Audited(audit(LOG))
    lake.session.store.logs[log_of(lake, "offset_commits")].pop()
    for act in (maintain, lambda lake: lake.night(LOG, How()), Audited.rebuilt):
        with pytest.raises(KgroupsError, match=r"newest version of table offset_commits .*audit into a new lake"):
            act(lake)


@pytest.mark.parametrize("name", ["offset_commits", "group_member_versions"])
def test_rows_that_an_earlier_audit_wrote_are_missed_too(name):
    """No later audit wrote to the table."""
    lake = audit(Log().commit("g").commit("g", producer=7).member("h", "m", "t").files)
    lake.night(lake.files, How(as_of=1_800_000_000_000))
    assert lake.newest.newest_audits[name] == 1
    assert lake.newest.newest_audits["offset_expiry"] == 2
    maintain(Audited(lake))
    assert read(lake, name)
    lake.session.store.logs[log_of(lake, name)].pop()
    for act in (maintain, lambda lake: read(lake, name)):
        with pytest.raises(KgroupsError, match=f"newest version of table {name}"):
            act(lake)


def test_after_a_rebuild_the_ledger_misses_no_rows_that_it_cannot_make_again():
    """Traffic is counted when records are read."""
    lake = audit(LOG)
    lake.session.store.logs[log_of(lake, "group_traffic")].pop()
    with pytest.raises(KgroupsError, match="newest version of table group_traffic"):
        maintain(lake)
    maintain(lake.rebuilt())


def test_a_table_is_lost_if_its_log_ends_before_the_audit_that_the_ledger_names():
    full, empty = lambda: ["a file"], list
    assert is_lost(5, 4, full)
    assert is_lost(5, 0, empty)
    assert not is_lost(5, 5, empty)
    # An unfinished audit has written to it; a copy by other software has rows but no audits; nothing was ever written.
    assert not is_lost(5, 6, empty)
    assert not is_lost(5, 0, full)
    assert not is_lost(None, 0, empty)


def test_a_flipped_bit_of_a_data_file_is_an_error():
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
