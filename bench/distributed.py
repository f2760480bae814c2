"""Compares the cost per page of a distributed crawl with that of the pipeline in one process, on real sites.

Run it from any directory as `python3 bench/distributed.py`; see `--help`. Redis has AOF enabled, as docs/distributed.md recommends. A
site is one host, so one worker crawls all of it and the others are idle.
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
from measure import RUN_TIMEOUT_SECONDS, Failed, measure
from server import Server, serve
from sites import SCRATCH, Site, require_programs, unpack
from tools import CRAWLER, pipeline_command

PROGRAMS = {"nginx": "nginx", "openssl": "openssl", "redis-server": "redis-server"}

WORKERS = [1, 2, 4]
ONE_PROCESS = 0

# Which near-duplicates are kept depends on the order of the responses, so the number of pages varies between crawls in one
# process. These crawls sample that number: SPREAD_RUNS with each concurrency. Their cost is not measured.
SPREAD_CONCURRENCY = ["1", "4", "16", "64"]
SPREAD_RUNS = 4
# By chance, two means differ by more than this many standard errors three times in a thousand.
STANDARD_ERRORS = 3

MAX_COST_RATIO = 1.8
MAX_ROUND_TRIPS = 3.0
MAX_BYTES_PER_PENDING_URL = 200.0
MAX_BYTES_PER_SEEN_URL = 40.0
MAX_IDLE_PERCENT = 0.5

CHAIN_PAGES = 300

# The crew has started after some seconds.
IDLE_WORKERS = 2
IDLE_START_SECONDS = 4
IDLE_SECONDS = 20


@dataclass(frozen=True)
class Run:
    """The cost of one crawl: CPU seconds of each kind of process, and round trips and commands of Redis."""

    pages: int
    wall: float
    workers: float
    frontier: float = 0.0
    redis: float = 0.0
    round_trips: int = 0
    commands: int = 0

    def micros(self, seconds: float) -> float:
        return seconds / self.pages * 1e6

    def total(self) -> float:
        return self.micros(self.workers + self.frontier + self.redis)


class Redis:
    """A Redis server with an append-only file in `directory`."""

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
                if self.query("PING").startswith("+PONG"):
                    return
            except OSError:
                pass
            time.sleep(0.01)
        raise Failed("redis-server does not reply")

    def query(self, *words: str) -> str:
        """The reply to a command, not parsed."""
        request = f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(request.encode() + b"*1\r\n$4\r\nQUIT\r\n")
            reply = b""
            while chunk := connection.recv(65536):
                reply += chunk
        return reply.decode(errors="replace")

    def info(self, name: str) -> float:
        line = next(line for line in self.query("INFO").splitlines() if line.startswith(f"{name}:"))
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
        sys.exit("bench: cannot build the crawler")
    verdicts: list[str] = []
    for site in arguments.sites:
        unpack(site)
        with serve(site.directory(), SCRATCH / "server", keep_log=True) as server:
            compare(site, server, arguments.rounds, verdicts)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as directory:
        write_chain(Path(directory))
        with serve(Path(directory), SCRATCH / "server") as server:
            verdicts.append(chain(server, arguments.rounds))
            verdicts.append(idle(server))
    verdicts.extend(memory())
    print("\nTargets")
    print("\n".join(verdicts))


def compare(site: Site, server: Server, rounds: int, verdicts: list[str]) -> None:
    runs: dict[int, list[Run]] = {number: [] for number in [ONE_PROCESS, *WORKERS]}
    failures: dict[int, str] = {}
    for _, workers in take_turns(list(runs), rounds):
        try:
            runs[workers].append(run_in_one_process(server) if workers == ONE_PROCESS else run_distributed(server, workers))
        except Failed as failure:
            failures[workers] = str(failure)
    spread = [pages for _ in range(SPREAD_RUNS) for pages in one_process_pages(server)]
    spread += [run.pages for run in runs[ONE_PROCESS]]
    print(f"\n{site.name}, median of {rounds}; CPU µs per page")
    print(f"  {len(spread)} crawls in one process keep {min(spread)} to {max(spread)} pages, {mean(spread):.0f} on average;\n"
          f"  distributed crawls are compared with them if they keep as many, apart from chance")
    print(f"  {'':<14}{'pages':>8}{'workers':>9}{'frontier':>10}{'Redis':>8}{'total':>8}{'pages/s':>9}"
          f"{'round trips':>13}{'commands':>10}")
    for workers, measured in runs.items():
        name = "one process" if workers == ONE_PROCESS else f"{workers} worker{'s' if workers > 1 else ''}"
        if workers in failures or not measured:
            print(f"  {name:<14} not measured: {failures.get(workers, 'no run')}")
            continue
        run = sorted(measured, key=Run.total)[len(measured) // 2]
        trips = f"{run.round_trips / run.pages:>13.2f}{run.commands / run.pages:>10.2f}" if workers else ""
        print(f"  {name:<14}{run.pages:>8}{run.micros(run.workers):>9.0f}{run.micros(run.frontier):>10.0f}"
              f"{run.micros(run.redis):>8.0f}{run.total():>8.0f}{run.pages / run.wall:>9.0f}{trips}")
    verdicts.extend(judge(site, runs, failures, spread))
    sys.stdout.flush()


def judge(site: Site, runs: dict[int, list[Run]], failures: dict[int, str], spread: list[int]) -> Iterator[str]:
    for workers in WORKERS:
        what = f"{site.name}, {workers} workers"
        if failures.get(workers) or failures.get(ONE_PROCESS) or not runs[workers] or not runs[ONE_PROCESS]:
            yield unknown(what, "one of the two was not measured")
            continue
        pages = sorted(run.pages for run in runs[workers])
        if not is_comparable(pages, spread):
            yield unknown(what, f"the number of pages differs: {pages}, in one process {mean(spread):.0f} on average")
            continue
        whole = median(run.total() for run in runs[workers]) / median(run.total() for run in runs[ONE_PROCESS])
        yield verdict(f"{what}: CPU per page of all processes and Redis / in one process", whole, MAX_COST_RATIO)
        trips = median(run.round_trips / run.pages for run in runs[workers])
        yield verdict(f"{what}: round trips to Redis per page", trips, MAX_ROUND_TRIPS)


def is_comparable(pages: list[int], spread: list[int]) -> bool:
    """Whether the crawls kept as many pages as crawls in one process. Their mean must be within the range of those crawls,
    and must not differ from their mean by more than chance explains.
    """
    by_chance = STANDARD_ERRORS * stdev(spread) * (1 / len(pages) + 1 / len(spread)) ** 0.5
    return min(spread) <= mean(pages) <= max(spread) and abs(mean(pages) - mean(spread)) <= by_chance


def one_process_pages(server: Server) -> Iterator[int]:
    """The number of pages of crawls in one process with different concurrency."""
    for concurrency in SPREAD_CONCURRENCY:
        with tempfile.TemporaryDirectory(dir=SCRATCH) as directory:
            summary = Path(directory) / "summary.json"
            command = pipeline_command(server.urls["http"], "--summary", summary)
            for option in ["--concurrency", "--per-host"]:
                command[command.index(option) + 1] = concurrency
            measure(command, {0})
            yield json.loads(summary.read_text())["pages"]


def run_in_one_process(server: Server) -> Run:
    with tempfile.TemporaryDirectory(dir=SCRATCH) as directory:
        summary = Path(directory) / "summary.json"
        cost = measure(pipeline_command(server.urls["http"], "--summary", summary), {0})
        pages = json.loads(summary.read_text())["pages"]
    return Run(pages, cost.wall_seconds, cost.cpu_seconds)


def start_crew(server: Server, redis_server: Redis, directory: str, workers: int, delay: str = "0") -> list[subprocess.Popen]:
    """Starts a crawl with each role as a separate process, so that the CPU time of each is known: the frontier, then workers."""
    environment = os.environ | {"CRAWLER_REDIS": redis_server.url}
    submit = [CRAWLER, "submit", *pipeline_command(server.urls["http"])[2:]]
    submit[submit.index("--delay") + 1] = delay
    # `submit` has no option for the number of workers.
    index = submit.index("--workers")
    del submit[index:index + 2]
    subprocess.run(submit, env=environment, cwd=directory, check=True, stdout=subprocess.DEVNULL)
    return [subprocess.Popen([CRAWLER, *role], env=environment, cwd=directory, stdin=subprocess.DEVNULL)
            for role in [["frontier", "-q"], *([["worker", "-q"]] * workers)]]


def run_distributed(server: Server, workers: int) -> Run:
    with redis() as redis_server, tempfile.TemporaryDirectory(dir=SCRATCH) as directory:
        start, before = time.monotonic(), redis_server.cpu()
        children = start_crew(server, redis_server, directory, workers)
        costs = [wait_for(child, start) for child in children]
        wall = time.monotonic() - start
        spent = redis_server.cpu() - before
        environment = os.environ | {"CRAWLER_REDIS": redis_server.url}
        status = subprocess.run([CRAWLER, "status", "--json"], env=environment, check=True, capture_output=True)
        result = json.loads(status.stdout)
        if result["state"] != "finished":
            raise Failed(f"the crawl did not finish: {result['state']}, {result['stopped_by']}")
        traffic = result["redis"]
    return Run(result["pages"], wall, sum(costs[1:]), costs[0], spent, traffic["round_trips"], traffic["commands"])


def wait_for(child: subprocess.Popen, start: float) -> float:
    """Waits for a process to exit. Returns its CPU seconds."""
    while True:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            if child.returncode != 0:
                raise Failed(f"a role exited with status {child.returncode}")
            return usage.ru_utime + usage.ru_stime
        if time.monotonic() - start > RUN_TIMEOUT_SECONDS:
            child.kill()
            raise Failed(f"a role did not exit within {RUN_TIMEOUT_SECONDS} s")
        time.sleep(0.01)


def write_chain(directory: Path) -> None:
    """Writes a site on which each page is known only when the page before it is completed."""
    for number in range(CHAIN_PAGES):
        name = "index.html" if number == 0 else f"{number}.html"
        words = " ".join(f"word{number}x{word}" for word in range(200))
        (directory / name).write_text(f'<p>{words}</p><a href="{number + 1}.html">next</a>')


def chain(server: Server, rounds: int) -> str:
    """Measures a crawl in which nothing can be batched."""
    runs = [run_distributed(server, 1) for _ in range(rounds)]
    run = sorted(runs, key=lambda run: run.wall)[len(runs) // 2]
    trips, commands = run.round_trips / run.pages, run.commands / run.pages
    print(f"\nA chain of {run.pages} pages, median of {rounds}\n"
          f"  {1e3 * run.wall / run.pages:.1f} ms, {run.total():.0f} CPU µs, {trips:.2f} round trips and {commands:.2f} commands per page")
    return verdict("a chain of pages: round trips to Redis per page", trips, MAX_ROUND_TRIPS)


def idle(server: Server) -> str:
    """Measures processes that wait for the delay of a host."""
    with redis() as redis_server, tempfile.TemporaryDirectory(dir=SCRATCH) as directory:
        children = start_crew(server, redis_server, directory, IDLE_WORKERS, delay="600")

        def spent() -> list[float]:
            return [*(cpu_seconds(child.pid) for child in children), redis_server.cpu()]

        try:
            time.sleep(IDLE_START_SECONDS)
            before = spent()
            time.sleep(IDLE_SECONDS)
            shares = [(after - before) / IDLE_SECONDS for before, after in zip(before, spent())]
        finally:
            for child in children:
                child.kill()
                child.wait()
    names = ["frontier", *(["worker"] * IDLE_WORKERS), "Redis"]
    print("\nAn idle crew: CPU in % of a core\n  " + " · ".join(f"{name} {100 * share:.2f}" for name, share in zip(names, shares)))
    return verdict("an idle crew: CPU in % of a core", 100 * sum(shares), MAX_IDLE_PERCENT)


def cpu_seconds(process: int) -> float:
    """The CPU seconds of a running process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory() -> list[str]:
    """Measures the memory of pending and completed URLs on Redis."""
    with redis() as server:
        program = CRAWLER.parent / "examples/redis_seen_set"
        urls = 200_000
        output = subprocess.run([program, server.url, str(urls)], check=True, capture_output=True, text=True).stdout
        print("\nMemory of Redis per URL")
        print(output.rstrip())
    bytes_of = {kind: float(line.split()[0]) for line in output.splitlines() for kind in ["pending", "seen"]
                if f"bytes per {kind} URL" in line}
    return [verdict("bytes of Redis per pending URL", bytes_of["pending"], MAX_BYTES_PER_PENDING_URL),
            verdict("bytes of Redis per seen URL", bytes_of["seen"], MAX_BYTES_PER_SEEN_URL)]


if __name__ == "__main__":
    main()
