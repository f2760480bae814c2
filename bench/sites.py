"""The sites the benchmarks crawl: real documentation, unpacked from Debian packages into the scratch directory.

Only this file knows which packages hold good sites and where in them a site begins.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SCRATCH = Path(__file__).resolve().parent / "scratch"

# A lock held by another apt run is waited for, this long.
APT = ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=300"]


@dataclass(frozen=True)
class Site:
    name: str
    package: str
    root: str
    big: bool = False

    def directory(self) -> Path:
        return SCRATCH / "sites" / self.package / self.root


# Pages reachable from the root: about 1,170, 530, 3,900 and 21,600. The Rust package holds 32,000 pages,
# but a third of them (most of core::core_arch) is linked from nowhere.
SITES = [
    Site("postgresql", "postgresql-doc-15", "usr/share/doc/postgresql-doc-15/html"),
    Site("python", "python3.11-doc", "usr/share/doc/python3.11/html"),
    Site("boost", "libboost1.81-doc", "usr/share/doc/libboost1.81-doc/doc/html"),
    Site("rust", "rust-doc", "usr/share/doc/rust-doc/html", big=True),
]


def run_apt(*arguments: str, directory: Path | None = None) -> bool:
    """Runs apt-get, with a second try after refreshing lists that may be missing or stale."""

    def attempt(*words: str) -> bool:
        # All on stderr, for stdout carries the figures alone.
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        return subprocess.run([*APT, *words], cwd=directory, stdout=sys.stderr, env=environment).returncode == 0

    return attempt(*arguments) or (os.geteuid() == 0 and attempt("update") and attempt(*arguments))


def require_programs(packages: dict[str, str]) -> None:
    """Has every program of `packages` (program to package), installing what is missing when root."""
    # Where a user's own search path often lacks the servers.
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = [package for program, package in packages.items() if not shutil.which(program)]
    if not missing:
        return
    install = ["install", "-y", "--no-install-recommends", *missing]
    if os.geteuid() != 0 or not shutil.which("apt-get") or not run_apt(*install):
        sys.exit(f"bench: missing {', '.join(missing)}; install them, as with: sudo apt-get {' '.join(install)}")


def unpack(site: Site) -> None:
    """Puts the site's package into the scratch directory, unless it is there from an earlier run."""
    unpacked = SCRATCH / "sites" / site.package
    if unpacked.is_dir():
        return
    unpacked.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as temporary:
        # apt drops its rights while downloading and warns where it cannot write without them.
        os.chmod(temporary, 0o777)
        downloads = Path(temporary)
        if not run_apt("download", site.package, directory=downloads):
            sys.exit(f"bench: cannot download {site.package}; does this machine's apt offer it (Debian 12 does)?")
        [package] = downloads.glob("*.deb")
        # Unpacked aside and then renamed, so that an interrupted run leaves no half site to be taken for a whole one.
        subprocess.run(["dpkg-deb", "-x", package, downloads / "tree"], check=True)
        (downloads / "tree").rename(unpacked)
    if not (site.directory() / "index.html").is_file():
        sys.exit(f"bench: {site.package} has no {site.root}/index.html; is it another release of the package?")


def sample_pages(site: Site, number: int) -> list[Path]:
    """Up to `number` pages of the site, spread evenly over all of them, the same in every run."""
    pages = sorted(path for path in site.directory().rglob("*.html") if path.is_file())
    return pages[:: max(1, -(-len(pages) // number))]
