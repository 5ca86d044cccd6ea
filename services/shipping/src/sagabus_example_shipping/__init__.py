"""Example participant that answers by callback: shipments of a slow carrier."""

__all__: list[str] = []
