"""Golden vectors, computed again by other means: what another language would do."""

import base64
import hashlib
import json
import uuid
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagabus_core import ids
from sagabus_core.canonical import canonical_bytes
from sagabus_messages import (
    Command,
    Record,
    Result,
    Topics,
    decode,
    parse_instant,
    unpack_headers,
    verify_identity,
)

from .examples import CONTRACTS, check_against_schema

TOPICS = Topics("dev.")


@cache
def vectors(name: str) -> Any:
    return json.loads((CONTRACTS / f"vectors/{name}.json").read_text())


@pytest.mark.parametrize(
    "vector", vectors("ids")["vectors"], ids=lambda v: "-".join(map(str, v["parts"]))
)
def test_ids_are_version_5_over_canonical_arrays(vector: dict[str, Any]) -> None:
    namespace = uuid.UUID(vectors("ids")["namespace"])
    assert json.loads(vector["canonical"]) == vector["parts"]
    digest = bytearray(hashlib.sha1(namespace.bytes + vector["canonical"].encode()).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    assert str(uuid.UUID(bytes=bytes(digest))) == vector["id"]


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(1, 2**53 - 1))
def test_ids_are_what_the_standard_library_derives(saga: str, generation: int) -> None:
    name = json.dumps(["wakeup", saga, generation], ensure_ascii=False, separators=(",", ":"))
    expected = uuid.uuid5(uuid.UUID(vectors("ids")["namespace"]), name)
    assert ids.wakeup_id(saga, generation) == str(expected)


def test_every_derivation_has_a_vector() -> None:
    heads = {vector["parts"][0] for vector in vectors("ids")["vectors"]}
    assert heads == {
        "saga", "effect", "command", "result", "redrive", "wakeup.request", "wakeup", "lifecycle",
        "start-answer", "dead-letter", "trigger",
    }  # fmt: skip


@pytest.mark.parametrize("vector", vectors("canonical"), ids=lambda v: v["name"])
def test_canonical_bytes(vector: dict[str, Any]) -> None:
    assert canonical_bytes(vector["value"]).decode() == vector["canonical"]
    assert hashlib.sha256(vector["canonical"].encode()).hexdigest() == vector["sha256"]


@pytest.mark.parametrize("vector", vectors("shards"), ids=lambda v: str(v["key"]))
def test_shards(vector: dict[str, Any]) -> None:
    key = vector["key"]
    digest = hashlib.sha256(key.encode()).hexdigest() if key is not None else "0" * 16
    assert int(digest[:16], 16) % 64 == vector["shard"]


@pytest.mark.parametrize("vector", vectors("headers"), ids=lambda v: v["packed_hex"][:16])
def test_packed_headers(vector: dict[str, Any]) -> None:
    parts = b""
    for name, value in vector["headers_hex_values"]:
        for text in (name.encode(), bytes.fromhex(value)):
            parts += len(text).to_bytes(4, "big") + text
    assert parts.hex() == vector["packed_hex"]
    headers = unpack_headers(parts)
    assert [[name, value.hex()] for name, value in headers] == vector["headers_hex_values"]


@pytest.mark.parametrize("vector", vectors("instants"), ids=lambda v: v["text"])
def test_instants(vector: dict[str, Any]) -> None:
    at = datetime.strptime(vector["text"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    assert round(at.timestamp() * 1000) == vector["epoch_ms"] == parse_instant(vector["text"])
    assert at.date().isoformat() == vector["inbox_day"]


@pytest.mark.parametrize("vector", vectors("messages"), ids=lambda v: v["name"])
def test_whole_messages(vector: dict[str, Any]) -> None:
    value = base64.b64decode(vector["body_base64"])
    assert value == vector["body_text"].encode()
    assert hashlib.sha256(value).hexdigest() == vector["body_sha256"]
    headers = tuple((name, text.encode()) for name, text in vector["headers"])
    record = Record(vector["topic"], 0, 0, vector["key"].encode(), value, headers, 0)
    envelope = decode(record, TOPICS)
    if isinstance(envelope.body, Command | Result):
        verify_identity(envelope.body)
    assert check_against_schema(envelope.body.kind, value)


def test_payload_text_is_carried_unchanged() -> None:
    texts = [vector["body_text"] for vector in vectors("messages")]
    assert any('"data":{"amount": 12.50, "note":"caf\\u00e9"}}' in text for text in texts)
