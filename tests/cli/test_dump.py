"""`kgroups dump`, in this process, on the shipped segments and on damaged copies of them."""

import json

import pytest

from kgroups_spark.cli.demo import SEGMENTS
from kgroups_spark.cli.main import main
from kgroups_spark.messages.coordinator_records import CONSUMER_OFFSETS
from tests import recorded_state_logs
from tests.cli.golden import screen, screens
from tests.logs.planned_batches import KEY
from tests.nights.state_nights import ends_of_batches
from tests.records.build import batch

PARTITION_0 = SEGMENTS / "__consumer_offsets-0"
FIRST_SEGMENT = PARTITION_0 / "00000000000000000000.log"
THREE_LOGS = "__consumer_offsets, __share_group_state or __transaction_state"


@pytest.fixture
def dump(capsys):
    """Runs the command; returns exit code, lines, stderr."""

    def run(*arguments):
        code = main(["dump", *map(str, arguments)])
        out, err = capsys.readouterr()
        return code, [json.loads(line) for line in out.splitlines()], err

    return run


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "__consumer_offsets-0"
    path.mkdir()
    return path


def test_every_record_is_one_line_with_its_place_batch_key_and_value(dump):
    code, lines, err = dump(FIRST_SEGMENT)
    assert (code, err) == (0, "")
    assert [line["offset"] for line in lines] == list(range(803))  # the next segment begins with 803
    assert lines[2] == {
        "topic": "__consumer_offsets",
        "partition": 0,
        "offset": 2,
        "timestamp": "2026-10-26T06:53:58.041Z",
        "timestamp_type": "CreateTime",
        "batch_base_offset": 2,
        "batch_magic": 2,
        "leader_epoch": 0,
        "producer_id": None,
        "producer_epoch": None,
        "is_transactional": False,
        "record_type": 2,
        "record_name": "GroupMetadata",
        "group_id": "connect-warehouse-sink",
        "key": {"group": "connect-warehouse-sink"},
        "value_version": 3,
        "value": {
            "protocolType": "",
            "generation": 0,
            "protocol": None,
            "leader": None,
            "currentStateTimestamp": 1792997638041,
            "members": [],
        },
    }


def test_a_log_directory_is_read_partition_by_partition_in_the_order_of_the_log(dump, tmp_path):
    for number in (10, 9):
        (tmp_path / f"__consumer_offsets-{number}").symlink_to(PARTITION_0)
    _, lines, err = dump(tmp_path)
    assert err == ""
    assert [(line["partition"], line["offset"]) for line in lines] == [
        (partition, offset) for partition in (9, 10) for offset in range(2662)
    ]
    assert not [line for line in lines if "reason" in line]


@pytest.fixture(scope="module")
def partition_4(tmp_path_factory):
    """The first two segments of a log in which a group has transactions."""
    folder = tmp_path_factory.mktemp("copy") / "__consumer_offsets-4"
    folder.mkdir()
    for segment in sorted((SEGMENTS / folder.name).glob("*.log"))[:2]:
        (folder / segment.name).symlink_to(segment)
    return folder


def test_a_group_has_its_records_and_the_markers_of_its_transactions(dump, partition_4):
    _, everything, _ = dump(partition_4)
    code, lines, err = dump(partition_4, "--group", "billing-engine")
    assert (code, err) == (0, "")
    own = [line for line in everything if line.get("group_id") == "billing-engine"]
    producers = {line["producer_id"] for line in own if line["is_transactional"]}
    markers = [line for line in lines if "control_type" in line]
    assert [line for line in lines if "control_type" not in line] == own
    assert {line["control_type"] for line in markers} == {"COMMIT", "ABORT"}
    assert {line["producer_id"] for line in markers} == producers


def test_keys_have_kafkas_field_names(dump, partition_4):
    _, lines, _ = dump(partition_4)
    names = {(line["record_type"], *line["key"]) for line in lines if "key" in line}
    assert names >= {(1, "group", "topic", "partition"), (2, "group"), (3, "groupId"), (5, "groupId", "memberId")}
    kafkas = {number: [field.name for field in kind.key.fields] for number, kind in CONSUMER_OFFSETS.items()}
    assert all(of_key == kafkas[number] for number, *of_key in names)


def test_a_tombstone_has_no_value(dump):
    _, lines, _ = dump(SEGMENTS / "__consumer_offsets-4" / f"{5698:020}.log")
    tombstone = next(line for line in lines if line.get("record_type") == 1 and line["value"] is None)
    assert tombstone["value_version"] is None
    assert "reason" not in tombstone


