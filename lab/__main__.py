"""Entry point: runs a command and turns every failure into one clear message and the right exit code."""

from __future__ import annotations

import os
import sys
import traceback

DEFECT = """error: the lab itself failed; this is a defect of the lab
  hint: nothing can be said about the lock; `lab down` ends what may be left"""


def main() -> None:
    """Run the command line and exit."""
    from lab.errors import NO_ROOM, ExitCode, LabError, cannot_write
    from lab.processes import too_many_files

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
        # The reader of our output has closed the pipe; what Python would flush at exit is dropped.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = int(ExitCode.USAGE)
    except Exception as error:  # noqa: BLE001 - a defect of the lab must not look like a verdict
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            what = "a file" if error.filename else "a file, or the output,"
            print(cannot_write(what, error).render(), file=sys.stderr)  # noqa: T201
        elif (few := too_many_files(error)) is not None:
            print(few.render(), file=sys.stderr)  # noqa: T201
        else:
            traceback.print_exc()
            print(DEFECT, file=sys.stderr)  # noqa: T201
        code = int(ExitCode.UNKNOWN)
    sys.exit(code)


if __name__ == "__main__":
    main()
