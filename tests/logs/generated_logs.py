"""Generated logs, with the answers of Kafka's own classes."""

from __future__ import annotations

from pathlib import Path

LOGS = Path(__file__).parents[1] / "coordinator" / "data" / "generated_logs.zip"
