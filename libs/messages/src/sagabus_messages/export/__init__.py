"""Contract export: everything under contracts/ that is generated, as bytes by relative path.

`python -m sagabus_messages.export contracts` writes it. The same code gives the same bytes, on
every machine and on every day; a test holds the committed files equal to it.
"""

from __future__ import annotations

from sagabus_messages.export.asyncapi import asyncapi_document
from sagabus_messages.export.definition import definition_schema
from sagabus_messages.export.schemas import message_schemas
from sagabus_messages.export.text import json_text
from sagabus_messages.export.topics import topics_json, topics_page
from sagabus_messages.export.vectors import vector_files

__all__ = ["render"]


def render() -> dict[str, str]:
    """Return the text of every generated contract file by its path below contracts/."""
    files: dict[str, str] = {}
    for kind, schema in message_schemas().items():
        files[f"schemas/{kind}.v1.json"] = json_text(schema)
    files["schemas/definition.v1.json"] = json_text(definition_schema())
    for name, vectors in vector_files().items():
        files[f"vectors/{name}.json"] = json_text(vectors)
    files["asyncapi.json"] = json_text(asyncapi_document())
    files["topics.json"] = json_text(topics_json())
    files["topics.md"] = topics_page()
    return files
