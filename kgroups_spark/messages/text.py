"""Text from bytes, as Java reads it.

Kafka's generated readers call `new String(bytes, UTF_8)`, which never fails: malformed input becomes U+FFFD. Python's
"replace" does the same (one U+FFFD for each maximal subpart of a well-formed sequence) except for surrogates. A
surrogate encoded in three bytes (ED A0..BF 80..BF, as in CESU-8) is one malformed character in Java, three in Python.
(java.lang.String.decodeUTF8_UTF16, JDK 17)
"""

from __future__ import annotations

import codecs

_REPLACEMENT = "\ufffd"


def _replace_like_java(error: UnicodeError) -> tuple[str, int]:
    """U+FFFD, and the position where decoding continues."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data, start = error.object, error.start
    if data[start] == 0xED and data[start + 1 : start + 2] >= b"\xa0" and is_continuation(data, start + 1):
        return _REPLACEMENT, start + (3 if is_continuation(data, start + 2) else 2)
    return _REPLACEMENT, error.end


def is_continuation(data: bytes, position: int) -> bool:
    return position < len(data) and data[position] & 0xC0 == 0x80


codecs.register_error("kgroups_spark.java", _replace_like_java)


def decode_text(data: bytes) -> tuple[str, bool]:
    """The text as Java reads it, and whether the bytes are proper UTF-8; if not, the text cannot restore them."""
    try:
        return data.decode(), True
    except UnicodeDecodeError:
        return data.decode("utf-8", "kgroups_spark.java"), False
