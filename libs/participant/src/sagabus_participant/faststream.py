"""A participant inside a FastStream app: started after its brokers, stopped before them.

    app = attach(FastStream(broker), EmbeddedParticipant(inventory, settings, pool))

FastStream keeps its own subscribers; the participant reads its command topic by itself, because
its offsets must follow the commit of its database (contracts/decisions/0002). Needs the extra
`sagabus-participant[faststream]`.
"""

from __future__ import annotations

from faststream import FastStream

from sagabus_participant.embedded import EmbeddedParticipant

__all__ = ["attach"]


def attach(app: FastStream, participant: EmbeddedParticipant) -> FastStream:
    """Bind the life of `participant` to that of `app`, and return `app`.

    A start that fails stops the app; its own hooks have opened the pool by then. The app's
    shutdown waits until what is in hand is committed.
    """
    app.after_startup(participant.start)
    app.on_shutdown(participant.stop)
    return app
