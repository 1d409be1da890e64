"""Constraints for pip: each dependency in pyproject.toml at the oldest version that it allows."""

import re
from pathlib import Path

text = (Path(__file__).parents[1] / "pyproject.toml").read_text()
needed = re.search(r"^dependencies = \[(.*?)^\]", text, re.MULTILINE | re.DOTALL)
assert needed is not None
for name, version in re.findall(r'"([\w.-]+)>=([\w.]+)"', needed[1]):
    print(f"{name}=={version}")
