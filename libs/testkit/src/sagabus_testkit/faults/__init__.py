"""Faults for a whole running system: what drills and chaos inflict.

Servers and services are killed, stopped and frozen by `LocalStack` and `System` themselves.
"""

from sagabus_testkit.faults.backup import PostgresBackup
from sagabus_testkit.faults.commits import CommitCutter, CommitFate
from sagabus_testkit.faults.disk import SmallDisk
from sagabus_testkit.faults.kafka import (
    add_partitions,
    dismiss_members,
    rebalance_storm,
    rewind_group,
)
from sagabus_testkit.faults.lasting import hold, patiently
from sagabus_testkit.faults.network import DatabaseLine, FaultyNetwork, Line
from sagabus_testkit.faults.records import produce_again, read_records

__all__ = [
    "CommitCutter",
    "CommitFate",
    "DatabaseLine",
    "FaultyNetwork",
    "Line",
    "PostgresBackup",
    "SmallDisk",
    "add_partitions",
    "dismiss_members",
    "hold",
    "patiently",
    "produce_again",
    "read_records",
    "rebalance_storm",
    "rewind_group",
]
