"""Evidence in lots: for finders that look at one group at a time, some offsets partitions at a time.

This bounds the memory of the driver: members are loaded with all their present and target partitions, and 100,000
groups of ten members with ten partitions each would be a gigabyte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.findings.evidence import Evidence, Tables
from kgroups_spark.tables.conditions import Condition, partitions_in_lots

# Members of a lot, which has at least one offsets partition. A member with ten present and ten target partitions is
# about 1 kB: at most a quarter of a gigabyte, mostly a tenth of that. A committed offset takes an eighth of it.
ROWS_AT_ONCE = 250_000
OFFSETS_PER_MEMBER = 8


@dataclass(frozen=True)
class OfPartitions:
    """Tables with only the rows of some offsets partitions."""

    tables: Tables
    condition: Condition

    def rows(self, name: str, columns: Sequence[str], *conditions: Condition) -> pa.Table:
        return self.tables.rows(name, columns, *conditions, self.condition)


def in_lots(evidence: Evidence) -> Iterator[Evidence]:
    """The evidence of some offsets partitions at a time, each with a bounded number of rows; small evidence unchanged.

    Each group is in exactly one lot. Finders that compare groups must get the whole evidence instead.
    """
    rows = Counter[int]()
    for name, of_a_row in (("group_members", 1), ("committed_offsets", OFFSETS_PER_MEMBER)):
        column = evidence.tables.rows(name, ["offsets_partition"])["offsets_partition"]
        rows.update({each["values"]: -(-each["counts"] // of_a_row) for each in pc.value_counts(column).to_pylist()})
    if rows.total() <= ROWS_AT_ONCE:
        yield evidence
        return
    # Also partitions without either that have other reportable records.
    reported = [each.offsets_partition for each in evidence.large_records]
    reported += [each.offsets_partition for each in evidence.times_off]
    reported += [row["offsets_partition"] for row in evidence.before if row["offsets_partition"] is not None]
    reported += evidence.tables.rows("groups", ["offsets_partition"])["offsets_partition"].unique().to_pylist()
    reported += evidence.log_starts.keys()
    rows.update(dict.fromkeys(reported, 0))
    for lot in partitions_in_lots(rows, ROWS_AT_ONCE):
        yield _of(evidence, lot)


def _of(evidence: Evidence, lot: Condition) -> Evidence:
    here = set(lot.value)
    return replace(
        evidence,
        tables=OfPartitions(evidence.tables, lot),
        large_records=[each for each in evidence.large_records if each.offsets_partition in here],
        times_off=[each for each in evidence.times_off if each.offsets_partition in here],
        before=[row for row in evidence.before if row["offsets_partition"] in here],
    )
