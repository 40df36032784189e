"""The cases that `make test` takes out of many."""

from __future__ import annotations

import pytest

from tests.chosen import IN_TURN, VARIABLE, Chosen, is_its_turn

CASES = list(range(100))


@pytest.fixture(autouse=True)
def seed_seven(monkeypatch):
    monkeypatch.setenv(VARIABLE, "7")


def test_the_choice_depends_on_the_seed_and_the_test(monkeypatch):
    taken = Chosen("a test", every=False).some(CASES, 5)
    assert len(taken) == 5 and taken == sorted(taken)
    assert Chosen("a test", every=False).some(CASES, 5) == taken
    assert Chosen("another test", every=False).some(CASES, 5) != taken
    monkeypatch.setenv(VARIABLE, "8")
    assert Chosen("a test", every=False).some(CASES, 5) != taken


def test_a_soak_takes_all_cases():
    assert Chosen("a test", every=True).some(CASES, 5, always=[3]) == CASES
    assert Chosen("a test", every=True).one(CASES) in CASES


def test_some_cases_are_always_taken_and_few_cases_are_enough():
    taken = Chosen("a test", every=False).some(CASES, 1, always=[3, 97])
    assert {3, 97} < set(taken) and len(taken) == 3
    assert Chosen("a test", every=False).some([1, 2], 5) == [1, 2]


def test_a_failing_test_shows_what_was_chosen(capsys):
    taken = Chosen("a test", every=False).some(CASES, 2)
    assert capsys.readouterr().out == f"{VARIABLE}=7 chose: {taken}\n"


def test_a_share_of_cases_that_come_one_by_one_is_taken():
    chosen = Chosen("a test", every=False)
    taken = [chosen.takes(0.2) for _ in CASES]
    assert 5 < sum(taken) < 40
    every = Chosen("a test", every=True)
    assert all(every.takes(0.2) for _ in CASES)


def test_make_test_runs_one_test_of_each_line_in_turn(monkeypatch):
    for line in IN_TURN:
        taken = set()
        for number in range(30):
            monkeypatch.setenv(VARIABLE, str(number))
            (this,) = filter(is_its_turn, line)
            taken.add(this)
        assert taken == {*line}
