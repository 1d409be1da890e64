"""Copies of a finished run, and what is read from it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from placl.report.collecting import collect


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy to do harm to."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


@pytest.fixture(scope="session")
def told(finished: Path) -> dict[str, Any]:
    return collect(finished)
