"""A child answers its parent, and how it ended is told where it does not."""

import signal
import threading
import time

import pytest

from aotc.errors import CompileError, InputError, SetupError
from aotc.processes import asking
from aotc.processes.asking import Child, LateError, NoAnswer
from aotc.processes.running import RunningProcesses, run_python

ANSWERING = """
import os, signal, sys, time
from aotc.errors import InputError
from aotc.processes.answering import answer_parent

{first}

def compute(loaded, question):
    if question == "print":
        print("a line on standard output")
        os.write(1, b"bytes of a library" * 1000)
    if question == "refuse":
        raise InputError("bad-name", "expected x", where="m.py:3", hint="say x")
    if question == "hang":
        time.sleep(60)
    if question == "exit":
        sys.exit("a reason")
    if question == "close":
        os.closerange(0, 20)
        time.sleep(60)
    return loaded, question

answer_parent(lambda question: question * 2, lambda loaded: loaded + 1, compute)
"""
DYING = """
import os, signal, sys
from aotc.processes.messages import receive
receive(sys.stdin.buffer)
sys.stdout.buffer.write(b"\\x93aotc" + (100).to_bytes(8, "little") + b"a part")
sys.stdout.flush()
os.kill(os.getpid(), signal.{signal})
"""


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Children that run a text, each ended with the test."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    children = []

    def start(text):
        (tmp_path / "child_of_a_test.py").write_text(text)
        children.append(Child("child_of_a_test"))
        return children[-1]

    yield start
    for child in children:
        child.close()
        assert child._process.poll() is not None


@pytest.fixture
def child(started):
    return started(ANSWERING.format(first=""))


def test_the_first_question_is_what_to_load_and_others_are_asked_of_that(child):
    assert child.ask(4) == 9
    assert child.ask(None) == (8, None)
    assert child.ask("x" * 10**7) == (8, "x" * 10**7)


def test_what_a_library_writes_is_no_answer(child):
    child.ask(4)
    assert child.ask("print") == (8, "print")
    assert child.ask(1, seconds=60) == (8, 1)


def test_errors_of_the_child_are_raised_and_it_goes_on(child):
    child.ask(4)
    with pytest.raises(InputError, match="expected x") as caught:
        child.ask("refuse")
    error = caught.value
    assert (error.code, error.where, error.hint) == ("bad-name", "m.py:3", "say x")
    assert child.ask(1) == (8, 1)


def test_a_child_that_hangs_is_ended(child):
    child.ask(4)
    with pytest.raises(LateError, match=r"did not end within 0\.05 s"):
        child.ask("hang", seconds=0.05)
    assert child.is_stopped


def test_a_child_that_ends_with_a_code_is_told_with_its_last_words(child):
    child.ask(4)
    with pytest.raises(NoAnswer, match="ended with exit code 1") as caught:
        child.ask("exit")
    assert caught.value.code == 1
    assert caught.value.error("'f'").message.endswith("exit code 1: a reason")


def test_a_child_that_closes_its_pipes_is_ended(child, monkeypatch):
    monkeypatch.setattr(asking, "_GRACE", 0.05)
    child.ask(4)
    with pytest.raises(NoAnswer, match="closed its pipe") as caught:
        child.ask("close")
    assert caught.value.code is None


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGKILL"])
def test_a_child_that_dies_in_the_middle_of_a_message_is_told(started, name):
    with pytest.raises(NoAnswer, match=f"died of {name}") as caught:
        started(DYING.format(signal=name)).ask(4)
    assert caught.value.code == -signal.Signals[name]
    error = caught.value.error("'f'", " in 'g'", "m.aotc")
    if name == "SIGKILL":
        assert isinstance(error, SetupError)
        assert error.message.startswith("the process that runs 'f' in 'g' was ended")
    else:
        assert isinstance(error, CompileError)
        assert error.message == "the process that runs 'f' died of SIGSEGV in 'g'"
        assert (error.code, error.where) == ("compiled-code-died", "m.aotc")


@pytest.mark.parametrize("text", ["Hello", "Hi"])
def test_garbage_in_the_place_of_an_answer_is_shown(started, text):
    child = started(ANSWERING.format(first=f"print('{text}', end='', flush=True)"))
    with pytest.raises(NoAnswer, match=f"wrote b'{text}") as caught:
        child.ask(4)
    assert caught.value.error("'f'").code == "compiled-code-died"


def test_a_program_is_run_with_its_input_and_ended_when_its_time_is_up():
    text = "import sys; sys.stderr.write(sys.stdin.read()); print(1); sys.exit(3)"
    done = run_python("-c", text, given=b"words")
    assert (done.code, done.output, done.log) == (3, b"1\n", "words")
    with pytest.raises(TimeoutError, match="took more than 0 s"):
        run_python("-c", "import time; time.sleep(60)", seconds=0.1)


def test_programs_are_stopped_together_and_none_starts_after_that():
    running, text = RunningProcesses(), "import time; time.sleep(60)"
    found = []
    thread = threading.Thread(
        target=lambda: found.append(run_python("-c", text, running=running))
    )
    thread.start()
    while not running.processes:
        time.sleep(0.001)
    running.stop()
    thread.join()
    found.append(run_python("-c", text, running=running))
    assert [each.code for each in found] == [-signal.SIGKILL] * 2
    assert not running.processes
