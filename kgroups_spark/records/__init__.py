"""Bytes of a log to batches and records, as columns: what Kafka's `DefaultRecordBatch` and `LegacyRecord` read.

It knows neither what a record means nor where the bytes come from.

segment.py   a segment from front to back: a window of bytes, chunks of records, and the bytes that cannot be read
batches.py   records of batches of magic 2, and of the messages of magic 0 and 1
codecs.py    decompression, with a bound on the result
columns.py   the result: columns of batches and records, corrupt batches, control records, varints
damage.py    the next sound batch after damage; whether a log's last batch is confirmed
"""
