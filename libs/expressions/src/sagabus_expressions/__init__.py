"""Conditions of sagabus workflows in the Common Expression Language."""

from sagabus_expressions.cel_conditions import MAX_EXPRESSION_CHARS, CelConditions

__all__ = ["MAX_EXPRESSION_CHARS", "CelConditions"]
