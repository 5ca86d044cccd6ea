"""Wire models, CloudEvents codec, topic catalogue and contract export of sagabus."""

__all__: list[str] = []
