"""Crawls many hosts with a delay per host, and compares the total rate with the maximum that the delay permits.

Run it from any directory as `python3 bench/broad.py`; see `--help`. The server measures rates and gaps. It shares the machine
with the crawler, so it uses as little CPU as possible. The target applies to the rate from the first request to the last; the
steady rate, without the first and the last tenth of the requests, is printed too.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

from comparison import build, unknown, verdict, verdict_at_least
from measure import Cost, Failed, measure
from tools import CRAWLER, ROOT

SERVER = ROOT / "target/release/examples/broad"

MIN_SHARE = 0.9
MAX_MEGABYTES = 300

# If other processes use more, a low rate is not the crawler's fault.
MAX_CORES_FOR_OTHERS = 0.2

# The server has a connection per host, and more while connections are replaced.
FILES_PER_HOST = 3


@dataclass(frozen=True)
class Run:
    cost: Cost
    # The crawler's summary.
    summary: dict
    # The server's report.
    report: dict
    server_cpu_seconds: float
    # The CPU time of all other processes on the machine.
    others_cpu_seconds: float


class Web:
    """The server: its port and, after it has stopped, its report."""

    def __init__(self, server: subprocess.Popen) -> None:
        self.server = server
        self.port = int(server.stdout.readline())

    def stop(self) -> tuple[dict, float]:
        """Stops the server. Returns its report and its CPU seconds."""
        self.server.stdin.close()
        report = json.loads(self.server.stdout.read())
        _, status, usage = os.wait4(self.server.pid, 0)
        self.server.returncode = os.waitstatus_to_exitcode(status)
        return report, usage.ru_utime + usage.ru_stime


def main() -> None:
    arguments = parse_arguments()
    raise_file_limit(FILES_PER_HOST * arguments.hosts)
    if not build("-p", "crawler-cli") or not build("-p", "testweb", "--example", "broad"):
        sys.exit("bench: cannot build the crawler or the server")
    lines = []
    for number in range(1, arguments.rounds + 1):
        what = f"round {number}" if arguments.rounds > 1 else "broad crawl"
        try:
            run = run_once(arguments)
        except Failed as failure:
            lines.append(unknown(what, str(failure)))
            continue
        print_run(what, run, arguments)
        lines.extend(judge(what, run, arguments))
        sys.stdout.flush()
    print("\nTargets")
    print("\n".join(lines))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=2000, help="virtual hosts (default: %(default)s)")
    parser.add_argument("--pages", type=int, default=50, help="pages per host (default: %(default)s)")
    parser.add_argument("--response-time", type=int, default=50, help="milliseconds per response (default: %(default)s)")
    parser.add_argument("--delay", type=int, default=250, help="milliseconds between two requests to a host (default: %(default)s)")
    parser.add_argument("--sentences", type=int, default=16, help="sentences per page, 120 bytes each (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="runs, each compared with the targets (default: %(default)s)")
    parser.add_argument("options", nargs="*", help="further options of the crawler, after --")
    arguments = parser.parse_args()
    numbers = [arguments.hosts, arguments.pages, arguments.response_time, arguments.delay, arguments.sentences, arguments.rounds]
    if min(numbers) < 1:
        parser.error("all numbers must be at least 1")
    return arguments


def raise_file_limit(files: int) -> None:
    """Raises the limit of open files of this process and its children, up to the hard limit."""
    current, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = files if hard_limit == resource.RLIM_INFINITY else min(files, hard_limit)
    if current != resource.RLIM_INFINITY and current < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard_limit))


@contextmanager
def serve(arguments: argparse.Namespace) -> Iterator[Web]:
    numbers = [arguments.hosts, arguments.pages, arguments.response_time, arguments.sentences]
    command = [SERVER, *map(str, numbers)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield Web(server)
    finally:
        if server.returncode is None:
            server.kill()
            server.wait()


def run_once(arguments: argparse.Namespace) -> Run:
    with serve(arguments) as web, tempfile.TemporaryDirectory() as directory:
        summary = Path(directory) / "summary.json"
        before = busy_seconds()
        cost = measure(command(web.port, summary, arguments), {0})
        busy = busy_seconds() - before
        report, server_cpu_seconds = web.stop()
        others_cpu_seconds = max(0, busy - cost.cpu_seconds - server_cpu_seconds)
        return Run(cost, json.loads(summary.read_text()), report, server_cpu_seconds, others_cpu_seconds)


def busy_seconds() -> float:
    """The CPU time of all processes since boot."""
    with open("/proc/stat") as statistics:
        user, nice, system, idle, waiting, *rest = map(int, statistics.readline().split()[1:])
    # The user time includes guest time.
    return (user + nice + system + sum(rest[:3])) / os.sysconf("SC_CLK_TCK")


def command(port: int, summary: Path, arguments: argparse.Namespace) -> list:
    # All hosts are seeds: a host that is discovered late finishes late, and lowers the rate.
    seeds = [f"http://h{number}.test:{port}/" for number in range(arguments.hosts)]
    polite = ["--delay", f"{arguments.delay}ms", "--ignore-robots"]
    loopback = ["--resolve", "*=127.0.0.1", "--allow-private", "--scope", "any"]
    unlimited = ["--max-pages", "1000000", "--max-bytes", "10GB"]
    return [CRAWLER, "crawl", *seeds, "--workers", "2", "--concurrency", "512", *polite, *loopback, *unlimited,
            "--module", "noop", "-q", "--summary", summary, *arguments.options]


def permitted(arguments: argparse.Namespace) -> float:
    return 1000 * arguments.hosts / (arguments.response_time + arguments.delay)


def others(run: Run) -> float:
    return run.others_cpu_seconds / run.cost.wall_seconds


def rates(run: Run) -> tuple[float, float]:
    """Pages per second in total, and without the first and the last tenth."""
    report = run.report
    total, steady = report["span_seconds"], report["steady_seconds"]
    return report["hits"] / total if total else 0, report["steady_hits"] / steady if steady else 0


def print_run(what: str, run: Run, arguments: argparse.Namespace) -> None:
    report, pages = run.report, max(run.report["hits"], 1)
    (total, steady), maximum = rates(run), permitted(arguments)
    print(f"\n{what}: {arguments.hosts} hosts × {arguments.pages} pages, {arguments.response_time} ms per response,"
          f" {arguments.delay} ms between requests: at most {maximum:.0f} pages/s")
    print(f"  {'requests':<28}{report['hits']:>9}   {report['distinct']} pages, {run.summary['bytes'] / pages:.0f} bytes each,"
          f" over {report['connections']} connections,"
          f" {report['unknown_pages']} for unknown pages")
    print(f"  {'pages/s, total':<28}{total:>9.0f}   {total / maximum:.1%} of the maximum")
    print(f"  {'pages/s, steady':<28}{steady:>9.0f}   {steady / maximum:.1%}")
    print(f"  {'peak MB':<28}{run.cost.peak_megabytes:>9.1f}")
    print(f"  {'CPU µs/page, crawler':<28}{1e6 * run.cost.cpu_seconds / pages:>9.0f}")
    print(f"  {'CPU µs/page, server':<28}{1e6 * run.server_cpu_seconds / pages:>9.0f}")
    print(f"  {'cores used by others':<28}{others(run):>9.2f}   of {os.cpu_count()}")
    print(f"  {'smallest gap, ms':<28}{report['smallest_gap_milliseconds'] or 0:>9.3f}")


def judge(what: str, run: Run, arguments: argparse.Namespace) -> list[str]:
    report, pages = run.report, arguments.hosts * arguments.pages
    share, name = rates(run)[0] / permitted(arguments), f"{what}: share of the maximum rate"
    if share < MIN_SHARE and others(run) > MAX_CORES_FOR_OTHERS:
        rate = unknown(name, f"{share:.2f}, but other processes used {others(run):.1f} of {os.cpu_count()} cores")
    else:
        rate = verdict_at_least(name, share, MIN_SHARE)
    return [
        verdict_at_least(f"{what}: distinct pages served", report["distinct"], pages),
        verdict(f"{what}: requests", report["hits"], pages),
        verdict_at_least(f"{what}: pages kept", run.summary["pages"], pages),
        rate,
        verdict(f"{what}: peak MB", run.cost.peak_megabytes, MAX_MEGABYTES),
        verdict_at_least(f"{what}: smallest gap, ms", report["smallest_gap_milliseconds"] or 0, arguments.delay),
        verdict(f"{what}: concurrent requests to one host", report["max_in_flight"], 1),
    ]


if __name__ == "__main__":
    main()
