"""Find Java, and bring the jars of Apache Kafka into the cache, once."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from sagabus_testkit.stack.cache import build_once, cache_root
from sagabus_testkit.stack.commands import run
from sagabus_testkit.stack.errors import StackError

__all__ = [
    "KAFKA_VERSION",
    "MAVEN_HOW",
    "Java",
    "KafkaInstall",
    "cached_kafka",
    "check_java",
    "find_java",
    "find_kafka",
]

KAFKA_VERSION = "4.4.0"
OLDEST_JAVA = 17
POM = Path(__file__).with_name("kafka-pom.xml")
_JAVA_HOW = "apt-get install openjdk-17-jre-headless"
MAVEN_HOW = "apt-get install maven"
_MAVEN_WITHIN_S = 600


@dataclass(frozen=True, slots=True)
class Java:
    """A Java launcher; `key` changes whenever another build of Java stands behind it."""

    path: Path
    key: str


@dataclass(frozen=True, slots=True)
class KafkaInstall:
    """The folder of the jars in the cache; templates that derive from them lie beside it."""

    jars: Path

    @property
    def class_path(self) -> str:
        """All jars in a fixed order: a class data archive is good for one order only."""
        return ":".join(str(jar) for jar in sorted(self.jars.glob("*.jar")))


def find_java() -> Java:
    """Return the Java of JAVA_HOME or PATH. Raises `StackError`: `java_missing`."""
    home = os.environ.get("JAVA_HOME")
    named = Path(home) / "bin" / "java" if home else None
    found = str(named) if named is not None and named.exists() else shutil.which("java")
    if found is None:
        raise StackError("java_missing", f"Java {OLDEST_JAVA} or newer is missing: {_JAVA_HOW}")
    path = Path(found).resolve()
    facts = path.stat()
    key = hashlib.sha256(f"{path} {facts.st_mtime_ns} {facts.st_size}".encode()).hexdigest()[:8]
    return Java(path, key)


def check_java(java: Java) -> str:
    """Return the version of `java`. Raises `StackError`: `java_too_old`, `java_missing`."""
    said = run((java.path, "-version"))
    if said.returncode != 0:
        raise StackError("java_missing", f"{java.path} does not run: {_JAVA_HOW}")
    match = re.search(r'version "(\d+)[^"]*"', said.stderr + said.stdout)
    if match is None or int(match.group(1)) < OLDEST_JAVA:
        words = said.stderr.partition("\n")[0]
        raise StackError(
            "java_too_old", f"Java {OLDEST_JAVA} or newer is needed, found {words}: {_JAVA_HOW}"
        )
    return match.group().split('"')[1]


def find_kafka() -> KafkaInstall:
    """Return the broker's jars, downloading them through Maven if the cache lacks them.

    Raises `StackError`: `maven_missing`, `kafka_unavailable` (no network, registry refused).
    """
    return KafkaInstall(build_once(_place(), _download) / "jars")


def cached_kafka() -> KafkaInstall | None:
    """Return the broker's jars if the cache has them."""
    place = _place()
    return KafkaInstall(place / "jars") if place.is_dir() else None


def _place() -> Path:
    key = hashlib.sha256(POM.read_bytes()).hexdigest()[:8]
    return cache_root() / "kafka" / f"{KAFKA_VERSION}-{key}"


def _download(target: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise StackError(
            "maven_missing", f"Maven is missing, which brings the jars of Kafka: {MAVEN_HOW}"
        )
    command = (
        maven,
        "-q",
        "-B",
        "-ntp",
        "-Dstyle.color=never",
        "-f",
        str(POM),
        "dependency:copy-dependencies",
    )
    options = (f"-DoutputDirectory={target / 'jars'}", "-DincludeScope=runtime")
    done = run((*command, *options), directory=target, within_s=_MAVEN_WITHIN_S)
    if done.returncode != 0 or not list((target / "jars").glob("kafka_2.13-*.jar")):
        errors = [line for line in done.stdout.splitlines() if "ERROR" in line]
        raise _unavailable(errors[0][:300] if errors else done.stderr.strip()[-300:])


def _unavailable(reason: str) -> StackError:
    return StackError(
        "kafka_unavailable",
        f"Maven could not bring Apache Kafka {KAFKA_VERSION}: {reason}; check the network and "
        "~/.m2/settings.xml, or name a running broker in SAGABUS_KAFKA",
    )
