"""`kgroups`, the command line: one file for each command, and what commands share. No rule of Kafka is here.

entry.py        the process: streams, Ctrl-C, what is imported; worker_daemon.py: that of Spark's Python workers
main.py         the list of commands; arguments to a command; a failure to a message and an exit code
form.py         the form of a command, options that commands share and the readers of their values, moments (`--as-of`)
open_lake.py    the lake of --lake, by DuckDB or Spark; a Spark session when there is work for it
output.py       rows as a table for a screen of any width, JSON or CSV; notes on stderr; output files; progress

The commands: audit, audits, cleanup, compare, completion, dead_letters, demo, describe, dump, expiring, export_offsets,
findings, groups, history, lag, maintain, metrics, migration, pending, rebuild, report, sql.
"""
