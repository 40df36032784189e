"""How fast kgroups-spark is, measured against others on the same log. README.md says what is measured and how."""
