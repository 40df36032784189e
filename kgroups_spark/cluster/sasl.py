"""SASL from `sasl.*` properties, for kafka-python: our identity and its proof.

A mechanism needs its own login module in sasl.jaas.config; the module's options have our identity. Kafka 4.3:
org.apache.kafka.common.config.SaslConfigs, org.apache.kafka.common.security.*.

OAUTHBEARER has its tokens from an endpoint or a file. Kafka 3.x has the client's id, secret and scope as options of the
login module, 4.x as properties that come first (KIP-1139); both are taken (OAuthBearerLoginCallbackHandler).
"""

from __future__ import annotations

import importlib.util
import json
import math
import re
import time
from base64 import b64encode, urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, TypeAlias
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from kafka.net.sasl.oauth import AbstractTokenProvider

from kgroups_spark.cluster.security import (
    JAAS_CONFIG,
    SHADED,
    BadClientProperty,
    LoginModule,
    Secrets,
    Tls,
    login_module,
    one_of,
    read_bytes,
    shown,
    tls,
)
from kgroups_spark.errors import KgroupsError, UsageError

# Bearer tokens of SASL/OAUTHBEARER, which each process caches for most of their life.


# The share of a token's life after which a new one is requested: Kafka's default of sasl.login.refresh.window.factor.
USED_LIFE = 0.8


@dataclass(frozen=True)
class Token:
    """A token as it is sent, and its expiry in epoch seconds; None: unknown."""

    text: str = field(repr=False)
    expires_at_s: float | None


# Plain, hashable values with which any process can obtain a token.
TokenSource: TypeAlias = "TokenEndpoint | TokenFile"

_issued: dict[TokenSource, tuple[Token, float]] = {}  # the token, and when to request the next one (epoch seconds)


def current_token(source: TokenSource) -> str:
    """A token with at least a fifth of its life left, a new one if necessary. Raises KgroupsError."""
    now = time.time()
    token, until_s = _issued.get(source, (None, now))
    if token is None or now >= until_s:
        token = source.new_token()
        life_s = 0 if token.expires_at_s is None else token.expires_at_s - now
        _issued[source] = token, now + life_s * USED_LIFE
    return token.text


def issued_secrets(source: TokenSource) -> Secrets:
    """The token of a source that this process has cached."""
    held = _issued.get(source)
    return Secrets((held[0].text,)) if held else Secrets()


def expires_at_s(text: str) -> float | None:
    """The claim `exp` of a JWT, in epoch seconds; None: it has none, it is not a time, or the text is not a JWT."""
    try:
        claims = json.loads(urlsafe_b64decode(text.split(".")[1] + "=="))
        return as_seconds(claims["exp"])
    except (IndexError, KeyError, TypeError, ValueError, RecursionError):
        return None


def as_seconds(value: object) -> float | None:
    """A JSON number as seconds; None: it is not a number, or not a plausible one (NaN, infinite, too large)."""
    try:
        seconds = float(value) if isinstance(value, int | float | str) else math.nan
    except (ValueError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) else None


