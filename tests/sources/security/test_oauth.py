"""Tokens of OAuth endpoints and of files."""

from __future__ import annotations

import logging
import pickle
import socket
import ssl
import time
from base64 import b64encode, urlsafe_b64encode

import pytest
import trustme

from kgroups_spark.cluster import sasl as oauth
from kgroups_spark.cluster.sasl import (
    BearerTokens,
    TokenEndpoint,
    current_token,
    extensions,
    issued_secrets,
    token_source,
)
from kgroups_spark.cluster.security import BadClientProperty
from kgroups_spark.errors import KgroupsError, UsageError
from tests.sources.fake_cluster import FakeTime
from tests.sources.security.token_server import fresh_jwt, jwt, token_server

OPTIONS = {"clientId": "me", "clientSecret": "hu:sh +"}
URL = "sasl.oauthbearer.token.endpoint.url"
KAFKA = "org.apache.kafka.common.security.oauthbearer"
CREDENTIALS = "sasl.oauthbearer.client.credentials"


@pytest.fixture(autouse=True)
def nothing_issued_and_no_proxy(monkeypatch):
    monkeypatch.setattr(oauth, "_issued", {})
    monkeypatch.setattr(oauth, "PAUSE", 0.001)
    monkeypatch.setattr(oauth, "RETRIED_FOR", 0.01)
    monkeypatch.setenv("no_proxy", "localhost")


def endpoint(url, properties=(), options=OPTIONS):
    """The token source as another process unpickles it."""
    return pickle.loads(pickle.dumps(token_source({**dict(properties), URL: url}, options, [])))


def test_a_token_is_requested_as_kafkas_client_does():
    token = fresh_jwt()
    with token_server({"access_token": token}) as server:
        assert current_token(endpoint(server.url)) == token
    ((headers, body),) = server.asked
    assert headers["Authorization"] == f"Basic {b64encode(b'me:hu:sh +').decode()}"
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert headers["Accept"] == "application/json"
    assert body == "grant_type=client_credentials"


def test_properties_of_kafka_4_come_before_options_of_the_login_module():
    properties = {
        f"{CREDENTIALS}.client.id": "m e",
        f"{CREDENTIALS}.client.secret": "ö&",
        "sasl.oauthbearer.scope": "read write",
    }
    with token_server({"access_token": fresh_jwt()}) as server:
        current_token(endpoint(server.url, properties, {**OPTIONS, "scope": "x"}))
    ((headers, body),) = server.asked
    assert headers["Authorization"] == f"Basic {b64encode('m e:ö&'.encode()).decode()}"
    assert body == "grant_type=client_credentials&scope=read+write"


