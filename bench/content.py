"""Compresses the pages of real sites in every way worth considering and prints what each costs and saves.

Run from anywhere, as `python3 bench/content.py`; see `--help`. The pages are compressed one by one, as content storage does it.
Times are the best of all rounds, for what disturbs only adds; instructions are counted by callgrind and do not depend on what
else the machine does.
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

# Enough for a steady count of instructions; callgrind is some fifty times slower than the machine.
COUNTED_PAGES = 100


def main() -> None:
    arguments = parse_arguments()
    require_programs({"valgrind": "valgrind"} if arguments.instructions else {})
    options = [] if arguments.safe_lz4 else ["--no-default-features"]
    if not build(*options, project=PROJECT):
        sys.exit("bench: compression-bench does not build")
    # All, for a dictionary is also trained on the others.
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
    parser.add_argument("--sites", default=",".join(names), help="which sites, separated by commas (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds, of which the best counts (default: %(default)s)")
    parser.add_argument("--pages", type=int, default=1000, help="pages of each site, spread evenly (default: %(default)s)")
    parser.add_argument("--instructions", action="store_true", help="count instructions as well, which takes minutes")
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
    print(f"  {'':<26}{'µs/page':>9}{'back':>9}{'stored':>9}{'instructions/page':>20}")
    for row in rows:
        name, compressing, decompressing, share = row.split("\t")
        counted = f"{instructions_per_page(site, name):>20,.0f}" if arguments.instructions else f"{'–':>20}"
        print(f"  {name:<26}{compressing:>9}{decompressing:>9}{float(share):>9.1%}{counted}")
    sys.stdout.flush()


def instructions_per_page(site: Site, method: str) -> float:
    # Only inside compress_all is counted: neither reading the pages nor training a dictionary is compressing.
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
        raise Failed(f"{command[0]} ended with {result.returncode}, saying: {result.stderr[-500:].strip()}")
    return result


if __name__ == "__main__":
    main()
