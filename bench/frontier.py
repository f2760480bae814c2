"""Fills a crawl's queues with millions of URLs and measures the memory per URL and the time to reopen a state.

Run it from any directory as `python3 bench/frontier.py`; see `--help`. `crates/crawler/examples/frontier_memory.rs` takes each
measurement in a separate process. Bytes per URL are the growth of the resident memory divided by the number of URLs. They
include the text of the URLs and the overhead of the allocator.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from comparison import build, unknown, verdict
from measure import Failed
from sites import SCRATCH
from tools import ROOT

PROGRAM = ROOT / "target/release/examples/frontier_memory"

MAX_BYTES = {"seen": 24, "queued": 150}
MAX_GROWTH = 1.5
MAX_SECONDS_PER_MILLION = 1.0

# A process that needs longer hangs.
TIMEOUT_SECONDS = 1200


def main() -> None:
    arguments = parse_arguments()
    if not build("-p", "crawler", "--example", "frontier_memory"):
        sys.exit("bench: cannot build frontier_memory")
    SCRATCH.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []
    print_head()
    for what in MAX_BYTES:
        for urls in arguments.urls:
            lines.append(judge_memory(what, urls))
    for what in MAX_BYTES:
        lines.extend(judge_state(what, arguments.urls))
    print("\nTargets")
    print("\n".join(lines))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--urls", default="1000000,5000000", help="comma-separated numbers of URLs (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the URLs")
    arguments = parser.parse_args()
    try:
        arguments.urls = [int(number) // (10 if arguments.quick else 1) for number in arguments.urls.split(",")]
    except ValueError:
        parser.error("--urls must be comma-separated numbers")
    if min(arguments.urls) < 1:
        parser.error("--urls must be at least 1 each")
    return arguments


def print_head() -> None:
    print(f"{'':<28}{'URLs':>10}{'B/URL':>8}{'RSS MB':>9}{'peak MB':>9}{'URLs/s':>10}{'file MB':>9}")


def print_row(name: str, measured: dict, file: Path | None = None) -> None:
    size = f"{file.stat().st_size / 1e6:.0f}" if file else "–"
    print(f"{name:<28}{measured['urls']:>10.0f}{bytes_per_url(measured):>8.1f}{measured['full'] / 1e6:>9.1f}"
          f"{measured['peak'] / 1e6:>9.1f}{measured['urls'] / measured['seconds']:>10.0f}{size:>9}", flush=True)


def bytes_per_url(measured: dict) -> float:
    return (measured["full"] - measured["empty"]) / measured["urls"]


def judge_memory(what: str, urls: int) -> str:
    name = f"bytes per {what} URL at {urls}, in memory"
    try:
        measured = fill(what, urls)
    except Failed as failure:
        return unknown(name, str(failure))
    print_row(f"in memory, {what}", measured)
    return verdict(name, bytes_per_url(measured), MAX_BYTES[what])


def judge_state(what: str, numbers: list[int]) -> list[str]:
    """The growth of memory with a state, and the time to reopen the state after a kill and after a clean close."""
    lines, peaks = [], {}
    for urls in numbers:
        with tempfile.TemporaryDirectory(dir=SCRATCH) as directory:
            try:
                state = Path(directory) / "state"
                measured = fill(what, urls, state)
                peaks[urls] = measured["peak"]
                print_row(f"with --state, {what}", measured, state / "crawl.state")
                if what == "queued":
                    lines.extend(judge_reopening(urls, state))
            except Failed as failure:
                lines.append(unknown(f"{what} URLs at {urls}, with --state", str(failure)))
    few, many = min(numbers), max(numbers)
    name = f"peak memory with --state at {many} {what} URLs / at {few}"
    if few in peaks and many in peaks:
        lines.append(verdict(name, peaks[many] / peaks[few], MAX_GROWTH))
    else:
        lines.append(unknown(name, "one of the two was not measured"))
    return lines


def judge_reopening(urls: int, state: Path) -> list[str]:
    lines = []
    for after in ("a kill", "a clean close"):
        measured = run(["reopen", state])
        if measured["urls"] != urls:
            raise Failed(f"only {measured['urls']:.0f} of {urls} URLs remain after {after}")
        print(f"  reopened after {after:<13}: ready after {measured['ready']:.3f} s, peak {measured['peak'] / 1e6:.1f} MB")
        name = f"seconds per million queued URLs to reopen after {after}, at {urls}"
        lines.append(verdict(name, 1e6 * measured["ready"] / urls, MAX_SECONDS_PER_MILLION))
    return lines


def fill(what: str, urls: int, state: Path | None = None) -> dict:
    """Fills the queues, measures, and kills the process, so that the state is that of a crash."""
    return run(["fill", what, str(urls), *([state] if state else [])], kill=True)


def run(arguments: list, kill: bool = False) -> dict:
    child = subprocess.Popen([PROGRAM, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = child.stdout.readline()
        if kill:
            child.kill()
        _, errors = child.communicate(timeout=TIMEOUT_SECONDS)
    finally:
        child.kill()
    try:
        return json.loads(line)
    except ValueError as error:
        raise Failed(f"{PROGRAM.name} exited with status {child.returncode}: {errors[-500:].strip()}") from error


if __name__ == "__main__":
    main()
