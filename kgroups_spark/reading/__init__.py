"""A lake as commands and users read it, by DuckDB or Spark."""
