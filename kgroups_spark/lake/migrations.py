"""Migration of an older lake to the present layout, under the next claim on it.

A layout is a number in the property `kgroups.lakeVersion` of every table. The ledger's number counts, and is raised
last: a killed migration starts again from the beginning, and each step skips what is already done. Software of the
older layout stops at the claim, because its row names the layout that it was written with.

Most of a migration follows from the tables' definitions: missing tables are created, missing columns are added as
nullable ones, and an empty internal table with other columns is defined again. STEPS has the rest. Properties that
tables lack are set without a new layout, because older software ignores them.

    layout 1 -> 2: `state_corrections` has columns for a rebuild (no software of layout 1 wrote to it);
                   `previous_offset_expiry` is new
    layout 2 -> 3: `topic_offsets` is new (software of layout 2 would leave a killed audit's rows in it); so
                   are `findings`, and `group_events`, which the audit or rebuild that migrates fills from history
                   (audit/saved_state.py)
    layout 3 -> 4: `groups` has a column `stored_description_epoch`; its values come from history, because the rules
                   version was raised with it, too
    layout 4 -> 5: `quarantine` has a column `is_transactional`, null in existing rows
    layout 5 -> 6: the tables of `__share_group_state` and `__transaction_state` are new; the ledger's entries of
                   partitions have a field `topic`
    layout 6 -> 7: three findings have other names (FINDINGS_BEFORE_7), also in existing rows
    layout 7 -> 8: the ledger has a column `replaced_ranges`, by which readers leave out rows of history
    layout 8 -> 9: `offset_commits` and `group_records` have a column `offset_delta`, null in existing rows
    layout 9 -> 10: `coordinator_state` and `state_corrections` have the columns of offsets; an existing state is read
                   as it is (state format 1)
    layout 10 -> 11: `checkpoints` is new, with the rows of `state_corrections`; that table and `coordinator_state` are
                   dropped, and the state is rebuilt from history
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from pyspark.sql.types import StructField, StructType

from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.fence import Fence, Transaction, named_if_lost
from kgroups_spark.lake.lake import Lake, table_properties
from kgroups_spark.lake.older_checkpoints import OLDER_CHECKPOINTS, OLDER_STATES, checkpoint_batches
from kgroups_spark.lake.store import AlreadyWritten
from kgroups_spark.tables.ddl import column_definition, quoted
from kgroups_spark.tables.layout import FINDINGS_BEFORE_7, LAKE_VERSION, LAKE_VERSION_PROPERTY, lake_version_in
from kgroups_spark.tables.schemas import CHECKPOINTS, TABLES, Table
from kgroups_spark.tables.spark_types import struct_in_array


def _rename_findings(fence: Fence) -> None:
    """Gives findings of older audits their present names."""
    if not fence.lake.place.has("findings"):  # new with layout 3
        return
    there = set(fence.lake.rows("findings", columns=["finding"]).column("finding").to_pylist())
    for older, name in FINDINGS_BEFORE_7.items():
        if older in there:
            statement = f"UPDATE {{table}} SET finding = '{name}' WHERE finding = '{older}'"
            fence.sql("findings", "replace", statement)


def _to_checkpoints(fence: Fence) -> None:
    """Moves the rows that cannot be rebuilt to `checkpoints`, once; then drops the tables of layout 10."""
    lake = fence.lake
    fence.check_claim()
    lake.create_table(TABLES[CHECKPOINTS])
    if lake.place.has(OLDER_CHECKPOINTS) and lake.table(CHECKPOINTS).last_transaction(_MOVED) is None:
        _move(fence)
    for name in (OLDER_CHECKPOINTS, OLDER_STATES):
        with named_if_lost(fence.check_claim):
            lake.commit(name, "drop", partial(lake.place.drop, name))


def _move(fence: Fence) -> None:
    lake = fence.lake
    if not lake.store.table(lake.place.path(OLDER_CHECKPOINTS)).files():
        return
    rows = lake.place.read(OLDER_CHECKPOINTS).mapInArrow(checkpoint_batches, TABLES[CHECKPOINTS].schema)
    # Delta accepts a transaction once. Its id is not an audit's, so the lake as of an earlier audit has these rows,
    # too.
    options = {"txnAppId": _MOVED, "txnVersion": str(LAKE_VERSION)}
    with named_if_lost(fence.check_claim), suppress(AlreadyWritten):
        lake.commit(CHECKPOINTS, "append", partial(lake.place.append, CHECKPOINTS, rows, options))


_MOVED = "kgroups-checkpoints"

# Steps from a layout to the next one that do not follow from the tables' columns.
STEPS: dict[int, Callable[[Fence], None]] = {6: _rename_findings, 10: _to_checkpoints}


def migrate(fence: Fence) -> str | None:
    """Migrates the lake to the present layout; returns a note for the ledger, None: there was nothing to do.

    Only under a claim: all changes go through its fence. Raises KgroupsError for a table that is neither of the older
    layout nor of the present one.
    """
    lake = fence.lake
    older = lake.version
    if older == LAKE_VERSION:
        return _bring_to_properties(fence)
    for layout in range(older, LAKE_VERSION):
        if layout in STEPS:
            STEPS[layout](fence)
    there = set(lake.place.names())
    for table in TABLES.values():
        _bring_to_columns(fence, table, may_be_there=table.name in there)
    _bring_to_properties(fence)
    return f"the lake was migrated from layout {older} to {LAKE_VERSION}"


def _bring_to_columns(fence: Fence, table: Table, *, may_be_there: bool) -> None:
    lake = fence.lake
    # The folder may exist without a table in it, because its creation was killed.
    if not may_be_there or not lake.place.has(table.name):
        fence.check_claim()
        lake.create_table(table)
        return
    found = StructType.fromJson(json.loads(lake.table(table.name).schema_json()))
    if _has_columns(found, table.schema):
        return
    if table.kind == "internal" and not lake.table(table.name).files():
        redefine = partial(lake.table(table.name).redefine, table.schema.json(), table.comment, table_properties(table))
        fence.commit(table.name, "replace", redefine)
    else:
        # Delta does not add existing columns, so a late process changes nothing.
        with named_if_lost(fence.check_claim):
            lake.commit(table.name, "alter", partial(_add_columns, lake, table, found))


def _has_columns(found: StructType, expected: StructType) -> bool:
    """Whether rows of the expected columns can be written. An existing column may be nullable although it need not
    be."""
    return not _missing(found, expected) and _has_no_others(found, expected)


def _has_no_others(found: StructType, expected: StructType) -> bool:
    """Whether each column is an expected one, or an expected one without some of its present fields."""
    there = {field.name: field for field in expected}
    return all(field.name in there and _may_become(field, there[field.name]) for field in found)


def _may_become(found: StructField, expected: StructField) -> bool:
    """Whether the column is the expected one, except for missing fields of its structs."""
    inner, wanted = struct_in_array(found.dataType), struct_in_array(expected.dataType)
    if inner is not None and wanted is not None:
        return _has_no_others(inner, wanted)
    same_type = found.dataType.simpleString() == expected.dataType.simpleString()
    return same_type and (found.nullable or not expected.nullable)


def _missing(found: StructType, expected: StructType, inside: str = "") -> list[str]:
    """The missing columns, and missing fields of structs in arrays, as definitions for ADD COLUMNS."""
    there, columns = {field.name: field for field in found}, []
    for at, field in enumerate(expected):
        if field.name not in there:
            columns.append(_added(field, expected, at, inside))
            continue
        inner, wanted = struct_in_array(there[field.name].dataType), struct_in_array(field.dataType)
        if inner is not None and wanted is not None:
            columns += _missing(inner, wanted, f"{inside}{quoted(field.name)}.element.")
    return columns


def _added(field: StructField, expected: StructType, at: int, inside: str) -> str:
    """The column's definition with its position, as in a lake of the present layout."""
    nullable = StructField(field.name, field.dataType, True, field.metadata)
    place = f"AFTER {quoted(expected[at - 1].name)}" if at else "FIRST"
    return f"{inside}{column_definition(nullable)} {place}"


