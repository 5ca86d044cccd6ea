"""A participant in Java, written against contracts/ alone: vectors, examples, conformance, kill."""

import asyncio
import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from sagabus_bus import KafkaConnection, TopicAdmin
from sagabus_conformance import Plan, Profile, Report, Template, run_suite
from sagabus_messages import Topics
from sagabus_testkit import LocalStack
from sagabus_testkit.stack.cache import build_once, cache_root
from sagabus_testkit.stack.commands import run
from sagabus_testkit.stack.kafka_install import find_java
from sagabus_testkit.stack.process import ProcessControl, ServerCommand

from .support import Books, Killing

ROOT = Path(__file__).parents[2]
JAVA = ROOT / "tests/foreign/java"
BOOKS = "select effect_id::text, count(*)::integer from booking group by effect_id"


def do(*argv: str | Path, within_s: float = 120) -> str:
    done = run(argv, within_s=within_s)
    assert done.returncode == 0, f"{argv[0]} failed: {done.stdout[-2000:]} {done.stderr[-2000:]}"
    return done.stdout


def key_of(*files: Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:8]


def fetch(target: Path) -> None:
    maven = shutil.which("mvn")
    assert maven, "Maven is missing: apt-get install maven"
    options = (f"-DoutputDirectory={target}", "-DincludeScope=runtime")
    pom = str(JAVA / "pom.xml")
    quiet = ("-q", "-B", "-ntp", "-Dstyle.color=never")
    do(maven, *quiet, "-f", pom, "dependency:copy-dependencies", *options, within_s=600)


@pytest.fixture(scope="session")
def class_path() -> str:
    """Return the class path of the compiled participant; jars and classes live in the cache."""
    pom, sources = JAVA / "pom.xml", sorted(JAVA.glob("src/*.java"))
    jars = build_once(cache_root() / "foreign-java" / f"jars-{key_of(pom)}", fetch)
    compiler = shutil.which("javac")
    assert compiler, "a Java compiler is missing: apt-get install openjdk-17-jdk-headless"

    def compile_into(target: Path) -> None:
        options = ("-Xlint:all", "-Werror", "--release", "17", "-cp", f"{jars}/*")
        do(compiler, *options, "-d", target, *sources)

    classes = cache_root() / "foreign-java" / f"classes-{key_of(pom, *sources)}"
    return f"{build_once(classes, compile_into)}:{jars}/*"


def test_vectors_and_examples(class_path: str) -> None:
    said = do(find_java().path, "-cp", class_path, "Vectors", ROOT / "contracts")
    assert int(said.split()[0]) > 90, said


@pytest.fixture
def seats(
    stack: LocalStack, database: str, topic_prefix: str, class_path: str, tmp_path: Path
) -> Iterator[ProcessControl]:
    ready = tmp_path / "ready"
    login = urlsplit(database)
    jdbc = f"jdbc:postgresql://{login.hostname}:{login.port}{login.path}"
    environment = {
        "SAGABUS_KAFKA": stack.kafka.bootstrap,
        "SAGABUS_TOPIC_PREFIX": f"{topic_prefix}.",
        "JDBC_URL": f"{jdbc}?user={login.username}&password={login.password}",
    }
    argv = (str(find_java().path), "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-Xmx256m")
    command = ServerCommand(
        "seats",
        (*argv, "-cp", class_path, "Participant"),
        tmp_path,
        ready.exists,
        environment={**os.environ, **environment},
    )
    process = ProcessControl(command)
    yield process
    process.kill()


def test_it_keeps_every_guarantee(
    seats: ProcessControl, stack: LocalStack, database: str, topic_prefix: str
) -> None:
    connection = KafkaConnection(stack.kafka.bootstrap, "test")
    topics = Topics(f"{topic_prefix}.")
    plan = Plan(
        profile=Profile(
            participant="seats",
            step="book-seat",
            accepted=Template(b'{"seat": "12A", "for": "${business_key}"}'),
            schema_id="seats.book-seat.v1",
            rejected=Template(b'{"seat": "none"}'),
            invalid=Template(b'{"seat": 12}'),
            cancellable=True,
            compensatable=True,
        ),
        effects=Books(database, BOOKS),
        killer=Killing.of(seats),
        within_s=60,
        kills=1,
    )

    async def examine() -> Report:
        async with TopicAdmin(connection) as admin:
            await admin.ensure(topics.catalogue(["seats"], partitions=2))
        seats.spawn()
        return await run_suite(connection, topics, plan)

    report = asyncio.run(examine())
    assert not report.broken, report.text()
    assert not report.not_checked, report.text()
