"""Crawls many hosts that are each to be asked slowly, and prints how near the whole comes to what politeness permits.

Run from anywhere, as `python3 bench/broad.py`; see `--help`. Everything printed was measured in that very run. Rates and gaps
are the server's: it shares the machine with the crawler, and is as cheap as we could make it. The rate that is judged is that
of all pages from the first request to the last, beginning and end included; the one between the first tenth of the requests
and the last is printed beside it.
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

LEAST_SHARE = 0.9
MOST_MEGABYTES = 300

# Where others take more, a low rate says nothing of the crawler.
MOST_CORES_FOR_OTHERS = 0.2

# A connection for each host at the server, and more while some are being replaced.
FILES_PER_HOST = 3


@dataclass(frozen=True)
class Run:
    cost: Cost
    # What the crawler says of itself.
    summary: dict
    # What the server saw.
    account: dict
    server_cpu_seconds: float
    # What everybody else on the machine took meanwhile.
    others_cpu_seconds: float


class Web:
    """The server: its port and, when it has ended, its account."""

    def __init__(self, server: subprocess.Popen) -> None:
        self.server = server
        self.port = int(server.stdout.readline())

    def end(self) -> tuple[dict, float]:
        """What it saw, and its CPU seconds."""
        self.server.stdin.close()
        account = json.loads(self.server.stdout.read())
        _, status, usage = os.wait4(self.server.pid, 0)
        self.server.returncode = os.waitstatus_to_exitcode(status)
        return account, usage.ru_utime + usage.ru_stime


def main() -> None:
    arguments = parse_arguments()
    make_room(FILES_PER_HOST * arguments.hosts)
    if not build("-p", "crawler-cli") or not build("-p", "testweb", "--example", "broad"):
        sys.exit("bench: the crawler or its server does not build")
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
    parser.add_argument("--pages", type=int, default=50, help="pages of each host (default: %(default)s)")
    parser.add_argument("--answer", type=int, default=50, help="milliseconds an answer takes (default: %(default)s)")
    parser.add_argument("--delay", type=int, default=250, help="milliseconds a host is left alone after it (default: %(default)s)")
    parser.add_argument("--sentences", type=int, default=16, help="sentences of a page, 120 bytes each (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="runs, each of which is judged (default: %(default)s)")
    parser.add_argument("options", nargs="*", help="further options of the crawler, after --")
    arguments = parser.parse_args()
    numbers = [arguments.hosts, arguments.pages, arguments.answer, arguments.delay, arguments.sentences, arguments.rounds]
    if min(numbers) < 1:
        parser.error("all numbers must be at least 1")
    return arguments


def make_room(files: int) -> None:
    """Lets this process and its children have so many open files, or as many as the system allows."""
    current, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = files if most == resource.RLIM_INFINITY else min(files, most)
    if current != resource.RLIM_INFINITY and current < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


@contextmanager
def serve(arguments: argparse.Namespace) -> Iterator[Web]:
    numbers = [arguments.hosts, arguments.pages, arguments.answer, arguments.sentences]
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
        account, server_cpu_seconds = web.end()
        others_cpu_seconds = max(0, busy - cost.cpu_seconds - server_cpu_seconds)
        return Run(cost, json.loads(summary.read_text()), account, server_cpu_seconds, others_cpu_seconds)


def busy_seconds() -> float:
    """The CPU time that all of the machine has spent."""
    with open("/proc/stat") as statistics:
        user, nice, system, idle, waiting, *rest = map(int, statistics.readline().split()[1:])
    # What guests take is in the user's time already.
    return (user + nice + system + sum(rest[:3])) / os.sysconf("SC_CLK_TCK")


def command(port: int, summary: Path, arguments: argparse.Namespace) -> list:
    # All hosts are seeds: a host that is found late would end late, and the rate would tell of the links instead.
    seeds = [f"http://h{number}.test:{port}/" for number in range(arguments.hosts)]
    polite = ["--delay", f"{arguments.delay}ms", "--ignore-robots"]
    here = ["--resolve", "*=127.0.0.1", "--allow-private", "--scope", "any"]
    unbounded = ["--max-pages", "1000000", "--max-bytes", "10GB"]
    return [CRAWLER, "crawl", *seeds, "--workers", "2", "--concurrency", "512", *polite, *here, *unbounded,
            "--module", "noop", "-q", "--summary", summary, *arguments.options]


def permitted(arguments: argparse.Namespace) -> float:
    return 1000 * arguments.hosts / (arguments.answer + arguments.delay)


def others(run: Run) -> float:
    return run.others_cpu_seconds / run.cost.wall_seconds


def rates(run: Run) -> tuple[float, float]:
    """Pages a second over all, and between the first tenth and the last."""
    account = run.account
    whole, steady = account["span_seconds"], account["steady_seconds"]
    return account["hits"] / whole if whole else 0, account["steady_hits"] / steady if steady else 0


def print_run(what: str, run: Run, arguments: argparse.Namespace) -> None:
    account, pages = run.account, max(run.account["hits"], 1)
    (whole, steady), most = rates(run), permitted(arguments)
    print(f"\n{what}: {arguments.hosts} hosts × {arguments.pages} pages, answers after {arguments.answer} ms,"
          f" {arguments.delay} ms between: {most:.0f} pages/s permitted")
    print(f"  {'requests':<28}{account['hits']:>9}   {account['distinct']} pages, {run.summary['bytes'] / pages:.0f} bytes each,"
          f" over {account['connections']} connections,"
          f" {account['strays']} for no page")
    print(f"  {'pages/s, whole crawl':<28}{whole:>9.0f}   {whole / most:.1%} of what is permitted")
    print(f"  {'pages/s, steady':<28}{steady:>9.0f}   {steady / most:.1%}")
    print(f"  {'peak MB':<28}{run.cost.peak_megabytes:>9.1f}")
    print(f"  {'CPU µs/page, crawler':<28}{1e6 * run.cost.cpu_seconds / pages:>9.0f}")
    print(f"  {'CPU µs/page, server':<28}{1e6 * run.server_cpu_seconds / pages:>9.0f}")
    print(f"  {'cores taken by others':<28}{others(run):>9.2f}   of {os.cpu_count()}")
    print(f"  {'smallest gap, ms':<28}{account['smallest_gap_milliseconds'] or 0:>9.3f}")


def judge(what: str, run: Run, arguments: argparse.Namespace) -> list[str]:
    account, pages = run.account, arguments.hosts * arguments.pages
    share, name = rates(run)[0] / permitted(arguments), f"{what}: share of the permitted rate"
    if share < LEAST_SHARE and others(run) > MOST_CORES_FOR_OTHERS:
        rate = unknown(name, f"{share:.2f}, but others took {others(run):.1f} of the machine's {os.cpu_count()} cores")
    else:
        rate = verdict_at_least(name, share, LEAST_SHARE)
    return [
        verdict_at_least(f"{what}: distinct pages served", account["distinct"], pages),
        verdict(f"{what}: requests", account["hits"], pages),
        verdict_at_least(f"{what}: pages kept", run.summary["pages"], pages),
        rate,
        verdict(f"{what}: peak MB", run.cost.peak_megabytes, MOST_MEGABYTES),
        verdict_at_least(f"{what}: smallest gap, ms", account["smallest_gap_milliseconds"] or 0, arguments.delay),
        verdict(f"{what}: requests to one host at once", account["at_once"], 1),
    ]


if __name__ == "__main__":
    main()
