"""Crawls real sites with and without a web archive, and prints what the archive costs a page, next to wget's `--warc-file`.

Run it from any directory as `python3 bench/warc.py`; see `--help`. Both archives are compressed, a gzip member for each record, and have
digests of blocks and payloads. The crawls store no content and compare no pages, and wget keeps its page files in both of its runs, so that
the difference is what the archive takes.
"""

import sys
from pathlib import Path

from comparison import PAGES, Result, compare_sites, take_turns
from measure import Failed, measure
from server import Server, serve
from sites import SCRATCH, Site, require_programs, unpack
from tools import WGET_STATUSES, file_of, pipeline_command, wget_command

PROGRAMS = {"nginx": "nginx", "openssl": "openssl", "wget": "wget"}

# A crawl without an archive, and what it is compared with: the name of the table, and the end of the archive's name.
CRAWLER, WGET = "crawler", "wget"
ARCHIVES = {"crawler .warc.gz": (CRAWLER, ".warc.gz"), "crawler .warc.zst": (CRAWLER, ".warc.zst"), "crawler .warc": (CRAWLER, ".warc"),
            "wget .warc.gz": (WGET, ".warc.gz")}

# What the archive of the crawler may cost, as a part of what that of wget costs.
TARGET = 0.5


def compare(site: Site, server: Server, rounds: int) -> None:
    results = {name: Result() for name in [CRAWLER, WGET, *ARCHIVES]}
    written: dict[str, int] = {}
    for number, name in take_turns(list(results), rounds):
        # wget takes minutes for a big site.
        if name.startswith(WGET) and site.big:
            results[name].failure = "not measured: it takes minutes for this site"
        if results[name].failure is None:
            directory = PAGES / f"{site.name}-{name.replace(' ', '-')}-{number}"
            directory.mkdir()
            run_once(name, results[name], server, directory)
            written[name] = sum(file.stat().st_size for file in directory.glob("archive*"))
    print_table(site, rounds, results, written)


def run_once(name: str, result: Result, server: Server, directory: Path) -> None:
    url = server.urls["http"]
    tool, extension = ARCHIVES.get(name, (name, None))
    if tool == WGET:
        command = wget_command(url, directory / "pages", server.authority)
        command += [f"--warc-file={directory / 'archive'}", "--no-warc-keep-log"] if extension else []
        statuses = WGET_STATUSES
    else:
        # The same pages as with `noop`, without images and stylesheets.
        module = f"warc={directory / 'archive'}{extension},no-requisites" if extension else "noop"
        command = pipeline_command(url, "--no-content", "--similarity", "0", "--module", module)
        statuses = {0}
    try:
        cost = measure(command, statuses)
    except Failed as failure:
        result.failure = str(failure)
    pages = {file_of(page) for page in server.pages_since_last_call()}
    if result.failure is None:
        result.add(name, cost, pages)


def print_table(site: Site, rounds: int, results: dict[str, Result], written: dict[str, int]) -> None:
    print(f"\n{site.name}: {len(results[CRAWLER].pages):,} pages, median of {rounds} {'run' if rounds == 1 else 'runs'}")
    print(f"  {'':<20}{'CPU µs/page':>12}{'archive':>10}{'bytes/page':>12}")
    added = {}
    for name, result in results.items():
        if not result.measured():
            print(f"  {name:<20}{result.failure or 'not measured'}")
            continue
        cost, text = result.cpu_per_page(), "–"
        if name in ARCHIVES and results[ARCHIVES[name][0]].measured():
            added[name] = cost - results[ARCHIVES[name][0]].cpu_per_page()
            text = f"{added[name]:+.0f}"
        size = written[name] / max(1, len(result.pages))
        print(f"  {name:<20}{cost:>12.0f}{text:>10}{size:>12,.0f}")
    if (ours := added.get("crawler .warc.gz")) and (theirs := added.get("wget .warc.gz")):
        print(f"  the archive costs {ours / theirs:.2f} × wget's (target: at most {TARGET})")
    sys.stdout.flush()


if __name__ == "__main__":
    compare_sites(__doc__, PROGRAMS, compare)
