"""The harness of faults, with a few of each: nothing that is killed, starved or damaged comes to something else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="forks processes and mounts a disk")
def test_a_few_of_each_kind(repository: Path) -> None:
    call = [sys.executable, str(repository / "benchmarks" / "faults.py"), "--quick", "--json"]
    done = subprocess.run(call, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found) == {"kill", "signal", "worker", "disk", "truncate", "flip", "delete"}
    for counts in found.values():
        assert counts["wrong"] == 0
        assert counts["tried"] == counts["identical"] + counts["refused"]
    assert found["kill"]["identical"] >= 1
