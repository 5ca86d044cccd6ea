"""Roles, permissions and the scope of a caller."""

import pytest

from sagabus_core.engine import OperationKind
from sagabus_orchestrator.api.identity import (
    ALL_TENANTS,
    ENGINE_PERMISSIONS,
    OPERATION_PERMISSIONS,
    ROLES,
    Permission,
    PermissionDenied,
    Principal,
    Role,
    TenantScope,
    permissions_of,
)

READER = Principal("key:reader", permissions_of(["viewer"]), TenantScope(frozenset({"acme"})))


def test_each_management_operation_has_its_permissions() -> None:
    assert set(OPERATION_PERMISSIONS) == set(OperationKind)
    every = frozenset().union(*OPERATION_PERMISSIONS.values())
    assert every == set(ENGINE_PERMISSIONS.values())


def test_each_role_is_defined_and_the_admin_may_do_everything() -> None:
    assert set(ROLES) == set(Role)
    assert ROLES[Role.ADMIN] == set(Permission)


def test_who_only_looks_may_change_nothing() -> None:
    assert {permission.partition(":")[2] for permission in ROLES[Role.VIEWER]} == {"read", "list"}


def test_who_repairs_does_not_deploy_and_the_other_way_round() -> None:
    assert Permission.DEFINITION_PUBLISH not in ROLES[Role.OPERATOR]
    assert Permission.SAGA_CANCEL not in ROLES[Role.DEVELOPER]
    only_admin = {Permission.SAGA_CLOSE, Permission.QUOTA_SET, Permission.KEY_CREATE}
    assert not any(only_admin & ROLES[role] for role in set(Role) - {Role.ADMIN})


def test_a_role_that_nobody_knows_permits_nothing() -> None:
    assert permissions_of(["root", "Admin", ""]) == frozenset()
    assert permissions_of(["root", "starter"]) == ROLES[Role.STARTER]


def test_a_missing_permission_is_named() -> None:
    READER.require(Permission.SAGA_READ)
    with pytest.raises(PermissionDenied, match="saga:cancel") as refused:
        READER.require(Permission.SAGA_CANCEL)
    assert refused.value.code == "permission_denied"


def test_one_of_several_permissions_opens_the_door() -> None:
    READER.require_any({Permission.SAGA_CANCEL, Permission.SAGA_READ})
    with pytest.raises(PermissionDenied):
        READER.require_any(OPERATION_PERMISSIONS[OperationKind.RETRY])
    with pytest.raises(PermissionDenied):
        READER.require_any(())


def test_a_caller_sees_the_own_tenants_only() -> None:
    assert READER.sees("acme")
    assert not READER.sees("zeta")
    READER.require_tenant("acme")
    with pytest.raises(PermissionDenied):
        READER.require_tenant("zeta")
    with pytest.raises(PermissionDenied):
        READER.require_all_tenants()


def test_no_tenants_are_not_all_tenants() -> None:
    assert "acme" not in TenantScope()
    assert TenantScope().as_filter() == []
    assert "acme" in ALL_TENANTS
    assert ALL_TENANTS.as_filter() is None
