"""``lab down``."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def down() -> int:
        """End everything that a killed lab left running: 0 if nothing is left, 3 if that is not known."""
        from lab.errors import ExitCode
        from lab.paths import state_dir
        from lab.report.consoles import consoles
        from lab.substrates.cleanup import sweep

        data, talk = consoles()
        swept = sweep(everywhere=True)
        for run in swept:
            unknown = f"whether containers were left is not known: {run.not_removed}"
            data.print(f"{run.run_id}: {run.words}" if run.run_id else unknown, markup=False, soft_wrap=True)
        if not swept:
            data.print("nothing was left running")
        if all(run.not_removed is None for run in swept):
            return ExitCode.EXPECTED
        kept = any(run.run_id and run.not_removed for run in swept)
        gone = f"; if that engine is gone for good, remove the run's file in {state_dir()}" if kept else ""
        hint = f"  hint: let the engine answer, then repeat lab down{gone}"
        talk.print(hint, markup=False, soft_wrap=True)
        return ExitCode.UNKNOWN
