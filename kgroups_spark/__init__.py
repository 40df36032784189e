"""Kafka consumer-group history from `__consumer_offsets`, in Delta tables, by Spark."""

__version__ = "0.1.0"
