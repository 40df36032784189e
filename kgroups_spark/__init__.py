"""Kafka consumer-group history from `__consumer_offsets`, in Delta tables, by Spark."""

from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`decode`, imported when it is first asked for: it needs Spark, most commands do not."""
    if name == "decode":
        from kgroups_spark.sources.decode import decode

        return decode
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
