"""Spark: the session, its JVM, tasks on tables and files, and the data sources for users.

session.py        our own session on a laptop, with its JVM, or the one of spark-submit or a platform
tasks.py          one shape for all work of tasks: each task gets a table and returns lines; processes that run them
runner.py         Spark, which runs them
java.py           the Java that Spark needs
interruption.py   Ctrl-C and SIGTERM
data_sources.py   kafka-raw, kafka-segments and decode, for DataFrames without a lake
"""
