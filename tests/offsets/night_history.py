"""The history of one night, as the replay of offsets takes it."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.compute as pc

from tests.coordinator.log_rows import replay_rows
from tests.logs.log_files import Cuts, Files, segments_of
from tests.nights.decoded import Decoded, cut_ranges, decode


def decoded_nights(files: Files, cuts: Cuts, release: str) -> list[Decoded]:
    """The records that each of the nights decodes."""
    return [decode(files, release, ranges, audit_id=n) for n, ranges in enumerate(cut_ranges(files, cuts), start=1)]


def ends_of_nights(cuts: Cuts, retention_ms: int) -> dict[int, list[tuple[int, int]]]:
    """Where the nights of each partition ended, as replay_shard.Night has it."""
    return {p: [(ends[-1].next_offset, retention_ms) for ends in nights] for p, nights in cuts.items()}


def history(night: Decoded, name: str, partition: int, transactional: set[int]) -> pa.Table:
    """Rows of a partition that a night decoded; of quarantine those in transactions, which it does not say itself."""
    rows = night.table(name, partition)
    if name == "quarantine":
        rows = rows.filter(pc.field("log_offset").isin(pa.array(sorted(transactional), pa.int64())))
    return rows


def transactional_garbage(files: Files, partition: int) -> set[int]:
    """Log offsets of records with the transactional bit that do not decode, or are of an unknown type."""
    rows = replay_rows(io.BytesIO(files[path]) for path in segments_of(files)[partition])
    return {row.log_offset for row in rows if row.kind == "undecodable" and row.is_transactional}
