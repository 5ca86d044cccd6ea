"""Conditions: typed when published, evaluated alike for ever, errors that name what is wrong."""

import pytest

from sagabus_core.canonical import JsonValue
from sagabus_core.definitions import VariableType
from sagabus_core.errors import ConditionError
from sagabus_expressions import MAX_EXPRESSION_CHARS, CelConditions

TYPES = {
    "amount": VariableType.INTEGER,
    "price": VariableType.NUMBER,
    "sku": VariableType.STRING,
    "gift": VariableType.BOOLEAN,
    "extra": VariableType.JSON,
}
VALUES: dict[str, JsonValue] = {
    "amount": 5,
    "price": 2,
    "sku": "a",
    "gift": True,
    "extra": {"tags": ["x", "y"]},
}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("amount > 3 && sku == 'a'", True),
        ("price > 1.5", True),
        ("price + 1.0 == 3.0", True),
        ("gift", True),
        ("'x' in extra.tags", True),
        ("extra.tags.exists(tag, tag == 'z')", False),
        ("sku.matches('^(b+)+$')", False),
    ],
)
def test_a_valid_condition_has_a_value(expression: str, expected: bool) -> None:
    conditions = CelConditions()
    assert conditions.check(expression, TYPES) == ()
    assert conditions.evaluate(expression, VALUES, TYPES) is expected


@pytest.mark.parametrize(
    ("expression", "part"),
    [
        ("amount > 'a'", "no matching overload"),
        ("amount", "must be a bool"),
        ("nope == 1", "undeclared reference to 'nope'"),
        ("amount >", "Syntax error"),
        ("", "Syntax error"),
        ("true" + " " * MAX_EXPRESSION_CHARS, "1024 characters"),
        ("price > 1", "no matching overload"),
    ],
)
def test_a_bad_condition_is_named_when_it_is_published(expression: str, part: str) -> None:
    (problem, *_) = CelConditions().check(expression, TYPES)
    assert part in problem
    assert " | " not in problem


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("extra.missing > 1", VALUES),
        ("amount > 3", {}),
        ("amount + 9223372036854775807 > 0", VALUES),
        ("amount / 0 == 1", VALUES),
        ("extra.tags == 1 || extra.tags", VALUES),
    ],
)
def test_what_cannot_be_evaluated_is_a_condition_error(
    expression: str, values: dict[str, JsonValue]
) -> None:
    with pytest.raises(ConditionError) as caught:
        CelConditions().evaluate(expression, values, TYPES)
    assert caught.value.code == "condition_error"
