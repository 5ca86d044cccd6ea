"""Identity: who asks, what they may do, for which tenants. Knows no web framework."""

from sagabus_orchestrator.api.identity.errors import (
    CHALLENGE,
    IdentityUnavailable,
    PermissionDenied,
    Unauthenticated,
)
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

__all__ = [
    "ALL_TENANTS",
    "CHALLENGE",
    "ENGINE_PERMISSIONS",
    "OPERATION_PERMISSIONS",
    "ROLES",
    "Authenticator",
    "IdentityUnavailable",
    "Permission",
    "PermissionDenied",
    "Principal",
    "Role",
    "TenantScope",
    "Unauthenticated",
    "permissions_of",
]
