"""SASL from Kafka's properties, as kafka-python's mechanisms use it."""

from __future__ import annotations

import pickle

import pytest
from kafka.net.sasl import get_sasl_mechanism

from kgroups_spark.cluster.sasl import sasl
from kgroups_spark.cluster.security import BadClientProperty

KAFKA = "org.apache.kafka.common.security"
PLAIN = f'{KAFKA}.plain.PlainLoginModule required username="a=b,c" password="h=u,sh";'
SCRAM = PLAIN.replace("plain.Plain", "scram.Scram")
BEARER = f'{KAFKA}.oauthbearer.OAuthBearerLoginModule required extension_a="b";'
KRB5 = "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true"
MSK = "software.amazon.msk.auth.iam.IAMLoginModule required"


def found(mechanism, config=None, **more):
    """SASL as another process unpickles it."""
    properties = {"sasl.mechanism": mechanism, **({"sasl.jaas.config": config} if config else {})}
    return pickle.loads(pickle.dumps(sasl({**properties, **more}, [])[0]))


@pytest.fixture
def every_package(monkeypatch):
    monkeypatch.setattr("kgroups_spark.cluster.sasl.importlib.util.find_spec", lambda name: name)


def first_bytes(settings):
    mechanism = get_sasl_mechanism(settings["sasl_mechanism"])(
        host="localhost", security_protocol="SASL_SSL", **settings
    )
    return mechanism.auth_bytes()


def test_plain_sends_name_and_password():
    settings = found("PLAIN", PLAIN).settings()
    assert settings == {"sasl_mechanism": "PLAIN", "sasl_plain_username": "a=b,c", "sasl_plain_password": "h=u,sh"}
    assert first_bytes(settings) == b"a=b,c\0a=b,c\0h=u,sh"


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_escapes_the_name_as_rfc_5802_wants(mechanism):
    settings = found(mechanism, SCRAM).settings()
    assert first_bytes(settings).startswith(b"n,,n=a=3Db=2Cc,r=")
    assert settings["sasl_plain_password"] == "h=u,sh"


def test_oauthbearer_sends_a_token_and_extensions(tmp_path):
    (tmp_path / "token").write_text("t0ken\n")
    settings = found(
        "OAUTHBEARER", BEARER, **{"sasl.oauthbearer.token.endpoint.url": f"file:{tmp_path}/token"}
    ).settings()
    assert first_bytes(settings) == b"n,,\x01auth=Bearer t0ken\x01a=b\x01\x01"


@pytest.mark.usefixtures("every_package")
def test_kerberos_needs_the_name_of_the_service():
    expected = {"sasl_mechanism": "GSSAPI", "sasl_kerberos_service_name": "kafka"}
    assert found("GSSAPI", **{"sasl.kerberos.service.name": "kafka"}).settings() == expected
    assert found("GSSAPI", f'{KRB5} serviceName="kafka";').settings() == expected
    with pytest.raises(BadClientProperty, match=r"needs sasl\.kerberos\.service\.name=kafka$"):
        found("GSSAPI", f"{KRB5};")
    with pytest.raises(BadClientProperty, match=r"sasl\.kerberos\.service\.name and serviceName in .* differ"):
        found("GSSAPI", f"{KRB5} serviceName=a;", **{"sasl.kerberos.service.name": "b"})
    with pytest.raises(BadClientProperty, match=r"key tables \(useKeyTab\) are not read here: kinit -k -t"):
        found("GSSAPI", f'{KRB5} useKeyTab=true keyTab="/k" serviceName=a;')


@pytest.mark.usefixtures("every_package")
def test_msk_takes_credentials_of_the_environment():
    handler = {"sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler"}
    assert found("AWS_MSK_IAM", f"{MSK};", **handler).settings() == {"sasl_mechanism": "AWS_MSK_IAM"}
    with pytest.raises(BadClientProperty, match="profiles and roles come from the environment: AWS_PROFILE"):
        found("AWS_MSK_IAM", f'{MSK} awsProfileName="x";')


@pytest.mark.parametrize(("mechanism", "package"), [("GSSAPI", "gssapi"), ("AWS_MSK_IAM", "botocore")])
def test_a_mechanism_whose_package_is_missing_says_how_to_install_it(mechanism, package):
    with pytest.raises(BadClientProperty, match=f"not installed: pip install {package}, here and on every machine"):
        found(mechanism, **{"sasl.kerberos.service.name": "kafka"})


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"sasl.mechanism": "SCRAM-SHA512"}, r"sasl\.mechanism must be one of .*; did you mean SCRAM-SHA-512"),
        ({"sasl.mechanism": "PLAIN"}, rf"PLAIN needs sasl\.jaas\.config={KAFKA}\.plain\.PlainLoginModule required"),
        (
            {"sasl.jaas.config": SCRAM},
            r"there is no sasl\.mechanism, which means GSSAPI, but sasl\.jaas\.config has ScramLoginModule, which is "
            "for SCRAM-SHA-256 or SCRAM-SHA-512: set sasl.mechanism=SCRAM-SHA-256 or SCRAM-SHA-512$",
        ),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": 'com.hush.Login required password="hush";'},
            rf"sasl\.mechanism is PLAIN, which needs {KAFKA}\.plain\.PlainLoginModule in sasl\.jaas\.config: its class",
        ),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{KAFKA}.plain.PlainLoginModule required username=x;"},
            r"sasl\.jaas\.config has no password for PLAIN$",
        ),
        (
            {
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'{KAFKA}.plain.PlainLoginModule required password="hush";',
            },
            r"sasl\.jaas\.config has no username for PLAIN$",
        ),
        (
            {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": SCRAM.replace(";", " tokenauth=true;")},
            r"delegation tokens \(tokenauth\) are not supported",
        ),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN, "sasl.login.callback.handler.class": "x.Y"},
            r"^sasl\.login\.callback\.handler\.class is Java and cannot run here: leave it out$",
        ),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN, "sasl.client.callback.handler.class": "x.Y"},
            r"^sasl\.client\.callback\.handler\.class is Java",
        ),
    ],
)
def test_invalid_sasl_properties_are_refused(properties, problem):
    with pytest.raises(BadClientProperty, match=problem) as caught:
        sasl(properties, [])
    assert "hush" not in str(caught.value)
    assert "h=u,sh" not in str(caught.value)
