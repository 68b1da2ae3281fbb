"""The command `gamagat`: parse, call, print."""

import sys


def main() -> None:
    """Run the command; Ctrl-C at any moment is one line and exit code 130."""
    try:
        # Not at the top: what it needs takes seconds to come, and Ctrl-C may be pressed in them.
        from gamagat.cli.app import run  # noqa: PLC0415

        run()
    except KeyboardInterrupt:
        print("note: stopped: it was interrupted", file=sys.stderr)
        sys.exit(130)
