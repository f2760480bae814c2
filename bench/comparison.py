"""Shared by the benchmarks that compare crawlers: interleaved rounds, medians, and targets.

This file defines where pages are saved, and how a value is compared with its target.
"""

import argparse
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Callable, Iterator, TypeVar

from measure import Cost, least_visible_megabytes
from server import Server, serve
from sites import SCRATCH, SITES, Site, require_programs, unpack
from tools import ROOT

PAGES = SCRATCH / "pages"

# Saving pages soon after others were removed takes several times the system time, because ext4 is slow to reuse inodes. So no
# pages are removed between runs, and a benchmark starts this long after the previous one has cleaned up.
QUIET_SECONDS_AFTER_REMOVAL = 60

# Two crawls that differ in more than this share of their pages did different work, so their costs are not comparable.
TOLERATED_DIFFERENCE = 0.01

SHOWN_DIFFERENCES = 5

Contestant = TypeVar("Contestant")


@dataclass
class Result:
    """The runs of one tool on one site over one scheme."""

    # Each with its number of pages, which can vary between runs.
    runs: list[tuple[Cost, int]] = field(default_factory=list)
    # The pages of the last run.
    pages: set[str] = field(default_factory=set)
    failure: str | None = None

    def add(self, name: str, cost: Cost, pages: set[str]) -> None:
        if self.pages and len(pages) != len(self.pages):
            print(f"  {name} fetched {len(self.pages)} pages in one round and {len(pages)} in another")
        self.runs.append((cost, len(pages)))
        self.pages = pages

    def measured(self) -> bool:
        return bool(self.runs) and self.failure is None

    def cpu_per_page(self) -> float:
        return median(1e6 * cost.cpu_seconds / pages for cost, pages in self.runs)

    def pages_per_second(self) -> float:
        return median(pages / cost.wall_seconds for cost, pages in self.runs)

    def peak_megabytes(self) -> float:
        return max(cost.peak_megabytes for cost, _ in self.runs)

    def peak_text(self) -> str:
        sign = "≤" if self.peak_megabytes() <= least_visible_megabytes() else ""
        return f"{sign}{self.peak_megabytes():.1f}"


def choose_sites(names: str) -> list[Site]:
    """The sites with these comma-separated names. Raises `ValueError` for an unknown name."""
    known = [site.name for site in SITES]
    chosen = names.split(",")
    if unknown := [name for name in chosen if name not in known]:
        raise ValueError(f"unknown site {', '.join(unknown)}; use {', '.join(known)}")
    return [site for site in SITES if site.name in chosen]


def parse_arguments(documentation: str, rounds: int, quick: str) -> argparse.Namespace:
    """The sites to compare on and how often, from the command line; `quick` says what `--quick` means."""
    names = [site.name for site in SITES]
    parser = argparse.ArgumentParser(description=documentation.splitlines()[0])
    parser.add_argument("--sites", default=",".join(names), help="comma-separated names of sites (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=rounds, help="runs of each tool; the median counts (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help=quick)
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds must be at least 1")
    try:
        arguments.sites = choose_sites(names[0] if arguments.quick else arguments.sites)
    except ValueError as error:
        parser.error(str(error))
    arguments.rounds = 1 if arguments.quick else arguments.rounds
    return arguments


def build(*what: str, project: Path = ROOT) -> bool:
    return subprocess.run(["cargo", "build", "--release", "--quiet", *what], cwd=project).returncode == 0


def clear_pages() -> None:
    """Creates an empty directory, and waits until an earlier removal no longer affects the measurements."""
    if not PAGES.exists():
        PAGES.mkdir(parents=True)
        return
    if any(PAGES.iterdir()):
        shutil.rmtree(PAGES)
        PAGES.mkdir()
    wait = PAGES.stat().st_mtime + QUIET_SECONDS_AFTER_REMOVAL - time.time()
    if 0 < wait <= QUIET_SECONDS_AFTER_REMOVAL:
        print(f"waiting {wait:.0f} s, because removed pages slow the file system down", file=sys.stderr)
        time.sleep(wait)


def remove_pages() -> None:
    shutil.rmtree(PAGES, ignore_errors=True)
    PAGES.mkdir()


def compare_sites(documentation: str, programs: dict[str, str], compare: Callable[[Site, Server, int], None]) -> None:
    """Builds the crawler, serves each of the chosen sites, and calls a function with the site, its server and the rounds."""
    arguments = parse_arguments(documentation, rounds=5, quick="one small site, one round")
    # Turns the signal into an exception, so that `finally` stops nginx.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: terminated"))
    require_programs(programs)
    if not build("-p", "crawler-cli"):
        sys.exit("bench: cannot build crawler")
    clear_pages()
    try:
        for site in arguments.sites:
            unpack(site)
            with serve(site.directory(), SCRATCH / "server", keep_log=True) as server:
                compare(site, server, arguments.rounds)
    finally:
        remove_pages()


def write_page_list(server: Server, file: Path) -> None:
    """Writes the path and query of each page that was served since the server was last asked, for the floor."""
    file.write_text("".join(f"{page}\n" for page in dict.fromkeys(server.pages_since_last_call())))


def take_turns(contestants: list[Contestant], rounds: int) -> Iterator[tuple[int, Contestant]]:
    """Interleaves the tools and rotates which is first, so that other load on the machine affects all equally."""
    for number in range(rounds):
        first = number % len(contestants)
        for contestant in contestants[first:] + contestants[:first]:
            yield number, contestant


def ratio_text(result: Result, reference: Result) -> str:
    """The CPU time per page in relation to that of another tool."""
    return f"{result.cpu_per_page() / reference.cpu_per_page():.2f}" if reference.measured() else "?"


def print_differences(ours: set[str], name: str, theirs: set[str]) -> None:
    """Prints the pages that only one of the two fetched."""
    for title, only in (("crawler", ours - theirs), (name, theirs - ours)):
        if only:
            shown = ", ".join(sorted(only)[:SHOWN_DIFFERENCES]) + (", …" if len(only) > SHOWN_DIFFERENCES else "")
            print(f"  only {title} fetched {len(only)}: {shown}")


def comparable(ours: set[str], theirs: set[str]) -> bool:
    return len(ours ^ theirs) <= TOLERATED_DIFFERENCE * len(theirs)


def verdict(what: str, value: float, target: float) -> str:
    if value <= target:
        return f"  PASS:    {what}: {value:.2f}, target {target}"
    return f"  MISSED:  {what}: {value:.2f}, target {target}, {100 * (value / target - 1):.0f} % above"


def verdict_at_least(what: str, value: float, target: float) -> str:
    if value >= target:
        return f"  PASS:    {what}: {value:.2f}, target at least {target}"
    return f"  MISSED:  {what}: {value:.2f}, target at least {target}, {100 * (1 - value / target):.0f} % below"


def unknown(what: str, why: str) -> str:
    return f"  unknown: {what}: {why}"
