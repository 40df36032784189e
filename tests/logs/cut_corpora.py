"""Recorded logs that are cut back."""

from __future__ import annotations

import numpy as np

from tests.logs.cut_logs import CutLog, batches_in
from tests.logs.dense_logs import dense_log
from tests.logs.forgetful_logs import forgetful_log
from tests.logs.generated_logs import LOGS
from tests.logs.log_files import read_zip


def cut_log(seed: int, release: str, partition: int = 0) -> CutLog:
    """A log with leaders that write the records of random logs and of a generated one."""
    found = read_zip(LOGS)
    name = sorted(found)[(31 * seed + len(release)) % len(found)]
    generated = [batch for batch in batches_in(found[name]) if batch.magic == 2]
    logs = [batches_in(dense_log(seed, 60)), batches_in(forgetful_log(seed)), generated, batches_in(dense_log(-seed))]
    rng = np.random.default_rng(seed)
    source = [batch for number in rng.permutation(len(logs)).tolist() for batch in logs[number][:60]]
    return CutLog(source, partition)
