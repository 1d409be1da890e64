"""YAML from anybody: values, or one kind of error, and soon."""

from __future__ import annotations

import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from placl.plain_yaml import load_yaml

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text("ab: -#é'\n", max_size=8),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c d"]), inside),
    max_leaves=10,
)


@given(plain)
def test_plain_values_come_back(value: object) -> None:
    assert load_yaml(yaml.safe_dump(value)) == value


def test_anchors_and_merges_are_read() -> None:
    assert load_yaml("a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: *a\n")["b"] == {"x": 1, "y": 2}
    assert load_yaml("") is None


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system [x]",
        "2001-99-99",
        "!!int ''",
        "!!bool x",
        "!!timestamp x",
        "? [a, b]\n: c",
        "9" * 5000,
        "[" * 5000,
        "- " * 5000,
        "{a: " * 3000,
        "? " * 3000,
        "&a [*a]",
        "&a {b: *a}",
        "l0: &l0 [x, x, x, x, x, x, x, x, x]\n"
        + "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 12)),
        "\x00",
        "a: b: c",
    ],
)
def test_all_that_is_wrong_is_one_kind_of_error(text: str) -> None:
    start = time.process_time()
    with pytest.raises(yaml.YAMLError):
        load_yaml(text)
    assert time.process_time() - start < 5
