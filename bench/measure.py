"""Runs one command and tells what it cost: CPU time, wall time, peak memory.

Only this file knows how the kernel accounts for a child.
"""

import os
import resource
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass

# Far beyond what any of the crawls takes; whoever needs longer hangs.
RUN_LIMIT_SECONDS = 300


@dataclass(frozen=True)
class Cost:
    cpu_seconds: float
    wall_seconds: float
    peak_megabytes: float


class Failed(Exception):
    """The command did not do its work; the text says how."""


def measure(command: list[str], accepted_statuses: set[int]) -> Cost:
    """The cost of `command` alone, start to end; `Failed` if it ends in any way but with an accepted status."""
    # What an earlier command left unwritten would be written at this one's expense.
    os.sync()
    with tempfile.TemporaryFile() as output:
        began = time.monotonic()
        try:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        except OSError as error:
            raise Failed(f"cannot start {command[0]}: {error}") from error
        watchdog = threading.Timer(RUN_LIMIT_SECONDS, child.kill)
        watchdog.start()
        try:
            _, status, usage = os.wait4(child.pid, 0)
        except BaseException:
            child.kill()
            raise
        finally:
            watchdog.cancel()
        wall = time.monotonic() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode not in accepted_statuses:
            output.seek(0)
            last_words = output.read()[-500:].decode(errors="replace").strip()
            raise Failed(f"{command[0]} ended with {child.returncode} after {wall:.1f} s, saying: {last_words}")
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024)


def least_visible_megabytes() -> float:
    """The kernel counts a child's peak memory from before its exec, when it is still a Python as large as this one."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
