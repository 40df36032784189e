"""Spark: the session, its JVM, tasks on tables and files, and the data sources for users.

session.py        our own session on a laptop, or the one of spark-submit or a platform
runner.py         one shape for all work of tasks: each task gets a table and returns lines
jvm.py, java.py   the JVM that this process starts: its output, its end; the Java that it needs
interruption.py   Ctrl-C and SIGTERM
data_sources.py   kafka-raw, kafka-segments and decode, for DataFrames without a lake
"""
