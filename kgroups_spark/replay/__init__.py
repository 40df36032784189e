"""A range of the log to history, and history to all other tables: one shard as Kafka's `GroupCoordinatorShard` has it.

    range ─ RangeDecoder ─> parts of history      (saved state, history) ─ ShardReplay ─> rows of tables, new state

stages.py                     the two stages as tasks run them. Begin here
ranges.py, range_decoder.py   pieces of a log, their tasks, times, progress; bytes of a range to rows of history
history_rows.py, counts.py    rows of offset_commits, group_records, markers, quarantine; counts of records, topic names
shard.py                      the replay of one shard, without Spark, files or clocks
groups.py, rows.py            groups in log order with what offsets tell them; rows of the current tables and events
state.py, shard_states.py     the saved state as rows of checkpoints; states before a log offset in history
stored_history.py             which rows of which files count, and how a task reads them
corrections.py                a log that was read again (R6): the differences between two states
sinks.py                      where rows of tasks go: Parquet parts, which the driver commits
state_logs.py                 the same for a partition of __share_group_state or __transaction_state
"""
