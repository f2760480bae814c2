"""Crawls real sites with this crawler, wget2 and wget and compares their cost per page, over HTTP also with the floor.

Run it from any directory as `python3 bench/classic.py`; see `--help`.
"""

import signal
import sys
from pathlib import Path

import scanner
from comparison import (PAGES, Result, build, clear_pages, comparable, parse_arguments, print_differences, ratio_text,
                        remove_pages, take_turns, unknown, verdict, write_page_list)
from measure import Failed, measure
from server import Server, serve
from sites import SCRATCH, Site, require_programs, unpack
from tools import TOOLS, Tool, crawler_command, file_of, floor_command

PROGRAMS = {"nginx": "nginx", "openssl": "openssl", "wget": "wget", "wget2": "wget2", "valgrind": "valgrind"}

CPU_TARGET = 0.6
MEMORY_TARGET_MEGABYTES = 60
INSTRUCTIONS_TARGET = 15

# Enough for a stable count of instructions. callgrind runs about fifty times slower.
SCANNED_PAGES = 200


def main() -> None:
    arguments = parse_arguments(__doc__, rounds=5, quick="one small site, one round, few pages under callgrind")
    scanned_pages = 20 if arguments.quick else SCANNED_PAGES
    # Turns the signal into an exception, so that `finally` stops nginx.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: terminated"))
    require_programs(PROGRAMS)
    built = build("-p", "crawler-cli")
    scanner_built = build("-p", "crawler", "--example", "scan_links")
    verdicts: list[str] = []
    clear_pages()
    try:
        for site in arguments.sites:
            unpack(site)
            with serve(site.directory(), SCRATCH / "server", keep_log=True) as server:
                for scheme in ("http", "https"):
                    compare(site, scheme, server, arguments.rounds, built, verdicts)
            count_scanning(site, scanned_pages, scanner_built, verdicts)
    finally:
        remove_pages()
    print("\nTargets")
    print("\n".join(verdicts))


def compare(site: Site, scheme: str, server: Server, rounds: int, built: bool, verdicts: list[str]) -> None:
    tools = [tool for tool in TOOLS if tool.fast or not site.big]
    if scheme == "http":
        try:
            tools.append(floor(site, server))
        except Failed as failure:
            print(f"  floor: {failure}")
    results = {tool.name: Result() for tool in tools}
    if not built:
        results["crawler"].failure = "cannot build it"
    for number, tool in take_turns(tools, rounds):
        if results[tool.name].failure is None:
            run_once(tool, results[tool.name], server, scheme, PAGES / f"{site.name}-{scheme}-{tool.name}-{number}")
    print_table(site, scheme, rounds, results)
    if results["crawler"].measured() and results["wget2"].measured():
        print_differences(results["crawler"].pages, "wget2", results["wget2"].pages)
    verdicts.extend(judge(site, scheme, results))


def floor(site: Site, server: Server) -> Tool:
    """Fetches the pages of a crawl that is not measured. It fails unless it fetches them all."""
    if not build("-p", "crawler", "--example", "floor"):
        raise Failed("cannot build it")
    directory, page_list = PAGES / f"{site.name}-all", PAGES / f"{site.name}-list"
    directory.mkdir()
    measure(crawler_command(server.urls["http"], directory, server.authority), {0})
    write_page_list(server, page_list)
    pages = {file_of(page) for page in page_list.read_text().splitlines()}
    return Tool("floor", lambda url, *_: floor_command(url, page_list), lambda _: pages, {0})


def run_once(tool: Tool, result: Result, server: Server, scheme: str, pages: Path) -> None:
    # Not removed until the end of the benchmark: see QUIET_SECONDS_AFTER_REMOVAL in comparison.py.
    pages.mkdir()
    try:
        cost = measure(tool.command(server.urls[scheme], pages, server.authority), tool.accepted_statuses)
        saved = tool.saved(pages)
        if not saved:
            raise Failed("it saved no pages")
    except Failed as failure:
        result.failure = str(failure)
        return
    result.add(tool.name, cost, saved)


def print_table(site: Site, scheme: str, rounds: int, results: dict[str, Result]) -> None:
    print(f"\n{site.name} over {scheme}, median of {rounds}")
    references = {"CPU / wget2": results["wget2"]} | ({"× floor": results["floor"]} if "floor" in results else {})
    titles = "".join(f"{title:>13}" for title in references)
    print(f"  {'tool':<8}{'pages':>8}{'CPU µs/page':>13}{'pages/s':>9}{'peak MB':>9}{titles}")
    for name, result in results.items():
        if result.measured():
            ratios = "".join(f"{ratio_text(result, reference):>13}" for reference in references.values())
            print(f"  {name:<8}{len(result.pages):>8}{result.cpu_per_page():>13.0f}{result.pages_per_second():>9.0f}"
                  f"{result.peak_text():>9}{ratios}")
        else:
            print(f"  {name:<8} not measured: {result.failure}")
    sys.stdout.flush()


def judge(site: Site, scheme: str, results: dict[str, Result]) -> list[str]:
    ours, theirs = results["crawler"], results["wget2"]
    subject = f"{site.name} over {scheme}"
    if not ours.measured() or not theirs.measured():
        return [unknown(subject, "crawler or wget2 was not measured")]
    if not comparable(ours.pages, theirs.pages):
        return [unknown(subject, f"crawler and wget2 differ in {len(ours.pages ^ theirs.pages)} pages")]
    ratio = ours.cpu_per_page() / theirs.cpu_per_page()
    lines = [verdict(f"{subject}: CPU per page / wget2's", ratio, CPU_TARGET)]
    if site.big:
        lines.append(verdict(f"{subject}: peak MB on {len(ours.pages)} pages", ours.peak_megabytes(), MEMORY_TARGET_MEGABYTES))
    return lines


def count_scanning(site: Site, pages: int, built: bool, verdicts: list[str]) -> None:
    try:
        if not built:
            raise Failed("cannot build the example scan_links")
        counts = scanner.instructions_per_byte(site, pages)
    except Failed as failure:
        print(f"\n{site.name}, link scanner: not measured: {failure}")
        verdicts.append(unknown(site.name, "instructions per byte of the link scanner were not measured"))
        return
    print(f"\n{site.name}, link scanner on at most {pages} pages, instructions per byte")
    for name, count in counts.items():
        print(f"  {name:<18}{count:>6.1f}")
    verdicts.append(verdict(f"{site.name}: instructions per byte, scan alone", counts["scan alone"], INSTRUCTIONS_TARGET))


if __name__ == "__main__":
    main()
