"""Registration: which steps a participant has, checked when they are declared."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypedDict, TypeVar, Unpack, get_type_hints

from pydantic import BaseModel

from sagabus_core.errors import InvalidValue
from sagabus_core.names import check_name
from sagabus_participant.asyncapi import asyncapi_of
from sagabus_participant.errors import RegistrationError
from sagabus_participant.journal import StepRules
from sagabus_participant.step import ExternalStep, LocalStep

__all__ = ["Participant", "RegisteredStep", "StepOptions"]

AnyStep: TypeAlias = LocalStep[Any] | ExternalStep[Any]
M = TypeVar("M", bound=BaseModel)
Handler: TypeAlias = LocalStep[M] | ExternalStep[M]
HandlerClass: TypeAlias = type[LocalStep[M]] | type[ExternalStep[M]]

_WANTED: Final = {"execute": "(self, ctx, order)", "execute_many": "(self, batch)"}
_PARAMETERS: Final = {"execute": 2, "execute_many": 1, "compensate": 1, "cancel": 1, "resolve": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOptions:
    """What a registration may say besides name and input.

    `input_schema` and `output_schema` are the schema ids of the payload contract, by default
    `<participant>.<step>.v1` and `<participant>.<step>.output.v1`. `output` documents what a
    success carries (the AsyncAPI document shows it). `retriable`: the step stands
    after a pivot and must succeed in the end. `idempotent`: the outside applies one key once, so
    that calling again is safe. `invalid_payload`: answer HALTED or REJECTED. `timeout_ms` bounds
    one call of a handler, of `execute_many` as well; the command's own expiry bounds it too.
    """

    input_schema: str | None = None
    output_schema: str | None = None
    output: type[BaseModel] | None = None
    retriable: bool = False
    idempotent: bool = False
    invalid_payload: Literal["halt", "reject"] = "halt"
    timeout_ms: int = 10_000


class _Options(TypedDict, total=False):
    """The fields of `StepOptions`, as keywords of the decorator."""

    input_schema: str | None
    output_schema: str | None
    output: type[BaseModel] | None
    retriable: bool
    idempotent: bool
    invalid_payload: Literal["halt", "reject"]
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class RegisteredStep:
    """A step that passed all checks, with its handlers ready to be called."""

    name: str
    handler: AnyStep
    input: type[BaseModel]
    input_schema: str
    output_schema: str
    rules: StepRules
    options: StepOptions
    executes_many: bool = False
    """Whether a local handler takes several orders at once."""


class Participant:
    """The steps of one participant; everything else of the SDK takes this.

    Nothing happens here besides checking: a wrong declaration raises `RegistrationError` where it
    stands, before any connection is made.
    """

    def __init__(self, name: str) -> None:
        try:
            self.name = check_name(name, "participant")
        except InvalidValue as cause:
            raise RegistrationError(cause.code, cause.detail) from cause
        self._steps: dict[str, RegisteredStep] = {}

    @property
    def steps(self) -> tuple[RegisteredStep, ...]:
        """All registered steps, in the order of their registration."""
        return tuple(self._steps.values())

    def find(self, name: str) -> RegisteredStep | None:
        """Return the step of this name, None where there is none."""
        return self._steps.get(name)

    def asyncapi(self) -> dict[str, Any]:
        """Return the AsyncAPI 3.0 document: both topics, and the payloads of every step."""
        return asyncapi_of(self)

    def step(
        self,
        name: str,
        input: type[M],  # noqa: A002  # it reads as it is meant
        **options: Unpack[_Options],
    ) -> Callable[[HandlerClass[M]], HandlerClass[M]]:
        """Register a handler class that needs no arguments; see `StepOptions` for `options`."""

        def decorate(handler_class: HandlerClass[M]) -> HandlerClass[M]:
            self.add(name, input, handler_class(), StepOptions(**options))
            return handler_class

        return decorate

    def add(
        self, name: str, model: type[M], handler: Handler[M], options: StepOptions
    ) -> RegisteredStep:
        """Register a handler object, for handlers that need a client or a pool."""
        step = _checked(self.name, name, model, handler, options)
        if step.name in self._steps:
            raise RegistrationError("step_registered_twice", f"{self.name} has {name} already")
        self._steps[step.name] = step
        return step


def _checked(
    participant: str, name: str, model: type[BaseModel], handler: AnyStep, options: StepOptions
) -> RegisteredStep:
    try:
        check_name(name, "step")
    except InvalidValue as cause:
        raise RegistrationError(cause.code, cause.detail) from cause
    if not isinstance(handler, LocalStep | ExternalStep):
        raise RegistrationError(
            "wrong_handler_type",
            f"{name}: derive {type(handler).__name__} from LocalStep or ExternalStep",
        )
    if not _is_model(model):
        raise RegistrationError("wrong_input_type", f"{name}: `input` must be a pydantic model")
    local = isinstance(handler, LocalStep)
    if not local and hasattr(handler, "execute_many"):
        raise RegistrationError(
            "wrong_step_options",
            f"{name}: `execute_many` shares a transaction, which an external step has none of",
        )
    for method in _PARAMETERS:
        _check_signature(name, handler, method, model)
    rules = StepRules(
        local=local,
        retriable=options.retriable,
        idempotent=options.idempotent,
        has_compensate=_defines(handler, "compensate"),
        has_cancel=_defines(handler, "cancel"),
        has_resolve=_defines(handler, "resolve"),
    )
    _check_rules(name, rules, options)
    return RegisteredStep(
        name,
        handler,
        model,
        options.input_schema or f"{participant}.{name}.v1",
        options.output_schema or f"{participant}.{name}.output.v1",
        rules,
        options,
        executes_many=local and _defines(handler, "execute_many"),
    )


def _is_model(given: object) -> bool:
    return inspect.isclass(given) and issubclass(given, BaseModel)


def _defines(handler: AnyStep, method: str) -> bool:
    own = getattr(type(handler), method, None)
    return own is not None and own not in {
        getattr(LocalStep, method, None),
        getattr(ExternalStep, method, None),
    }


def _check_rules(name: str, rules: StepRules, options: StepOptions) -> None:
    problem = None
    if rules.retriable and (rules.has_compensate or rules.has_cancel):
        problem = "a retriable step is never cancelled nor compensated: remove those handlers"
    elif rules.retriable and options.invalid_payload == "reject":
        problem = "a retriable step never rejects a payload: use invalid_payload='halt'"
    elif rules.local and (rules.has_cancel or rules.has_resolve):
        problem = "the SDK answers CANCEL and RESOLVE of a local step: remove those handlers"
    elif rules.local and rules.idempotent:
        problem = "`idempotent` is about calls to the outside: a local step needs no such promise"
    elif not rules.local and not (rules.has_resolve or rules.retriable):
        problem = "an external step needs `resolve`: somebody has to find out what became of it"
    if problem is not None:
        raise RegistrationError("wrong_step_options", f"{name}: {problem}")


def _check_signature(name: str, handler: AnyStep, method: str, model: type[BaseModel]) -> None:
    function = getattr(handler, method, None)
    if function is None or not (method == "execute" or _defines(handler, method)):
        return
    where = f"{name}: {type(handler).__name__}.{method}"
    if not inspect.iscoroutinefunction(function):
        raise RegistrationError("wrong_signature", f"{where} must be an `async def`")
    parameters = list(inspect.signature(function).parameters.values())
    wanted = _WANTED.get(method, "(self, ctx)")
    positional = [
        p
        for p in parameters
        if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD} and p.default is p.empty
    ]
    if len(positional) != _PARAMETERS[method] or len(positional) != len(parameters):
        raise RegistrationError("wrong_signature", f"{where} must take exactly {wanted}")
    if method == "execute":
        _check_input(where, function, positional[1].name, model)


def _check_input(
    where: str, function: Callable[..., Any], parameter: str, model: type[BaseModel]
) -> None:
    try:
        hinted = get_type_hints(function).get(parameter, model)
    except NameError:
        return  # names of a local scope cannot be resolved; the type checker saw them
    if not (isinstance(hinted, type) and issubclass(model, hinted)):
        raise RegistrationError(
            "wrong_signature", f"{where} takes {hinted}, but the step's input is {model.__name__}"
        )
