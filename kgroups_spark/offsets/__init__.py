"""Offsets of one partition as columns: the work of Kafka's `OffsetMetadataManager` and `OffsetExpirationCondition`.

No record of types 2 to 23 changes an offset. So the outcome of each offset commit, and the moves of offsets, are a
function of the partition's commits and markers alone:

    (saved state, offset_commits and transaction_markers since then)  ->  committed, pending, moves, removals, new state

columns.py    rows of history and of the saved state in one form; slots, ranges of slots, the next marker
effects.py    pending values; which value takes effect at which log offset, and which value it replaces; moves
removals.py   the offsets that tombstones removed; since when groups have offsets, for the coordinator's groups
state.py      the saved state; open and ended transactions
replay.py     all of it for one offsets partition, by ranges of slots. Begin here
expiry.py     which offsets and groups a clean-up would remove, and why

A slot is a group's partition of a topic. Slots do not depend on each other, so a large offsets partition is folded by
ranges of slots. Facts that cross slots are combined at the end: transactions, the limit on remembered removals, and
since when a group has offsets.
"""
