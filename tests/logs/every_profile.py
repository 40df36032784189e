"""One log of four partitions, each of a different kind."""

from __future__ import annotations

from tests.logs.dense_logs import dense_log
from tests.logs.generated_logs import LOGS
from tests.logs.log_files import Files, read_zip


def logs_of_every_profile() -> Files:
    """One log: each partition is the first of a generated log, the last one is dense."""
    found = read_zip(LOGS)
    names = [min(n for n in found if n.startswith(profile)) for profile in ("adversarial", "compacted", "wellformed")]
    parts = [found[name] for name in names] + [dense_log(7, 40)]
    merged: dict[str, bytes] = {}
    for number, files in enumerate(parts):
        folder = sorted(files)[0].split("/")[0]
        merged |= {
            f"__consumer_offsets-{number}/{path.split('/')[1]}": data
            for path, data in files.items()
            if path.startswith(f"{folder}/")
        }
    return merged
