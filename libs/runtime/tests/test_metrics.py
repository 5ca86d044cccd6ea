"""Histograms of hot paths, and labels that stay bounded."""

from prometheus_client import CollectorRegistry, Histogram, generate_latest

from sagabus_runtime.metrics import OTHER, BoundedLabel, LatencyHistogram


def test_a_histogram_shows_what_the_librarys_own_would() -> None:
    ours, theirs = CollectorRegistry(auto_describe=True), CollectorRegistry()
    buckets = (0.1, 1.0, 5.0)
    fast = LatencyHistogram("wait_seconds", "Waits", ["kind"], registry=ours, buckets=buckets)
    known = Histogram("wait_seconds", "Waits", ["kind"], registry=theirs, buckets=buckets)
    for kind, seconds in (("a", 0.05), ("a", 0.1), ("a", 3.0), ("b", 60.0)):
        fast.observe((kind,), seconds)
        known.labels(kind).observe(seconds)

    def shown(registry: CollectorRegistry) -> list[str]:
        lines = generate_latest(registry).decode().splitlines()
        return [line for line in lines if "_created" not in line]

    assert shown(ours) == shown(theirs)


def test_clocks_that_differ_make_no_negative_duration() -> None:
    registry = CollectorRegistry()
    fast = LatencyHistogram("wait_seconds", "Waits", ["kind"], registry=registry)
    fast.observe(("a",), -2.0)
    assert registry.get_sample_value("wait_seconds_sum", {"kind": "a"}) == 0.0
    assert registry.get_sample_value("wait_seconds_bucket", {"kind": "a", "le": "0.001"}) == 1.0


def test_a_label_takes_so_many_values_and_no_more() -> None:
    bounded = BoundedLabel(limit=2)
    assert [bounded(name) for name in ("a", "b", "c", "a", "d")] == ["a", "b", OTHER, "a", OTHER]