def test_a_group_may_have_an_empty_name(dump, folder):
    """A client without a group.id could commit."""
    key = bytes.fromhex("0001 0000 000174 00000000")  # type 1, group "", topic "t", partition 0
    (folder / f"{0:020d}.log").write_bytes(batch(0, [(key, None)]))
    code, lines, _ = dump(folder, "--group", "")
    assert (code, [line["group_id"] for line in lines]) == (0, [""])


def test_a_group_without_records_suggests_the_nearest_names(dump, partition_4):
    code, lines, err = dump(partition_4, "--group", "biling-engine")
    assert (code, lines) == (0, [])
    assert err == "no record of the group 'biling-engine'; did you mean billing-engine?\n"


def test_a_damaged_batch_is_reported_and_the_rest_is_read(dump, folder):
    _, sound, _ = dump(FIRST_SEGMENT)
    path, data = folder / FIRST_SEGMENT.name, bytearray(FIRST_SEGMENT.read_bytes())
    data[30_000] ^= 0xFF
    path.write_bytes(data)
    code, lines, _ = dump(path)
    [corrupt] = [line for line in lines if "reason" in line]
    lost = range(corrupt["offset"], corrupt["last_offset"] + 1)
    assert code == 0
    assert (corrupt["reason"], corrupt["file"]) == ("corrupt_batch", str(path))
    assert corrupt["file_position"] <= 30_000 < corrupt["file_position"] + corrupt["size_bytes"]
    assert [line for line in lines if line is not corrupt] == [line for line in sound if line["offset"] not in lost]


def test_a_half_written_tail_is_normal_and_reported(dump, folder):
    path = folder / FIRST_SEGMENT.name
    path.write_bytes(FIRST_SEGMENT.read_bytes()[:-10])
    code, lines, err = dump(path)
    assert code == 0
    assert not [line for line in lines if "reason" in line]
    assert err.startswith(f"{path}: reading ended at byte ")
    assert err.endswith(": partial batch\n")


def test_a_last_batch_that_audits_hold_back_is_shown_with_a_mark(dump, tmp_path, folder):
    """The last of 20 batches claims an offset that is 8 too high."""
    batches = [batch(number if number < 19 else 27, [(KEY, None)]) for number in range(20)]
    (folder / "00000000000000000000.log").write_bytes(b"".join(batches))
    code, lines, err = dump(tmp_path)
    assert (code, [line["offset"] for line in lines]) == (0, [*range(19), 27])
    why = f"byte {sum(map(len, batches[:19]))}: it says offset 27, 8 after the end of the batch before it"
    assert why in err and "audits read it once another batch follows it" in err
    assert [why in line.get("unconfirmed", "") for line in lines] == [False] * 19 + [True]
    (folder / "00000000000000000000.log").write_bytes(b"".join(batches) + batch(28, [(KEY, None)]))
    code, lines, err = dump(tmp_path)
    assert (len(lines), err) == (21, "")
    assert not any("unconfirmed" in line for line in lines)


def test_a_wholly_unreadable_segment_fails_with_one_message(dump, tmp_path):
    path = tmp_path / "00000000000000000000.log"
    path.write_text("these are no record batches, as anybody can see\n" * 5)
    code, lines, err = dump(path)
    assert code == 1
    assert [line["reason"] for line in lines] == ["corrupt_batch"]
    assert err == f"kgroups: no record in {path} can be read: is it a segment of {THREE_LOGS}?\n"


def test_a_renamed_segment_is_read_even_if_its_beginning_is_lost(dump, tmp_path):
    path = tmp_path / "copy.bin"
    path.write_bytes(b"x" * 100 + FIRST_SEGMENT.read_bytes()[100:])
    code, lines, _ = dump(path)
    assert (code, lines[0]["reason"]) == (0, "corrupt_batch")
    assert len(lines) > 700


