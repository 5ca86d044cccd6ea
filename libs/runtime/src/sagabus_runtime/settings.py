"""Settings of a service: one frozen class, read once from the environment, each field documented.

The docstring below a field is its documentation: error messages and `describe` quote it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar, get_args
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, Field, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from sagabus_runtime.errors import SettingsError

__all__ = [
    "ENV_PREFIX",
    "PostgresDsn",
    "PostgresSettings",
    "ServiceSettings",
    "Variable",
    "check_dsn",
    "describe",
    "load",
]

ENV_PREFIX = "SAGABUS_"


_DSN: Final = re.compile(
    r"postgres(ql)?://([^@/?#\s]*@)?(?P<hosts>[^@/?#\s]*)/[^/?#\s]+(\?\S*)?", re.IGNORECASE
)
_FILES: Final = frozenset({"sslrootcert", "sslcert", "sslkey", "sslcrl"})
_HOST: Final = re.compile(r"([A-Za-z0-9._%-]*|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")


def check_dsn(dsn: str) -> str:
    """Return a DSN of a Postgres database if it can be read in one way only.

    Raises ValueError, whose text never holds a part of it: a password with a slash in it would
    else be read as a port, and told in an error of the driver.
    """
    found = _DSN.fullmatch(dsn)
    if found is None or not all(map(_HOST.fullmatch, found["hosts"].split(","))):
        raise ValueError(
            "must look like postgresql://user:password@host:port/database, the characters "
            "/ ? # @ of user and password written as %2F %3F %23 %40"
        )
    for name, value in parse_qsl(urlsplit(dsn).query):
        if name in _FILES and not Path(value).is_file():
            raise ValueError(f"its {name} names no file")
    return dsn


def _check_dsn(value: SecretStr) -> SecretStr:
    check_dsn(value.get_secret_value())
    return value


PostgresDsn = Annotated[SecretStr, AfterValidator(_check_dsn)]


class ServiceSettings(BaseSettings):
    """What every service can be told; services derive from it and from the mix-ins below."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        frozen=True,
        extra="ignore",
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
        validate_default=True,
    )

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level of log lines that are written."""
    log_format: Literal["auto", "json", "console"] = "auto"
    """`json` for machines, `console` for people, `auto`: console on a terminal, else json."""
    health_host: str = "127.0.0.1"
    """Address of the health endpoints; 0.0.0.0 where probes come from outside the container."""
    health_port: int = Field(default=0, ge=0, le=65535)
    """Port of the health endpoints; 0 takes a free one and logs it as `health.listening`."""
    stop_grace_ms: int = Field(default=20_000, ge=0)
    """How long work in hand may take to finish after SIGTERM before it is cancelled."""


class PostgresSettings(ServiceSettings):
    """Settings of a service that owns a Postgres database or schema."""

    postgres: PostgresDsn
    """DSN of the service's database, for example postgresql://user:password@host:5432/orders."""
    postgres_pool_size: int = Field(default=8, ge=1, le=100)
    """Most connections that one process opens."""


@dataclass(frozen=True, slots=True)
class Variable:
    """One environment variable of a settings class, for documentation and `sagabus doctor`."""

    name: str
    required: bool
    default: str
    secret: bool
    meaning: str


def describe(settings: type[ServiceSettings]) -> list[Variable]:
    """Return every variable that `settings` reads, in order of definition."""
    return [
        Variable(
            name=_variable(name),
            required=field.is_required(),
            default="" if field.is_required() else str(field.default),
            secret=_is_secret(field),
            meaning=field.description or "",
        )
        for name, field in settings.model_fields.items()
    ]


S = TypeVar("S", bound=ServiceSettings)


def load(settings: type[S]) -> S:
    """Return the settings that the environment describes.

    Raises `SettingsError` (`invalid_settings`) that names every wrong variable, what is wrong and
    what belongs there. No value of a secret is ever part of it.
    """
    try:
        return settings()
    except ValidationError as cause:
        problems = "; ".join(_problems(settings, cause))
    # Outside the except block: the cause would carry raw values into the traceback.
    raise SettingsError("invalid_settings", problems)


def _problems(settings: type[ServiceSettings], error: ValidationError) -> Iterator[str]:
    for problem in error.errors(include_url=False, include_input=False, include_context=False):
        name = str(problem["loc"][0]) if problem["loc"] else ""
        field = settings.model_fields.get(name)
        meaning = (field.description if field else None) or ""
        yield f"{_variable(name)} {_what_is_wrong(problem)} (meaning: {meaning.rstrip('.')})"


def _what_is_wrong(problem: ErrorDetails) -> str:
    if problem["type"] == "missing":
        return "is not set: set it in the environment"
    message = problem["msg"].removeprefix("Value error, ")
    return f"is wrong: {message[:1].lower()}{message[1:]}"


def _variable(field_name: str) -> str:
    return f"{ENV_PREFIX}{field_name.upper()}"


def _is_secret(field: FieldInfo) -> bool:
    annotation: Any = field.annotation
    return annotation is SecretStr or SecretStr in get_args(annotation)
