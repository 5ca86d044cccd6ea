"""Client of sagabus: start sagas and await their outcomes; publish business events."""

from sagabus_client.client import SagabusClient
from sagabus_client.errors import (
    ApiRefused,
    ApiUnreachable,
    ClientError,
    OutcomePending,
    StartNotSent,
    StartUnsendable,
)
from sagabus_client.events import BusinessEvent, publish
from sagabus_client.following import OUTAGE_S, Followed, Patience, StatusChange
from sagabus_client.http import HttpClient
from sagabus_client.values import Outcome, SagaHandle, StartCommand

__all__ = [
    "OUTAGE_S",
    "ApiRefused",
    "ApiUnreachable",
    "BusinessEvent",
    "ClientError",
    "Followed",
    "HttpClient",
    "Outcome",
    "OutcomePending",
    "Patience",
    "SagaHandle",
    "SagabusClient",
    "StartCommand",
    "StartNotSent",
    "StartUnsendable",
    "StatusChange",
    "publish",
]
