"""SASL from `sasl.*` properties, for kafka-python: our identity and its proof.

A mechanism needs its own login module in sasl.jaas.config; the module's options have our identity. Kafka 4.3:
org.apache.kafka.common.config.SaslConfigs, org.apache.kafka.common.security.*.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kgroups_spark.cluster.oauth import HANDLER, BearerTokens, TokenSource, extensions, issued_secrets, token_source
from kgroups_spark.cluster.property import JAAS_CONFIG, BadClientProperty, LoginModule, Secrets, login_module, one_of

KAFKA = "org.apache.kafka.common.security"
# Mechanism and the login modules that fit it.
MODULES = {
    "PLAIN": (f"{KAFKA}.plain.PlainLoginModule",),
    "SCRAM-SHA-256": (f"{KAFKA}.scram.ScramLoginModule",),
    "SCRAM-SHA-512": (f"{KAFKA}.scram.ScramLoginModule",),
    "OAUTHBEARER": (f"{KAFKA}.oauthbearer.OAuthBearerLoginModule",),
    "GSSAPI": ("com.sun.security.auth.module.Krb5LoginModule", "com.ibm.security.auth.module.Krb5LoginModule"),
    "AWS_MSK_IAM": ("software.amazon.msk.auth.iam.IAMLoginModule",),
}
# Imports of kafka-python, by mechanism.
PACKAGES = {"GSSAPI": "gssapi", "AWS_MSK_IAM": "botocore"}
MSK_HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
# Options of login modules that are not secret; every other option counts as a secret.
PUBLIC_OPTIONS = ("username", "clientId", "scope", "serviceName", "principal", "keyTab", "awsProfileName", "awsRoleArn")
PUBLIC_PREFIXES = (
    "extension_",
    "unsecuredLogin",
    "ssl.truststore.location",
    "ssl.truststore.type",
    "ssl.keystore.type",
)


@dataclass(frozen=True)
class Sasl:
    """Our credentials. The text of this object shows no secret."""

    mechanism: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    kerberos_service_name: str | None = None
    tokens: TokenSource | None = field(default=None, repr=False)
    extensions: tuple[tuple[str, str], ...] = ()

    def settings(self) -> dict[str, Any]:
        """kafka-python's settings sasl_*."""
        settings: dict[str, Any] = {"sasl_mechanism": self.mechanism}
        if self.username is not None:
            settings["sasl_plain_username"] = self._sent_username(self.username)
            settings["sasl_plain_password"] = self.password
        if self.kerberos_service_name is not None:
            settings["sasl_kerberos_service_name"] = self.kerberos_service_name
        if self.tokens is not None:
            settings["sasl_oauth_token_provider"] = BearerTokens(self.tokens, dict(self.extensions))
        return settings

    def _sent_username(self, username: str) -> str:
        """The user name to send. In SCRAM `=` and `,` are escaped (RFC 5802 section 5.1), which kafka-python 3.0 does
        not do."""
        if self.mechanism.startswith("SCRAM-"):
            return username.replace("=", "=3D").replace(",", "=2C")
        return username

    def secrets(self) -> Secrets:
        """The password and tokens, including one issued to this process."""
        own = Secrets((self.password,) if self.password is not None else ())
        of_tokens = self.tokens.secrets() + issued_secrets(self.tokens) if self.tokens else Secrets()
        return own + of_tokens


def sasl(properties: Mapping[str, str], notes: list[str]) -> tuple[Sasl, Secrets]:
    """SASL of the properties, and the secrets in them; appends to `notes`.

    Raises BadClientProperty, UsageError for unreadable files.
    """
    mechanism = one_of("sasl.mechanism", properties.get("sasl.mechanism", "GSSAPI"), MODULES)
    module = _module(mechanism, properties)
    _require_no_java(mechanism, properties)
    _require_package(mechanism)
    options = module.options
    if mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        found = _with_password(mechanism, options)
    elif mechanism == "OAUTHBEARER":
        source = token_source(properties, options, notes)
        found = Sasl(mechanism, tokens=source, extensions=tuple(extensions(options).items()))
    elif mechanism == "GSSAPI":
        found = Sasl(mechanism, kerberos_service_name=_service_name(properties, options))
        notes.append("Kerberos tickets come from the credential cache on each machine that runs tasks: see kinit")
    else:
        found = _msk(options, notes)
    return found, _secrets(options)


def _module(mechanism: str, properties: Mapping[str, str]) -> LoginModule:
    fitting = MODULES[mechanism]
    config = properties.get(JAAS_CONFIG)
    if config is None and mechanism in PACKAGES:
        return LoginModule(fitting[0], {})  # its options are not needed here
    if config is None:
        raise BadClientProperty(
            f"sasl.mechanism {mechanism} needs {JAAS_CONFIG}={fitting[0]} required ...; "
            "(JAAS files of java.security.auth.login.config are not read)"
        )
    module = login_module(config)
    if module.class_name not in fitting:
        raise BadClientProperty(_misfit(mechanism, module, "sasl.mechanism" in properties))
    return module


