"""Command lines run both ways, through the API and on the database."""

from collections.abc import Awaitable, Callable
from typing import Any

USAGE, UNREACHABLE, REFUSED, NOT_PERMITTED = 2, 3, 4, 6
WHY = ("--reason", "a ticket")
Line = Callable[..., Awaitable[tuple[int, dict[str, Any]]]]


async def both(line: Line, *words: str, code: int = 0) -> dict[str, Any]:
    """Read both ways: what is said must be the same."""
    direct = await line("direct", *words)
    through = await line("api", *words)
    assert _plain(through) == _plain(direct)
    assert direct[0] == code, direct[1]
    return direct[1]


async def once(
    line: Line, way: str, *words: str, code: int = 0, who: str = "admin"
) -> dict[str, Any]:
    ended, said = await line(way, *words, who=who)
    assert ended == code, said
    return said


def _plain(told: tuple[int, dict[str, Any]]) -> tuple[int, dict[str, Any]]:
    """Return what does not say when it was asked: the cursor of a newest page moves on."""
    return told[0], {name: value for name, value in told[1].items() if name != "cursor"}