@pytest.mark.parametrize(
    ("name", "content"),
    [("active", b""), ("active", b"\0" * 4096), ("00000000000000000000.log", b"")],
    ids=["empty", "zeros", "an empty log"],
)
def test_an_empty_or_zeroed_file_is_a_segment(dump, tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    code, lines, err = dump(path)
    assert (code, lines, err if path.suffix else "") == (0, [], "")


def test_a_folder_without_segments_says_what_it_has(dump, tmp_path):
    (tmp_path / "orders-0").mkdir()
    code, lines, err = dump(tmp_path)
    assert (code, lines) == (2, [])
    assert err == f"kgroups: {tmp_path} has no folder named __consumer_offsets-<partition>; it has orders-0\n"


def test_segments_copied_into_a_folder_of_another_name_are_read_without_a_partition(dump, tmp_path):
    (tmp_path / FIRST_SEGMENT.name).write_bytes(FIRST_SEGMENT.read_bytes())
    code, lines, err = dump(tmp_path)
    assert (code, err, len(lines)) == (0, "", 803)
    assert {(line["topic"], line["partition"]) for line in lines} == {(None, None)}


def test_deleted_segments_are_no_part_of_the_log(dump, folder):
    (folder / FIRST_SEGMENT.name).write_bytes(FIRST_SEGMENT.read_bytes())
    (folder / "00000000000000000803.log.deleted").write_bytes(b"gone")
    assert len(dump(folder)[1]) == 803
    (folder / FIRST_SEGMENT.name).unlink()
    assert dump(folder) == (1, [], f"kgroups: {folder}: no segment file (*.log)\n")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (
            "__cluster_metadata-0",
            "holds __cluster_metadata; "
            "only __consumer_offsets, __share_group_state and __transaction_state can be decoded (--topic says which)",
        ),
        (
            "__consumer_offsets-002",
            "is no folder of a broker, which writes no zeros before the partition: rename it",
        ),
    ],
)
def test_another_internal_topic_or_name_is_refused(dump, tmp_path, name, why):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "00000000000000000000.log").touch()
    for path in (folder, folder / "00000000000000000000.log"):
        code, lines, err = dump(path)
        assert (code, lines, err) == (2, [], f"kgroups: {folder} {why}\n")


@pytest.fixture
def recorded(tmp_path):
    """Writes the recorded folders of a broker whose names begin with the topic; returns the log directory."""

    def write(recording, topic=""):
        return recorded_state_logs.write_logs(recording, tmp_path / recording, topic)

    return write


@pytest.mark.parametrize("wanted", screens("dump"), ids=lambda wanted: wanted.command)
def test_records_of_the_other_logs_have_kafkas_field_names(
    wanted, recorded, tmp_path, monkeypatch, capsys, pytestconfig
):
    recorded("share-4.4")
    (segment,) = recorded("transactions-4.4").glob("__transaction_state-0/*.log")
    data = segment.read_bytes()
    segment.write_bytes(data[: ends_of_batches(data)[3]])
    monkeypatch.chdir(tmp_path)
    code = main(wanted.command.split())
    wanted.check(screen(code, *capsys.readouterr()), pytestconfig)


def test_a_log_directory_is_read_log_by_log_and_a_topic_chooses_one(dump, recorded):
    folder = recorded("share-4.4")
    _, lines, err = dump(folder)
    assert err == ""
    places = [(line["topic"], line["partition"], line["offset"]) for line in lines]
    assert places == sorted(places)
    assert {line["topic"] for line in lines} == {"__consumer_offsets", "__share_group_state"}
    _, of_topic, _ = dump(folder, "--topic", "__share_group_state")
    assert of_topic == [line for line in lines if line["topic"] == "__share_group_state"]
    code, _, err = dump(folder, "--topic", "__transaction_state")
    assert code == 2
    assert "has no folder named __transaction_state-<partition>" in err


def test_topic_says_which_log_it_is_where_no_folder_name_does(dump, recorded, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for topic, options in (("__consumer_offsets", []), ("__share_group_state", ["--topic", "__share_group_state"])):
        folder = recorded("share-4.3") / f"{topic}-1"
        _, named, _ = dump(folder)
        (segment,) = folder.glob("*.log")
        (copy / segment.name).write_bytes(segment.read_bytes())
        code, lines, err = dump(copy, *options)
        assert (code, err) == (0, "")
        assert lines == [line | {"topic": options[1] if options else None, "partition": None} for line in named]


def test_a_topic_that_contradicts_the_folders_name_is_refused(dump, recorded):
    (segment,) = (recorded("share-4.4") / "__share_group_state-1").glob("*.log")
    code, lines, err = dump(segment, "--topic", "__transaction_state")
    assert (code, lines) == (2, [])
    assert err == f"kgroups: {segment.parent} holds __share_group_state, not __transaction_state\n"
