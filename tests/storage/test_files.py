"""Files of this machine."""

from __future__ import annotations

from pathlib import Path

from kgroups_spark.storage import files


def test_a_local_file_is_created_once_and_whole(tmp_path: Path) -> None:
    path = f"file:{tmp_path}/new folder/_delta_log/0.json"
    assert files.create_local(path, "first\n")
    assert not files.create_local(path, "second\n")
    assert files.read_text(path) == "first\n"
    assert [entry.name for entry in files.list_folder(f"{tmp_path}/new folder/_delta_log")] == ["0.json"]
