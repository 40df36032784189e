"""A table whose log lost the version that the last finished audit left, with the checkpoint of one that was killed."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from kgroups_spark.errors import KgroupsError
from kgroups_spark.sql.by_duckdb import _go_back_to


@pytest.fixture
def groups(tmp_path):
    for audit in (1, 2, 3):
        written = CommitProperties(app_transactions=[Transaction("kgroups-audit", audit)])
        write_deltalake(tmp_path / "groups", pa.table({"audit_id": [audit]}), mode="append", commit_properties=written)
    return tmp_path / "groups"


def test_readers_go_back_to_the_last_finished_audit_or_say_why_they_cannot(groups):
    DeltaTable(groups).create_checkpoint()
    table = DeltaTable(groups)
    _go_back_to(table, 2)
    assert table.version() == 1
    for version in (0, 1):
        (groups / "_delta_log" / f"{version:020d}.json").unlink()
    with pytest.raises(KgroupsError, match=r"table groups: the version of audit 2 is no longer .* run kgroups"):
        _go_back_to(DeltaTable(groups), 2)
    whole = DeltaTable(groups)
    _go_back_to(whole, 3)
    assert whole.version() == 2
