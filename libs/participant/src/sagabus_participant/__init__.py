"""Participant SDK of sagabus: business handlers with exactly-once effects."""

from sagabus_participant.assembly import COMPONENT, Extras, Running, WorkSettings
from sagabus_participant.batches import CommandBatches
from sagabus_participant.callbacks import Callbacks
from sagabus_participant.embedded import EmbeddedParticipant
from sagabus_participant.errors import (
    CallbackError,
    OutputError,
    ParticipantError,
    RegistrationError,
    Transient,
)
from sagabus_participant.outcomes import (
    AlreadyTerminal,
    Cancelled,
    Compensated,
    Confirmed,
    Executed,
    ExecutedLocally,
    Halted,
    Pending,
    Rejected,
    Resolved,
    Succeeded,
    Undone,
    Unknown,
)
from sagabus_participant.registry import Participant, RegisteredStep, StepOptions
from sagabus_participant.retention import Retention
from sagabus_participant.service import ParticipantService, ParticipantSettings
from sagabus_participant.shell import Shell
from sagabus_participant.step import (
    Context,
    ExternalContext,
    ExternalStep,
    LocalContext,
    LocalStep,
)
from sagabus_participant.telemetry import Meters
from sagabus_participant.work import WorkBench
from sagabus_participant.workers import WorkerOptions, Workers

__all__ = [
    "COMPONENT",
    "AlreadyTerminal",
    "CallbackError",
    "Callbacks",
    "Cancelled",
    "CommandBatches",
    "Compensated",
    "Confirmed",
    "Context",
    "EmbeddedParticipant",
    "Executed",
    "ExecutedLocally",
    "ExternalContext",
    "ExternalStep",
    "Extras",
    "Halted",
    "LocalContext",
    "LocalStep",
    "Meters",
    "OutputError",
    "Participant",
    "ParticipantError",
    "ParticipantService",
    "ParticipantSettings",
    "Pending",
    "RegisteredStep",
    "RegistrationError",
    "Rejected",
    "Resolved",
    "Retention",
    "Running",
    "Shell",
    "StepOptions",
    "Succeeded",
    "Transient",
    "Undone",
    "Unknown",
    "WorkBench",
    "WorkSettings",
    "WorkerOptions",
    "Workers",
]
