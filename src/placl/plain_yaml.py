"""YAML from anybody: plain values in bounded time and memory, or a ``yaml.YAMLError``."""

from __future__ import annotations

from typing import Any

import yaml

DEEPEST = 50  # levels
LARGEST = 1_000_000  # values, each as often as aliases name it


class _Loader(yaml.SafeLoader):
    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._depth += 1
        if self._depth > DEEPEST:
            raise yaml.YAMLError(f"it is nested more than {DEEPEST} levels deep")
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


def load_yaml(text: str | bytes) -> Any:
    """What the text says. Dates that are none, empty numbers and the like, for which PyYAML raises all it has, too."""
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _refuse_laughter(node)
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError) as error:
        raise yaml.YAMLError(str(error)) from error


def _refuse_laughter(root: yaml.Node) -> None:
    """Aliases of aliases of aliases: a few lines that stand for a billion values, or for values without end."""
    sizes: dict[int, int] = {}

    def size(node: yaml.Node) -> int:
        if id(node) not in sizes:
            sizes[id(node)] = LARGEST  # until it is known: who comes here again is inside of itself
            parts = node.value if isinstance(node, yaml.CollectionNode) else []
            below = [part for item in parts for part in (item if isinstance(item, tuple) else (item,))]
            sizes[id(node)] = 1 + sum(map(size, below))
        return sizes[id(node)]

    if size(root) > LARGEST:
        raise yaml.YAMLError(f"its aliases stand for more than {LARGEST} values")
