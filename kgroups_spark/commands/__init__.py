"""What people type: one file a command. Each has a parser of its options and a `run`, and prints rows, not logs."""
