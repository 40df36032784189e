"""`python -m kgroups_spark`."""

from kgroups_spark.cli.entry import entry_point

if __name__ == "__main__":
    entry_point()
