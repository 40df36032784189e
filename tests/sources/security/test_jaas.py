"""sasl.jaas.config as Kafka 4.3 parses it."""

from __future__ import annotations

import pytest

from kgroups_spark.cluster.security import BadClientProperty, LoginModule, login_module


@pytest.mark.parametrize(
    ("config", "class_name", "options"),
    [
        ("a.B required;", "a.B", {}),
        ('a.B required username="alice" password="hush";', "a.B", {"username": "alice", "password": "hush"}),
        ("a.B REQUIRED\n  username=alice\n\tpassword='hu sh'\n;", "a.B", {"username": "alice", "password": "hu sh"}),
        ('a.B required password="a\\"b\\\\c;=/ #" ;', "a.B", {"password": 'a"b\\c;=/ #'}),
        (r'a.B required password="\101\60\7x\n";', "a.B", {"password": "A0\ax\n"}),
        ('a.B required /* one */ x="1" // two\n y="2" / three\n;', "a.B", {"x": "1", "y": "2"}),
        (
            'a.B required doNotPrompt=true keyTab="/a/b" x=a-b_c$d.e9;',
            "a.B",
            {"doNotPrompt": "true", "keyTab": "/a/b", "x": "a-b_c$d.e9"},
        ),
        ('"a.B" sufficient x="" ssl.truststore.type="PEM";', "a.B", {"x": "", "ssl.truststore.type": "PEM"}),
        ("kafkashaded.org.apache.X required;", "org.apache.X", {}),
    ],
)
def test_class_and_options(config, class_name, options):
    assert login_module(config) == LoginModule(class_name, options)


@pytest.mark.parametrize(
    "config",
    [
        "",
        "/* s3cret */",
        "a.B",
        'a.B username="x";',
        "a.B required s3cret",
        'a.B required username="x" password="s3cret"',
        'a.B required username="x" password=;',
        "a.B required password=5ecret;",
        "a.B required password=s3cret/x;",
        'a.B required password="s3"cret";',
        'a.B required password="s3cret;',
        'a.B required x="1"; a.C required password="s3cret";',
    ],
)
def test_a_broken_text_is_refused_and_not_shown(config):
    with pytest.raises(BadClientProperty, match="is not one login module: it is a line like") as caught:
        login_module(config)
    assert "s3" not in str(caught.value)
    assert "cret" not in str(caught.value)


def test_the_repr_of_a_login_module_shows_no_option():
    assert repr(login_module('a.B required password="hush";')) == "LoginModule(class_name='a.B')"
