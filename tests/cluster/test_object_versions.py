"""Which object has a name, in a store: by size and time as a listing says them, then by the ETag."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgroups_spark.storage import s3
from kgroups_spark.storage.files import file_system, list_folder, open_file, read_text_if_there
from tests.cluster.object_store import object_store


def test_an_object_that_is_replaced_or_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with object_store(tmp_path, ("versions",)) as store:
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(s3, "_file_systems", {})
        system, inside = file_system("s3://versions/log/0.log")

        def put(data: bytes) -> None:
            with system.open_output_stream(inside) as file:
                file.write(data)

        put(b"one")
        (listed,) = list_folder("s3://versions/log")
        assert listed.version is not None
        with open_file("s3://versions/log/0.log") as file:
            opened = file.version()
            assert listed.version.is_still(opened)
            assert opened.is_still(file.version())
            put(b"two")  # of the same size, perhaps in the same second
            assert not opened.is_still(file.version())
            system.delete_file(inside)
            with pytest.raises(FileNotFoundError):
                file.version()
        assert read_text_if_there("s3://versions/log/0.log") is None
