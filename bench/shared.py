"""Crawls real sites with processes that share a crawl over Redis, and with the pipeline in one process, side by side, and
prints what each page cost whom.

Run from anywhere, as `python3 bench/shared.py`; see `--help`. Everything printed was measured in that very run. Redis keeps
an append-only file, as docs/distributed.md has it. A site is one host, so one worker has all of it, and what the others cost
is what it costs to have them; `--hosts` serves it under several names instead, which they share.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median, stdev
from typing import Iterator

from comparison import build, parse_arguments, take_turns, unknown, verdict
from measure import RUN_LIMIT_SECONDS, Failed, measure
from server import Server, serve
from sites import SCRATCH, Site, require_programs, unpack
from tools import CRAWLER, pipeline_command

PROGRAMS = {"nginx": "nginx", "openssl": "openssl", "redis-server": "redis-server"}

WORKERS = [1, 2, 4]
EMBEDDED = 0

# Which pages are kept of those that are alike depends on the order in which they come, so that one process, too, keeps other
# pages and other numbers of them each time. How many, it is asked so often, with so many requests at once; without a measure.
SPREAD_AT_ONCE = ["1", "4", "16", "64"]
SPREAD_RUNS = 4
# Means of crawls that differ by nothing but chance differ by more than so many standard errors three times in a thousand.
STANDARD_ERRORS = 3

MOST_TIMES_EMBEDDED = 2.5
MOST_ROUND_TRIPS = 3.0
MOST_BYTES_PER_LINK = 60.0


@dataclass(frozen=True)
class Run:
    """What one crawl cost: CPU seconds of each kind of process, and what Redis was asked."""

    pages: int
    wall: float
    workers: float
    frontier: float = 0.0
    redis: float = 0.0
    round_trips: int = 0
    commands: int = 0

    def micros(self, seconds: float) -> float:
        return seconds / self.pages * 1e6

    def whole(self) -> float:
        return self.micros(self.workers + self.frontier + self.redis)


class Redis:
    """A server of its own, with an append-only file in a directory that goes with it."""

    def __init__(self, directory: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/"
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", directory, "--save", "",
                   "--appendonly", "yes", "--appendfsync", "everysec", "--loglevel", "warning"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(500):
            try:
                if self.ask("PING").startswith("+PONG"):
                    return
            except OSError:
                pass
            time.sleep(0.01)
        raise Failed("redis-server does not answer")

    def ask(self, *words: str) -> str:
        """What it answers, as it comes; enough for what is asked here."""
        request = f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(request.encode() + b"*1\r\n$4\r\nQUIT\r\n")
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
        return answer.decode(errors="replace")

    def info(self, name: str) -> float:
        line = next(line for line in self.ask("INFO").splitlines() if line.startswith(f"{name}:"))
        return float(line.split(":")[1])

    def cpu(self) -> float:
        names = ["used_cpu_user", "used_cpu_sys", "used_cpu_user_children", "used_cpu_sys_children"]
        return sum(self.info(name) for name in names)


@contextmanager
def redis() -> Iterator[Redis]:
    with tempfile.TemporaryDirectory(dir=SCRATCH) as directory:
        server = Redis(directory)
        try:
            yield server
        finally:
            server.process.kill()
            server.process.wait()


def main() -> None:
    arguments = parse_arguments(__doc__, rounds=3, quick="one small site, one round")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: terminated"))
    require_programs(PROGRAMS)
    if not build("-p", "crawler-cli", "-p", "crawler", "--examples", "--bins"):
        sys.exit("bench: the crawler does not build")
    verdicts: list[str] = []
    for site in arguments.sites:
        unpack(site)
        with serve(site.directory(), SCRATCH / "server", keep_log=True) as server:
            compare(site, server, arguments.rounds, verdicts)
    print("\nTargets")
    print("\n".join(verdicts))
    print(memory())


def compare(site: Site, server: Server, rounds: int, verdicts: list[str]) -> None:
    runs: dict[int, list[Run]] = {number: [] for number in [EMBEDDED, *WORKERS]}
    failures: dict[int, str] = {}
    for _, workers in take_turns(list(runs), rounds):
        try:
            runs[workers].append(embedded(server) if workers == EMBEDDED else shared(server, workers))
        except Failed as failure:
            failures[workers] = str(failure)
    spread = [pages for _ in range(SPREAD_RUNS) for pages in one_process_pages(server)]
    spread += [run.pages for run in runs[EMBEDDED]]
    print(f"\n{site.name}, median of {rounds}; CPU µs per page")
    print(f"  {len(spread)} crawls in one process, whose pages come in any order, keep {min(spread)} to {max(spread)} pages, "
          f"{mean(spread):.0f} in the mean;\n  the others are compared with it if they keep as many, up to chance")
    print(f"  {'':<14}{'pages':>8}{'workers':>9}{'frontier':>10}{'Redis':>8}{'whole':>8}{'pages/s':>9}"
          f"{'round trips':>13}{'commands':>10}")
    for workers, measured in runs.items():
        name = "one process" if workers == EMBEDDED else f"{workers} worker{'s' if workers > 1 else ''}"
        if workers in failures or not measured:
            print(f"  {name:<14} not measured: {failures.get(workers, 'nothing ran')}")
            continue
        run = sorted(measured, key=Run.whole)[len(measured) // 2]
        trips = f"{run.round_trips / run.pages:>13.2f}{run.commands / run.pages:>10.2f}" if workers else ""
        print(f"  {name:<14}{run.pages:>8}{run.micros(run.workers):>9.0f}{run.micros(run.frontier):>10.0f}"
              f"{run.micros(run.redis):>8.0f}{run.whole():>8.0f}{run.pages / run.wall:>9.0f}{trips}")
    verdicts.extend(judge(site, runs, failures, spread))
    sys.stdout.flush()


def judge(site: Site, runs: dict[int, list[Run]], failures: dict[int, str], spread: list[int]) -> Iterator[str]:
    for workers in WORKERS:
        what = f"{site.name}, {workers} workers"
        if failures.get(workers) or failures.get(EMBEDDED) or not runs[workers] or not runs[EMBEDDED]:
            yield unknown(what, "one of the two was not measured")
            continue
        pages = sorted(run.pages for run in runs[workers])
        if not is_alike(pages, spread):
            yield unknown(what, f"not as many pages are kept as in one process: {pages}, there {mean(spread):.0f} in the mean")
            continue
        whole = median(run.whole() for run in runs[workers]) / median(run.whole() for run in runs[EMBEDDED])
        yield verdict(f"{what}: CPU per page of all processes and Redis / in one process", whole, MOST_TIMES_EMBEDDED)
        trips = median(run.round_trips / run.pages for run in runs[workers])
        yield verdict(f"{what}: round trips to Redis per page", trips, MOST_ROUND_TRIPS)


def is_alike(pages: list[int], spread: list[int]) -> bool:
    """Whether crawls kept as many pages as those in one process did. Their mean must be one that a crawl in one process may
    have, and it must not differ from the mean there by more than the means of so many crawls do by chance.
    """
    by_chance = STANDARD_ERRORS * stdev(spread) * (1 / len(pages) + 1 / len(spread)) ** 0.5
    return min(spread) <= mean(pages) <= max(spread) and abs(mean(pages) - mean(spread)) <= by_chance


def one_process_pages(server: Server) -> Iterator[int]:
    """How many pages crawls in one process keep, of which each has them come in another order."""
    for at_once in SPREAD_AT_ONCE:
        with tempfile.TemporaryDirectory(dir=SCRATCH) as directory:
            summary = Path(directory) / "summary.json"
            command = pipeline_command(server.urls["http"], "--summary", summary)
            for option in ["--concurrency", "--per-host"]:
                command[command.index(option) + 1] = at_once
            measure(command, {0})
            yield json.loads(summary.read_text())["pages"]


def embedded(server: Server) -> Run:
    with tempfile.TemporaryDirectory(dir=SCRATCH) as directory:
        summary = Path(directory) / "summary.json"
        cost = measure(pipeline_command(server.urls["http"], "--summary", summary), {0})
        pages = json.loads(summary.read_text())["pages"]
    return Run(pages, cost.wall_seconds, cost.cpu_seconds)


def shared(server: Server, workers: int) -> Run:
    """Starts each role by itself, so that each has an account of its own."""
    with redis() as server_of_redis, tempfile.TemporaryDirectory(dir=SCRATCH) as directory:
        environment = os.environ | {"CRAWLER_REDIS": server_of_redis.url}
        submit = [CRAWLER, "submit", *pipeline_command(server.urls["http"])[2:]]
        # How many there are is decided by starting them.
        place = submit.index("--workers")
        del submit[place:place + 2]
        roles = [["frontier", "-q"], *([["worker", "-q"]] * workers)]
        began, before = time.monotonic(), server_of_redis.cpu()
        subprocess.run(submit, env=environment, cwd=directory, check=True, stdout=subprocess.DEVNULL)
        children = [subprocess.Popen([CRAWLER, *role], env=environment, cwd=directory, stdin=subprocess.DEVNULL)
                    for role in roles]
        costs = [ended(child, began) for child in children]
        wall = time.monotonic() - began
        spent = server_of_redis.cpu() - before
        status = subprocess.run([CRAWLER, "status", "--json"], env=environment, check=True, capture_output=True)
        result = json.loads(status.stdout)
        if result["state"] != "finished":
            raise Failed(f"the crawl did not finish: {result['state']}, {result['stopped_by']}")
        traffic = result["redis"]
    return Run(result["pages"], wall, sum(costs[1:]), costs[0], spent, traffic["round_trips"], traffic["commands"])


def ended(child: subprocess.Popen, began: float) -> float:
    """The CPU seconds of a process, when it has ended."""
    while True:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            if child.returncode != 0:
                raise Failed(f"a role ended with {child.returncode}")
            return usage.ru_utime + usage.ru_stime
        if time.monotonic() - began > RUN_LIMIT_SECONDS:
            child.kill()
            raise Failed(f"a role did not end within {RUN_LIMIT_SECONDS} s")
        time.sleep(0.01)


def memory() -> str:
    """What link storage takes on Redis, by what the server says of itself."""
    with redis() as server:
        program = CRAWLER.parent / "examples/redis_seen_set"
        links = 200_000
        output = subprocess.run([program, server.url, str(links)], check=True, capture_output=True, text=True).stdout
        print("\nMemory of Redis per URL")
        print(output.rstrip())
        seen = float(next(line for line in output.splitlines() if "seen" in line).split()[0])
    return verdict("bytes of Redis per seen link", seen, MOST_BYTES_PER_LINK)


if __name__ == "__main__":
    main()
