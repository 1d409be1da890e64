"""DeepLabCut's h5 files, as pandas writes them ("fixed" and "table"), read as plain arrays: nothing is unpickled."""

from __future__ import annotations

import pickletools
from pathlib import Path
from typing import Any

import numpy as np

from placl.data.formats.deeplabcut_table import Table, make_table
from placl.data.formats.hdf5 import comes_to_an_end
from placl.errors import InputError

KEY = "df_with_missing"
Columns = list[tuple[str, ...]]


def is_pandas_h5(path: Path) -> bool:
    """Whether a file is such an h5 file, with DeepLabCut's name for its table."""
    if not comes_to_an_end(path):
        return False
    import h5py

    try:
        with h5py.File(path) as file:
            return KEY in file and "pandas_type" in file[KEY].attrs
    except (OSError, KeyError, RuntimeError):
        return False


def read_h5_table(path: Path) -> Table:
    if not comes_to_an_end(path):
        raise InputError(f"{path}: is damaged: reading it does not come to an end. Pass the csv file beside it.")
    import h5py

    try:
        with h5py.File(path) as file:
            columns, names, values = _frame(file)
    except FileNotFoundError:
        raise InputError(f"{path}: cannot be read (No such file or directory).") from None
    except OSError:
        raise InputError(f"{path}: is not an HDF5 file, or is cut off. Pass the csv file beside it.") from None
    except (KeyError, ValueError, IndexError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: is not laid out as DeepLabCut does ({reason}). Pass the csv file instead.") from None
    return make_table(path, columns, names, values)


def _frame(file: Any) -> tuple[Columns, list[str], np.ndarray]:
    """Column names, row names and (R, C) values of the one table in the file."""
    if KEY not in file:
        raise ValueError(f'no "{KEY}" in it')
    group = file[KEY]
    kind = _text(group.attrs.get("pandas_type", b""))
    if kind == "frame":
        return _fixed(group)
    if kind == "frame_table":
        return _table(group)
    raise ValueError(f'pandas calls it "{kind}"')


def _fixed(group: Any) -> tuple[Columns, list[str], np.ndarray]:
    columns, rows = _axis(group, "axis0"), _axis(group, "axis1")
    place = {column: number for number, column in enumerate(columns)}
    values = np.full((len(rows), len(columns)), np.nan)
    for block in range(int(group.attrs["nblocks"])):
        node = group[f"block{block}_values"]
        content = _numbers(node)
        if not node.attrs.get("transposed", False):
            content = content.T
        items = _axis(group, f"block{block}_items")
        if content.shape != (len(rows), len(items)):
            raise ValueError(f"its values have shape {content.shape}, expected {(len(rows), len(items))}")
        values[:, [place[item] for item in items]] = content
    return columns, ["/".join(row) for row in rows], values


def _table(group: Any) -> tuple[Columns, list[str], np.ndarray]:
    """Rows of a compound type: an index and blocks of values, whose column names are in an attribute of each."""
    node = group["table"]
    blocks = [name for name in node.dtype.names or () if name.startswith("values_block_")]
    if not blocks or "index" not in node.dtype.names:
        raise ValueError("its table has no index or no values")
    content = node[()]
    columns: Columns = []
    for block in blocks:
        columns += _names_in_pickle(bytes(node.attrs[f"{block}_kind"]))
    values = np.concatenate([_numbers(content[block]).reshape(len(content), -1) for block in blocks], axis=1)
    if values.shape[1] != len(columns):
        raise ValueError(f"it has {values.shape[1]} columns and {len(columns)} names of them")
    return columns, _texts(content["index"]), values


def _axis(group: Any, name: str) -> Columns:
    """The labels of rows or columns: one level of them, or several with a code into each."""
    if _text(group.attrs[f"{name}_variety"]) == "regular":
        return [(text,) for text in _texts(group[name][()])]
    levels = []
    for level in range(int(group.attrs[f"{name}_nlevels"])):
        texts = np.array([*_texts(group[f"{name}_level{level}"][()]), ""], object)  # code -1: no label
        levels.append(texts[group[f"{name}_label{level}"][()]].tolist())
    return list(zip(*levels, strict=True))


def _texts(values: np.ndarray) -> list[str]:
    if values.dtype.kind == "S":
        return [value.decode() for value in values.tolist()]
    if values.dtype.kind in "iu":  # bodyparts called 1, 2, 3
        return [str(value) for value in values.tolist()]
    raise ValueError("its names are stored as Python objects")


def _numbers(values: Any) -> np.ndarray:
    if values.dtype.kind not in "fiu":
        raise ValueError("its values are stored as Python objects")
    return np.asarray(values[()], np.float64)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _names_in_pickle(data: bytes) -> Columns:
    """A list of tuples of text, read off the pickle's opcodes. Whatever else a pickle may do is refused, not done."""
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[Any, Any] = {}
    for opcode, argument, _ in pickletools.genops(data):
        name = opcode.name
        if name == "MARK":
            marks.append(len(stack))
        elif name in ("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "STRING", "INT", "BININT1"):
            stack.append(str(argument))
        elif name in ("LIST", "TUPLE", "APPENDS"):
            start = marks.pop()
            items = stack[start:]
            del stack[start:]
            if name == "APPENDS":
                stack[-1].extend(items)
            else:
                stack.append(items if name == "LIST" else tuple(items))
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            stack[-int(name[-1]) :] = [tuple(stack[-int(name[-1]) :])]
        elif name == "EMPTY_LIST":
            stack.append([])
        elif name == "APPEND":
            item = stack.pop()
            stack[-1].append(item)
        elif name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            memo[len(memo) if argument is None else argument] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name not in ("PROTO", "FRAME", "STOP"):
            raise ValueError(f"its column names are stored as Python objects, {name}")
    names = stack[0]
    if not isinstance(names, list) or not all(
        isinstance(item, tuple) and all(isinstance(text, str) for text in item) for item in names
    ):
        raise ValueError("its column names are not text")
    return names
