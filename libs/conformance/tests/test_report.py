"""What a report says besides its verdicts."""

import pytest

from sagabus_conformance import Report


@pytest.mark.parametrize(
    ("tenant", "command"),
    [
        (
            "conformance",
            "discard --where tenant=conformance --reason 'conformance run'",
        ),
        ("acme", "list --where tenant=acme"),
    ],
)
def test_it_names_the_command_for_the_dead_letters_of_a_run(tenant: str, command: str) -> None:
    report = Report("inventory", "reserve-stock", (), 0, 0, tenant)
    assert report.document()["clean_up"] == f"sagabus dlt {command}"
