"""The graph as files: a ``torch.export`` program, and the same program as ONNX.

ONNX is made from the exported program and not traced a second time, so both files hold one graph. torch's exporter for
such programs is its default since 2.9, and fails on batch norm in 2.6; the older one, by TorchScript, is being removed.
"""

from __future__ import annotations

import importlib.util
import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.export import Dim, ExportedProgram

from placl.errors import InputError
from placl.exporting.reader import Reader

INPUT, OUTPUTS = "images", ("keypoints", "confidence")
OPSET = 18  # the oldest that torch's exporter writes: any onnxruntime since 1.14 reads it
NEEDED = ("onnx", "onnxruntime", "onnxscript")
OLDEST_TORCH = (2, 9)  # that writes ONNX from exported programs without fail
TRACES = ("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn")  # where a node comes from

Answer = tuple[np.ndarray, np.ndarray]  # (B, K, 2) keypoints, (B, K) confidence


def need_onnx() -> None:
    """Refuse before the work what would fail after it."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"ONNX export needs {' and '.join(missing)}: pip install 'placl[export]'.")
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < OLDEST_TORCH:
        raise InputError(
            f"ONNX export needs torch 2.9, here is {torch.__version__}: pip install 'placl[export]', or pass --torch."
        )


def exported(reader: Reader, size: int) -> ExportedProgram:
    """The graph for any number of images of ``size`` pixels a side."""
    two = torch.zeros(2, 3, size, size)  # with one, torch would take the batch for a constant
    with torch.no_grad(), _quiet():
        program = torch.export.export(reader, (two,), dynamic_shapes={INPUT: {0: Dim("batch", min=1)}}, strict=False)
    for node in program.graph.nodes:  # paths of this machine are nobody's business, and an eighth of a small file
        for key in TRACES:
            node.meta.pop(key, None)
    return program


def torch_bytes(program: ExportedProgram) -> bytes:
    buffer = io.BytesIO()
    with _quiet():
        torch.export.save(program, buffer)
    return buffer.getvalue()


def onnx_bytes(program: ExportedProgram, description: str) -> bytes:
    """One file with all weights in it; ``description`` (export.json) is in its metadata, for when it travels alone."""
    with _quiet():
        made = torch.onnx.export(
            program,
            dynamo=True,
            opset_version=OPSET,
            input_names=[INPUT],
            output_names=list(OUTPUTS),
            optimize=True,
            external_data=False,
            verbose=False,
        )
    assert made is not None
    model = made.model_proto
    for part in (*model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output, model.graph):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    _name_batch(model.graph)
    del model.metadata_props[:]
    model.metadata_props.add(key="placl", value=description)
    content: bytes = model.SerializeToString()
    return content


def _name_batch(graph: Any) -> None:
    """``batch`` in the shapes that people see, not torch's ``s34``."""
    for value in (*graph.input, *graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    del graph.value_info[:]  # shapes inside, by the old name; runtimes infer their own


class OnnxReader:
    """An ONNX file by onnxruntime, on the CPU."""

    def __init__(self, content: bytes) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors
        self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def __call__(self, images: np.ndarray) -> Answer:
        keypoints, confidence = self._session.run(list(OUTPUTS), {INPUT: images})
        return keypoints, confidence


class TorchReader:
    """A graph in PyTorch: the reader itself, or a program as it comes out of its file."""

    def __init__(self, graph: torch.nn.Module | bytes) -> None:
        self._graph = torch.export.load(io.BytesIO(graph)).module() if isinstance(graph, bytes) else graph

    def __call__(self, images: np.ndarray) -> Answer:
        with torch.no_grad():
            keypoints, confidence = self._graph(torch.from_numpy(images))
        return keypoints.numpy(), confidence.numpy()


@contextmanager
def _quiet() -> Iterator[None]:
    """torch's exporters warn about torch's own affairs; what matters here is measured afterwards."""
    loggers = [logging.getLogger(name) for name in ("torch.export", "torch.onnx", "onnxscript", "onnx_ir")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
