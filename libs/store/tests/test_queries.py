"""Every query has a name and a purpose, and a bad file is refused."""

from importlib.resources import files

import pytest

from sagabus_store import Queries, QueryFileError
from sagabus_store.queries import parse_queries


def test_names_purposes_and_texts_are_read() -> None:
    found = parse_queries(
        "-- name: one\n-- First things.\nselect 1\n\n-- name: two\n-- Then.\n-- why\nselect 2\n",
        "x.sql",
    )
    assert [(q.name, q.purpose, q.text) for q in found.values()] == [
        ("one", "First things.", "/* one */ select 1"),
        ("two", "Then.", "/* two */ -- why\nselect 2"),
    ]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("select 1", "no_query_name"),
        ("select 0;\n-- name: one\n-- Why.\nselect 1", "no_query_name"),
        ("-- name: one\nselect 1", "no_query_purpose"),
        ("-- name: one\n--\nselect 1", "no_query_purpose"),
        ("-- name: one\n-- Why.\n", "empty_query"),
        ("-- name: One\n-- Why.\nselect 1", "bad_query_name"),
        ("-- name:\n-- Why.\nselect 1", "bad_query_name"),
        ("-- name: a\n-- Why.\nselect 1\n-- name: a\n-- Why.\nselect 1", "duplicate_query"),
    ],
)
def test_a_file_that_breaks_the_rules_is_refused(text: str, code: str) -> None:
    with pytest.raises(QueryFileError) as caught:
        parse_queries(text, "x.sql")
    assert caught.value.code == code


def test_every_file_of_the_store_keeps_the_rules() -> None:
    folder = files("sagabus_store") / "sql"
    names = [entry.name for entry in folder.iterdir() if entry.name.endswith(".sql")]
    queries = Queries("sagabus_store", *(f"sql/{n}" for n in names if n != "schema.sql"))
    assert len(queries) >= len(names)
    assert all(query.purpose.endswith((".", ")")) for query in queries.catalogue.values())
    parse_queries((folder / "migrations/grants.sql").read_text(), "grants.sql")


def test_a_missing_file_or_a_name_in_two_files_is_refused() -> None:
    with pytest.raises(QueryFileError, match="no_query_file"):
        len(Queries("sagabus_store", "sql/none.sql"))
    with pytest.raises(QueryFileError, match="duplicate_query"):
        len(Queries("sagabus_store", "sql/inbox.sql", "sql/inbox.sql"))
    with pytest.raises(KeyError):
        Queries("sagabus_store", "sql/inbox.sql")["unknown"]
