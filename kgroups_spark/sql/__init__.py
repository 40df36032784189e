"""A lake in SQL: views and functions over the tables, and readers by DuckDB and by Spark. No arguments, no screen.

definitions/       one SQL file for each view and function, in DuckDB's dialect; the head describes its columns.
                   _NAME.sql: a first step of several of them
views.py           the list of views and functions; their heads; a view for each record type
spark_sql.py       Spark's dialect, translated from DuckDB's
reader.py          LakeReader, the interface of both engines; conditions on groups and topics; the groups to describe
by_duckdb.py       a lake in a folder by DuckDB, without Java
by_spark.py        any lake by Spark
"""