def _misfit(mechanism: str, module: LoginModule, is_given: bool) -> str:
    start = f"sasl.mechanism is {mechanism}" if is_given else f"there is no sasl.mechanism, which means {mechanism}"
    known = [name for names in MODULES.values() for name in names]
    if module.class_name not in known:
        return f"{start}, which needs {MODULES[mechanism][0]} in {JAAS_CONFIG}: its class is not Kafka's"
    fitting = " or ".join(name for name, modules in MODULES.items() if module.class_name in modules)
    return f"{start}, but {JAAS_CONFIG} has {module.simple_name}, which is for {fitting}: set sasl.mechanism={fitting}"


def _require_no_java(mechanism: str, properties: Mapping[str, str]) -> None:
    if mechanism != "OAUTHBEARER" and HANDLER in properties:
        raise BadClientProperty(f"{HANDLER} is Java and cannot run here: leave it out")
    name = "sasl.client.callback.handler.class"
    if name in properties and (mechanism, properties[name]) != ("AWS_MSK_IAM", MSK_HANDLER):
        raise BadClientProperty(f"{name} is Java and cannot run here: leave it out")


def _require_package(mechanism: str) -> None:
    package = PACKAGES.get(mechanism)
    if package and importlib.util.find_spec(package) is None:
        raise BadClientProperty(
            f"sasl.mechanism {mechanism} needs the Python package {package}, which is not installed: "
            f"pip install {package}, here and on every machine that runs tasks"
        )


def _with_password(mechanism: str, options: Mapping[str, str]) -> Sasl:
    for option in ("username", "password"):
        if not options.get(option):
            raise BadClientProperty(f"{JAAS_CONFIG} has no {option} for {mechanism}")
    if options.get("tokenauth", "").lower() == "true":
        raise BadClientProperty(
            f"{JAAS_CONFIG}: delegation tokens (tokenauth) are not supported; use username and password"
        )
    return Sasl(mechanism, options["username"], options["password"])


def _service_name(properties: Mapping[str, str], options: Mapping[str, str]) -> str:
    """The service name of Kerberos, by the rules of org.apache.kafka.common.security.kerberos.KerberosLogin."""
    if options.get("useKeyTab", "").lower() == "true":
        raise BadClientProperty(
            f"{JAAS_CONFIG}: key tables (useKeyTab) are not read here: kinit -k -t <keyTab> <principal> puts a ticket "
            "into the credential cache, on each machine that runs tasks; then set useTicketCache=true"
        )
    name = "sasl.kerberos.service.name"
    given = {value for value in (properties.get(name), options.get("serviceName")) if value}
    if len(given) != 1:
        raise BadClientProperty(
            f"{name} and serviceName in {JAAS_CONFIG} differ" if given else f"sasl.mechanism GSSAPI needs {name}=kafka"
        )
    return given.pop()


def _msk(options: Mapping[str, str], notes: list[str]) -> Sasl:
    if set(options) & {"awsRoleArn", "awsProfileName"}:
        raise BadClientProperty(
            f"{JAAS_CONFIG}: profiles and roles come from the environment: AWS_PROFILE, or a role of the machine"
        )
    notes.append("botocore finds AWS credentials and the region, on each machine that runs tasks")
    return Sasl("AWS_MSK_IAM")


def _secrets(options: Mapping[str, str]) -> Secrets:
    return Secrets(
        tuple(
            value
            for option, value in options.items()
            if option not in PUBLIC_OPTIONS
            and not option.startswith(PUBLIC_PREFIXES)
            and value.lower() not in ("true", "false")
        )
    )


# Checks of a server's first SCRAM message, as in Kafka's Java client (ScramSaslClient, ScramMechanism 4.3.1).
#
# kafka-python's client accepts one iteration, no salt and no nonce of the server: an attacker impersonating a broker
# would get a proof that can be guessed thousands of times faster.


LEAST_ITERATIONS = 4096

# RFC 5802 section 7. kafka-python also reads `i=+1`, and decodes base64 with anything between, `s=!` as no salt.
_SERVER_FIRST = re.compile(
    rb"r=(?P<nonce>[!-+\--~]+)"
    rb",s=(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)"
    rb",i=(?P<iterations>[0-9]{1,9})"
    rb"(?:,(?![rsi]=)[A-Za-z]=[^,]+)*"
)


def require_strong(client_first: bytes, server_first: bytes) -> None:
    """Raises ValueError with the weakness of the server's first message (RFC 5802 section 5.1).

    An error (`e=`) is left to the mechanism, which sends no proof after it.
    """
    if server_first.startswith(b"e="):
        return
    message = _SERVER_FIRST.fullmatch(server_first)
    if message is None:
        raise ValueError("it is not such a message of RFC 5802")
    iterations, nonce, sent = int(message["iterations"]), message["nonce"], client_first.rpartition(b"r=")[2]
    if iterations < LEAST_ITERATIONS:
        raise ValueError(f"it requests {iterations} iterations, fewer than {LEAST_ITERATIONS}")
    if not nonce.startswith(sent) or nonce == sent:
        raise ValueError("it adds nothing to our nonce")
