"""Timer of sagabus: durable wake-ups with generations."""

from sagabus_timer.app import COMPONENTS, build
from sagabus_timer.config import TimerSettings

__all__ = ["COMPONENTS", "TimerSettings", "build"]
