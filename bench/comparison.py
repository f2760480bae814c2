"""What the benchmarks that compare crawlers share: tools take turns, medians count, targets are judged.

Only this file knows where pages are saved, and how a figure is held against its target.
"""

import argparse
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Iterator, TypeVar

from measure import Cost, least_visible_megabytes
from sites import SCRATCH, SITES, Site
from tools import ROOT

PAGES = SCRATCH / "pages"

# Saving pages soon after as many were removed takes several times the system time (on ext4, which is slow to reuse inodes):
# no pages are removed between runs, and a run begins this long after the one before has cleaned up.
QUIET_SECONDS_AFTER_REMOVAL = 60

# Two crawls that differ in more than this share of their pages did different work, and their costs say nothing.
TOLERATED_DIFFERENCE = 0.01

SHOWN_DIFFERENCES = 5

Contestant = TypeVar("Contestant")


@dataclass
class Result:
    """The runs of one tool on one site over one scheme."""

    # With the number of pages of that run: not every tool gets the same number each time.
    runs: list[tuple[Cost, int]] = field(default_factory=list)
    # What the last run got.
    pages: set[str] = field(default_factory=set)
    failure: str | None = None

    def add(self, name: str, cost: Cost, pages: set[str]) -> None:
        if self.pages and len(pages) != len(self.pages):
            print(f"  {name} got {len(self.pages)} pages in one round and {len(pages)} in another")
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
    """The sites named, separated by commas; `ValueError` if there is no such site."""
    known = [site.name for site in SITES]
    chosen = names.split(",")
    if unknown := [name for name in chosen if name not in known]:
        raise ValueError(f"no site {', '.join(unknown)}; there are {', '.join(known)}")
    return [site for site in SITES if site.name in chosen]


def parse_arguments(documentation: str, rounds: int, quick: str) -> argparse.Namespace:
    """The sites to compare on and how often, from the command line; `quick` says what `--quick` means."""
    names = [site.name for site in SITES]
    parser = argparse.ArgumentParser(description=documentation.splitlines()[0])
    parser.add_argument("--sites", default=",".join(names), help="which sites, separated by commas (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=rounds, help="runs of each tool, of which the median counts (default: %(default)s)")
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
    """Begins with an empty directory, and not so soon after emptying it that the removal is felt."""
    if not PAGES.exists():
        PAGES.mkdir(parents=True)
        return
    if any(PAGES.iterdir()):
        shutil.rmtree(PAGES)
        PAGES.mkdir()
    wait = PAGES.stat().st_mtime + QUIET_SECONDS_AFTER_REMOVAL - time.time()
    if 0 < wait <= QUIET_SECONDS_AFTER_REMOVAL:
        print(f"waiting {wait:.0f} s for the file system to forget the pages removed", file=sys.stderr)
        time.sleep(wait)


def remove_pages() -> None:
    shutil.rmtree(PAGES, ignore_errors=True)
    PAGES.mkdir()


def take_turns(contestants: list[Contestant], rounds: int) -> Iterator[tuple[int, Contestant]]:
    """Interleaved, and each in turn first, so that what the machine does besides falls on all alike."""
    for number in range(rounds):
        first = number % len(contestants)
        for contestant in contestants[first:] + contestants[:first]:
            yield number, contestant


def print_differences(ours: set[str], name: str, theirs: set[str]) -> None:
    """The pages that only one of the two got."""
    for title, only in (("crawler", ours - theirs), (name, theirs - ours)):
        if only:
            shown = ", ".join(sorted(only)[:SHOWN_DIFFERENCES]) + (", …" if len(only) > SHOWN_DIFFERENCES else "")
            print(f"  only {title} got {len(only)}: {shown}")


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
