"""How epochs done on a cluster become known: trainings write on a board, an actor, which the driver reads.

None of it may slow or fail a training: messages are few, nobody waits for them, and they may be lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

TELL_EVERY = 0.5  # seconds between a training's messages
HEAR_EVERY = 0.1  # seconds between the board's answers
LOST_FOR = 2.0  # seconds until a board that does not answer is asked again

Address = tuple[int, int]  # which run of an executor, and the number of the job in it
News = dict[Address, tuple[int, int]]  # -> epochs done, of how many


class Board:
    """What trainings said last, until the driver asks."""

    def __init__(self) -> None:
        self._news: News = {}
        self._some = asyncio.Event()

    async def tell(self, address: Address, done: int, total: int) -> None:
        self._news[address] = (done, total)
        self._some.set()

    async def hear(self) -> News:
        """Waits until there is something to tell."""
        await self._some.wait()
        await asyncio.sleep(HEAR_EVERY)
        news, self._news = self._news, {}
        self._some.clear()
        return news


def teller(board: Any, address: Address) -> Callable[[int, int], None]:
    """A training's end: ``on_progress`` for it."""
    told = 0.0

    def tell(done: int, total: int) -> None:
        nonlocal told
        if done < total and time.monotonic() - told < TELL_EVERY:
            return
        told = time.monotonic()
        with contextlib.suppress(Exception):
            board.tell.remote(address, done, total)

    return tell


class Listener:
    """The driver's end. The board stands on the driver's node where it can, and is put up again where it is lost."""

    def __init__(self, ray: ModuleType) -> None:
        self._ray = ray
        where = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=True
        )
        options = {"num_cpus": 0, "max_restarts": -1, "scheduling_strategy": where}
        self.board: Any = ray.remote(Board).options(**options).remote()
        self._asked: Any = None  # reference of an answer that is due
        self._deaf_until = 0.0

    def references(self) -> list[Any]:
        """What to wait for, beside other things, until there is news."""
        if self._asked is None and time.monotonic() >= self._deaf_until:
            self._asked = self.board.hear.remote()
        return [] if self._asked is None else [self._asked]

    def hear(self) -> News:
        """Once the reference is ready."""
        asked, self._asked = self._asked, None
        try:
            news: News = self._ray.get(asked)
        except Exception:  # noqa: BLE001 - news are worth no error
            self._deaf_until = time.monotonic() + LOST_FOR
            return {}
        return news

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._ray.kill(self.board)
