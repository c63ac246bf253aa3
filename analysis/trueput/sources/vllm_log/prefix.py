"""What stands in front of a message: every prefix style from 0.4 to 0.33."""

from __future__ import annotations

from typing import Final

PROCESS: Final = r"(?:\([A-Za-z_][^()\]]* pid=[0-9]*[^()\]]*\) +)*"
LEVEL: Final = r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)"
_TIME: Final = r"[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}"
PLACE: Final = rf"{LEVEL} {_TIME} \[?[^ \]]+:[0-9]+\]"
PREFIX: Final = rf"^{PROCESS}{PLACE}(?: |\r?$)"
