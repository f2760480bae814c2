"""Crawls real sites with this crawler's pipeline, wget2 and the spider crate and compares their cost per page, also with the floor.

Run it from any directory as `python3 bench/pipeline.py`; see `--help`. The server's log defines the pages: HTML or text that was
served, counted once however often it was requested. The floor is the cost of fetching these pages and finding their links.
"""

import json
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from comparison import (PAGES, Result, build, clear_pages, comparable, parse_arguments, print_differences, ratio_text,
                        remove_pages, take_turns, unknown, verdict, verdict_at_least, write_page_list)
from measure import Failed, measure
from server import Server, serve
from sites import SCRATCH, Site, require_programs, unpack
from tools import (SPIDER, WGET_STATUSES, crawler_command, file_of, floor_command, pipeline_command, spider_command,
                   wget2_command, wget2_discarding_command)

PROGRAMS = {"nginx": "nginx", "openssl": "openssl", "wget2": "wget2"}

# The variants of this crawler.
CLASSIC = "classic"
# Compares no pages and stores none.
LINKS_ONLY = "crawl, links only"
WITHOUT_CONTENT = "crawl --no-content"
WITH_CONTENT = "crawl"
WITH_STATE = "crawl --state"
STATE_LINKS_ONLY = "--state, links only"
# Not measured. Its pages are compared with those of the other tools, because it keeps near-duplicates. The floor fetches them.
ALL_PAGES = "crawl --similarity 0"

OURS = [CLASSIC, LINKS_ONLY, WITHOUT_CONTENT, WITH_CONTENT, WITH_STATE, STATE_LINKS_ONLY, ALL_PAGES]

# Tools that must fetch the same pages.
OTHERS = ["wget2", "spider"]


@dataclass(frozen=True)
class Target:
    """The maximum ratio of CPU time per page of one tool to that of another."""

    ours: str
    theirs: str
    max_ratio: float


# wget2 saves the pages, which the module noop does not do, so wget2 is measured with and without saving. Spider stores no
# content, so it is compared with the crawl without content.
TARGETS = [
    Target(LINKS_ONLY, CLASSIC, 1.25),
    Target(LINKS_ONLY, "wget2 discarding", 0.5),
    Target(LINKS_ONLY, "floor", 2.0),
    Target(WITH_CONTENT, "wget2", 0.7),
    Target(WITHOUT_CONTENT, "spider", 0.35),
    Target(WITH_STATE, WITH_CONTENT, 1.5),
]

# The minimum rate of a crawl with state, which waits for its commits, on a site with small pages.
STATE_RATE_SITE, MIN_STATE_RATE = "postgresql", 6000

# Saving makes wget2 1.2 to 1.8 times as expensive, and up to 6.6 times on a slow file system. Above this ratio the comparison
# would be unfair to wget2.
MAX_SAVING_RATIO = 2.0


def main() -> None:
    arguments = parse_arguments(__doc__, rounds=5, quick="one small site, one round")
    # Turns the signal into an exception, so that `finally` stops nginx.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: terminated"))
    require_programs(PROGRAMS)
    broken = {}
    if not build("-p", "crawler-cli"):
        broken |= dict.fromkeys(OURS, "cannot build it")
    if not build("-p", "crawler", "--example", "floor"):
        broken["floor"] = "cannot build it"
    if not build(project=SPIDER):
        broken["spider"] = "cannot build it"
    verdicts: list[str] = []
    clear_pages()
    try:
        for site in arguments.sites:
            unpack(site)
            with serve(site.directory(), SCRATCH / "server", keep_log=True) as server:
                compare(site, server, arguments.rounds, broken, verdicts)
    finally:
        remove_pages()
    print("\nTargets")
    print("\n".join(verdicts))


def commands(server: Server, directory: Path, page_list: Path) -> dict[str, tuple[list, set[int]]]:
    """The command line and the accepted exit statuses of each tool. Its output goes to `directory`. The floor fetches the pages
    of `page_list`."""
    url, authority = server.urls["http"], server.authority
    links_only = ["--no-content", "--similarity", "0"]
    return {
        CLASSIC: (crawler_command(url, directory, authority), {0}),
        LINKS_ONLY: (pipeline_command(url, *links_only), {0}),
        WITHOUT_CONTENT: (pipeline_command(url, "--no-content"), {0}),
        WITH_CONTENT: (pipeline_command(url), {0}),
        WITH_STATE: (pipeline_command(url, "--state", directory / "state"), {0}),
        STATE_LINKS_ONLY: (pipeline_command(url, *links_only, "--state", directory / "state"), {0}),
        "wget2": (wget2_command(url, directory, authority), WGET_STATUSES),
        "wget2 discarding": (wget2_discarding_command(url, directory, authority), WGET_STATUSES),
        "spider": (spider_command(url), {0}),
        "floor": (floor_command(url, page_list), {0}),
    }


