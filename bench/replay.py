"""Replays archives of real sites with some modules, and prints pages per second next to FastWARC's bare iteration.

Run it from any directory as `python3 bench/replay.py`; see `--help`. The archive has a gzip member for each page, as nearly all archives
have. FastWARC is a reader in C++ for Python: it iterates over the records and parses the HTTP headers, in one thread, and does nothing
with the pages. The crawler also decodes them, finds their links, compares them with each other and writes outputs. FastWARC comes
from PyPI.
"""

import gzip
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from comparison import PAGES, build, clear_pages, parse_arguments, remove_pages, take_turns
from measure import Cost, Failed, measure
from sites import SCRATCH, Site, unpack
from tools import CRAWLER, ROOT

PYTHON = SCRATCH / "python"

# The options by the name in the table. DIR is the directory of the run.
REPLAYS = {
    "noop, one thread": ["--threads", "1"],
    "noop": [],
    "noop, no comparison": ["--similarity", "0"],
    "jsonl with text": ["--module", "jsonl=DIR/pages.jsonl,fields=url,title,text"],
    "edges": ["--module", "edges=DIR/edges.csv"],
    "markdown": ["--module", "markdown=DIR/markdown"],
    "parquet": ["--module", "parquet=DIR/pages.parquet"],
}

FASTWARC = "FastWARC, iteration only"

ITERATE = """
import sys
from fastwarc.warc import ArchiveIterator, WarcRecordType
with open(sys.argv[1], "rb") as file:
    print(sum(1 for _ in ArchiveIterator(file, record_types=WarcRecordType.response, parse_http=True)))
"""


def main() -> None:
    arguments = parse_arguments(__doc__, rounds=5, quick="one small site, one round")
    subprocess.run([ROOT / "scripts/python-packages", PYTHON, "fastwarc"], check=True)
    if not build("-p", "crawler-cli"):
        sys.exit("bench: cannot build crawler")
    clear_pages()
    try:
        for site in arguments.sites:
            unpack(site)
            compare(site, arguments.rounds)
    finally:
        remove_pages()


def compare(site: Site, rounds: int) -> None:
    archive = PAGES / f"{site.name}.warc.gz"
    pages, size = write_archive(site, archive)
    costs: dict[str, list[Cost]] = {name: [] for name in [FASTWARC, *REPLAYS]}
    failures: dict[str, str] = {}
    for number, name in take_turns(list(costs), rounds):
        if name in failures:
            continue
        directory = PAGES / f"{site.name}-{name.replace(' ', '-')}-{number}"
        directory.mkdir()
        try:
            costs[name].append(measure(command(name, archive, directory), {0}))
        except Failed as failure:
            failures[name] = str(failure)
    print(f"\n{site.name}: {pages:,} pages, {size / 1e6:,.1f} MB decoded, {archive.stat().st_size / 1e6:,.1f} MB compressed")
    print(f"  {'':<26}{'pages/s':>10}{'MB/s':>8}{'CPU µs/page':>14}")
    for name, runs in costs.items():
        if name in failures or not runs:
            print(f"  {name:<26}failed: {failures.get(name)}")
            continue
        seconds = median(run.wall_seconds for run in runs)
        cpu = median(run.cpu_seconds for run in runs)
        print(f"  {name:<26}{pages / seconds:>10,.0f}{size / 1e6 / seconds:>8,.0f}{1e6 * cpu / pages:>14,.0f}")
    sys.stdout.flush()


def command(name: str, archive: Path, directory: Path) -> list:
    if name == FASTWARC:
        return [PYTHON / "bin/python", "-c", ITERATE, archive]
    options = [option.replace("DIR", str(directory)) for option in REPLAYS[name]]
    return [CRAWLER, "replay", archive, "--quiet", *options]


def write_archive(site: Site, archive: Path) -> tuple[int, int]:
    """Writes all pages of a site, and returns their number and size."""
    pages, size = 0, 0
    with open(archive, "wb") as file:
        for page in sorted(site.directory().rglob("*.html")):
            if not page.is_file():
                continue
            body = page.read_bytes()
            uri = f"http://{site.name}.test/{os.path.relpath(page, site.directory())}".replace(" ", "%20")
            file.write(gzip.compress(record(uri, body), 6))
            pages, size = pages + 1, size + len(body)
    return pages, size


def record(uri: str, body: bytes) -> bytes:
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    head = (
        "WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:0>\r\nWARC-Date: 2026-01-01T00:00:00Z\r\n"
        f"WARC-Target-URI: {uri}\r\nContent-Type: application/http; msgtype=response\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return head.encode() + block + b"\r\n\r\n"


if __name__ == "__main__":
    main()
