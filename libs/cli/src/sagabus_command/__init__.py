"""The command `sagabus`, from its first moment on.

A package of its own: to import anything of `sagabus_cli` is to import all that the command needs,
and Ctrl-C must end that without a traceback as well.
"""

from __future__ import annotations

import signal

__all__ = ["main"]


def main() -> None:
    """Run the command line of this process."""
    # A shell lets what it runs in the background ignore Ctrl-C: that stays so.
    attended = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if attended:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from sagabus_cli.app import main as run  # noqa: PLC0415 - see above

    if attended:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()
