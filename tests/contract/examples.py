"""The hand-written examples of contracts/examples, as records."""

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # ships no types; used for tests alone

from sagabus_messages import Record

CONTRACTS = Path(__file__).parents[2] / "contracts"


@dataclass(frozen=True)
class Example:
    name: str
    kind: str
    document: dict[str, Any]

    @property
    def expect(self) -> str:
        return str(self.document["expect"])

    def refused_by(self, witness: str) -> bool:
        return witness in self.document["refused_by"]

    @property
    def value(self) -> bytes | None:
        document = self.document
        if document.get("no_value"):
            return None
        if "body_base64" in document:
            return base64.b64decode(document["body_base64"])
        if "body_text" in document:
            return str(document["body_text"]).encode()
        body = dict(document["body"])
        if "pad_to_bytes" in document:
            missing = document["pad_to_bytes"] - len(json.dumps(body).encode())
            body["padding"] = "x" * missing
        return json.dumps(body, ensure_ascii=False).encode()

    @property
    def record(self) -> Record:
        document = self.document
        headers = [(name, value.encode()) for name, value in document["headers"].items()]
        if twice := document.get("repeat_header"):
            headers.append((twice, b"another"))
        key = document.get("key")
        return Record(document["topic"], 0, 0, key and key.encode(), self.value, tuple(headers), 0)


def examples(group: str) -> list[Example]:
    return [
        Example(f"{path.parts[-3]}-{path.stem}", path.parts[-3], json.loads(path.read_text()))
        for path in sorted((CONTRACTS / "examples").glob(f"*/{group}/*.json"))
    ]


def check_against_schema(kind: str, value: bytes | None) -> bool:
    """Whether the committed schema accepts this JSON text."""
    schema = json.loads((CONTRACTS / f"schemas/{kind}.v1.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return bool(jsonschema.Draft202012Validator(schema).is_valid(json.loads(value or b"")))
