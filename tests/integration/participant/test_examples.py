"""The example participants as services on real Kafka and Postgres, killed where it hurts."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import httpx
import pytest
from pydantic import SecretStr

from sagabus_bus import KafkaConnection, Publisher, TopicAdmin
from sagabus_core.vocabulary import Phase, ResultStatus
from sagabus_example_cards.app import build as build_cards
from sagabus_example_cards.config import CardsSettings
from sagabus_example_inventory.app import TABLES as INVENTORY_TABLES
from sagabus_example_inventory.app import build as build_inventory
from sagabus_example_inventory.config import InventorySettings
from sagabus_example_inventory.handlers import inventory
from sagabus_example_payment.app import build as build_payment
from sagabus_example_payment.config import PaymentSettings
from sagabus_example_payment.handlers import payment_with
from sagabus_example_payment.processor import CardProcessor
from sagabus_example_shipping.app import TABLES as SHIPPING_TABLES
from sagabus_example_shipping.app import build as build_shipping
from sagabus_example_shipping.config import ShippingSettings
from sagabus_example_shipping.handlers import shipping_with
from sagabus_messages import OutboxRow, Record, Result, Topics
from sagabus_runtime.lifecycle import ExitCode, ServeOptions, Service, serve
from sagabus_testkit import LocalStack, eventually
from sagabus_testkit.faults import dismiss_members

E, C, K, R = Phase.EXECUTE, Phase.CANCEL, Phase.COMPENSATE, Phase.RESOLVE
S: TypeAlias = ResultStatus
Rig: TypeAlias = Any  # the class of conftest.py, which importlib mode cannot import


class Line:
    """Kafka between a test and a participant, one way; answers are read from the outbox."""

    def __init__(self, stack: LocalStack, prefix: str) -> None:
        self.bootstrap, self.prefix = stack.kafka.bootstrap, prefix
        self.connection = KafkaConnection(stack.kafka.bootstrap, "test")
        self.publisher = Publisher(self.connection)

    async def open(self, participant: str) -> None:
        async with TopicAdmin(self.connection) as admin:
            await admin.ensure(Topics(self.prefix).catalogue([participant], partitions=2))

    async def send(self, *records: Record) -> None:
        rows = [OutboxRow(r.topic, r.key, r.headers, r.value) for r in records]
        await self.publisher.publish(rows)


@pytest.fixture
async def line(stack: LocalStack, topic_prefix: str) -> AsyncIterator[Line]:
    opened = Line(stack, f"{topic_prefix}.")
    yield opened
    await opened.publisher.close()


@asynccontextmanager
async def served(service: Service) -> AsyncIterator[None]:
    task = asyncio.create_task(serve(service, ServeOptions(stop_grace_ms=5_000)))
    try:
        yield
    finally:
        service.health.stop.set()
        assert await task is ExitCode.OK


async def told(rig: Rig, count: int) -> dict[str, list[tuple[ResultStatus, str | None]]]:
    async def enough() -> list[Result] | None:
        await rig.answers()
        return rig.heard if len(rig.heard) >= count else None

    results = await eventually(enough, within=60, what=f"{count} answers")
    heard: dict[str, list[tuple[ResultStatus, str | None]]] = {}
    for result in results:
        heard.setdefault(result.business_key, []).append((result.status, result.reason_code))
    return heard


async def test_inventory(line: Line, rig_of: Callable[..., Any], database: str) -> None:
    rig = await rig_of(inventory, "reserve-stock", [INVENTORY_TABLES], line.prefix)
    await line.open("inventory")

    def order(key: str, sku: str) -> Record:
        record: Record = rig.command(E, key=key, payload={"order": key, "sku": sku, "quantity": 2})
        return record

    settings = InventorySettings(
        kafka=line.bootstrap, topic_prefix=line.prefix, postgres=SecretStr(database)
    )
    async with served(build_inventory(settings)):
        await line.send(
            order("a", "widget-1"),
            order("b", "sold-out"),
            order("c", "being-counted"),
            order("d", "no-such"),
        )
        await line.send(rig.command(C, key="c"), rig.command(K, key="a"))
        heard = await told(rig, 5)
    assert heard == {
        "a": [(S.SUCCEEDED, None), (S.SUCCEEDED, None)],
        "b": [(S.REJECTED, "out_of_stock")],
        "c": [(S.CANCEL_CONFIRMED, None)],
        "d": [(S.REJECTED, "unknown_sku")],
    }
    async with rig.db.connection() as conn:
        assert (
            await conn.fetchval("select min(available) from stock where sku <> 'sold-out'") == 10**6
        )


async def test_shipping_calls_back(line: Line, rig_of: Callable[..., Any], database: str) -> None:
    rig = await rig_of(shipping_with(200), "ship", [SHIPPING_TABLES], line.prefix)
    await line.open("shipping")
    settings = ShippingSettings(
        kafka=line.bootstrap,
        topic_prefix=line.prefix,
        postgres=SecretStr(database),
        carrier_delay_ms=200,
    )
    addresses = {"a": "home", "b": "nowhere", "c": "look-up:home", "d": "look-up:nowhere"}
    async with served(build_shipping(settings)):
        await line.send(
            *(
                rig.command(E, key=k, payload={"order": k, "address": a})
                for k, a in addresses.items()
            ),
            rig.command(R, key="e", target=E),
        )
        heard = await told(rig, 7)
    assert heard == {
        "a": [(S.SUCCEEDED, None)],
        "b": [(S.REJECTED, "address_refused")],
        "c": [(S.UNKNOWN, "address_looked_up"), (S.SUCCEEDED, None)],
        "d": [(S.UNKNOWN, "address_looked_up"), (S.REJECTED, "address_refused")],
        "e": [(S.REJECTED, "not_executed")],
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
async def cards_url(stack: LocalStack, topic_prefix: str) -> AsyncIterator[str]:
    dsn = await asyncio.to_thread(stack.postgres.create_database, f"cards_{topic_prefix}")
    port = free_port()
    settings = CardsSettings(postgres=SecretStr(dsn), cards_port=port)
    async with served(build_cards(settings)):
        yield f"http://127.0.0.1:{port}"


async def ledger(url: str) -> dict[str, list[dict[str, Any]]]:
    async with httpx.AsyncClient() as http:
        content: dict[str, list[dict[str, Any]]] = (await http.get(f"{url}/ledger")).json()
        return content


async def payment_rig(line: Line, rig_of: Callable[..., Any], cards_url: str) -> Rig:
    await line.open("payment")
    cards = CardProcessor(cards_url, 1_000)
    rig = await rig_of(payment_with(cards), "charge-card", [], line.prefix)
    await cards.close()
    return rig


def charge(rig: Rig, card: str) -> Record:
    payload = {"order": card, "card": card, "amount_cents": 100}
    record: Record = rig.command(E, key=card, payload=payload)
    return record


async def test_payment(
    line: Line, rig_of: Callable[..., Any], database: str, cards_url: str
) -> None:
    rig = await payment_rig(line, rig_of, cards_url)
    settings = PaymentSettings(
        kafka=line.bootstrap,
        topic_prefix=line.prefix,
        postgres=SecretStr(database),
        cards_url=cards_url,
    )
    cards = ["visa-1", "declined", "lost-answer", "lost-request", "slow-300", "lost-refund-answer"]
    async with served(build_payment(settings)):
        await line.send(*(charge(rig, card) for card in cards))
        first = await told(rig, 6)
        await line.send(
            rig.command(R, key="lost-answer", target=E),
            rig.command(R, key="lost-request", target=E),
            rig.command(K, key="visa-1"),
            rig.command(K, key="lost-refund-answer"),
        )
        await told(rig, 10)
        await line.send(rig.command(R, key="lost-refund-answer", target=K))
        heard = await told(rig, 11)
    assert first["slow-300"] == [(S.SUCCEEDED, None)]
    assert heard["declined"] == [(S.REJECTED, "card_declined")]
    assert heard["lost-answer"] == [(S.UNKNOWN, "card_answer_lost"), (S.SUCCEEDED, None)]
    assert heard["lost-request"] == [(S.UNKNOWN, "card_answer_lost"), (S.REJECTED, "never_charged")]
    assert heard["visa-1"] == [(S.SUCCEEDED, None), (S.SUCCEEDED, None)]
    assert [s for s, _ in heard["lost-refund-answer"]] == [S.SUCCEEDED, S.UNKNOWN, S.SUCCEEDED]
    book = await ledger(cards_url)
    charged = {c["reference"] for c in book["charges"] if c["status"] == "charged"}
    assert charged == {"visa-1", "lost-answer", "slow-300", "lost-refund-answer"}
    assert {r["reference"] for r in book["refunds"]} == {"visa-1", "lost-refund-answer"}


@pytest.mark.parametrize("point", ["after-intent", "after-call", "before-receipt", "after-receipt"])
async def test_payment_killed_at(
    line: Line, rig_of: Callable[..., Any], database: str, cards_url: str, point: str
) -> None:
    rig = await payment_rig(line, rig_of, cards_url)
    environment = {
        **os.environ,
        "SAGABUS_KAFKA": line.bootstrap,
        "SAGABUS_TOPIC_PREFIX": line.prefix,
        "SAGABUS_POSTGRES": database,
        "SAGABUS_CARDS_URL": cards_url,
        "SAGABUS_WORKER_LEASE_MS": "1000",
        "SAGABUS_LOG_LEVEL": "warning",
    }

    def start(failpoints: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "sagabus_example_payment"],
            env={**environment, "SAGABUS_FAILPOINTS": failpoints},
        )

    dying = start(f"participant.{point}=exit@1")
    await line.send(charge(rig, "visa-9"))
    assert await asyncio.to_thread(dying.wait, 60) == 137
    await dismiss_members(line.connection, f"{line.prefix}sagabus.payment.v1")
    alive = start("")
    try:
        heard: list[Result] = []
        await told(rig, 1)
        heard = rig.heard
        await line.send(
            rig.command(
                E, 2, key="visa-9", payload={"order": "x", "card": "visa-9", "amount_cents": 100}
            )
        )
        await told(rig, 2)
    finally:
        alive.terminate()
        assert await asyncio.to_thread(alive.wait, 30) == 0
    assert {r.status for r in heard} == {S.SUCCEEDED}
    (charged,) = (await ledger(cards_url))["charges"]
    assert charged["status"] == "charged"