def _add_columns(lake: Lake, table: Table, found: StructType) -> None:
    expected = {field.name: field for field in table.schema}
    wrong = sorted(
        field.name for field in found if field.name not in expected or not _may_become(field, expected[field.name])
    )
    if wrong:
        raise KgroupsError(
            f"table {table.name} of the lake at {lake.location} is neither of layout {lake.version} nor of "
            f"{LAKE_VERSION}: column {wrong[0]} is not as it should be; audit into a new lake"
        )
    columns = ", ".join(_missing(found, table.schema))
    lake.spark.sql(f"ALTER TABLE {lake.identifier(table.name)} ADD COLUMNS ({columns})")


def _bring_to_properties(fence: Fence) -> str | None:
    """Gives all tables the properties that they lack; the ledger comes last, because its properties decide whether to
    look at the other tables. Returns a note for the ledger; None: no table lacks any."""
    lake = fence.lake
    if not _lacking(lake.properties, TABLES["audits"]):
        return None
    there = set(lake.place.names())  # a table that is gone is created again with all properties
    for table in sorted(TABLES.values(), key=lambda table: table.kind == "ledger"):
        if table.name not in there:
            continue
        lacking = _lacking(lake.table(table.name).properties(), table)
        if lacking:
            fence.commit(table.name, "alter", partial(_set_properties, lake, table, lacking))
    del lake.properties
    return "the tables' logs now keep every version that readers go back to; kgroups maintain removes older ones"


def _lacking(properties: Mapping[str, str], table: Table) -> dict[str, str]:
    """The properties that a table lacks. One that a user has set to another value stays."""
    there = dict(properties)
    if lake_version_in(there) < LAKE_VERSION:
        there.pop(LAKE_VERSION_PROPERTY, None)
    return {name: value for name, value in table_properties(table).items() if name not in there}


def _set_properties(lake: Lake, table: Table, properties: dict[str, str], transaction: Transaction) -> None:
    by = f"kgroups-spark, to layout {LAKE_VERSION}"
    lake.table(table.name).set_properties(properties, by=by, transaction=transaction)
