"""`sagabus demo`: the whole system on this machine, in one command."""

__all__: list[str] = []
