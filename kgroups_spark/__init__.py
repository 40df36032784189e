"""Kafka consumer-group history from `__consumer_offsets`, in Delta tables.

A lake is read by DuckDB, without Spark and without Java:

    >>> import kgroups_spark
    >>> lake = kgroups_spark.open_lake("./lake")
    >>> lake.sql("SELECT count(*) AS members FROM group_members").to_pylist()
    [{'members': 68}]

docs/python.md shows the rest. All public names are in `__all__`, and are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kgroups_spark.package_data import __version__

if TYPE_CHECKING:
    from kgroups_spark.api import QUESTIONS, Lake, open_lake, run_audit
    from kgroups_spark.audit.result import AuditSummary
    from kgroups_spark.errors import KgroupsError, UsageError
    from kgroups_spark.spark.data_sources import KafkaRawDataSource, KafkaSegmentsDataSource, decode
    from kgroups_spark.spark.session import spark_session

__all__ = [
    "QUESTIONS",
    "AuditSummary",
    "KafkaRawDataSource",
    "KafkaSegmentsDataSource",
    "KgroupsError",
    "Lake",
    "UsageError",
    "__version__",
    "decode",
    "open_lake",
    "run_audit",
    "spark_session",
]

_MODULES = {
    "AuditSummary": "audit.result",
    "KafkaRawDataSource": "spark.data_sources",
    "KafkaSegmentsDataSource": "spark.data_sources",
    "KgroupsError": "errors",
    "Lake": "api",
    "QUESTIONS": "api",
    "UsageError": "errors",
    "decode": "spark.data_sources",
    "open_lake": "api",
    "run_audit": "api",
    "spark_session": "spark.session",
}


# They are made of classes of Spark.
_OF_SPARK = ("AuditSummary", "KafkaRawDataSource", "KafkaSegmentsDataSource", "decode", "spark_session")


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """A public name, from the module that has it. Without Spark those that need it raise KgroupsError when called."""
    from kgroups_spark.errors import has_pyspark, require_pyspark

    if name in _OF_SPARK and not has_pyspark():
        return require_pyspark
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
