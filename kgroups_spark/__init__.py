"""Kafka consumer-group history from `__consumer_offsets`, in Delta tables, by Spark."""