def test_a_token_is_kept_until_four_fifths_of_its_life_are_over(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    first, second = jwt(exp=1100), jwt(exp=1280)
    with token_server({"access_token": first}, {"access_token": second, "expires_in": 5}) as server:
        source = endpoint(server.url)
        got = []
        for now[0] in (1000.0, 1079.9, 1080.0, 1239.0):
            got.append(current_token(source))
    assert got == [first, first, second, second]
    assert issued_secrets(source).hide(f"Bearer {second}") == "Bearer [hidden]"


def test_a_token_that_is_no_jwt_lives_as_long_as_the_answer_says(monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    with token_server({"access_token": "opaque", "expires_in": 50}, {"access_token": "later"}) as server:
        source = endpoint(server.url)
        assert [current_token(source), current_token(source)] == ["opaque", "opaque"]
        monkeypatch.setattr(time, "time", lambda: 1050.0)
        # Nothing says how long these tokens live: each connection asks for one of its own.
        assert [current_token(source), current_token(source)] == ["later", "later"]
    assert len(server.asked) == 3


def test_transient_http_errors_are_retried(monkeypatch):
    monkeypatch.setattr(oauth, "RETRIED_FOR", 10)
    with token_server((503, "busy"), (500, "broken"), {"access_token": "t"}) as server:
        assert current_token(endpoint(server.url)) == "t"
    assert len(server.asked) == 3


def test_attempts_end_when_their_time_is_over(monkeypatch):
    clock = FakeTime()
    monkeypatch.setattr(oauth, "time", clock)
    with token_server((503, "busy")) as server, pytest.raises(KgroupsError, match=r"for client me: HTTP 503$"):
        current_token(endpoint(server.url))
    assert clock.slept == pytest.approx([0.001, 0.002, 0.004, 0.003])  # 10 ms together
    assert len(server.asked) == 5


@pytest.mark.parametrize("exp", ["1e400", "NaN", "-Infinity", "1" + "0" * 400, '"x"', "null", "[1]", "true"])
def test_an_invalid_expiry_time_is_ignored(exp):
    text = "h." + urlsafe_b64encode(f'{{"exp":{exp}}}'.encode()).decode().rstrip("=") + ".s"
    assert oauth.expires_at_s(text) in (None, 1.0)
    with token_server(f'{{"access_token": "t", "expires_in": {exp}}}') as server:
        source = endpoint(server.url)
        assert (current_token(source), current_token(source)) == ("t", "t")
        assert source.new_token().expires_at_s is None or exp == "true"


def test_a_refusal_is_not_retried_and_quotes_the_server_without_the_secret():
    said = {"error": "invalid_client", "error_description": "no client me with\n hu:sh +"}
    with token_server((401, said)) as server, pytest.raises(KgroupsError) as caught:
        current_token(endpoint(server.url))
    assert str(caught.value) == (
        f"no token from {server.url} (sasl.oauthbearer.token.endpoint.url) for client me: HTTP 401, invalid_client: "
        "no client me with [hidden]"
    )
    assert len(server.asked) == 1


def test_a_redirect_is_not_followed():
    with (
        token_server({"access_token": "t"}) as other,
        token_server((302, "", {"Location": other.url})) as server,
        pytest.raises(KgroupsError, match=r"HTTP 302$"),
    ):
        current_token(endpoint(server.url))
    assert (len(server.asked), len(other.asked)) == (1, 0)


@pytest.mark.parametrize("said", ["", "<html>", "[]", {"token": "t0ken"}, {"access_token": " "}, {"access_token": 1}])
def test_an_answer_without_a_token_is_not_shown(said):
    with token_server(said) as server, pytest.raises(KgroupsError, match=r"answered without an access_token$"):
        current_token(endpoint(server.url))


def test_an_absent_or_silent_endpoint_gives_no_token(monkeypatch):
    monkeypatch.setattr(oauth, "TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://localhost:{silent.getsockname()[1]}/token"
        with pytest.raises(KgroupsError, match=f"^no token from {url} .*timed out$"):
            current_token(endpoint(url))
    with pytest.raises(KgroupsError, match=r"Connection refused$"):
        current_token(endpoint(url))


def test_the_endpoints_certificate_is_checked_by_options_of_the_login_module():
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority.cert_pem.bytes().decode()}
    with token_server({"access_token": "t"}, context=context) as server:
        with pytest.raises(KgroupsError, match="unable to get local issuer certificate"):
            current_token(endpoint(server.url, trust))  # properties are for the brokers
        assert current_token(endpoint(server.url, {}, {**OPTIONS, **trust})) == "t"


def test_a_token_file_is_read_again_once_its_token_has_expired(tmp_path, monkeypatch):
    file = tmp_path / "to ken.jwt"
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    first, second = jwt(exp=1100), jwt(exp=1200)
    file.write_text(f"{first}\n")
    source = endpoint(f"file://{str(file).replace(' ', '%20')}", options={})
    file.write_text(second)
    assert current_token(source) == first
    # It has expired: the file has a newer one.
    monkeypatch.setattr(time, "time", lambda: 1100.0)
    assert current_token(source) == second
    monkeypatch.setattr(time, "time", lambda: 1300.0)
    file.unlink()
    with pytest.raises(KgroupsError, match=r"has expired, and now the file .* cannot be read: No such"):
        current_token(source)


@pytest.mark.parametrize("content", [b"", b" \n", b"two words", b"\xff\xfe"])
def test_a_file_without_a_token_is_refused(tmp_path, content):
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(BadClientProperty, match=r"token of sasl\.oauthbearer\.token\.endpoint\.url holds no token"):
        endpoint(f"file:{tmp_path}/token")


@pytest.mark.parametrize(
    ("properties", "options", "problem"),
    [
        ({}, {"unsecuredLoginStringClaim_sub": "me"}, rf"needs {URL}: unsecured tokens, for development, are not made"),
        ({URL: "idp.example.com/token"}, OPTIONS, r"must be https://host/path, .* not 'idp\.example\.com/token'"),
        ({URL: "https://me:hu:sh@idp.example.com"}, OPTIONS, "not a value of 32 characters that is not shown"),
        ({URL: "https:///token"}, OPTIONS, "must be https://host/path"),
        (
            {URL: "https://idp"},
            {"clientSecret": "hu:sh"},
            rf"needs {CREDENTIALS}\.client\.id, or clientId as an option",
        ),
        ({URL: "https://idp"}, {"clientId": "me"}, rf"needs {CREDENTIALS}\.client\.secret, or clientSecret"),
        (
            {URL: "https://idp"},
            {**OPTIONS, "ssl.truststore.location": "/no/such.pem", "ssl.truststore.type": "PEM"},
            r"ssl\.truststore\.location /no/such\.pem cannot be read",
        ),
        (
            {URL: "https://idp"},
            {**OPTIONS, "ssl.truststore.certificates": "x"},
            r"in sasl\.jaas\.config, for sasl\.oauthbearer\.token\.endpoint\.url: ssl\.truststore\.certificates has no",
        ),
        (
            {"sasl.login.callback.handler.class": "io.x.Handler"},
            OPTIONS,
            r"handler\.class is Java and cannot run here",
        ),
        (
            {"sasl.oauthbearer.jwt.retriever.class": f"{KAFKA}.JwtBearerJwtRetriever"},
            OPTIONS,
            r"retriever\.class is Java and cannot run here",
        ),
    ],
)
def test_invalid_token_properties_are_refused(properties, options, problem):
    with pytest.raises(UsageError, match=problem) as caught:
        token_source(properties, options, [])
    assert "hu:sh" not in str(caught.value)


@pytest.mark.parametrize(
    "options", [{"extension_auth": "x"}, {"extension_a1": "x"}, {"extension_a": "\x01"}, {"extension_a": "ä"}]
)
def test_extensions_that_would_break_the_message_are_refused(options):
    with pytest.raises(BadClientProperty, match="extensions have names of letters"):
        extensions(options)


def test_a_secret_sent_in_the_clear_is_noted():
    notes = []
    token_source({URL: "http://idp/token"}, OPTIONS, notes)
    assert notes == ["sasl.oauthbearer.token.endpoint.url is http: the client's secret is sent in clear text"]


def test_no_secret_is_printed_or_logged(caplog):
    caplog.set_level(logging.DEBUG)
    token = fresh_jwt()
    with token_server({"access_token": token}) as server:
        source = endpoint(server.url)
        current_token(source)
    with pytest.raises(KgroupsError):
        TokenEndpoint(server.url, "me", "hu:sh +").new_token()
    shown = repr(source) + repr(BearerTokens(source, {})) + caplog.text + repr(source.new_token)
    assert "hu:sh" not in shown
    assert token not in shown
