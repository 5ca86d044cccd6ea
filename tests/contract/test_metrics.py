"""Code, table, dashboards, alerts and runbooks speak of the same metrics."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import typer
import yaml  # type: ignore[import-untyped]  # ships no types; used for tests alone

from sagabus_cli.app import build

from .metrics import TABLE, Metric, metrics, render

ROOT = Path(__file__).parents[2]
RULES = yaml.safe_load((ROOT / "deploy/alerts/sagabus.yml").read_text())["groups"][0]["rules"]
RULE_TESTS = yaml.safe_load((ROOT / "deploy/alerts/tests.yml").read_text())["tests"]
DASHBOARDS = sorted((ROOT / "deploy/dashboards").glob("*.json"))
RUNBOOK = (ROOT / "deploy/runbooks/alerts.md").read_text()
OF_EVERY_SCRAPE = {"job", "instance"}
OF_PROCESSES = {"process_cpu_seconds_total", "process_resident_memory_bytes"}
GLOBAL_OPTIONS = {"--json", "--debug", "--direct", "--api", "--postgres", "--kafka"}
UNBOUNDED = {"saga_id", "tenant", "business_key", "key", "trace_id", "actor", "command_id"}

METRICS = metrics()
BY_SAMPLE: dict[str, Metric] = {name: m for m in METRICS.values() for name in m.names}


def panels(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["panels"]
    return found


def expressions() -> dict[str, str]:
    """Return every expression that people rely on, by where it stands."""
    found = {f"alert {rule['alert']}": rule["expr"] for rule in RULES}
    for path in DASHBOARDS:
        for panel in panels(path):
            for target in panel.get("targets", ()):
                where = f"{path.stem}: {panel['title']} {target['refId']}"
                found[where] = target["expr"].replace("$__rate_interval", "5m")
    for number, query in enumerate(re.findall(r"`([^`]*sagabus_[^`]*)`", RUNBOOK)):
        found[f"runbook {number}"] = query
    return found


def nodes(expr: Any) -> Iterator[Any]:
    """Yield a parsed expression and everything below it."""
    yield expr
    below = [getattr(expr, name, None) for name in ("lhs", "rhs", "expr", "vector_selector")]
    for part in [*below, *getattr(expr, "args", ())]:
        if part is not None:
            yield from nodes(part)


def selectors(expr: Any) -> list[Any]:
    return [node for node in nodes(expr) if isinstance(node, promql.VectorSelector)]


def labels_of(sample: str) -> set[str]:
    known = set(BY_SAMPLE[sample].labels) if sample in BY_SAMPLE else set()
    return known | OF_EVERY_SCRAPE | ({"le"} if sample.endswith("_bucket") else set())


def test_the_table_is_what_the_services_publish() -> None:
    assert TABLE.read_text() == render(), "run `make contracts`"


@pytest.mark.parametrize("name", METRICS)
def test_each_metric_says_what_it_means_and_has_only_bounded_labels(name: str) -> None:
    metric = METRICS[name]
    assert len(metric.meaning.split()) > 1 or metric.meaning == "Requests"
    assert not set(metric.labels) & UNBOUNDED
    assert len(metric.labels) <= 3
    assert name.endswith("_seconds") or metric.type != "histogram"


@pytest.mark.parametrize("where", expressions())
def test_each_expression_names_metrics_and_labels_that_exist(where: str) -> None:
    parsed = promql.parse(expressions()[where])
    assert selectors(parsed)
    for selector in selectors(parsed):
        assert selector.name in BY_SAMPLE.keys() | OF_PROCESSES
        assert {m.name for m in selector.matchers.matchers} <= labels_of(selector.name)
    for node in nodes(parsed):
        if isinstance(node, promql.AggregateExpr) and node.modifier is not None:
            inside = {label for s in selectors(node.expr) for label in labels_of(s.name)}
            assert set(node.modifier.labels) <= inside


def test_the_check_of_expressions_sees_through_functions() -> None:
    (found,) = selectors(promql.parse("histogram_quantile(0.9, sum by (le) (rate(a_bucket[5m])))"))
    assert found.name == "a_bucket"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_each_alert_is_graded_told_in_a_sentence_and_explained(rule: dict[str, Any]) -> None:
    name = rule["alert"]
    assert rule["labels"]["severity"] in {"page", "ticket"}
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["runbook_url"] == f"deploy/runbooks/alerts.md#{name.lower()}"
    paragraph = RUNBOOK.partition(f"## {name}\n")[2].partition("\n## ")[0]
    starts = [line.partition(":**")[0] for line in paragraph.splitlines() if line]
    assert starts == ["**Means", "**See", "**Do"]


def test_the_summary_of_an_alert_uses_labels_that_its_expression_leaves() -> None:
    for rule in RULES:
        used = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        expr = promql.parse(rule["expr"])
        grouped = [n for n in nodes(expr) if isinstance(n, promql.AggregateExpr)]
        left = set(grouped[0].modifier.labels if grouped and grouped[0].modifier else ())
        if not grouped:
            left = {label for s in selectors(expr) for label in labels_of(s.name)}
        assert used <= left, rule["alert"]


def test_no_paragraph_outlives_its_alert_and_no_alert_stands_twice() -> None:
    names = [rule["alert"] for rule in RULES]
    assert re.findall(r"^## (\w+)$", RUNBOOK, re.MULTILINE) == names
    assert len(names) == len(set(names))


def test_rule_tests_speak_of_alerts_and_metrics_that_exist() -> None:
    names = {rule["alert"] for rule in RULES}
    for case in RULE_TESTS:
        assert {test["alertname"] for test in case["alert_rule_test"]} <= names
        for given in case["input_series"]:
            (selector,) = selectors(promql.parse(given["series"]))
            assert {m.name for m in selector.matchers.matchers} <= labels_of(selector.name)


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: str(path.stem))
def test_panels_of_a_dashboard_do_not_overlap(path: Path) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels(path):
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


def lacks(words: list[str]) -> set[str]:
    """Return what is wrong with a command line: words nobody knows, options that it must have.

    One that is written without arguments names the command alone.
    """
    command: Any = typer.main.get_command(build())
    while hasattr(command, "commands") and words:
        name, *words = words
        found = command.get_command(typer.Context(command), name)
        if found is None:
            return {name}
        command = found
    known = {name for param in command.params for name in param.opts}
    used = {word.partition("=")[0] for word in words if word.startswith("--")}
    needed = {max(p.opts, key=len) for p in command.params if p.required and p.opts[0][0] == "-"}
    return (used - known - GLOBAL_OPTIONS) | (needed - used if words else set())


def test_commands_of_the_runbooks_exist_and_are_complete() -> None:
    pages = "\n".join(path.read_text() for path in (ROOT / "deploy/runbooks").glob("*.md"))
    said = re.findall(r"(?:`|^ *)(sagabus [a-z][^`\n]*)", pages, re.MULTILINE)
    wrong = {line: found for line in said if (found := lacks(shlex.split(line, comments=True)[1:]))}
    assert said
    assert not wrong


def test_the_check_of_commands_sees_what_is_wrong() -> None:
    assert lacks(["dlt", "list"]) == lacks(["retry"]) == set()
    assert lacks(["dlt", "lst"]) == {"lst"}
    assert lacks(["retry", "KEY", "--dry", "--json"]) == {"--dry", "--reason"}
