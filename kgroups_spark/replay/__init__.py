"""The replay of an offsets partition: saved state and history in, rows of the tables and new state out.

history, state ── offsets (columns) ──> committed and pending offsets, moves, tombstones, first values
                            │
                            v
group records ── coordinator.Groups (objects, Kafka's rules) ──> groups, members, versions, events
"""
