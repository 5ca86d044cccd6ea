"""Files that people hand to the command: every fault is named with its line."""

from pathlib import Path

import pytest

from sagabus_cli.errors import UsageError
from sagabus_cli.inputs import read_lines


def written(folder: Path, text: str) -> Path:
    path = folder / "orders.jsonl"
    path.write_text(text)
    return path


def test_a_line_names_its_workflow_or_takes_the_one_of_the_option(tmp_path: Path) -> None:
    path = written(
        tmp_path, '{"workflow": "order", "key": "A", "payload": {"x": 1}}\n\n{"key": "B"}\n'
    )
    first, second = read_lines(path, "refund", None)
    assert (first.key, first.workflow, first.payload and first.payload.schema_id) == (
        "A",
        "order",
        "order.v1",
    )
    assert (second.key, second.workflow, second.payload) == ("B", "refund", None)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "empty_file"),
        ('{"key": "A"}\n', "invalid_line"),
        ('{"workflow": "order"}\n', "invalid_line"),
        ('{"workflow": 1, "key": "A"}\n', "invalid_line"),
        ('{"workflow": "order", "key": "A", "key": "B"}\n', "duplicate_key"),
        ('{"workflow": "order", "key": ', "invalid_json"),
    ],
)
def test_a_bad_file_is_a_usage_error(tmp_path: Path, text: str, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_lines(written(tmp_path, text), None, None)
    assert caught.value.code == code
