"""Runs a command and measures its CPU time, wall time and peak memory."""

import os
import resource
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass

# A crawl that needs longer hangs.
RUN_TIMEOUT_SECONDS = 300


@dataclass(frozen=True)
class Cost:
    cpu_seconds: float
    wall_seconds: float
    peak_megabytes: float


class Failed(Exception):
    """The command failed."""


def measure(command: list[str], accepted_statuses: set[int]) -> Cost:
    """The cost of `command`. Raises `Failed` if it does not exit with an accepted status."""
    # Otherwise the writes of an earlier command would slow this one down.
    os.sync()
    with tempfile.TemporaryFile() as output:
        start = time.monotonic()
        try:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        except OSError as error:
            raise Failed(f"cannot start {command[0]}: {error}") from error
        watchdog = threading.Timer(RUN_TIMEOUT_SECONDS, child.kill)
        watchdog.start()
        try:
            _, status, usage = os.wait4(child.pid, 0)
        except BaseException:
            child.kill()
            raise
        finally:
            watchdog.cancel()
        wall = time.monotonic() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode not in accepted_statuses:
            output.seek(0)
            last_output = output.read()[-500:].decode(errors="replace").strip()
            raise Failed(f"{command[0]} exited with status {child.returncode} after {wall:.1f} s: {last_output}")
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024)


def least_visible_megabytes() -> float:
    """The smallest peak that can be measured: the kernel counts a child's memory from before its exec, when it is a copy of
    this Python process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