def compare(site: Site, server: Server, rounds: int, broken: dict[str, str], verdicts: list[str]) -> None:
    page_list = PAGES / f"{site.name}-list"
    try:
        if ALL_PAGES in broken:
            raise Failed(broken[ALL_PAGES])
        ours = all_pages(server, PAGES / f"{site.name}-all", page_list)
    except Failed as failure:
        print(f"  {ALL_PAGES}: {failure}")
        broken = {"floor": "there is no list of pages"} | broken
        ours = None
    names = list(commands(server, PAGES, page_list))
    results = {name: Result(failure=broken.get(name)) for name in names}
    for number, name in take_turns(names, rounds):
        if results[name].failure is None:
            directory = PAGES / f"{site.name}-{name.replace(' ', '').replace(',', '-')}-{number}"
            run_once(name, results[name], server, directory, page_list)
    print_table(site, rounds, results)
    verdicts.extend(judge_pages(site, ours, results))
    verdicts.extend(judge_costs(site, ours, results))
    verdicts.extend(judge_state_rate(site, results))
    sys.stdout.flush()


def run_once(name: str, result: Result, server: Server, directory: Path, page_list: Path) -> None:
    # New, and not removed until the end of the benchmark: see QUIET_SECONDS_AFTER_REMOVAL in comparison.py.
    directory.mkdir()
    command, accepted_statuses = commands(server, directory, page_list)[name]
    try:
        cost = measure(command, accepted_statuses)
    except Failed as failure:
        result.failure = str(failure)
    pages = {file_of(page) for page in server.pages_since_last_call()}
    if result.failure is None and not pages:
        result.failure = "it requested no pages"
    if result.failure is None:
        result.add(name, cost, pages)


def all_pages(server: Server, directory: Path, page_list: Path) -> set[str]:
    """All pages of the pipeline, including near-duplicates. Writes their list."""
    directory.mkdir()
    file = directory / "pages.jsonl"
    measure(pipeline_command(server.urls["http"], "--similarity", "0", "--module", f"jsonl={file}"), {0})
    write_page_list(server, page_list)
    try:
        with file.open() as lines:
            return {file_of(json.loads(line)["url"]) for line in lines}
    except (OSError, ValueError, KeyError) as error:
        raise Failed(f"cannot read {file}: {error!r}") from error


def print_table(site: Site, rounds: int, results: dict[str, Result]) -> None:
    print(f"\n{site.name}, median of {rounds}")
    print(f"  {'':<20}{'pages':>8}{'CPU µs/page':>13}{'pages/s':>9}{'peak MB':>9}{'CPU / wget2':>13}{'× floor':>9}")
    for name, result in results.items():
        if result.measured():
            print(f"  {name:<20}{len(result.pages):>8}{result.cpu_per_page():>13.0f}{result.pages_per_second():>9.0f}"
                  f"{result.peak_text():>9}{ratio_text(result, results['wget2']):>13}{ratio_text(result, results['floor']):>9}")
        else:
            print(f"  {name:<20} not measured: {result.failure}")


def judge_pages(site: Site, ours: set[str] | None, results: dict[str, Result]) -> list[str]:
    lines = []
    for name in OTHERS:
        what = f"{site.name}: pages that only one of {ALL_PAGES} and {name} fetches"
        if ours is None or not results[name].measured():
            lines.append(unknown(what, "one of the two was not measured"))
            continue
        theirs = results[name].pages
        print_differences(ours, name, theirs)
        differing = len(ours ^ theirs)
        lines.append(f"  {'MISSED: ' if differing else 'PASS:   '} {what}: {differing} of {len(theirs)}, target 0")
    return lines


def judge_costs(site: Site, ours: set[str] | None, results: dict[str, Result]) -> list[str]:
    lines = []
    for target in TARGETS:
        what = f"{site.name}: CPU per page, {target.ours} / {target.theirs}"
        one, other = results[target.ours], results[target.theirs]
        if not one.measured() or not other.measured():
            lines.append(unknown(what, "one of the two was not measured"))
        elif target.ours != WITH_STATE and ours is None:
            lines.append(unknown(what, "the pages of the two cannot be compared"))
        elif target.ours != WITH_STATE and not comparable(ours, other.pages):
            lines.append(unknown(what, "the two crawl different pages"))
        elif target.theirs == "wget2" and (reason := disturbed(results)):
            lines.append(unknown(what, reason))
        else:
            lines.append(verdict(what, one.cpu_per_page() / other.cpu_per_page(), target.max_ratio))
    return lines


def judge_state_rate(site: Site, results: dict[str, Result]) -> list[str]:
    if site.name != STATE_RATE_SITE:
        return []
    what, result = f"{site.name}: pages per second, {STATE_LINKS_ONLY}", results[STATE_LINKS_ONLY]
    if not result.measured():
        return [unknown(what, "it was not measured")]
    return [verdict_at_least(what, result.pages_per_second(), MIN_STATE_RATE)]


def disturbed(results: dict[str, Result]) -> str | None:
    """Why the cost of wget2 is not comparable, if so."""
    saving, discarding = results["wget2"], results["wget2 discarding"]
    if not discarding.measured():
        return "wget2 without saving was not measured"
    ratio = saving.cpu_per_page() / discarding.cpu_per_page()
    return f"saving made wget2 {ratio:.1f} times as expensive" if ratio > MAX_SAVING_RATIO else None


if __name__ == "__main__":
    main()
