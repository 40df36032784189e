"""Files of this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kgroups_spark.lake.local import LocalStore
from kgroups_spark.sources import files


def test_a_local_file_is_created_once_and_whole(tmp_path: Path) -> None:
    path, store = f"file:{tmp_path}/new folder/_delta_log/0.json", LocalStore()
    assert store.write_text(path, "first\n", overwrite=False)
    assert not store.write_text(path, "second\n", overwrite=False)
    assert files.read_text(path) == "first\n"
    assert [entry.name for entry in files.list_folder(f"{tmp_path}/new folder/_delta_log")] == ["0.json"]


@pytest.mark.parametrize("uri", ["/data/a lake", "file:/data/a lake"])
def test_a_local_lake_is_reached_by_path_and_by_hadoops_uri(uri: str) -> None:
    system, path = files.file_system(uri)
    assert (system.type_name, path) == ("local", "/data/a lake")


def test_a_file_given_as_a_folder_is_not_called_missing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    said = {
        "pipe": "is a pipe or a device, not a folder",
        "file": r"is a file, not a folder \(an archive must be unpacked\)",
        "none": "does not exist",
    }
    for name, what in said.items():
        with pytest.raises(files.FolderNotFound, match=f"^{tmp_path / name} {what}$"):
            files.list_folder(str(tmp_path / name))
