"""Files with a client's properties, as Kafka's tools read them for --command-config (storage/properties.py)."""

from __future__ import annotations

import os

from kgroups_spark.client.property import BadClientProperty
from kgroups_spark.errors import UsageError
from kgroups_spark.storage.properties import parse_properties

# Far larger than any file of settings, certificates or tokens; needed because /dev/zero never ends.
MOST_BYTES = 16 << 20


def read_properties_file(path: str) -> dict[str, str]:
    """Names and values. Raises UsageError for a file that cannot be read, BadClientProperty for one that is not
    text."""
    content = read_bytes(path, "the properties file")
    if b"\0" in content:
        raise BadClientProperty(f"the properties file {path} is not ISO-8859-1 text, as Java reads it")
    try:
        return parse_properties(content.removeprefix(b"\xef\xbb\xbf").decode("iso-8859-1"))
    except UsageError as err:
        raise BadClientProperty(f"the properties file {path}: {err}") from err


def read_bytes(path: str, what: str) -> bytes:
    """The whole file, of at most MOST_BYTES. Raises UsageError; its text has `what` the file is."""
    try:
        with open(path, "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as err:
        raise UsageError(f"{what} {path} cannot be read: {os.strerror(err.errno or 0)}") from err
    except ValueError as err:
        raise UsageError(f"{what} cannot be read: its path contains a NUL") from err
    if len(content) > MOST_BYTES:
        raise UsageError(f"{what} {path} cannot be read: it has more than {MOST_BYTES >> 20} MiB")
    return content
