"""An older lake brought to today's layout, by whoever takes the next claim on it.

A layout is a number in the property `kgroups.lakeVersion` of every table; the ledger's counts, and is raised last: a
migration that was killed is done again from its start, and each step leaves alone what is done. Software of the older
layout keeps out from the claim on, whose row names the layout that it was written with.

The tables say most of what a layout needs: those missing are made, columns that are missing are added as nullable
ones, and an internal table of other columns is defined again if it is empty. STEPS has what goes beyond. Properties
that tables lack are set without a new layout, because they mean nothing to older software.

    layout 1 -> 2: `state_corrections` has columns for a rebuild (no software of layout 1 wrote to it);
                   `previous_offset_expiry` is new
    layout 2 -> 3: `topic_offsets` is new (software of layout 2 would leave a killed audit's rows in it); so
                   are `findings`, and `group_events`, which the audit or rebuild that migrates fills from history
                   (audit/saved_state.py)
    layout 3 -> 4: `groups` has a column `stored_description_epoch`; its values come from history, because the rules
                   version was raised with it, too
    layout 4 -> 5: `quarantine` has a column `is_transactional`, null in rows that are there
    layout 5 -> 6: the tables of `__share_group_state` and `__transaction_state` are new; the ledger's entries of
                   partitions have a field `topic`
    layout 6 -> 7: three findings have other names (FINDINGS_BEFORE_7), in rows that are there, too
    layout 7 -> 8: the ledger has a column `replaced_ranges`, by which readers leave rows of history out
    layout 8 -> 9: `offset_commits` and `group_records` have a column `offset_delta`, null in rows that are there
    layout 9 -> 10: `coordinator_state` and `state_corrections` have the columns of offsets; a state that is there is
                   read as it is (state format 1)
    layout 10 -> 11: `checkpoints` is new, with what `state_corrections` held; that table and `coordinator_state` go,
                   and the state is rebuilt from history
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
from kgroups_spark.tables.layout import (
    FINDINGS_BEFORE_7,
    LAKE_VERSION,
    LAKE_VERSION_PROPERTY,
    lake_version_in,
)
from kgroups_spark.tables.schemas import CHECKPOINTS, TABLES, Table
from kgroups_spark.tables.spark_types import struct_in_array


def _rename_findings(fence: Fence) -> None:
    """Gives findings of older audits today's names."""
    if not fence.lake.place.has("findings"):  # new with layout 3
        return
    there = set(fence.lake.rows("findings", columns=["finding"]).column("finding").to_pylist())
    for older, name in FINDINGS_BEFORE_7.items():
        if older in there:
            statement = f"UPDATE {{table}} SET finding = '{name}' WHERE finding = '{older}'"
            fence.sql("findings", "replace", statement)


def _to_checkpoints(fence: Fence) -> None:
    """Moves the rows that nothing makes again to their new place, once; then drops the tables of layout 10."""
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
    # Delta takes a transaction once. It is no audit's: the lake as an earlier one left it has these rows, too.
    options = {"txnAppId": _MOVED, "txnVersion": str(LAKE_VERSION)}
    with named_if_lost(fence.check_claim), suppress(AlreadyWritten):
        lake.commit(CHECKPOINTS, "append", partial(lake.place.append, CHECKPOINTS, rows, options))


_MOVED = "kgroups-checkpoints"

# From a layout to the next one: what the tables' columns do not say.
STEPS: dict[int, Callable[[Fence], None]] = {
    1: lambda fence: None,
    2: lambda fence: None,
    3: lambda fence: None,
    4: lambda fence: None,
    5: lambda fence: None,
    6: _rename_findings,
    7: lambda fence: None,
    8: lambda fence: None,
    9: lambda fence: None,
    10: _to_checkpoints,
}


def migrate(fence: Fence) -> str | None:
    """Brings the lake to today's layout, and says so in a sentence for the ledger; None: it has it.

    Only under a claim, by whose fence all of it goes. Raises KgroupsError for a table that is neither of the older
    layout nor of today's.
    """
    lake = fence.lake
    older = lake.version
    if older == LAKE_VERSION:
        return _bring_to_properties(fence)
    for layout in range(older, LAKE_VERSION):
        STEPS[layout](fence)
    there = set(lake.place.names())
    for table in TABLES.values():
        _bring_to_columns(fence, table, may_be_there=table.name in there)
    _bring_to_properties(fence)
    return f"the lake was brought from layout {older} to {LAKE_VERSION}"


def _bring_to_columns(fence: Fence, table: Table, *, may_be_there: bool) -> None:
    lake = fence.lake
    # A folder may be there without a table in it: its creation was killed.
    if not may_be_there or not lake.place.has(table.name):
        fence.check_claim()
        lake.create_table(table)
        return
    found = StructType.fromJson(json.loads(lake.table(table.name).schema_json()))
    if _has_columns(found, table.schema):
        return
    if table.kind == "internal" and not lake.table(table.name).files():
        fence.commit(table.name, "replace", partial(_redefine, lake, table))
    else:
        # Columns that are there already Delta does not add: who comes late changes nothing.
        with named_if_lost(fence.check_claim):
            lake.commit(table.name, "alter", partial(_add_columns, lake, table, found))


def _redefine(lake: Lake, table: Table, transaction: Transaction) -> None:
    lake.table(table.name).redefine(table.schema.json(), table.comment, table_properties(table), transaction)


def _has_columns(found: StructType, expected: StructType) -> bool:
    """Whether rows of the expected columns can be written: one that is there may be nullable where it no longer need
    be."""
    return not _missing(found, expected) and _has_no_others(found, expected)


def _has_no_others(found: StructType, expected: StructType) -> bool:
    """Whether each of the columns is an expected one, or what is left of one that has more fields now."""
    there = {field.name: field for field in expected}
    return all(field.name in there and _may_become(field, there[field.name]) for field in found)


def _may_become(found: StructField, expected: StructField) -> bool:
    """Whether the column is the expected one but for fields of its structs."""
    inner, wanted = struct_in_array(found.dataType), struct_in_array(expected.dataType)
    if inner is not None and wanted is not None:
        return _has_no_others(inner, wanted)
    same_type = found.dataType.simpleString() == expected.dataType.simpleString()
    return same_type and (found.nullable or not expected.nullable)


def _missing(found: StructType, expected: StructType, inside: str = "") -> list[str]:
    """The columns for ADD COLUMNS, and of fields of structs in arrays, that are not there."""
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
    """The column at its position, as in a lake of today's layout."""
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
    """Gives all tables the properties that they lack, the ledger last, by which the others are judged; a sentence for
    the ledger, None: they lack none."""
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
    """Which of a table's properties it does not have. One that somebody has set to something else stays."""
    there = dict(properties)
    if lake_version_in(there) < LAKE_VERSION:
        there.pop(LAKE_VERSION_PROPERTY, None)
    return {name: value for name, value in table_properties(table).items() if name not in there}


def _set_properties(lake: Lake, table: Table, properties: dict[str, str], transaction: Transaction) -> None:
    by = f"kgroups-spark, to layout {LAKE_VERSION}"
    lake.table(table.name).set_properties(properties, by=by, transaction=transaction)
