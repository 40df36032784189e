"""`kgroups dump`, in this process, on the shipped segments, recordings and damaged copies: dump.txt has the screens."""

import json

import pytest

from kgroups_spark.cli.demo import SEGMENTS
from kgroups_spark.cli.main import main
from kgroups_spark.messages.coordinator_records import CONSUMER_OFFSETS
from tests import recorded_state_logs
from tests.cli.golden import screen, screens
from tests.logs.planned_batches import KEY, damaged
from tests.nights.state_nights import ends_of_batches
from tests.records.build import batch

PARTITION_0, PARTITION_4 = (SEGMENTS / f"__consumer_offsets-{number}" for number in (0, 4))
FIRST = f"{0:020}.log"


@pytest.fixture
def dump(capsys):
    """Runs the command; returns exit code, lines, stderr."""

    def run(*arguments):
        code = main(["dump", *map(str, arguments)])
        out, err = capsys.readouterr()
        return code, [json.loads(line) for line in out.splitlines()], err

    return run


# A client without a group.id could commit; another one has a hostile name. (Type 1, topic "t", partition 0.)
NAMELESS = batch(0, [(b"\0\1\0\0\0\1t\0\0\0\0", None)])
HOSTILE = batch(0, [(b"\0\1\0\x08orders\x1bc\0\1t\0\0\0\0", None)])
# The last of these batches claims an offset that is 8 too high.
HELD_BACK = b"".join(batch(at, [(KEY, None)]) for at in (0, 1, 10))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with logs of each kind, of a few batches."""
    folder = tmp_path_factory.mktemp("logs")
    recorded_state_logs.write_logs("share-4.4", folder / "share-4.4")
    recorded_state_logs.write_logs("transactions-4.4", folder / "transactions-4.4")
    (segment,) = (folder / "transactions-4.4").glob("__transaction_state-0/*.log")
    data = segment.read_bytes()
    segment.write_bytes(data[: ends_of_batches(data)[3]])
    data = (PARTITION_0 / FIRST).read_bytes()
    _, second, third, fourth, *_ = ends_of_batches(data)
    (state,) = (folder / "share-4.4" / "__share_group_state-0").glob("*.log")
    named = {
        "sound": data[:fourth],
        "damaged": data[:second] + damaged(data[second:third]) + data[third:fourth],
        "tail": data[: fourth - 10],
        "nameless": NAMELESS,
        "hostile": HOSTILE,
        "held": HELD_BACK,
        "confirmed": HELD_BACK + batch(11, [(KEY, None)]),
    }
    files = {f"{name}/__consumer_offsets-0/{FIRST}": log for name, log in named.items()}
    files |= {f"deleted/__consumer_offsets-0/{FIRST}.deleted": b"gone", f"text/{FIRST}": b"these are no batches\n" * 9}
    files |= {f"deleted/__consumer_offsets-1/{name}": data[:second] for name in (FIRST, f"{803:020}.log.deleted")}
    files |= {"lost/copy.bin": b"x" * 100 + data[100:fourth], f"copy/{FIRST}": data[:second], f"empty/{FIRST}": b""}
    files |= {"empty/zeros": bytes(4096), "empty/active": b"", f"orders/orders-0/{FIRST}": b""}
    files |= {f"internal/{name}/{FIRST}": b"" for name in ("__cluster_metadata-0", "__consumer_offsets-002")}
    files |= {f"state/{FIRST}": state.read_bytes()}
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


@pytest.mark.parametrize("wanted", screens("dump"), ids=lambda wanted: wanted.command)
def test_a_log_prints_its_screen(wanted, place, monkeypatch, capsys, pytestconfig):
    monkeypatch.chdir(place)
    code = main(wanted.command.split())
    printed = screen(code, *capsys.readouterr())
    wanted.check(printed.replace(f"{place}/", ""), pytestconfig)


def test_a_log_directory_is_read_partition_by_partition_in_the_order_of_the_log(dump, tmp_path):
    for number in (10, 9):
        (tmp_path / f"__consumer_offsets-{number}").symlink_to(PARTITION_0)
    _, lines, err = dump(tmp_path)
    assert err == ""
    assert [(line["partition"], line["offset"]) for line in lines] == [
        (partition, offset) for partition in (9, 10) for offset in range(2662)
    ]
    assert not [line for line in lines if "reason" in line]


def test_a_group_has_its_records_and_the_markers_of_its_transactions(dump):
    _, everything, _ = dump(PARTITION_4)
    code, lines, err = dump(PARTITION_4, "--group", "billing-engine")
    assert (code, err) == (0, "")
    own = [line for line in everything if line.get("group_id") == "billing-engine"]
    producers = {line["producer_id"] for line in own if line["is_transactional"]}
    markers = [line for line in lines if "control_type" in line]
    assert [line for line in lines if "control_type" not in line] == own
    assert {line["control_type"] for line in markers} == {"COMMIT", "ABORT"}
    assert {line["producer_id"] for line in markers} == producers
    names = {(line["record_type"], *line["key"]) for line in everything if "key" in line}
    assert names >= {(1, "group", "topic", "partition"), (2, "group"), (3, "groupId"), (5, "groupId", "memberId")}
    kafkas = {number: [field.name for field in kind.key.fields] for number, kind in CONSUMER_OFFSETS.items()}
    assert all(of_key == kafkas[number] for number, *of_key in names)


def test_a_log_directory_is_read_log_by_log_and_a_topic_chooses_one(dump, place):
    folder = place / "share-4.4"
    _, lines, err = dump(folder)
    assert err == ""
    places = [(line["topic"], line["partition"], line["offset"]) for line in lines]
    assert places == sorted(places)
    assert {line["topic"] for line in lines} == {"__consumer_offsets", "__share_group_state"}
    _, of_topic, _ = dump(folder, "--topic", "__share_group_state")
    assert of_topic == [line for line in lines if line["topic"] == "__share_group_state"]
