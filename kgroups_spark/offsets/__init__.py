"""Offsets of one partition of __consumer_offsets, whole columns at a time.

No record of types 2 to 23 touches an offset. So what became of each offset commit, and where offsets moved, is a
function of the commits and the markers of the partition alone:

    (saved state, offset_commits and transaction_markers since then)  ->  committed, pending, moves, removals, new state

    numbers.py       columns of numbers, log offsets and owners as sort keys, the next marker
    records.py       rows of `offset_commits` and of the saved state in one form; slots
    pending.py       values that wait for their producer's marker
    effects.py       which value takes effect where, and in the place of which other one
    moves.py         where offsets moved
    removals.py      what tombstones removed, and what is remembered of it
    holding.py       since when groups hold offsets: what the coordinator's groups need to know of them
    transactions.py  open and ended transactions
    state.py         the saved state
    replay.py        all of it for one offsets partition, by ranges of groups; replay/offset_rows.py makes tables of it

A slot is a group's partition of a topic. Slots do not depend on each other, so a large offsets partition is folded by
ranges of groups. Two things cross slots and are put together at the end: transactions, and the limit on remembered
removals.
"""
