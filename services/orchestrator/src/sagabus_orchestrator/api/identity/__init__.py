"""Identity: who asks, what they may do, for which tenants. Knows no web framework."""

from sagabus_orchestrator.api.identity.authenticator import HeaderAuthenticator, open_authenticator
from sagabus_orchestrator.api.identity.config import IdentitySettings, OidcIssuer
from sagabus_orchestrator.api.identity.errors import (
    CHALLENGE,
    IdentityUnavailable,
    PermissionDenied,
    Unauthenticated,
)
from sagabus_orchestrator.api.identity.jwks import SigningKeys
from sagabus_orchestrator.api.identity.key_text import KeyText, read_key_text
from sagabus_orchestrator.api.identity.key_verifier import KeyVerifier
from sagabus_orchestrator.api.identity.keys import ApiKey, ApiKeys, KeyRequest
from sagabus_orchestrator.api.identity.permissions import (
    ENGINE_PERMISSIONS,
    OPERATION_PERMISSIONS,
    ROLES,
    Permission,
    Role,
    permissions_of,
)
from sagabus_orchestrator.api.identity.principal import (
    ALL_TENANTS,
    Authenticator,
    Principal,
    TenantScope,
)
from sagabus_orchestrator.api.identity.standing import KeyRights, engine_rights
from sagabus_orchestrator.api.identity.tokens import TokenVerifier

__all__ = [
    "ALL_TENANTS",
    "CHALLENGE",
    "ENGINE_PERMISSIONS",
    "OPERATION_PERMISSIONS",
    "ROLES",
    "ApiKey",
    "ApiKeys",
    "Authenticator",
    "HeaderAuthenticator",
    "IdentitySettings",
    "IdentityUnavailable",
    "KeyRequest",
    "KeyRights",
    "KeyText",
    "KeyVerifier",
    "OidcIssuer",
    "Permission",
    "PermissionDenied",
    "Principal",
    "Role",
    "SigningKeys",
    "TenantScope",
    "TokenVerifier",
    "Unauthenticated",
    "engine_rights",
    "open_authenticator",
    "permissions_of",
    "read_key_text",
]
