"""Crawls real sites with each output and module, and prints what it costs a page beyond `noop`.

Run it from any directory as `python3 bench/outputs.py`; see `--help`. The crawls store no content and compare no pages, so that the
difference to `noop` is what the output takes. The CPU time of a program that `exec` runs is included. A module that this version of
the crawler does not have is named and left out.
"""

import sys
from pathlib import Path

from comparison import PAGES, Result, compare_sites, take_turns
from measure import Failed, measure
from server import Server, serve
from sites import SCRATCH, Site, require_programs, unpack
from tools import file_of, pipeline_command

PROGRAMS = {"nginx": "nginx", "openssl": "openssl"}

NOOP = "noop"

# The modules by the name in the table. DIR is the directory of the run.
MODULES = {
    NOOP: "noop",
    "pages": "pages=DIR/pages",
    "jsonl": "jsonl=DIR/pages.jsonl",
    "jsonl with text": "jsonl=DIR/pages.jsonl,fields=url,title,text",
    "csv": "csv=DIR/pages.csv",
    "parquet": "parquet=DIR/pages.parquet",
    "urls": "urls=DIR/urls.jsonl",
    "edges": "edges=DIR/edges.csv",
    "graphml": "graphml=DIR/links.graphml",
    "markdown": "markdown=DIR/markdown",
    "extract": "extract=DIR/fields.jsonl,heading=h1",
    "mirror": "mirror=DIR/mirror",
    "check": "check=DIR/links.json",
    "words": "words",
    "exec": "exec=cat > DIR/pages.jsonl",
}

# What the crawler prints for a module that it does not have.
NO_SUCH_MODULE = "there is no such module"


def compare(site: Site, server: Server, rounds: int) -> None:
    results = {name: Result() for name in MODULES}
    written: dict[str, int] = {}
    for number, name in take_turns(list(MODULES), rounds):
        if results[name].failure is None:
            directory = PAGES / f"{site.name}-{name.replace(' ', '-')}-{number}"
            # New, and not removed until the end of the benchmark: see QUIET_SECONDS_AFTER_REMOVAL in comparison.py.
            directory.mkdir()
            run_once(name, results[name], server, directory)
            written[name] = size_of(directory)
    print_table(site, rounds, results, written)


def run_once(name: str, result: Result, server: Server, directory: Path) -> None:
    module = MODULES[name].replace("DIR", str(directory))
    command = pipeline_command(server.urls["http"], "--no-content", "--similarity", "0", "--module", module)
    try:
        cost = measure(command, {0})
    except Failed as failure:
        result.failure = "this version does not have it" if NO_SUCH_MODULE in str(failure) else str(failure)
    pages = {file_of(page) for page in server.pages_since_last_call()}
    if result.failure is None and not pages:
        result.failure = "it requested no pages"
    if result.failure is None:
        result.add(name, cost, pages)


def size_of(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


def print_table(site: Site, rounds: int, results: dict[str, Result], written: dict[str, int]) -> None:
    noop = results[NOOP]
    pages = f"{len(noop.pages):,} pages, " if noop.measured() else ""
    print(f"\n{site.name}: {pages}median of {rounds} {'run' if rounds == 1 else 'runs'}")
    print(f"  {'module':<18}{'CPU µs/page':>12}{'beyond noop':>13}{'pages/s':>10}{'peak MB':>10}{'bytes/page':>12}")
    for name, result in results.items():
        if not result.measured():
            print(f"  {name:<18}{result.failure or 'not measured'}")
            continue
        cost, beyond = result.cpu_per_page(), "–"
        if noop.measured() and name != NOOP:
            beyond = f"{cost - noop.cpu_per_page():+.0f}"
        size = written[name] / max(1, len(result.pages))
        print(f"  {name:<18}{cost:>12.0f}{beyond:>13}{result.pages_per_second():>10,.0f}{result.peak_text():>10}{size:>12,.0f}")
    sys.stdout.flush()


if __name__ == "__main__":
    compare_sites(__doc__, PROGRAMS, compare)
