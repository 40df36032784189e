"""What the replay still needs of a contiguous range of a log: about one record in a hundred.

The law: replay(reduce(a) + reduce(b)) = replay(a + b) for every release and cut: the same state, the same version rows.
This is the row form, slow and obvious, the referee of `reduce_columns`. What stays, by number of docs/design.md section
2, point 3:

1. A *value* is an offset commit that the release reads (a type-0 key with a value version above 0 never counts). Of the
   values of a slot that act as plain the last: no record of types 2 to 23 touches an offset.
2. Every tombstone, every record of types 2 to 23, every undecodable one, every one with a producer id but without the
   transactional bit (T28), every transaction without its marker in the range.
3. Whether a transaction began in the range is known only behind a marker of its producer: records up to and including
   each producer's first marker. Of later transactions COMMIT makes the values plain at their own record offset, ABORT
   drops them, and the marker goes. A transaction stays whole if it holds anything but such values, or if a tombstone of
   one of its slots, from anyone, lies between value and marker. Markers that are neither end nothing: they stay, and
   what stands around them up to the next real one.
4. (and 6.) The first value of each stretch of a group: where it is dropped it stays without content (`keep_group`), for
   it makes a simple group exist (T29), and `state_since` and version rows must not depend on cuts.
5. Java 3.8 to 4.0.0: the last transaction of each producer and group, whole (KAFKA-19164).

Java 3.7: transactions all stay. Scala: so do they; a stretch ends at offset tombstones of the group and at any marker,
too, of each stretch the last value of a slot stays, and the first value of a stretch stays as it is: there a group
exists only as long as something of it does.
"""

from __future__ import annotations

from collections.abc import Iterable

from kgroups_spark.coordinator.releases import Release
from kgroups_spark.coordinator.replay_row import ReplayRow


def reduce(rows: Iterable[ReplayRow], release: Release) -> list[ReplayRow]:
    """The rows of a range that its replay needs, in log order. `rows` may be reduced already."""
    log = list(rows)
    kept = _without_ended_transactions(log, release) if resolves_transactions(release) else dict(enumerate(log))
    stretches = _stretches(log, release)
    last_plain: dict[object, int] = {}
    first_value: dict[object, int] = {}
    for i, row in enumerate(log):
        if not is_value(row, release):
            continue
        first_value.setdefault((row.group_id, stretches[i]), i)
        if i in kept and is_plain(kept[i]):
            of_slot = (row.slot, stretches[i]) if release.simple_groups_follow_offsets else row.slot
            superseded = last_plain.get(of_slot)
            if superseded is not None:
                del kept[superseded]
            last_plain[of_slot] = i
    for i in first_value.values():
        if i not in kept:
            kept[i] = log[i] if release.simple_groups_follow_offsets else _without_content(log[i])
    return [kept[i] for i in sorted(kept)]


def resolves_transactions(release: Release) -> bool:
    """Whether ended transactions can be reduced: where the record offset decides, whenever the marker comes."""
    return release.commit_needs_newer_record and not release.simple_groups_follow_offsets


def is_value(row: ReplayRow, release: Release) -> bool:
    """Whether the row is an offset commit that the release reads, and has its content."""
    if row.kind != "offset_commit" or row.commit is None or row.record_type is None:
        return False
    version = row.commit.value_version
    return not (row.record_type == 0 and version > 0) and not release.fails_to_read(row.record_type, version)


def is_plain(row: ReplayRow) -> bool:
    return row.producer_id < 0 and not row.is_transactional


def _without_content(row: ReplayRow) -> ReplayRow:
    return ReplayRow(row.log_offset, row.log_timestamp, "keep_group", group_id=row.group_id)


def _stretches(log: list[ReplayRow], release: Release) -> list[tuple[int, int]]:
    """Per row the number of its stretch: (of its group, of the shard). Rows without a group have any."""
    of_group: dict[str | None, int] = {}
    of_shard = 0
    stretches = []
    for row in log:
        stretches.append((of_group.get(row.group_id, 0), of_shard))
        ends = row.kind == "group_record"
        if release.simple_groups_follow_offsets:
            ends |= row.kind == "offset_commit" and row.commit is None
            of_shard += row.kind == "marker"
        if ends:
            of_group[row.group_id] = of_group.get(row.group_id, 0) + 1
    return stretches


def _without_ended_transactions(log: list[ReplayRow], release: Release) -> dict[int, ReplayRow]:
    """The rows but those of transactions that began and ended in the range; their committed values as plain ones."""
    kept = dict(enumerate(log))
    transactions = _ended_transactions(log)
    last_of = {
        (log[i].producer_id, log[i].group_id): number for number, rows in enumerate(transactions) for i in rows[:-1]
    }
    for number, rows in enumerate(transactions):
        *records, marker = rows
        if not all(_is_resolvable(log, i, marker, release) for i in records):
            continue
        if release.open_transactions_by == "group" and any(
            last_of[log[i].producer_id, log[i].group_id] == number for i in records
        ):
            continue
        del kept[marker]
        for i in records:
            if log[marker].outcome == "committed":
                kept[i] = log[i]._replace(producer_id=-1, producer_epoch=-1, is_transactional=False)
            else:
                del kept[i]
    return kept


def _ended_transactions(log: list[ReplayRow]) -> list[list[int]]:
    """Indices of each producer's records after its first marker, with the marker that ends them."""
    after_marker: dict[int, list[int]] = {}
    ended = []
    for i, row in enumerate(log):
        if row.producer_id < 0:
            continue
        is_end = row.kind == "marker" and row.outcome is not None
        if row.producer_id in after_marker:
            after_marker[row.producer_id].append(i)
            if is_end:
                ended.append(after_marker[row.producer_id])
        if is_end:
            after_marker[row.producer_id] = []
    return ended


def _is_resolvable(log: list[ReplayRow], i: int, marker: int, release: Release) -> bool:
    """Whether the record may be decided now: a transactional value, and no tombstone of its slot up to the marker."""
    row = log[i]
    return (
        is_value(row, release)
        and row.is_transactional
        and not any(
            later.slot == row.slot and later.kind == "offset_commit" and later.commit is None
            for later in log[i + 1 : marker]
        )
    )
