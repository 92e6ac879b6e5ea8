"""A mutant in a fresh process: the module is changed when it is imported, also in processes that tests start.

`sitecustomize.py` below `start/` is imported by every Python process whose `PYTHONPATH` begins there.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.mutation.operators import Mutant
from tests.mutation.sample import ROOT, Profile, Result

START = Path(__file__).parent / "start"
TIMES, EXTRA_SECONDS = 30.0, 60.0


def tried(mutant: Mutant, chosen: list[Profile]) -> Result:
    """Run these tests until one fails."""
    if not chosen:
        return Result("no test")
    tree = ast.parse((ROOT / mutant.module).read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as directory:
        changed = Path(directory) / "mutant.py"
        changed.write_text(ast.unparse(mutant.applied(tree)), encoding="utf-8")
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(START), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep),
            "MUTATION_ORIGINAL": str(ROOT / mutant.module),
            "MUTATION_CHANGED": str(changed),
        }
        environment.pop("MUTATION_TASK", None)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider", "--no-header"]
        command += ["--tb=no", "-rN", "--basetemp", str(Path(directory) / "base")]
        command += [profile.name for profile in chosen]
        limit = TIMES * sum(profile.seconds for profile in chosen) + EXTRA_SECONDS
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            return Result("timeout")
    return Result("survived" if done.returncode == 0 else "killed")
