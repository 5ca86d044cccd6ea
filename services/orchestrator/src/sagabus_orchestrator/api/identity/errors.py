"""Errors of who may do what.

OrchestratorError
├── Unauthenticated          nobody is known to ask this (HTTP 401)
├── PermissionDenied         somebody asks what is not theirs to ask (HTTP 403)
└── IdentityUnavailable      nobody can tell now who asks (HTTP 503, retryable)

What they say is meant for strangers: never which check failed, never whether the thing asked for
exists. The log holds the reason, and no credential.
"""

from __future__ import annotations

from typing import ClassVar, Final

from sagabus_orchestrator.errors import OrchestratorError

__all__ = ["CHALLENGE", "IdentityUnavailable", "PermissionDenied", "Unauthenticated"]

CHALLENGE: Final = 'Bearer realm="sagabus"'
"""Value of the header WWW-Authenticate that RFC 9110 asks of every 401."""


class Unauthenticated(OrchestratorError):
    """The request carries no credential that counts; the same one will not count later either."""


class PermissionDenied(OrchestratorError):
    """The caller is known and may not do this (`permission_denied`), whether or not it exists."""

    recorded: bool = False
    """Whether the audit tells of it already."""


class IdentityUnavailable(OrchestratorError):
    """The keys of the issuer are out of reach and none that is known fits: ask again later."""

    retryable: ClassVar[bool] = True
