"""Improper UTF-8 as `new String(bytes, UTF_8)` reads it. Expected texts were printed by OpenJDK 17."""

from __future__ import annotations

import pytest

from kgroups_spark.messages.schema import decode_text

R = "\ufffd"
CASES = [
    ("41c3a9e282acf09f9880", "Aé€😀", True),
    ("", "", True),
    ("00", "\0", True),
    ("80", R, False),
    ("c0af", R + R, False),
    ("c341", R + "A", False),
    ("e282", R, False),
    ("e28241", R + "A", False),
    ("e080af", R + R + R, False),
    ("eda080", R, False),  # a surrogate in three bytes: one character, where Python makes three
    ("eda0bd", R, False),
    ("eda080edb080", R + R, False),  # CESU-8
    ("eda041", R + "A", False),
    ("eda0", R, False),
    ("ed9fbf", "\ud7ff", True),
    ("f0808080", R * 4, False),
    ("f09f98", R, False),
    ("f09f9841", R + "A", False),
    ("f4908080", R * 4, False),
    ("f5808080", R * 4, False),
    ("ff41", R + "A", False),
]


@pytest.mark.parametrize(("data", "text", "is_proper"), CASES, ids=[case[0] or "nothing" for case in CASES])
def test_text_is_what_java_sees(data, text, is_proper):
    assert decode_text(bytes.fromhex(data)) == (text, is_proper)
