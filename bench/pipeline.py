"""Crawls real sites with this crawler's pipeline, wget2 and the spider crate and compares their cost per page.

Run it from any directory as `python3 bench/pipeline.py`; see `--help`. The server's log defines the pages: HTML or text that was
served, counted once however often it was requested.
"""

import json
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from comparison import (PAGES, Result, build, clear_pages, comparable, parse_arguments, print_differences, remove_pages,
                        take_turns, unknown, verdict)
from measure import Failed, measure
from server import Server, serve
from sites import SCRATCH, Site, require_programs, unpack
from tools import (SPIDER, WGET_STATUSES, crawler_command, file_of, pipeline_command, spider_command, wget2_command,
                   wget2_discarding_command)

PROGRAMS = {"nginx": "nginx", "openssl": "openssl", "wget2": "wget2"}

# The variants of this crawler.
CLASSIC = "classic"
# Compares no pages and stores none.
LINKS_ONLY = "crawl, links only"
WITHOUT_CONTENT = "crawl --no-content"
WITH_CONTENT = "crawl"
WITH_STATE = "crawl --state"
# Not measured. Its pages are compared with those of the other tools, because it keeps near-duplicates.
ALL_PAGES = "crawl --similarity 0"

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
    Target(WITH_CONTENT, "wget2", 0.7),
    Target(WITHOUT_CONTENT, "spider", 0.35),
    Target(WITH_STATE, WITH_CONTENT, 1.5),
]

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
        broken |= dict.fromkeys([CLASSIC, LINKS_ONLY, WITHOUT_CONTENT, WITH_CONTENT, WITH_STATE, ALL_PAGES], "cannot build it")
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


def commands(server: Server, directory: Path) -> dict[str, tuple[list, set[int]]]:
    """The command line and the accepted exit statuses of each tool. Its output goes to `directory`."""
    url, authority = server.urls["http"], server.authority
    return {
        CLASSIC: (crawler_command(url, directory, authority), {0}),
        LINKS_ONLY: (pipeline_command(url, "--no-content", "--similarity", "0"), {0}),
        WITHOUT_CONTENT: (pipeline_command(url, "--no-content"), {0}),
        WITH_CONTENT: (pipeline_command(url), {0}),
        WITH_STATE: (pipeline_command(url, "--state", directory / "state"), {0}),
        "wget2": (wget2_command(url, directory, authority), WGET_STATUSES),
        "wget2 discarding": (wget2_discarding_command(url, directory, authority), WGET_STATUSES),
        "spider": (spider_command(url), {0}),
    }


def compare(site: Site, server: Server, rounds: int, broken: dict[str, str], verdicts: list[str]) -> None:
    names = list(commands(server, PAGES))
    results = {name: Result(failure=broken.get(name)) for name in names}
    for number, name in take_turns(names, rounds):
        if results[name].failure is None:
            run_once(name, results[name], server, PAGES / f"{site.name}-{name.replace(' ', '').replace(',', '-')}-{number}")
    print_table(site, rounds, results)
    try:
        if ALL_PAGES in broken:
            raise Failed(broken[ALL_PAGES])
        ours = all_pages(server, PAGES / f"{site.name}-all")
    except Failed as failure:
        print(f"  {ALL_PAGES}: {failure}")
        ours = None
    verdicts.extend(judge_pages(site, ours, results))
    verdicts.extend(judge_costs(site, ours, results))
    sys.stdout.flush()


def run_once(name: str, result: Result, server: Server, directory: Path) -> None:
    # New, and not removed until the end of the benchmark: see QUIET_SECONDS_AFTER_REMOVAL in comparison.py.
    directory.mkdir()
    command, accepted_statuses = commands(server, directory)[name]
    try:
        cost = measure(command, accepted_statuses)
    except Failed as failure:
        result.failure = str(failure)
    pages = {file_of(page) for page in server.pages_since_last_call()}
    if result.failure is None and not pages:
        result.failure = "it requested no pages"
    if result.failure is None:
        result.add(name, cost, pages)


def all_pages(server: Server, directory: Path) -> set[str]:
    """All pages of the pipeline, including near-duplicates."""
    directory.mkdir()
    file = directory / "pages.jsonl"
    measure(pipeline_command(server.urls["http"], "--similarity", "0", "--module", f"jsonl={file}"), {0})
    server.pages_since_last_call()
    try:
        with file.open() as lines:
            return {file_of(json.loads(line)["url"]) for line in lines}
    except (OSError, ValueError, KeyError) as error:
        raise Failed(f"cannot read {file}: {error!r}") from error


def print_table(site: Site, rounds: int, results: dict[str, Result]) -> None:
    print(f"\n{site.name}, median of {rounds}")
    print(f"  {'':<20}{'pages':>8}{'CPU µs/page':>13}{'pages/s':>9}{'peak MB':>9}{'CPU / wget2':>13}")
    reference = results["wget2"]
    for name, result in results.items():
        if result.measured():
            ratio = f"{result.cpu_per_page() / reference.cpu_per_page():.2f}" if reference.measured() else "?"
            print(f"  {name:<20}{len(result.pages):>8}{result.cpu_per_page():>13.0f}{result.pages_per_second():>9.0f}"
                  f"{result.peak_text():>9}{ratio:>13}")
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


def disturbed(results: dict[str, Result]) -> str | None:
    """Why the cost of wget2 is not comparable, if so."""
    saving, discarding = results["wget2"], results["wget2 discarding"]
    if not discarding.measured():
        return "wget2 without saving was not measured"
    ratio = saving.cpu_per_page() / discarding.cpu_per_page()
    return f"saving made wget2 {ratio:.1f} times as expensive" if ratio > MAX_SAVING_RATIO else None


if __name__ == "__main__":
    main()
