"""The scripts of the kit in memory, played on real servers: scripted handlers, a faulty network."""

from sagabus_testkit.live.bridge import FaultyBridge
from sagabus_testkit.live.part import Part
from sagabus_testkit.live.participant import LiveParticipant

__all__ = ["FaultyBridge", "LiveParticipant", "Part"]
