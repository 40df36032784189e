"""Ctrl-C and SIGTERM in processes of their own: one line, the exit code, and nothing left running."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parent.parent


# Many short calls: a signal between the last look of Python and the beginning of a call does not end that call.
WAITS = "[time.sleep(0.1) for _ in range(6000)]"
SAYS_READY = f"print('ready', flush=True); {WAITS}"
INT, TERM = signal.SIGINT, signal.SIGTERM
INTERRUPTED, TERMINATED = (130, "kgroups: interrupted\n"), (143, "kgroups: terminated\n")


def ended(script, *numbers):
    """Code, output and errors of a script in a process group of its own, which gets a signal after each line that it
    says, as long as there are any."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script).replace("WAITS", WAITS)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    said = ""
    for number in numbers:
        said += process.stdout.readline()
        os.killpg(process.pid, number)
    out, err = process.communicate(timeout=60)
    return process.returncode, said + out, err


def command(*work):
    """`kgroups dump`, whose work this is."""
    lines = "\n    ".join(["def work(path, topic):", *work])
    return f"""
import sys, time
from kgroups_spark.cli import main as cli
from kgroups_spark.cli import dump

{lines}

dump.segments_at = work
sys.argv = ["kgroups", "dump", "x"]
cli.entry_point()
"""


BOTH = pytest.mark.parametrize(("number", "end"), [(INT, INTERRUPTED), (TERM, TERMINATED)])


@BOTH
def test_a_signal_ends_a_command_with_one_line(number, end):
    code, out, err = ended(command(SAYS_READY), number)
    assert (code, err, out) == (*end, "ready\n")


def test_an_error_after_a_signal_is_reported_as_the_signal():
    gone = "raise RuntimeError('the JVM has gone') from None"
    code, _, err = ended(command("try:", f"    {SAYS_READY}", "except KeyboardInterrupt:", f"    {gone}"), TERM)
    assert (code, err) == TERMINATED


def test_a_second_signal_does_not_wait():
    cleans_up = f"print('cleaning up', flush=True); {WAITS}"
    work = ("try:", f"    {SAYS_READY}", "except KeyboardInterrupt:", f"    {cleans_up}")
    assert ended(command(*work), INT, INT) == (130, "ready\ncleaning up\n", "")


@BOTH
@pytest.mark.parametrize("module", ["cli.main", "cli.audit"])
def test_a_signal_while_the_commands_are_loaded_is_one_line(module, number, end):
    script = """
        import sys, time

        class Slow:
            def find_spec(self, name, path=None, target=None):
                if name == "kgroups_spark.MODULE":
                    print("ready", flush=True)
                    WAITS

        sys.meta_path.insert(0, Slow())
        from kgroups_spark.cli.entry import entry_point
        entry_point()
    """
    code, _, err = ended(script.replace("MODULE", module), number)
    assert (code, err) == end


def test_a_prompt_survives_ctrl_c_but_not_sigterm():
    script = """
        import time
        from kgroups_spark.spark.interruption import going_on, interruptible

        with interruptible():
            while True:
                try:
                    print("ready", flush=True)
                    WAITS
                except KeyboardInterrupt as asked:
                    going_on(asked)
    """
    code, out, err = ended(script, INT, INT, INT, TERM)
    assert (code != 0, out, "KeyboardInterrupt" in err) == (True, "ready\n" * 4, True)


def test_a_query_in_c_is_interrupted():
    work = (
        "import duckdb",
        "from kgroups_spark.spark.interruption import run_interruptibly",
        "connection = duckdb.connect()",
        "query = lambda: connection.execute('SELECT count(*) FROM range(1000000000000)').fetchall()",
        "print('ready', flush=True)",
        "run_interruptibly(query, connection.interrupt)",
    )
    code, _, err = ended(command(*work), INT)
    assert (code, err) == INTERRUPTED


def test_a_signal_after_the_work_ends_the_process_silently():
    script = """
        import atexit, pyspark, sys, time
        from kgroups_spark.cli import dump
        from kgroups_spark.cli.entry import entry_point

        def last():
            print("ready", flush=True)
            WAITS

        atexit.register(last)
        dump.run = lambda arguments: 0
        sys.argv = ["kgroups", "dump", "x"]
        entry_point()
    """
    assert ended(script, INT) == (130, "ready\n", "")


@pytest.mark.parametrize(("number", "said"), [(INT, "goes on\n"), (TERM, "")])
def test_a_signal_ends_the_job_that_the_main_thread_waits_for(number, said):
    script = """
        import threading, time
        from kgroups_spark.spark.interruption import SIGNALS, going_on, interruptible, is_interruption

        done = threading.Event()
        SIGNALS.on_arrival.append(done.set)
        with interruptible():
            try:
                try:
                    print("ready", flush=True)
                    WAITS
                finally:
                    done.wait(600)  # as PySpark for the end of a job
                    raise RuntimeError("the job was cancelled")
            except RuntimeError as error:
                assert is_interruption(error)
                going_on(error)
                assert SIGNALS.received is None
                print("goes on", flush=True)
    """
    _, out, err = ended(script, number)
    assert (out, "KeyboardInterrupt" in err) == (f"ready\n{said}", number == TERM)


def test_interruptible_work_passes_on_its_result_and_its_error():
    from kgroups_spark.spark.interruption import interruptible, run_interruptibly

    def fail():
        raise ValueError("as it is")

    for block in (contextlib.nullcontext, interruptible):
        with block():
            assert run_interruptibly(lambda: 5, fail) == 5
            with pytest.raises(ValueError, match="as it is"):
                run_interruptibly(fail, fail)


def test_a_signal_while_duckdb_is_imported_is_raised_after_it(monkeypatch):
    """Within it, it would abort the process (nanobind), or be dropped."""
    from kgroups_spark.spark.interruption import interruptible
    from kgroups_spark.sql import by_duckdb

    imported = []

    def slowly(name):
        os.kill(os.getpid(), signal.SIGINT)
        imported.append(name)

    monkeypatch.setattr(by_duckdb, "import_module", slowly)
    with interruptible(), pytest.raises(KeyboardInterrupt):
        by_duckdb.DuckDbReader(SimpleNamespace(location="lake")).arrow("SELECT 1")
    assert imported == ["duckdb"]


def test_the_block_restores_the_signal_handlers():
    from kgroups_spark.spark.interruption import interruptible, is_in_force, still_in_force

    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    hook = sys.unraisablehook
    with interruptible():
        assert is_in_force()
        with still_in_force():
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        assert is_in_force()
        with interruptible():
            assert is_in_force()
        assert is_in_force()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert sys.unraisablehook is hook
    with still_in_force():
        assert not is_in_force()
