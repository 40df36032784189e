"""The commands: one file each. Each has a parser of its options and a `run`, and prints rows, not logs."""
