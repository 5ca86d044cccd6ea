"""Outages are retried, what a message causes is not, and a lost commit is neither."""

import ssl

import asyncpg
import pytest

from sagabus_runtime import InjectedFault
from sagabus_store import (
    CommitUnknown,
    PartitionMissing,
    StoreError,
    StoreMisconfigured,
    StoreRejected,
    StoreUnavailable,
    translated,
)
from sagabus_store.errors import translate, translate_commit


def postgres_error(sqlstate: str, constraint: str | None = None) -> Exception:
    fields = {"S": "ERROR", "C": sqlstate, "M": "text"} | ({"n": constraint} if constraint else {})
    error: Exception = asyncpg.PostgresError.new(fields)
    return error


def lost_by(cause: Exception) -> Exception:
    error: Exception = asyncpg.ConnectionDoesNotExistError("connection was closed")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "sqlstate",
    [
        "08006",
        "25P03",
        "40001",
        "40P01",
        "42P01",
        "53300",
        "55P03",
        "57014",
        "57P01",
        "58030",
        "XX000",
        "F0000",
    ],
)
def test_what_says_nothing_about_a_message_is_an_outage(sqlstate: str) -> None:
    for error in (postgres_error(sqlstate), InjectedFault("c", "d", sqlstate)):
        found = translate(error)
        assert type(found) is StoreUnavailable
        assert found.retryable


@pytest.mark.parametrize(
    "error",
    [
        postgres_error("28P01"),
        postgres_error("28000"),
        postgres_error("3D000"),
        ssl.SSLCertVerificationError(1, "certificate verify failed"),
        ssl.SSLError(1, "sslv3 alert bad certificate"),
        ConnectionError('PostgreSQL server at "a:1" rejected SSL upgrade'),
        asyncpg.ClientConfigurationError("`sslmode` parameter must be one of: ..."),
        lost_by(ssl.SSLError(1, "tlsv1 alert unknown ca")),
    ],
    ids=repr,
)
def test_being_turned_away_is_told_from_an_outage_and_held_like_one(error: Exception) -> None:
    found = translate(error)
    assert isinstance(found, StoreMisconfigured)
    assert (found.code, found.retryable) == ("store_misconfigured", True)


@pytest.mark.parametrize(
    "error",
    [
        ssl.SSLEOFError(8, "EOF"),
        ConnectionResetError(),
        lost_by(ssl.SSLEOFError(8, "EOF")),
        lost_by(ConnectionResetError()),
    ],
    ids=repr,
)
def test_a_handshake_that_was_cut_off_is_an_outage(error: Exception) -> None:
    assert type(translate(error)) is StoreUnavailable


@pytest.mark.parametrize("sqlstate", ["22021", "22003", "23505", "23502", "54000", "P0001"])
def test_what_the_data_causes_is_rejected(sqlstate: str) -> None:
    found = translate(postgres_error(sqlstate, "some_key"))
    assert isinstance(found, StoreRejected)
    assert (found.sqlstate, found.constraint, found.retryable) == (sqlstate, "some_key", False)


def test_a_row_without_a_partition_is_no_poison() -> None:
    assert isinstance(translate(postgres_error("23514")), PartitionMissing)
    assert isinstance(translate(postgres_error("23514", "outbox_shard_check")), StoreRejected)


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError(),
        TimeoutError(),
        EOFError(),
        asyncpg.InterfaceError("connection is closed"),
        asyncpg.ConnectionDoesNotExistError("connection was closed"),
        postgres_error("57P01"),
        postgres_error("40003"),
    ],
)
def test_a_connection_lost_while_committing_leaves_the_outcome_unknown(error: Exception) -> None:
    assert type(translate(error)) is StoreUnavailable
    assert type(translate_commit(error)) is CommitUnknown


def test_a_commit_that_postgres_refuses_did_not_happen() -> None:
    assert type(translate_commit(postgres_error("40001"))) is StoreUnavailable
    assert type(translate_commit(postgres_error("23503", "fk"))) is StoreRejected


def test_other_errors_pass_and_the_cause_is_kept() -> None:
    own = StoreError("c", "d")
    for error in (KeyError("bug"), own):
        with pytest.raises(type(error)) as caught, translated():
            raise error
        assert caught.value is error
    cause = ConnectionResetError()
    with pytest.raises(StoreUnavailable) as wrapped, translated():
        raise cause
    assert wrapped.value.__cause__ is cause


def test_a_write_to_a_transport_that_just_closed_is_an_outage_and_no_other_runtime_error() -> None:
    closed = RuntimeError("unable to perform operation on <TCPTransport>; the handler is closed")
    assert type(translate(closed)) is StoreUnavailable
    assert type(translate_commit(closed)) is CommitUnknown
    assert translate(RuntimeError("a bug in a handler")) is None
