"""How the engine tells the person in front of it what it is doing. The command line shows it; tests stay silent."""

from __future__ import annotations

from typing import Literal, Protocol

Level = Literal["run", "round", "step", "candidate", "epoch", "label", "images", "frames"]


class Watch(Protocol):
    def progress(self, level: Level, done: float, total: float, note: str = "") -> None:
        """``done`` of ``total`` at a level. A level starts anew when ``done`` falls."""
        ...

    def say(self, line: str) -> None:
        """Something worth keeping on the screen: a result, a warning."""
        ...


class Silent:
    def progress(self, level: Level, done: float, total: float, note: str = "") -> None:
        pass

    def say(self, line: str) -> None:
        pass
