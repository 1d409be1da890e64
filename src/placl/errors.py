"""The two ways a command ends badly: the user's input is wrong (exit 2), or the machine failed (exit 1)."""


class PlaclError(Exception):
    """An error whose message is one line for the person in front of the screen."""

    exit_code = 1


class InputError(PlaclError):
    """Something the user gave is wrong. The message says what, where and what to do."""

    exit_code = 2


class MachineError(PlaclError):
    """The machine failed: no room on the disk, a worker that died again and again."""

    exit_code = 1
