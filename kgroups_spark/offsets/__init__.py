"""Offsets of one partition of __consumer_offsets, whole columns at a time.

No record of types 2 to 23 changes an offset. So the outcome of each offset commit, and the moves of offsets, are a
function of the partition's commits and markers alone:

    (saved state, offset_commits and transaction_markers since then)  ->  committed, pending, moves, removals, new state

    numbers.py       columns of numbers, log offsets and owners as sort keys, the next marker
    records.py       rows of `offset_commits` and of the saved state in one form; slots
    pending.py       values that wait for their producer's marker
    effects.py       which value takes effect at which log offset, and which value it replaces
    moves.py         where offsets moved
    removals.py      the offsets that tombstones removed, and the remembered removals
    holding.py       since when groups have offsets, for the coordinator's groups
    transactions.py  open and ended transactions
    state.py         the saved state
    ranges.py        ranges of slots
    replay.py        all of it for one offsets partition, by ranges of slots; replay/offset_rows.py makes the tables

A slot is a group's partition of a topic. Slots do not depend on each other, so a large offsets partition is folded by
ranges of slots. Facts that cross slots are combined at the end: transactions, the limit on remembered removals, and
since when a group has offsets.
"""
