"""Kafka log segments read as columns: batches, records, and what cannot be read. Knows nothing of Spark."""
