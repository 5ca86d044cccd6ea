"""Which version a start gets: scopes and states of published definitions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from sagabus_core.errors import DefinitionInactive

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
    """Return the definition that a start gets, or raise `DefinitionInactive`.

    The tenant's scope counts if it holds any definition of the workflow, else the global one; a
    draft counts for nothing: publishing one must not stop the starts that run on the global one.
    Without a version: the highest ACTIVE one. With one: it must be ACTIVE or DEPRECATED.
    """
    used = [key for key in published if key.state is not DefinitionState.DRAFT]
    known = [key for key in used if key.workflow == workflow]
    own = [key for key in known if key.tenant == tenant]
    scope = own or [key for key in known if key.tenant is None]
    usable = {DefinitionState.ACTIVE} if version is None else _BY_NAME
    fitting = [k for k in scope if k.state in usable and version in {None, k.version}]
    if not fitting:
        wanted = "an active version" if version is None else f"version {version}"
        raise DefinitionInactive(
            "definition_inactive", f"workflow {workflow!r} has not {wanted} that may start"
        )
    return max(fitting, key=lambda key: key.version)


_BY_NAME = frozenset({DefinitionState.ACTIVE, DefinitionState.DEPRECATED})
