"""The way to a Ray cluster: this machine's own, the one it is part of, one to join for a while, one behind a server."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from placl.config import Execute, Ray
from placl.errors import InputError, MachineError, PlaclError
from placl.execute.executor import available_cores

CLIENT = "ray://"
ANSWER_WITHIN = 5.0  # seconds
JOIN_WITHIN = 60.0  # seconds


def import_ray() -> ModuleType:
    # Nothing is sent to anybody, and workers run in the environment of their node.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "1")
    try:
        import ray
    except ImportError:
        raise InputError("execute=ray needs Ray: pip install 'placl[ray]'.") from None
    module: ModuleType = ray
    return module


class Connection:
    """Open until :meth:`close`. A connection that the program had already is used, and left as it is."""

    def __init__(self, settings: Execute, cluster: Ray) -> None:
        self.ray = import_ray()
        self._node: _Node | None = None
        self._ours = not self.ray.is_initialized()
        if not self._ours:
            return
        address = cluster.address
        try:
            if address is None:
                threads = max(settings.threads, settings.final_threads)
                cores = settings.workers * settings.threads if settings.workers else available_cores()
                self._start(address="local", num_cpus=max(cores, threads), include_dashboard=False)
            elif address == "auto":
                self._start(address="auto")
            else:
                self._reach(address)
        except BaseException as error:
            self.close()
            if isinstance(error, PlaclError) or not isinstance(error, Exception):
                raise
            raise _refused(address, error) from error

    def _reach(self, address: str) -> None:
        host = _answering(address)
        if not address.startswith(CLIENT) and not _is_here(host):
            # A driver speaks through a node of its own machine: without CPUs, it is given no candidates.
            self._node = _Node(address)
        try:
            self._start(address=address)
        except ConnectionError:
            if not address.startswith(CLIENT):
                raise
            # Ray forks a process for each client, beside threads of gRPC: that fails now and then, seldom twice.
            self.ray.shutdown()
            self._start(address=address)

    def _start(self, **arguments: Any) -> None:
        arguments |= {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": True}
        # Ray greets on stdout, which belongs to --json.
        with contextlib.redirect_stdout(sys.stderr):
            self.ray.init(**arguments)

    def close(self) -> None:
        if self._ours and self.ray.is_initialized():
            self.ray.shutdown()
        if self._node is not None:
            self._node.stop()
            self._node = None


def _refused(address: str | None, error: Exception) -> InputError | MachineError:
    reason = " ".join(str(error).split())[:200]
    if address is None:
        return MachineError(f"Ray does not start on this machine: {reason}. Use execute=pool.")
    if address == "auto" and isinstance(error, ConnectionError):
        return InputError(
            "ray.address=auto: this machine is not part of a Ray cluster. Start one with ray start --head, name one "
            "with ray.address=HOST:PORT, or set ray.address=null for one of its own."
        )
    return InputError(f"ray.address={address}: no connection to that cluster ({reason}). See docs/cluster.md.")


def _answering(address: str) -> str:
    """The host of an address, once something answers there: Ray itself would wait for minutes."""
    host, _, port = address.removeprefix(CLIENT).rstrip("/").rpartition(":")
    if not host or not port.isdigit():
        raise InputError(f"ray.address={address}: is not auto, HOST:PORT or ray://HOST:PORT (often 6379 and 10001).")
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_WITHIN).close()
    except OSError as error:
        raise InputError(
            f"ray.address={address}: nothing answers there ({error.strerror or error}). Is the cluster up "
            f"(ray start --head --port={port}), and may this machine reach it?"
        ) from None
    return host


def _is_here(host: str) -> bool:
    """Whether a host is this machine: only its own addresses can be bound."""
    family, kind, protocol, _, place = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as end:
        try:
            end.bind(place)
        except OSError:
            return False
    return True


# Runs `ray start --block` and ends it when stdin ends, which it does however this program ends.
_KEEPER = """
import subprocess, sys, threading
node = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
threading.Thread(target=lambda: (sys.stdin.read(), node.terminate()), daemon=True).start()
sys.exit(node.wait())
"""


class _Node:
    """This machine as a node of a cluster, for as long as this program runs."""

    def __init__(self, address: str) -> None:
        start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--address", address]
        start += ["--num-cpus", "0", "--num-gpus", "0", "--block", "--disable-usage-stats"]
        self._folder = tempfile.TemporaryDirectory(prefix="placl-ray-", ignore_cleanup_errors=True)
        self._log = Path(self._folder.name) / "node.log"
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _KEEPER, *start],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is this program's to handle
            )
        until = time.monotonic() + JOIN_WITHIN
        while "Ray runtime started" not in (said := self._log.read_text(errors="replace")):
            if self._process.poll() is not None or time.monotonic() > until:
                self.stop()
                reason = ([line.strip() for line in said.splitlines() if line.strip()] or ["no answer"])[-1]
                raise InputError(
                    f"ray.address={address}: this machine cannot join that cluster ({reason}). Nodes need the same "
                    "versions of Python and Ray and a way to each other; ray://HOST:10001 needs no way back."
                )
            time.sleep(0.1)

    def stop(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._folder.cleanup()
