"""A lake in a schema of the session's own catalog; tests/cli/test_hive_lake.py covers a lasting catalog."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.lake.lake import Lake, table_properties
from kgroups_spark.lake.writer import make_writable
from kgroups_spark.tables.schemas import TABLES
from tests.lake.table_rows import rows_of, writer

pytestmark = pytest.mark.spark


def schema_at(spark, name, folder):
    spark.sql(f"CREATE SCHEMA {name} LOCATION '{folder}'")
    yield name
    spark.sql(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture
def empty_schema(spark, tmp_path):
    yield from schema_at(spark, "empty_schema", tmp_path)


@pytest.fixture(scope="module")
def schema(spark, tmp_path_factory):
    """A schema whose folder has a blank and a letter outside ASCII in its name."""
    yield from schema_at(spark, "our_lake", tmp_path_factory.mktemp("catalog") / "our läke")


@pytest.fixture(scope="module")
def lake(spark, schema):
    """One for all tests here: a schema's tables cost seconds to make."""
    return Lake.create(spark, f"spark_catalog.{schema}")


def topic_ids(lake):
    return sorted(lake.rows("topics")["topic_id"].to_pylist())


def test_a_schema_gets_the_same_tables_as_a_folder(spark, lake, schema, chosen, tmp_path):
    folder = Lake(spark, str(tmp_path / "folder"))
    assert set(lake.place.names()) == set(TABLES)
    for name, table in TABLES.items():
        assert spark.table(f"`{schema}`.{name}").schema == table.schema, name
        assert lake.place.identifier(name) == f"`spark_catalog`.`{schema}`.`{name}`"
        assert lake.table(name).snapshot().properties == table_properties(table)
    for name in chosen.some(TABLES, 3):
        described = spark.sql(f"DESCRIBE TABLE EXTENDED {lake.place.identifier(name)}").where("col_name = 'Comment'")
        assert described.first()["data_type"] == TABLES[name].comment
        folder.create_table(TABLES[name])
        found, local = lake.table(name).snapshot(), folder.table(name).snapshot()
        assert found.properties == local.properties
        assert json.loads(found.metadata["schemaString"]) == json.loads(local.metadata["schemaString"])
    assert Path(lake.uri).name == "our läke"


def test_a_missing_schema_is_named_with_advice(spark):
    for name in ("nowhere", "spark_catalog.nowhere"):
        for opened in (Lake.open, Lake.create):
            with pytest.raises(UsageError, match=rf"no schema of that name; CREATE SCHEMA {name} .* write \./{name}$"):
                opened(spark, name)
    with pytest.raises((UsageError, KgroupsError), match=r"^[^\n]*nobodys[^\n]*$"):
        Lake.open(spark, "nobodys.lake")


def test_a_schema_with_other_tables_is_not_made_a_lake(spark, empty_schema):
    spark.range(1).createOrReplaceTempView("a_view_of_the_session")
    spark.sql(f"CREATE TABLE {empty_schema}.sales (id INT) USING parquet")
    with pytest.raises(UsageError, match=r"is neither a lake nor empty: it holds sales; name an empty schema"):
        Lake.create(spark, empty_schema)
    assert Lake(spark, empty_schema).place.names() == ["sales"]
    spark.catalog.dropTempView("a_view_of_the_session")


def test_rows_are_added_and_replaced_in_one_transaction_per_audit(lake):
    def rows(audit_id, topic_id):
        return rows_of("topics", {"audit_id": audit_id, "topic_id": topic_id})

    table, first, second, third = "topics", 1, 2, 3
    writer(lake, first).replace_table(table, rows(first, "a"))
    with pytest.raises(KgroupsError, match=f"table topics was written by audit {first} or a later one before"):
        writer(lake, first).append_table(table, rows(first, "b"))
    assert topic_ids(lake) == ["a"]
    version = lake.table(table).snapshot().version
    parts = lake.write(table, [rows(second, "c")], second)
    writer(lake, second).replace_parts(table, parts, keep_audit=first)
    assert topic_ids(lake) == ["a", "c"]
    writer(lake, third).append_table(table, rows(third, "d"))
    assert topic_ids(lake) == ["a", "c", "d"]
    assert [row.topic_id for row in lake.read(table, version).collect()] == ["a"]
    assert lake.read_files(table).schema == TABLES[table].schema
    last = lake.spark.sql(f"DESCRIBE HISTORY {lake.place.identifier(table)} LIMIT 1").first()
    assert f"kgroups-spark audit {third}" in (last.userMetadata, last.engineInfo)


def test_tables_must_be_in_one_folder(spark, schema, tmp_path):
    lake = Lake.open(spark, schema)
    assert make_writable(lake) is None
    lake.place._paths["topics"] = elsewhere = f"file:{tmp_path}"
    lake.store.table(elsewhere).create(TABLES["topics"].schema.json(), "", {})
    with pytest.raises(UsageError, match=r"table topics is not in file:.* under its name"):
        make_writable(lake)


def test_a_table_that_a_killed_creation_left_out_of_the_catalog_is_registered(spark, empty_schema):
    place, table = Lake(spark, empty_schema).place, TABLES["topics"]
    left = place.store.table(f"{place.uri}/topics")
    left.create(table.schema.json(), table.comment, table_properties(table))
    assert place.names() == []
    place.create(table, table_properties(table))
    assert place.names() == ["topics"]
    assert (place.path("topics"), left.snapshot().version) == (left.path, 0)
    assert place.read("topics").schema == table.schema


def test_catalog_managed_tables_are_refused_in_one_line(spark, empty_schema):
    place = Lake(spark, empty_schema).place
    place.create(TABLES["audits"], table_properties(TABLES["audits"]))
    log = Path(place.path("audits").removeprefix("file:"), "_delta_log", f"{0:020}.json")
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    protocol = next(action for action in actions if "protocol" in action)
    both, writers = ["catalogManaged", "vacuumProtocolCheck"], ["inCommitTimestamp", "invariants"]
    features = {"readerFeatures": both, "writerFeatures": both + writers}
    protocol["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    for checksum in log.parent.glob("*.crc"):  # Delta's own, which repeats the protocol, and Hadoop's
        checksum.unlink()
    for checksum in log.parent.glob(".*.crc"):
        checksum.unlink()
    with pytest.raises(KgroupsError, match=r"^table audits of schema .* is managed by its catalog [^\n]+$"):
        place.has("audits")
    # The session's own catalog manages none: Spark refuses before we do.
    with pytest.raises(KgroupsError, match=r"^the lake at empty_schema cannot be opened: [^\n]+$"):
        Lake.open(spark, empty_schema)