class BearerTokens(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python asks for this class, without annotations
    """A source of tokens for kafka-python, and the SASL extensions that are sent with each."""

    def __init__(self, source: TokenSource, extensions: Mapping[str, str]) -> None:
        super().__init__()
        self._source = source
        self._extensions = dict(extensions)

    def token(self) -> str:
        """The current token. Raises KgroupsError."""
        return current_token(self._source)

    def extensions(self) -> dict[str, str]:
        return self._extensions


# Tokens of an OAuth endpoint for a client's id and secret (RFC 6749 section 4.4), requested as by Kafka 4.3:
# org.apache.kafka.common.security.oauthbearer.internals.secured.HttpJwtRetriever, ClientSecretRequestFormatter.
# Redirects are not followed: another server would get the secret.


# Kafka's UNRETRYABLE_HTTP_CODES, and redirects.
FINAL_CODES = {400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 413, 414, 415, 501, 505} | set(range(300, 400))
MAX_ANSWER_BYTES = 1 << 20
# Kafka's defaults, in seconds: to connect and for each part of the answer; the first pause; all attempts together.
TIMEOUT, PAUSE, RETRIED_FOR = 10.0, 0.1, 10.0


@dataclass(frozen=True)
class TokenEndpoint:
    """An endpoint for tokens, and our identity there. The text of this object shows no secret."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    tls: Tls | None = None  # None: plain HTTP

    def new_token(self) -> Token:
        """A new token. Retries until the endpoint returns one or refuses, or time is up. Raises KgroupsError."""
        end = time.monotonic() + RETRIED_FOR
        backoff_s = PAUSE
        while True:
            try:
                return self._asked()
            except HTTPError as err:
                with err:
                    problem, is_final = f"HTTP {err.code}{_oauth_error(err)}", err.code in FINAL_CODES
            except URLError as err:
                problem, is_final = str(err.reason), False
            except (OSError, HTTPException) as err:
                problem, is_final = str(err) or type(err).__name__, False
            left_s = end - time.monotonic()
            if is_final or left_s <= 0:
                raise KgroupsError(
                    f"no token from {self.url} (sasl.oauthbearer.token.endpoint.url) for client {self.client_id}: "
                    f"{self.secrets().hide(problem)}"
                )
            time.sleep(min(backoff_s, left_s))
            backoff_s *= 2

    def _asked(self) -> Token:
        form = {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope else {})}
        pair = f"{self.client_id}:{self.client_secret}"
        headers = {
            "Accept": "application/json",
            "Authorization": f"Basic {b64encode(pair.encode()).decode()}",
            "Cache-Control": "no-cache",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        request = Request(self.url, urlencode(form).encode(), headers)
        handlers = [_NoRedirects(), *([HTTPSHandler(context=self.tls.context())] if self.tls else [])]
        with build_opener(*handlers).open(request, timeout=TIMEOUT) as answer:
            body = _json_object(answer.read(MAX_ANSWER_BYTES))
        text = body.get("access_token")
        if not isinstance(text, str) or not text.strip():
            # The answer is not shown, because it may contain other secrets.
            raise KgroupsError(f"{self.url} (sasl.oauthbearer.token.endpoint.url) answered without an access_token")
        life_s = as_seconds(body.get("expires_in"))
        return Token(text.strip(), expires_at_s(text.strip()) or (None if life_s is None else time.time() + life_s))

    def secrets(self) -> Secrets:
        own = Secrets((self.client_secret,))
        return own + self.tls.secrets() if self.tls else own


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def _json_object(content: bytes) -> dict[str, Any]:
    """The answer as a dict; empty if it is not a JSON object."""
    try:
        body = json.loads(content)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _oauth_error(err: HTTPError) -> str:
    """`, invalid_client: Unknown client` from an answer (RFC 6749 section 5.2); empty if the answer has no error."""
    try:
        body = _json_object(err.read(MAX_ANSWER_BYTES))
    except (OSError, HTTPException):
        return ""
    words = [str(body[name]) for name in ("error", "error_description") if body.get(name)]
    return f", {' '.join(': '.join(words).split())[:300]}" if words else ""


# Tokens in a file: sasl.oauthbearer.token.endpoint.url=file:/path.


@dataclass(frozen=True)
class TokenFile:
    """The token that the file had when the properties were read; after its expiry, the file's present one."""

    path: str
    text: str = field(repr=False)

    def new_token(self) -> Token:
        """The token. Raises KgroupsError if it has expired and the file cannot be read."""
        expiry_s = expires_at_s(self.text)
        if expiry_s is None or time.time() < expiry_s:
            return Token(self.text, expiry_s)
        try:
            newer = token_file(self.path).text
        except UsageError as err:
            raise KgroupsError(f"the token first read from {self.path} has expired, and now {err}") from err
        return Token(newer, expires_at_s(newer))

    def secrets(self) -> Secrets:
        return Secrets((self.text,))


def token_file(path: str) -> TokenFile:
    """The token source of the file, which is read now. Raises UsageError, BadClientProperty."""
    content = read_bytes(path, "the file of sasl.oauthbearer.token.endpoint.url")
    text = content.decode("ascii", "replace").strip()
    if not text or len(text.split()) > 1 or not text.isprintable() or not text.isascii():
        raise BadClientProperty(f"the file {path} of sasl.oauthbearer.token.endpoint.url holds no token")
    return TokenFile(path, text)


URL = "sasl.oauthbearer.token.endpoint.url"
CREDENTIALS = "sasl.oauthbearer.client.credentials"
HANDLER = "sasl.login.callback.handler.class"
RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
HANDLERS = (
    f"{PACKAGE}.OAuthBearerLoginCallbackHandler",
    f"{PACKAGE}.secured.OAuthBearerLoginCallbackHandler",
)
RETRIEVERS = tuple(f"{PACKAGE}.{name}JwtRetriever" for name in ("Default", "ClientCredentials", "File"))


def token_source(properties: Mapping[str, str], options: Mapping[str, str], notes: list[str]) -> TokenSource:
    """The source of tokens; `options`: of the login module. Raises BadClientProperty, UsageError (unreadable files)."""
    _require_known_classes(properties)
    url = properties.get(URL)
    if not url:
        raise BadClientProperty(f"OAUTHBEARER needs {URL}: unsecured tokens, for development, are not made here")
    parts = urlsplit(url)
    if parts.scheme.lower() == "file" and parts.path:
        return token_file(unquote(parts.path))
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise BadClientProperty(f"{URL} must be https://host/path, http://... or file:/path, not {shown(url)}")
    if parts.scheme.lower() == "http":
        notes.append(f"{URL} is http: the client's secret is sent in clear text")
    return _endpoint(url, properties, options, notes)


def extensions(options: Mapping[str, str]) -> dict[str, str]:
    """The SASL extensions of a login module's options. Raises BadClientProperty (RFC 7628 section 3.1)."""
    prefix = "extension_"
    found = {name.removeprefix(prefix): value for name, value in options.items() if name.startswith(prefix)}
    for name, value in found.items():
        if not re.fullmatch("[A-Za-z]+", name) or name == "auth" or not re.fullmatch(r"[\x21-\x7e \t\r\n]+", value):
            raise BadClientProperty(f"{JAAS_CONFIG}: extensions have names of letters, not auth, and values of ASCII")
    return found


def _endpoint(url: str, properties: Mapping[str, str], options: Mapping[str, str], notes: list[str]) -> TokenEndpoint:
    def needed(name: str, option: str) -> str:
        value = (properties.get(name) or options.get(option) or "").strip()
        if not value:
            raise BadClientProperty(f"{URL} needs {name}, or {option} as an option in {JAAS_CONFIG}")
        return value

    scope = properties.get("sasl.oauthbearer.scope") or options.get("scope") or ""
    return TokenEndpoint(
        url=url,
        client_id=needed(f"{CREDENTIALS}.client.id", "clientId"),
        client_secret=needed(f"{CREDENTIALS}.client.secret", "clientSecret"),
        scope=scope.strip() or None,
        tls=_tls(options, notes) if url.lower().startswith("https:") else None,
    )


def _tls(options: Mapping[str, str], notes: list[str]) -> Tls:
    """TLS for the endpoint. Its properties are options of the login module, separate from those for the brokers."""
    try:
        return tls({name: value.strip() for name, value in options.items() if name.startswith("ssl.")}, notes)
    except BadClientProperty as err:
        raise BadClientProperty(f"in {JAAS_CONFIG}, for {URL}: {err}") from err


def _require_known_classes(properties: Mapping[str, str]) -> None:
    for name, known in ((HANDLER, HANDLERS), (RETRIEVER, RETRIEVERS)):
        if properties.get(name, known[0]).removeprefix(SHADED) not in known:
            raise BadClientProperty(
                f"{name} is Java and cannot run here, except {', '.join(known)}, which are implemented in Python"
            )


# The mechanisms.


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
            # In SCRAM `=` and `,` are escaped (RFC 5802 section 5.1), which kafka-python 3.0 does not do.
            is_scram = self.mechanism.startswith("SCRAM-")
            escaped = self.username.replace("=", "=3D").replace(",", "=2C")
            settings["sasl_plain_username"] = escaped if is_scram else self.username
            settings["sasl_plain_password"] = self.password
        if self.kerberos_service_name is not None:
            settings["sasl_kerberos_service_name"] = self.kerberos_service_name
        if self.tokens is not None:
            settings["sasl_oauth_token_provider"] = BearerTokens(self.tokens, dict(self.extensions))
        return settings

    def secrets(self) -> Secrets:
        """The password and tokens, including one issued to this process."""
        own = Secrets((self.password,) if self.password is not None else ())
        of_tokens = self.tokens.secrets() + issued_secrets(self.tokens) if self.tokens else Secrets()
        return own + of_tokens


def sasl(properties: Mapping[str, str], notes: list[str]) -> tuple[Sasl, Secrets]:
    """SASL of the properties, and the secrets in them; appends to `notes`. Raises BadClientProperty, UsageError for
    unreadable files."""
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
    has = module.class_name.rpartition(".")[2]
    return f"{start}, but {JAAS_CONFIG} has {has}, which is for {fitting}: set sasl.mechanism={fitting}"


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
    """Raises ValueError with the weakness of the server's first message (RFC 5802 section 5.1); an error (`e=`) is left
    to the mechanism."""
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
