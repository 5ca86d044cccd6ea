"""Short ways to write definition documents."""

from __future__ import annotations

from typing import Any

__all__ = ["choice", "compensatable", "document", "parallel", "pivot", "retriable", "timing"]


def timing(timeout_ms: int = 10_000, attempts: int = 2, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the limits of a phase, with a backoff of about a second."""
    backoff = {"initial_ms": 1_000, "factor": 2, "max_ms": 8_000}
    return {"timeout_ms": timeout_ms, "attempts": attempts, "backoff": backoff, **more}


def _two_way(*, cancellable: bool, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    step: dict[str, Any] = {
        "participant": "shop",
        "cancellable": cancellable,
        "unknown_allowed": True,
        "timeout_policy": "accept_late_success",
        "execute": {"timeout_ms": 10_000},
        "resolve": timing(budget_ms=60_000),
    }
    if cancellable:
        step["cancel"] = timing()
    return {**step, **more}


def compensatable(*, cancellable: bool = True, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a step that can be undone."""
    undo = {} if "compensation" in more else {"compensate": timing()}
    return {"kind": "compensatable", **_two_way(cancellable=cancellable), **undo, **more}


def pivot(*, cancellable: bool = False, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a point of no return."""
    return {"kind": "pivot", **_two_way(cancellable=cancellable), **more}


def retriable(**more: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a step that has to succeed in the end."""
    return {"kind": "retriable", "participant": "shop", "execute": timing(), **more}


def parallel(name: str, **branches: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a parallel; a branch is a step's name, a node, or a list of them."""
    bodies = {branch: _body(value) for branch, value in branches.items()}
    return {"parallel": {"name": name, "branches": bodies}}


def choice(name: str, otherwise: Any, **branches: tuple[str, Any]) -> dict[str, Any]:  # noqa: ANN401
    """Return a choice; a branch is a condition and a body."""
    return {
        "choice": {
            "name": name,
            "branches": [
                {"name": branch, "when": when, "flow": _body(body)}
                for branch, (when, body) in branches.items()
            ],
            "otherwise": {"flow": _body(otherwise)},
        }
    }


def document(steps: dict[str, Any], *flow: Any, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a definition document; a node is a step's name or a node."""
    return {
        "workflow": "order",
        "version": 1,
        "steps": steps,
        "flow": {"sequence": [_node(each) for each in flow]},
        **more,
    }


def _node(node: Any) -> Any:  # noqa: ANN401
    return {"step": node} if isinstance(node, str) else node


def _body(body: Any) -> Any:  # noqa: ANN401
    return {"sequence": [_node(each) for each in body]} if isinstance(body, list) else _node(body)
