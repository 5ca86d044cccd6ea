"""Kafka edge of sagabus: publisher, batch subscriber, dead letters, topic administration."""

from sagabus_bus.admin import EnsuredTopic, GroupMember, GroupState, PartitionLag, TopicAdmin
from sagabus_bus.connection import KafkaConnection
from sagabus_bus.dead_letters import (
    DeadLetter,
    Reason,
    dead_letter_row,
    dead_letter_topic,
    read_dead_letter,
    reason_of,
)
from sagabus_bus.errors import (
    BusError,
    BusMisconfigured,
    BusUnavailable,
    ProducerFenced,
    RecordRefused,
    TopicMismatch,
    TopicUnavailable,
    WorkInterrupted,
    translate,
)
from sagabus_bus.events import BusMetrics, ConsumerEvents, record_fields
from sagabus_bus.excerpt import Excerpt
from sagabus_bus.inspection import TopicInspector
from sagabus_bus.isolation import Poison, isolate
from sagabus_bus.lanes import Blocked, Held, Outcome, Published, Refused, Unacknowledged
from sagabus_bus.ports import BatchHandler, Guard, Pulse, RowPublisher
from sagabus_bus.producing import PublisherOptions, partition_of
from sagabus_bus.publisher import Publisher
from sagabus_bus.security import KafkaSecurity
from sagabus_bus.subscriber import BatchSubscriber, Subscription
from sagabus_bus.tail import Tail
from sagabus_bus.worker import BatchWorker, WorkerOptions

__all__ = [
    "BatchHandler",
    "BatchSubscriber",
    "BatchWorker",
    "Blocked",
    "BusError",
    "BusMetrics",
    "BusMisconfigured",
    "BusUnavailable",
    "ConsumerEvents",
    "DeadLetter",
    "EnsuredTopic",
    "Excerpt",
    "GroupMember",
    "GroupState",
    "Guard",
    "Held",
    "KafkaConnection",
    "KafkaSecurity",
    "Outcome",
    "PartitionLag",
    "Poison",
    "ProducerFenced",
    "Published",
    "Publisher",
    "PublisherOptions",
    "Pulse",
    "Reason",
    "RecordRefused",
    "Refused",
    "RowPublisher",
    "Subscription",
    "Tail",
    "TopicAdmin",
    "TopicInspector",
    "TopicMismatch",
    "TopicUnavailable",
    "Unacknowledged",
    "WorkInterrupted",
    "WorkerOptions",
    "dead_letter_row",
    "dead_letter_topic",
    "isolate",
    "partition_of",
    "read_dead_letter",
    "reason_of",
    "record_fields",
    "translate",
]
