"""Compares compression methods for stored page content on real sites: CPU time and size.

Run it from any directory as `python3 bench/content.py`; see `--help`. Each page is compressed separately, as in content storage.
Times are the minimum of all rounds, because disturbances only add time. callgrind counts the instructions, which do not depend
on other load on the machine.
"""

import argparse
import re
import subprocess
import sys

from comparison import build, choose_sites
from measure import Failed
from sites import SITES, Site, require_programs, unpack
from tools import ROOT

PROJECT = ROOT / "bench/compression"
PROGRAM = PROJECT / "target/release/compression-bench"

# Enough for a stable count of instructions. callgrind runs about fifty times slower.
COUNTED_PAGES = 100


def main() -> None:
    arguments = parse_arguments()
    require_programs({"valgrind": "valgrind"} if arguments.instructions else {})
    options = [] if arguments.safe_lz4 else ["--no-default-features"]
    if not build(*options, project=PROJECT):
        sys.exit("bench: cannot build compression-bench")
    # All sites: a dictionary is also trained on the other sites.
    for site in SITES:
        unpack(site)
    for site in arguments.sites:
        try:
            print_table(site, arguments)
        except Failed as failure:
            print(f"\n{site.name}: not measured: {failure}")


def parse_arguments() -> argparse.Namespace:
    names = [site.name for site in SITES]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sites", default=",".join(names), help="comma-separated names of sites (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds; the best counts (default: %(default)s)")
    parser.add_argument("--pages", type=int, default=1000, help="pages per site, sampled evenly (default: %(default)s)")
    parser.add_argument("--instructions", action="store_true", help="also count instructions, which takes minutes")
    parser.add_argument("--unsafe-lz4", dest="safe_lz4", action="store_false", help="let lz4_flex use its unsafe code")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or arguments.pages < 1:
        parser.error("--rounds and --pages must be at least 1")
    try:
        arguments.sites = choose_sites(arguments.sites)
    except ValueError as error:
        parser.error(str(error))
    return arguments


def print_table(site: Site, arguments: argparse.Namespace) -> None:
    first, *rows = run([PROGRAM], "--rounds", arguments.rounds, "--pages", arguments.pages, site=site).stdout.splitlines()
    print(f"\n{site.name}, {first}")
    print(f"  {'':<26}{'µs/page':>9}{'unpack':>9}{'stored':>9}{'instructions/page':>20}")
    for row in rows:
        name, compressing, decompressing, share = row.split("\t")
        counted = f"{instructions_per_page(site, name):>20,.0f}" if arguments.instructions else f"{'–':>20}"
        print(f"  {name:<26}{compressing:>9}{decompressing:>9}{float(share):>9.1%}{counted}")
    sys.stdout.flush()


def instructions_per_page(site: Site, method: str) -> float:
    # Count only inside compress_all, without reading the pages and training a dictionary.
    valgrind = ["valgrind", "--tool=callgrind", "--toggle-collect=*compress_all*", "--callgrind-out-file=/dev/null"]
    counted = run([*valgrind, PROGRAM], "--pages", COUNTED_PAGES, "--only", method, site=site)
    collected = re.search(r"Collected\s*:\s*(\d+)", counted.stderr)
    if not collected or int(collected[1]) == 0:
        raise Failed(f"no instructions counted: {counted.stderr[-500:].strip()}")
    return int(collected[1]) / int(counted.stdout)


def run(program: list, *options: object, site: Site) -> subprocess.CompletedProcess:
    others = [other.directory() for other in SITES if other != site]
    command = [*program, *map(str, options), site.directory(), *others]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise Failed(f"{command[0]} exited with status {result.returncode}: {result.stderr[-500:].strip()}")
    return result


if __name__ == "__main__":
    main()
