"""Errors of the local stack.

TestkitError                 root of the test kit
└── StackError               a server cannot be found, prepared, started or reached
    └── NotControllable      a fault was asked of a server that this stack did not start
"""

from __future__ import annotations

from sagabus_testkit.errors import TestkitError

__all__ = ["NotControllable", "StackError"]


class StackError(TestkitError):
    """A server of the stack is missing or refuses to work; `detail` names the mending command."""


class NotControllable(StackError):
    """Faults need a server that the stack started itself, not one that the environment names."""
