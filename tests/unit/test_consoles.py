"""What becomes of a command whose messages nobody reads any more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TALKS = """
import sys
from pathlib import Path
from lab.report.consoles import consoles
_, talk = consoles()
for number in range(3000):
    talk.print(f"message {number}")
Path(sys.argv[1]).write_text("ended", encoding="utf-8")
"""


def test_it_goes_on_to_its_end_without_them(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    command = [sys.executable, "-c", TALKS, str(ended)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as talks:
        assert talks.stderr is not None
        talks.stderr.readline()
        talks.stderr.close()
        assert talks.wait(60) == 0
    assert ended.read_text(encoding="utf-8") == "ended"
