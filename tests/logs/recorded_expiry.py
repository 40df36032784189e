"""Recorded logs in which offsets expired, and the batches that removed them."""

from __future__ import annotations
