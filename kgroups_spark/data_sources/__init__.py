"""Spark data sources and functions for any DataFrame."""
