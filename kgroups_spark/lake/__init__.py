"""Where the tables are stored: commits, claims and fencing, the ledger, replaced rows. No state machine.

lake.py             all tables in one folder or schema: created, opened, read; fenced changes of rows of others
store.py            the logs of Delta tables: commits, versions, checkpoints; what a store has to do
hadoop.py           a store by Hadoop, and its settings; files that Spark carries; tables of a catalog
local.py            a store in folders of this machine; the engine without Spark
writer.py           a Delta commit of parts; saved states of an audit; whether tasks reach the lake
parts.py            the Parquet files that tasks write, and datasets of them
claim.py            one audit at a time: the number; what unfinished audits left
ledger.py           the ledger as plain values: claim, reading, end
last_finished.py    the last finished audit, whose tables readers see; lost versions; who owns a claim
as_of_audit.py      the lake as one finished audit left it; old versions of the tables' logs
replaced.py         rows of history that were cut off the log: which rows count
"""
