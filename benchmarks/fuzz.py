"""Wrong inputs by the thousand for everything that reads a file which placl did not write.

    python benchmarks/fuzz.py [--inputs 4000] [--seed 0] [--only NAME ...] [--atheris]

A reader may answer, or refuse by a PlaclError; it may not raise anything else, take 5 seconds or a gigabyte, or write
outside of its folder. Inputs are random changes of a sane file, or with --atheris what its coverage-guided engine finds
(pip install atheris). Each reader has a process of its own, so that a crash of C code is seen, too. Prints a line per
reader, and each failure with the file that shows it; writes `benchmarks/results/fuzz.csv` (or `fuzz_atheris.csv`) if
all readers were tried.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import cv2
import numpy as np

if "--atheris" in sys.argv:  # it follows code that is imported in its presence: ours, and not all of torch
    import atheris

    following = atheris.instrument_imports(include=["placl"])
else:
    following = nullcontext()
with following:
    from hostile_inputs import TARGETS, Target
    from placl.data.images import UnreadableImageError
    from placl.errors import PlaclError
    from placl.files import write_csv

RESULTS = Path(__file__).parent / "results"
SECONDS, MEMORY = 5, 1 << 30  # that one input may take
WAITING = 120  # seconds for something that never comes, such as the other end of a pipe
WRITES = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "shutil.rmtree"}
ALWAYS = (Path("/dev"), Path("/proc"))


def verdict(target: Target, folder: Path, content: bytes) -> str:
    """Whether it was read or refused; whatever else happens is raised."""
    file = folder / target.file
    file.write_bytes(content)
    try:
        target.read(file)
    except (PlaclError, UnreadableImageError):
        return "refused"
    return "read"


def prepare(target: Target, folder: Path) -> None:
    (folder / target.file).parent.mkdir(parents=True, exist_ok=True)
    picture = cv2.imencode(".jpg", np.zeros((12, 16, 3), np.uint8))[1].tobytes()
    for name in target.around:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(picture)
    for name, content in target.beside.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


_hooked: list[bool] = []
_fence: list[Path] = []  # the folders that may be written to; empty: anywhere


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if not _fence or event not in WRITES or not arguments or not isinstance(arguments[0], str | bytes | os.PathLike):
        return
    if event == "open" and not (isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")):
        return
    place = Path(os.path.realpath(os.fsdecode(arguments[0])))
    if not any(place.is_relative_to(folder) for folder in (*_fence, *ALWAYS)):
        raise AssertionError(f"{event} outside of the folder: {place}")


@contextmanager
def fenced(*folders: Path) -> Iterator[None]:
    """Writing elsewhere is an AssertionError. Python's audit hooks cannot be taken off: this one sleeps in between."""
    if not _hooked:
        sys.addaudithook(_watch)
        _hooked.append(True)
    _fence[:] = [folder.resolve() for folder in folders]
    try:
        yield
    finally:
        _fence.clear()


# --- wrong ones of sane ones

TOKENS = [
    *(b"NaN", b"Infinity", b"-1", b"1e999", b"99999999999999999999", b"0", b"null", b"true", b'""', b"[]", b"{}"),
    *(b"../../x", b"/etc/passwd", b"\0", b"\xff\xfe", b"\r", b"\n\n", b",,,", b"!!python/object/apply:os.system [x]"),
    *(b"&a [*a]", b"<!ENTITY x 'y'>", b"%s%n", "é\u202e".encode(), b"2001-99-99", b"0x", b"1:99:99", b"<<: *x"),
]


def spoiled(content: bytes, draw: random.Random) -> bytes:
    """One to four random changes."""
    data = bytearray(content)
    for _ in range(draw.randint(1, 4)):
        start = draw.randrange(len(data) + 1)
        end = min(len(data), start + int(draw.expovariate(1 / 12)))
        match draw.randrange(8):
            case 0:
                del data[start:end]
            case 1:
                data[start:end] = draw.choice(TOKENS)
            case 2:
                data[start:start] = data[start:end] * draw.choice([1, 2, 50])
            case 3:
                data[start:end] = draw.randbytes(end - start)
            case 4:
                _other_number(data, draw)
            case 5:
                data[start:start] = draw.choice([b"[", b"{", b"<a>", b"- ", b"("]) * draw.choice([1, 3, 3000])
            case 6:
                del data[start:]
            case 7 if data:
                data[min(start, len(data) - 1)] ^= 1 << draw.randrange(8)
    return bytes(data)


