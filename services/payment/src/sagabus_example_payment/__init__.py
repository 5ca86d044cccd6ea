"""Example participant with an external step: card charges over HTTP."""

__all__: list[str] = []
