"""The report page: one file, one script, and nothing from outside gets in as markup."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from hostile import HOSTILE
from placl.report.page import asset, embedded, page, source_hash


def test_values_survive_and_cannot_end_their_element() -> None:
    content = {"name": "</script><script>alert(1)</script>", "text": "a & b\u2028 <!-- ü 日"}
    text = embedded(content)
    assert "<" not in text
    assert json.loads(text) == content


def test_numbers_that_json_lacks_are_a_mistake_of_ours() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        embedded({"a": float("nan")})


def test_a_hash_as_browsers_calculate_it() -> None:
    # From the specification of content security policies: the hash of this very text.
    expected = "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='"
    assert source_hash("alert('Hello, world.');") == expected


def test_the_policy_allows_its_own_script_and_nothing_else(told: dict[str, Any]) -> None:
    text = page([told])
    policy = unescape(re.findall(r'Content-Security-Policy" content="([^"]*)"', text)[0])
    style, script = (source_hash(asset(f"common.{kind}") + asset(f"report.{kind}")) for kind in ("css", "js"))
    assert policy == f"default-src 'none'; img-src data:; style-src {style}; script-src {script}"
    assert "connect-src 'self'" in unescape(page([told], live="data"))
    assert text.count("<script") == 2


def test_a_title_is_text(told: dict[str, Any]) -> None:
    assert "<title>a &lt;title&gt;&lt;b&gt; run · placl</title>" in page([told])
    assert "<title>2 runs · placl</title>" in page([told, told])


@pytest.mark.parametrize("count", [1, 2])
def test_names_from_outside_are_never_markup(told: dict[str, Any], count: int) -> None:
    text = page([told] * count)
    assert HOSTILE not in text
    assert HOSTILE.replace("<", "\\u003c").replace(">", "\\u003e") in text


def test_a_run_has_written_its_page(finished: Path, told: dict[str, Any]) -> None:
    assert (finished / "report.html").read_text(encoding="utf-8") == page([told])
