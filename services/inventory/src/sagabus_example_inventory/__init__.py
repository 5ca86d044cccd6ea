"""Example participant with local steps: stock and reservations."""

__all__: list[str] = []
