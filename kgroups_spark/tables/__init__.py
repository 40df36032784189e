"""The tables of a lake: their columns with types and comments, and Arrow tables of their form. They are the contract.

definitions.py   every column of every table: current tables, history, the ledger, internal tables, the two other logs
columns.py       how a column is defined; conditions on rows, by which files are skipped
schemas.py       every table by name: meaning, key, columns with file statistics; the lake's layout
spark_types.py           the same for Spark: types, CREATE TABLE
rows.py          plain rows to Arrow batches of a table, and small helpers over Arrow tables
"""
