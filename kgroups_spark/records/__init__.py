"""Kafka log segments as columns: batches, records, and bytes that cannot be read. Without Spark."""
