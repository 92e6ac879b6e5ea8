"""Entry point: runs a command and turns every failure into one clear message and the right exit code."""

from __future__ import annotations

import errno
import gc
import os
import sys
import traceback

COLLECT_AFTER = 50_000
"""How many new objects Python looks through at a time. With its own 700 it would look again and again at what
imports have just made: a twentieth of the time to a simulated verdict."""

DEFECT = """error: the lab itself failed; this is a defect of the lab
  hint: nothing can be said about the lock; `lab down` ends what may be left"""


def main() -> None:
    """Run the command line and exit."""
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])
    from lab.errors import ExitCode, LabError

    try:
        from lab.cli.app import call

        code = call(sys.argv[1:])
    except LabError as error:
        print(error.render(), file=sys.stderr)  # noqa: T201
        code = int(error.exit_code)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)  # noqa: T201
        code = int(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has gone; what Python would flush at exit has nowhere to go either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = int(ExitCode.USAGE)
    except Exception as error:  # noqa: BLE001 - the last line of defence: a defect must not look like a verdict
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            print(f"error: {error.strerror}", file=sys.stderr)  # noqa: T201
            print("  hint: make room, or choose another place with --out", file=sys.stderr)  # noqa: T201
        else:
            traceback.print_exc()
            print(DEFECT, file=sys.stderr)  # noqa: T201
        code = int(ExitCode.UNKNOWN)
    sys.exit(code)


if __name__ == "__main__":
    main()
