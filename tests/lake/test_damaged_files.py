"""Files of a table that are missing or damaged: one line with the table, the file, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.local import Local
from kgroups_spark.lake.parts import PartWriter
from tests.protocol.fake_delta import LOOP
from tests.views.recorded import tables_of

CURES = {
    "groups": "if it stays so, delete its folder: the next audit makes it again",
    "group_records": "if it stays so, restore it",
}


@pytest.mark.parametrize("name", CURES)
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (Path.unlink, "there is no file {file}"),
        (
            lambda file: file.write_bytes(b""),
            "Could not open Parquet input source '{file}': Parquet file size is 0 bytes",
        ),
    ],
)
def test_the_line_has_the_table_the_file_and_the_cure(
    tmp_path: Path, name: str, damage: Callable[[Path], object], said: str
) -> None:
    with mock.patch.object(Lake, "stand_in", None):
        lake = Lake.create(Local(runner=LOOP), str(tmp_path / "lake"))
        part = PartWriter(name, lake.uri, 1).write(tables_of("kip848-4.3")[name])
        assert part is not None
        lake.table(name).commit([part], by="test", transaction=None)
        file = tmp_path / "lake" / name / Path(part.path).name
        damage(file)
        with pytest.raises(KgroupsError) as refused:
            lake.rows(name)
        line = f"table {name} of the lake at {lake.location} cannot be read: {said.format(file=file)}; {CURES[name]}"
        assert refused.value.lines == (line,)
