"""`sagabus new` and `sagabus join`: a participant's project, and its life on the dev stack."""

__all__: list[str] = []
