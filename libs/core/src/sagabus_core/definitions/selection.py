"""Which version a start gets: scopes and states of published definitions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from sagabus_core.errors import DefinitionInactive, DefinitionUnknown, SagabusError

__all__ = ["DefinitionKey", "DefinitionState", "select_for_start"]


class DefinitionState(StrEnum):
    """Life of a published definition. DRAFT: published, never activated so far."""

    DRAFT = "DRAFT"
    ACTIVE = "ACTIVE"
    DEPRECATED = "DEPRECATED"
    RETIRED = "RETIRED"


@dataclass(frozen=True, slots=True)
class DefinitionKey:
    """Identity and state of one published version; `tenant` None means global."""

    tenant: str | None
    workflow: str
    version: int
    state: DefinitionState


def select_for_start(
    published: Iterable[DefinitionKey], tenant: str, workflow: str, version: int | None
) -> DefinitionKey:
    """Return the definition that a start gets, or raise `DefinitionUnknown`, `DefinitionInactive`.

    The tenant's scope counts if it holds any definition of the workflow, else the global one; a
    draft counts for nothing: publishing one must not stop the starts that run on the global one.
    Without a version: the highest ACTIVE one. With one: it must be ACTIVE or DEPRECATED.
    """
    known = [k for k in published if k.workflow == workflow and k.tenant in {tenant, None}]
    used = [key for key in known if key.state is not DefinitionState.DRAFT]
    scope = [key for key in used if key.tenant == tenant] or used
    usable = {DefinitionState.ACTIVE} if version is None else _BY_NAME
    fitting = [k for k in scope if k.state in usable and version in {None, k.version}]
    if not fitting:
        raise _why_nothing_fits(known, workflow, version)
    return max(fitting, key=lambda key: key.version)


def _why_nothing_fits(
    known: Iterable[DefinitionKey], workflow: str, version: int | None
) -> SagabusError:
    wanted = f"{workflow!r}" if version is None else f"{workflow!r} version {version}"
    states = {f"{k.version} {k.state}" for k in known if version in {None, k.version}}
    if not states:
        return DefinitionUnknown(
            "definition_unknown", f"no workflow {wanted} is published: check name and tenant"
        )
    return DefinitionInactive(
        "definition_inactive",
        f"workflow {wanted} may not start ({', '.join(sorted(states))}): activate a version",
    )


_BY_NAME = frozenset({DefinitionState.ACTIVE, DefinitionState.DEPRECATED})
