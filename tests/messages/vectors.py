"""The golden vectors: samples written by Kafka 4.3.1's own serialisers, as bytes and as fields."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ALL = json.loads((Path(__file__).parent.parent / "data" / "coordinator-vectors.json").read_text())
KEY_OF_TYPE = {v["type"]: bytes.fromhex(v["hex"]) for v in ALL if v["kind"] == "key"}


def vectors(*kinds):
    """Vectors as test parameters, their names as ids."""
    return [pytest.param(v, id=v["name"]) for v in ALL if v["kind"] in kinds]


def records():
    """Key and value of each value vector, with the key vector of its type."""
    return [(KEY_OF_TYPE[v["type"]], bytes.fromhex(v["hex"])) for v in ALL if v["kind"] == "value"]


def assert_has(found, expected):
    """All fields of `expected`, at every depth; `found` may have more (defaults that Kafka's converters leave out)."""
    if isinstance(expected, dict):
        for name, value in expected.items():
            assert_has(found[name], value)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_has(one, other)
    else:
        assert found == expected
