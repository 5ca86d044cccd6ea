"""Evidence: who did what and why, pages over it that lose nothing, and the proof of the journal."""

from sagabus_orchestrator.audit.fence import Fence, HeldBack
from sagabus_orchestrator.audit.pages import AuditPage, FactPages, FactsPage, Wanted
from sagabus_orchestrator.audit.trail import LOCAL, Act, By, Trail

__all__ = [
    "LOCAL",
    "Act",
    "AuditPage",
    "By",
    "FactPages",
    "FactsPage",
    "Fence",
    "HeldBack",
    "Trail",
    "Wanted",
]
