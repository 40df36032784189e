"""Secrets taken out of texts."""

from __future__ import annotations

import json
from urllib.parse import quote, quote_plus

import pytest

from kgroups_spark.cluster.security import HIDDEN, Secrets

PASSWORD = 'pä "ss"+/?>\\word\n'


@pytest.mark.parametrize(
    "written",
    [
        PASSWORD,
        repr(PASSWORD),
        repr(PASSWORD.encode()),
        json.dumps(PASSWORD),
        json.dumps(PASSWORD, ensure_ascii=False),
        quote(PASSWORD),
        quote(PASSWORD, safe=""),
        quote_plus(PASSWORD),
    ],
)
def test_a_secret_is_hidden_however_it_is_written(written):
    hidden = Secrets((PASSWORD,)).hide(f"before {written} after")
    assert hidden.startswith("before ")
    assert HIDDEN in hidden
    assert hidden.endswith(" after")
    assert "ss" not in hidden.replace(HIDDEN, "")


def test_a_secret_within_another_is_hidden_with_it():
    assert Secrets(("hush", "hush-hush")).hide("hush-hush, hush!") == f"{HIDDEN}, {HIDDEN}!"


def test_a_short_secret_is_hidden_only_as_a_whole_word():
    assert Secrets(("a",)).hide("a bad password: a, 'a'") == f"{HIDDEN} bad password: {HIDDEN}, '{HIDDEN}'"


@pytest.mark.parametrize("none", [(), ("",), (" ",)])
def test_without_a_secret_a_text_stays_as_it_is(none):
    assert Secrets(none).hide("a b") == "a b"


def test_the_repr_of_secrets_shows_none():
    assert "hush" not in repr(Secrets(("hush",)))
    assert "hush" not in f"{Secrets(('hush',)) + Secrets(('hush',))}"
