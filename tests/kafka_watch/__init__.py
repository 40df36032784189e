"""Compares a published release of Kafka with the definitions and defaults that this project relies on."""
