"""`trueput` and `python -m trueput` are the same program."""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    from trueput.cli.app import run

    run()


if __name__ == "__main__":
    main()
