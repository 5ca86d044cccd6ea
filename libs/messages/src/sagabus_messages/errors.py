"""Errors of the message doors.

    SagabusError
    └── MessageError             a record, body or topic name breaks the published contract

None is retryable: the same bytes will never be accepted. A consumer dead-letters the record with
the code as its reason; a producer repairs what it wrote.
"""

from __future__ import annotations

from sagabus_core.errors import SagabusError

__all__ = ["MessageError"]


class MessageError(SagabusError):
    """A message breaks the contract; `code` says which rule and `detail` how to mend it."""
