"""What the suite knows about the step under test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sagabus_conformance.errors import UnfitProfile
from sagabus_core.canonical import JsonValue
from sagabus_core.definitions import StepDefinition, VariableType, parse_definition
from sagabus_core.names import check_name
from sagabus_core.payload import JSON_CONTENT_TYPE, Payload
from sagabus_messages import MessageError, parse_strict

__all__ = ["TENANT", "Profile", "Template", "profile_of_definition"]

PLACEHOLDER = b"${business_key}"

TENANT: Final = "conformance"
"""Of the suite's sagas, unless told otherwise: nobody else's letters are in it."""


@dataclass(frozen=True, slots=True)
class Template:
    """JSON text of a payload; `${business_key}` in it becomes the key of the saga."""

    text: bytes

    def for_key(self, key: str, schema_id: str) -> Payload:
        """Return the payload of one saga."""
        body = self.text.strip().replace(PLACEHOLDER, key.encode())
        return Payload(JSON_CONTENT_TYPE, schema_id, body)

    def checked(self, where: str) -> Template:
        """Return the template. Raises `UnfitProfile` with the code of the fault of its JSON."""
        try:
            parse_strict(self.text)
        except MessageError as error:
            raise UnfitProfile(error.code, f"{where}: {error.detail}") from error
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A step and what it can do.

    `accepted` is a payload that EXECUTE answers SUCCEEDED; `rejected` one that business reasons
    refuse, `unknown` one whose outcome is found out later, `invalid` one of the right schema id
    that breaks its contract: each optional, each opens checks.
    """

    participant: str
    step: str
    accepted: Template
    schema_id: str
    rejected: Template | None = None
    unknown: Template | None = None
    invalid: Template | None = None
    cancellable: bool = False
    compensatable: bool = False
    retriable: bool = False
    unknown_allowed: bool = False
    rejects_invalid_payload: bool = False
    tenant: str = TENANT

    def __post_init__(self) -> None:
        """Refuse what no definition could declare."""
        check_name(self.participant, "participant")
        check_name(self.step, "step")
        if self.retriable and (self.cancellable or self.compensatable or self.rejected):
            raise UnfitProfile(
                "unfit_profile",
                "a retriable step is never cancelled, compensated or finally rejected",
            )


class _AnyCondition:
    """Takes every expression: conditions of choices say nothing about a step."""

    def check(self, expression: str, variables: Mapping[str, VariableType]) -> Sequence[str]:
        del expression, variables
        return ()

    def evaluate(
        self,
        expression: str,
        variables: Mapping[str, JsonValue],
        types: Mapping[str, VariableType],
    ) -> bool:
        del variables, types
        raise UnfitProfile("unfit_profile", f"nothing evaluates {expression!r} here")


def profile_of_definition(base: Profile, document: bytes) -> Profile:
    """Return `base` with what a workflow definition declares about its step.

    Raises `InvalidDefinition`, and `UnfitProfile` where the step is not in it.
    """
    definition = parse_definition(parse_strict(document), _AnyCondition())
    step = definition.steps.get(base.step)
    if step is None or step.participant != base.participant:
        raise UnfitProfile(
            "unfit_profile",
            f"the definition has no step {base.step} of participant {base.participant}",
        )
    return _declared(base, step)


def _declared(base: Profile, step: StepDefinition) -> Profile:
    return replace(
        base,
        schema_id=step.payload.schema_id if step.payload else base.schema_id,
        cancellable=step.cancellable,
        compensatable=step.compensate is not None,
        retriable=step.retriable,
        unknown_allowed=step.unknown_allowed,
        rejects_invalid_payload=step.rejects_invalid_payload,
    )
