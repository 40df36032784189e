"""The columns of the public `decode`, without Spark."""

import pyarrow as pa
import pytest

from kgroups_spark.messages.coordinator_records import RecordsDecoder
from tests.messages.vectors import KEY_OF_TYPE


@pytest.mark.parametrize(
    ("topic", "name", "reason", "says"),
    [
        ("__consumer_offsets", "GroupMetadata", None, None),
        (
            "src.__consumer_offsets",
            None,
            "other_topic",
            "topic src.__consumer_offsets is not a coordinator's log; for a",
        ),
        ("orders", None, "other_topic", "as the argument topic: decode(frame, topic='__consumer_offsets')"),
        ("", None, "other_topic", "the row has no topic; for a copy of a log give its name as the argument topic"),
        (None, None, None, None),  # a control record
    ],
)
def test_a_record_of_another_topic_has_a_reason(topic, name, reason, says):
    (row,) = RecordsDecoder().decode([topic], pa.array([KEY_OF_TYPE[2]]), pa.array([None], pa.binary())).to_pylist()
    assert (row["record_name"], row["reason"]) == (name, reason)
    assert (row["detail"] is None) == (says is None) and (says or "") in (row["detail"] or "")
