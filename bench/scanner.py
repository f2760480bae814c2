"""Counts the instructions of the link scanner per byte of real pages, with callgrind."""

import re
import shutil
import subprocess
from pathlib import Path

from measure import Failed
from sites import SCRATCH, Site, sample_pages
from tools import ROOT

EXAMPLE = ROOT / "target/release/examples/scan_links"

# With and without decoding, resolving and normalizing the links.
VARIANTS = {"scan alone": ["--only-scan"], "scan and resolve": []}


def instructions_per_byte(site: Site, pages: int) -> dict[str, float]:
    """For each variant, instructions per byte over a sample of the site's pages."""
    sample = SCRATCH / "sample" / site.name
    shutil.rmtree(sample, ignore_errors=True)
    sample.mkdir(parents=True)
    for number, page in enumerate(sample_pages(site, pages)):
        shutil.copyfile(page, sample / f"{number}.html")
    total = sum(page.stat().st_size for page in sample.iterdir())
    return {name: count_instructions(options, sample) / total for name, options in VARIANTS.items()}


def count_instructions(options: list[str], sample: Path) -> int:
    # Count only inside scan_all, without reading the files.
    valgrind = ["valgrind", "--tool=callgrind", "--toggle-collect=*scan_all*", "--callgrind-out-file=/dev/null"]
    run = subprocess.run([*valgrind, EXAMPLE, *options, sample], capture_output=True, text=True)
    collected = re.search(r"Collected\s*:\s*(\d+)", run.stderr)
    if run.returncode != 0 or not collected or int(collected[1]) == 0:
        raise Failed(f"no instructions counted in scan_links {' '.join(options)}: {(run.stdout + run.stderr)[-500:].strip()}")
    return int(collected[1])