def _other_number(data: bytearray, draw: random.Random) -> None:
    numbers = list(re.finditer(rb"-?\d+(\.\d+)?", bytes(data)))
    if numbers:
        one = draw.choice(numbers)
        data[one.start() : one.end()] = draw.choice(TOKENS[:12])


# --- one reader, in a process of its own


class TooLongError(Exception):
    pass


def _too_long(number: int, frame: object) -> None:
    raise TooLongError(f"more than {SECONDS} s")


@contextmanager
def limited() -> Iterator[None]:
    """So much memory more than there is now; the time is set for each input."""
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (in_use + MEMORY, before[1]))
    handlers = {number: signal.signal(number, _too_long) for number in (signal.SIGPROF, signal.SIGALRM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


def attempt(target: Target, folder: Path, content: bytes) -> str:
    """The verdict, or where a failure came from."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of work: a busy machine may take longer
    signal.alarm(WAITING)
    try:
        return verdict(target, folder, content)
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}: {str(error)[:100]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)


def try_reader(target: Target, folder: Path, inputs: int, seed: int) -> Counter[str]:
    """Verdicts and failures, each failure with a file that shows it in ``folder``."""
    draw, found = random.Random(f"{seed} {target.name}"), Counter[str]()
    work = folder / "work"
    prepare(target, work)
    with limited(), fenced(work):
        for _ in range(inputs):
            content = spoiled(target.sane, draw)
            outcome = attempt(target, work, content)
            found[outcome] += 1
            if outcome not in ("read", "refused") and found[outcome] == 1:
                (work / f"failure-{len(found)}").write_bytes(content)
                print(f"{target.name}: {outcome}", file=sys.stderr, flush=True)
    return found


def guided(target: Target, folder: Path, inputs: int, seed: int) -> None:
    """By atheris, which ends the process: with an error, and the input in ``folder``, where a reader failed."""
    corpus, work = folder / "corpus", folder / "work"
    corpus.mkdir(parents=True)
    (corpus / "sane").write_bytes(target.sane)
    prepare(target, work)
    limits = [f"-runs={inputs}", f"-timeout={SECONDS}", f"-rss_limit_mb={2 * MEMORY >> 20}", f"-seed={seed + 1}"]
    places = [f"-artifact_prefix={folder}/", "-verbosity=0", str(corpus)]
    atheris.Setup(["fuzz", *limits, *places], lambda content: verdict(target, work, content))
    atheris.Fuzz()


def in_process(target: Target, folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """A row of the table."""
    start = time.monotonic()
    report, inputs = folder / "report.txt", arguments.inputs // target.cost
    folder.mkdir(parents=True)
    pid = os.fork()
    if pid == 0:
        if arguments.atheris:
            guided(target, folder, inputs, arguments.seed)
        counts = try_reader(target, folder, inputs, arguments.seed)
        report.write_text("\n".join(f"{count} {outcome}" for outcome, count in counts.items()))
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    lines = report.read_text().splitlines() if report.exists() else []
    counts = Counter({outcome: int(count) for count, outcome in (line.split(" ", 1) for line in lines)})
    failures = sum(count for outcome, count in counts.items() if outcome not in ("read", "refused")) + bool(code)
    told = {"read": counts["read"], "refused": counts["refused"]} if not arguments.atheris else {}
    row = {"reader": target.name, "engine": "atheris" if arguments.atheris else "random", "inputs": inputs}
    return row | told | {"failures": failures, "seconds": round(time.monotonic() - start, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=4000, help="for each reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", choices=list(TARGETS), metavar="NAME", help=", ".join(TARGETS))
    parser.add_argument("--atheris", action="store_true")
    parser.add_argument("--out", type=Path, help="where failures are kept; default: a temporary folder")
    arguments = parser.parse_args()
    place = arguments.out or Path(tempfile.mkdtemp(prefix="placl-fuzz-"))
    rows = []
    for name in arguments.only or TARGETS:
        rows.append(in_process(TARGETS[name], place / name.replace(" ", "_"), arguments))
        print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    if not arguments.only:
        write_csv(RESULTS / ("fuzz_atheris.csv" if arguments.atheris else "fuzz.csv"), rows)
    print(f"{sum(row['inputs'] for row in rows)} inputs, {sum(row['failures'] for row in rows)} failures; see {place}")
    raise SystemExit(any(row["failures"] for row in rows))


if __name__ == "__main__":
    main()
