"""Spark: the session, its JVM, tasks on tables and files, and the data sources for users.

session.py        our own session on a laptop, with its JVM, or the one of spark-submit or a platform
runner.py         one shape for all work of tasks: each task gets a table and returns lines
java.py           the Java that Spark needs
interruption.py   Ctrl-C and SIGTERM
data_sources.py   kafka-raw, kafka-segments and decode, for DataFrames without a lake
"""
