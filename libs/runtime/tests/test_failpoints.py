"""Failpoints do nothing unless armed, and exactly what they were told when armed."""

import subprocess
import sys
import time

import pytest

from sagabus_runtime import InjectedFault, SettingsError, failpoints


def test_unarmed_points_do_nothing() -> None:
    failpoints.hit("a.point")
    assert failpoints.hits("a.point") == 0


def test_an_error_is_raised_at_the_numbered_hit_only() -> None:
    with failpoints.armed("a.point=error:08006@2"):
        failpoints.hit("a.point")
        with pytest.raises(InjectedFault) as caught:
            failpoints.hit("a.point")
        failpoints.hit("a.point")
        failpoints.hit("another.point")
        assert (caught.value.kind, failpoints.hits("a.point")) == ("08006", 3)
    failpoints.hit("a.point")


@pytest.mark.parametrize(
    ("kind", "error"), [("connection", ConnectionResetError), ("timeout", TimeoutError)]
)
async def test_errors_of_the_network_are_the_real_ones(kind: str, error: type[Exception]) -> None:
    with failpoints.armed(f"p=error:{kind}"):
        for _ in range(2):
            with pytest.raises(error):
                await failpoints.reach("p")


async def test_a_stall_waits() -> None:
    with failpoints.armed("p=stall:30ms; q=stall:30ms@2"):
        started = time.monotonic()
        failpoints.hit("p")
        await failpoints.reach("p")
        await failpoints.reach("q")
        assert time.monotonic() - started >= 0.06


def test_a_callback_and_what_was_armed_before_live_side_by_side() -> None:
    called: list[int] = []
    with failpoints.armed("p=error:x"), failpoints.on("q", lambda: called.append(1)):
        failpoints.hit("q")
        with pytest.raises(InjectedFault):
            failpoints.hit("p")
    failpoints.hit("q")
    assert called == [1]


@pytest.mark.parametrize("spec", ["p", "p=boom", "p=exit@0", "p=stall:5", "P=exit", "p=error:"])
def test_a_spec_that_does_not_parse_is_refused(spec: str) -> None:
    with pytest.raises(SettingsError, match="invalid_failpoints"):
        failpoints.arm(spec)


def test_exit_kills_the_process_at_the_numbered_hit() -> None:
    program = (
        "from sagabus_runtime import failpoints as f; f.arm_from_env()\n"
        "try:\n"
        "  for n in (1, 2, 3): f.hit('p'); print(n, flush=True)\n"
        "finally: print('cleaned up', flush=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={failpoints.ENV_VARIABLE: "p=exit@3"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (137, "1\n2\n"), done.stderr
