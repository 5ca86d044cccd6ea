"""Derived ids: equal facts give equal ids, different facts different ones, in every language."""

import json

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from sagabus_core import ids
from sagabus_core.canonical import MAX_SAFE_INTEGER, canonical_bytes, canonical_scalars, sha256_hex
from sagabus_core.errors import InvalidValue
from sagabus_core.vocabulary import Phase

scalars = st.lists(
    st.one_of(
        st.none(),
        st.text(st.characters(exclude_categories=["Cs"])),
        st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER),
    )
)


@given(scalars)
def test_the_fast_form_is_the_canonical_form(values: list[str | int | None]) -> None:
    assert canonical_scalars(values) == rfc8785.dumps(values)


def test_trap_22_a_separator_inside_a_name_never_makes_two_effects_equal() -> None:
    left = ids.effect_id("s", 1, "a.b", Phase.EXECUTE, None)
    right = ids.effect_id("s", 1, "a", Phase.EXECUTE, None)
    assert left != right
    assert ids.saga_id("a/b", "c", "d") != ids.saga_id("a", "b/c", "d")


def test_the_target_tells_apart_what_a_resolve_asks_about() -> None:
    forward = ids.effect_id("s", 1, "a", Phase.RESOLVE, Phase.EXECUTE)
    assert forward != ids.effect_id("s", 1, "a", Phase.RESOLVE, Phase.COMPENSATE)


def test_ids_are_lower_case_uuid_text() -> None:
    value = ids.saga_id("acme", "order", "ORD-1")
    assert value == value.lower()
    assert len(value) == 36


@pytest.mark.parametrize("value", [2**53, -(2**53), float("nan"), float("inf"), "\ud800"])
def test_what_json_cannot_carry_has_no_canonical_form(value: object) -> None:
    with pytest.raises(InvalidValue) as caught:
        canonical_bytes([value])  # type: ignore[list-item]
    assert caught.value.code == "not_canonicalisable"


def test_digest_is_hex_of_sha256() -> None:
    assert sha256_hex(b"").startswith("e3b0c442")


def test_shard_is_stable_and_in_range() -> None:
    assert ids.shard_of(None) == 0
    assert {ids.shard_of(str(n).encode()) for n in range(2000)} == set(range(64))


def test_canonical_bytes_sort_keys() -> None:
    assert canonical_bytes({"b": 1, "a": [True, None]}) == b'{"a":[true,null],"b":1}'
    assert json.loads(canonical_bytes({"b": 1.5})) == {"b": 1.5}
