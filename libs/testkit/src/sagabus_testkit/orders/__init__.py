"""Orders for the example services: every scenario, and the check that all books agree."""

from sagabus_testkit.orders.load import STUCK, Finished, Pace, run_orders
from sagabus_testkit.orders.quiet import consumer_groups, count_dead_letters, wait_until_quiet
from sagabus_testkit.orders.reconcile import Ending, reconcile
from sagabus_testkit.orders.scenarios import (
    DEFINITION,
    SCENARIOS,
    Order,
    Scenario,
    make_orders,
    scenario,
)
from sagabus_testkit.orders.verdict import Verdict, judge

__all__ = [
    "DEFINITION",
    "SCENARIOS",
    "STUCK",
    "Ending",
    "Finished",
    "Order",
    "Pace",
    "Scenario",
    "Verdict",
    "consumer_groups",
    "count_dead_letters",
    "judge",
    "make_orders",
    "reconcile",
    "run_orders",
    "scenario",
    "wait_until_quiet",
]
