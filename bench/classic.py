"""Crawls real sites with this crawler, wget2 and wget side by side and prints what each page cost.

Run from anywhere, as `python3 bench/classic.py`; see `--help`. Everything printed was measured in that very run.
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

import scanner
from measure import Cost, Failed, least_visible_megabytes, measure
from server import Server, serve
from sites import SCRATCH, SITES, Site, require_programs, unpack
from tools import ROOT, TOOLS, Tool

PROGRAMS = {"nginx": "nginx", "openssl": "openssl", "wget": "wget", "wget2": "wget2", "valgrind": "valgrind"}

CPU_TARGET = 0.6
MEMORY_TARGET_MEGABYTES = 60
INSTRUCTIONS_TARGET = 15

# Enough for a steady count of instructions; callgrind is some fifty times slower than the machine.
SCANNED_PAGES = 200

PAGES = SCRATCH / "pages"

# Saving pages soon after as many were removed takes several times the system time (on ext4, which is slow to reuse inodes):
# no pages are removed between runs, and a run begins this long after the one before has cleaned up.
QUIET_SECONDS_AFTER_REMOVAL = 60

# Two crawls that differ in more than this share of their pages did different work, and their costs say nothing.
TOLERATED_DIFFERENCE = 0.01

SHOWN_DIFFERENCES = 5


@dataclass
class Result:
    """The runs of one tool on one site over one scheme."""

    # With the number of pages of that run: not every tool saves the same number each time.
    runs: list[tuple[Cost, int]] = field(default_factory=list)
    # What the last run saved.
    saved: set[str] = field(default_factory=set)
    failure: str | None = None

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


def main() -> None:
    arguments = parse_arguments()
    # An end by signal passes through `finally` like any other, so that nginx never outlives the benchmark.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: terminated"))
    require_programs(PROGRAMS)
    built = build("-p", "crawler-cli")
    scanner_built = build("-p", "crawler", "--example", "scan_links")
    verdicts: list[str] = []
    clear_pages()
    try:
        for site in arguments.sites:
            unpack(site)
            with serve(site.directory(), SCRATCH / "server") as server:
                for scheme in ("http", "https"):
                    compare(site, scheme, server, arguments.rounds, built, verdicts)
            count_scanning(site, arguments.scanned_pages, scanner_built, verdicts)
    finally:
        shutil.rmtree(PAGES, ignore_errors=True)
        PAGES.mkdir()
    print("\nTargets")
    print("\n".join(verdicts))


def parse_arguments() -> argparse.Namespace:
    names = [site.name for site in SITES]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sites", default=",".join(names), help="which sites, separated by commas (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each tool, of which the median counts (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="one small site, one round, few pages under callgrind")
    arguments = parser.parse_args()
    chosen = names[:1] if arguments.quick else arguments.sites.split(",")
    if unknown := [name for name in chosen if name not in names]:
        parser.error(f"no site {', '.join(unknown)}; there are {', '.join(names)}")
    if arguments.rounds < 1:
        parser.error("--rounds must be at least 1")
    arguments.sites = [site for site in SITES if site.name in chosen]
    arguments.rounds = 1 if arguments.quick else arguments.rounds
    arguments.scanned_pages = 20 if arguments.quick else SCANNED_PAGES
    return arguments


def build(*what: str) -> bool:
    return subprocess.run(["cargo", "build", "--release", "--quiet", *what], cwd=ROOT).returncode == 0


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


def compare(site: Site, scheme: str, server: Server, rounds: int, built: bool, verdicts: list[str]) -> None:
    tools = [tool for tool in TOOLS if tool.fast or not site.big]
    results = {tool.name: Result() for tool in tools}
    if not built:
        results["crawler"].failure = "it does not build"
    for number in range(rounds):
        # Interleaved, and each in turn first, so that what the machine does besides falls on all alike.
        for tool in tools[number % len(tools) :] + tools[: number % len(tools)]:
            if results[tool.name].failure is None:
                run_once(tool, results[tool.name], server, scheme, PAGES / f"{site.name}-{scheme}-{tool.name}-{number}")
    print_table(site, scheme, rounds, results)
    print_differences(results)
    verdicts.extend(judge(site, scheme, results))


def run_once(tool: Tool, result: Result, server: Server, scheme: str, pages: Path) -> None:
    # Not removed until all is over: see QUIET_SECONDS_AFTER_REMOVAL.
    pages.mkdir()
    try:
        cost = measure(tool.command(server.urls[scheme], pages, server.authority), tool.accepted_statuses)
        saved = tool.saved(pages)
        if not saved:
            raise Failed("it saved no page")
    except Failed as failure:
        result.failure = str(failure)
        return
    if result.saved and len(saved) != len(result.saved):
        print(f"  {tool.name} saved {len(result.saved)} pages in one round and {len(saved)} in another")
    result.runs.append((cost, len(saved)))
    result.saved = saved


def print_table(site: Site, scheme: str, rounds: int, results: dict[str, Result]) -> None:
    print(f"\n{site.name} over {scheme}, median of {rounds}")
    print(f"  {'tool':<8}{'pages':>8}{'CPU µs/page':>13}{'pages/s':>9}{'peak MB':>9}{'CPU / wget2':>13}")
    reference = results["wget2"]
    for name, result in results.items():
        if result.measured():
            ratio = f"{result.cpu_per_page() / reference.cpu_per_page():.2f}" if reference.measured() else "?"
            print(f"  {name:<8}{len(result.saved):>8}{result.cpu_per_page():>13.0f}{result.pages_per_second():>9.0f}"
                  f"{result.peak_text():>9}{ratio:>13}")
        else:
            print(f"  {name:<8} not measured: {result.failure}")
    sys.stdout.flush()


def print_differences(results: dict[str, Result]) -> None:
    """The pages that only one of the two saved."""
    ours, theirs = results["crawler"], results["wget2"]
    if not ours.measured() or not theirs.measured():
        return
    for title, only in (("crawler", ours.saved - theirs.saved), ("wget2", theirs.saved - ours.saved)):
        if only:
            shown = ", ".join(sorted(only)[:SHOWN_DIFFERENCES]) + (", …" if len(only) > SHOWN_DIFFERENCES else "")
            print(f"  only {title} saved {len(only)}: {shown}")


def judge(site: Site, scheme: str, results: dict[str, Result]) -> list[str]:
    ours, theirs = results["crawler"], results["wget2"]
    place = f"{site.name} over {scheme}"
    if not ours.measured() or not theirs.measured():
        return [f"  unknown: {place}: crawler or wget2 was not measured"]
    if (differing := len(ours.saved ^ theirs.saved)) > TOLERATED_DIFFERENCE * len(theirs.saved):
        return [f"  unknown: {place}: crawler and wget2 differ in {differing} pages"]
    ratio = ours.cpu_per_page() / theirs.cpu_per_page()
    lines = [verdict(f"{place}: CPU per page by wget2's", ratio, CPU_TARGET)]
    if site.big:
        lines.append(verdict(f"{place}: peak MB on {len(ours.saved)} pages", ours.peak_megabytes(), MEMORY_TARGET_MEGABYTES))
    return lines


def verdict(what: str, value: float, target: float) -> str:
    if value <= target:
        return f"  met:     {what}: {value:.2f}, target {target}"
    return f"  MISSED:  {what}: {value:.2f}, target {target}, {100 * (value / target - 1):.0f} % above"


def count_scanning(site: Site, pages: int, built: bool, verdicts: list[str]) -> None:
    try:
        if not built:
            raise Failed("the example scan_links does not build")
        counts = scanner.instructions_per_byte(site, pages)
    except Failed as failure:
        print(f"\n{site.name}, link scanner: not measured: {failure}")
        verdicts.append(f"  unknown: {site.name}: instructions per byte of the link scanner were not measured")
        return
    print(f"\n{site.name}, link scanner on at most {pages} pages, instructions per byte")
    for name, count in counts.items():
        print(f"  {name:<18}{count:>6.1f}")
    verdicts.append(verdict(f"{site.name}: instructions per byte, scan alone", counts["scan alone"], INSTRUCTIONS_TARGET))


if __name__ == "__main__":
    main()
