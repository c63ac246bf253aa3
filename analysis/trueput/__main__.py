"""`trueput` and `python -m trueput` are the same program."""

from __future__ import annotations

import gc
import os


def main() -> None:
    """Run the command line."""
    # No matrix here is big enough for threads of their own; starting them costs every command.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Batches are made and dropped by the thousand and hold no cycles: look for those less often.
    gc.set_threshold(50_000, 20, 20)
    from trueput.cli.app import run

    run()


if __name__ == "__main__":
    main()
