"""The sites of the benchmarks: real documentation, unpacked from Debian packages into the scratch directory."""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SCRATCH = Path(__file__).resolve().parent / "scratch"

# Waits up to 300 s for the lock of another apt process.
APT = ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=300"]


@dataclass(frozen=True)
class Site:
    name: str
    package: str
    root: str
    big: bool = False

    def directory(self) -> Path:
        return SCRATCH / "sites" / self.package / self.root


# Pages reachable from the root: about 1,170, 530, 3,900 and 21,600. The Rust package has 32,000 pages, but nothing links to a
# third of them (most of core::core_arch).
SITES = [
    Site("postgresql", "postgresql-doc-15", "usr/share/doc/postgresql-doc-15/html"),
    Site("python", "python3.11-doc", "usr/share/doc/python3.11/html"),
    Site("boost", "libboost1.81-doc", "usr/share/doc/libboost1.81-doc/doc/html"),
    Site("rust", "rust-doc", "usr/share/doc/rust-doc/html", big=True),
]


def run_apt(*arguments: str, directory: Path | None = None) -> bool:
    """Runs apt-get. If it fails, updates the package lists and retries."""

    def attempt(*words: str) -> bool:
        # To stderr, because stdout has only the results.
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        return subprocess.run([*APT, *words], cwd=directory, stdout=sys.stderr, env=environment).returncode == 0

    return attempt(*arguments) or (os.geteuid() == 0 and attempt("update") and attempt(*arguments))


def require_programs(packages: dict[str, str]) -> None:
    """Checks for the programs of `packages` (program to package). As root, installs the missing ones."""
    # The search path of a user often lacks the directories of servers.
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = [package for program, package in packages.items() if not shutil.which(program)]
    if not missing:
        return
    install = ["install", "-y", "--no-install-recommends", *missing]
    if os.geteuid() != 0 or not shutil.which("apt-get") or not run_apt(*install):
        sys.exit(f"bench: missing {', '.join(missing)}; install them with: sudo apt-get {' '.join(install)}")


def unpack(site: Site) -> None:
    """Downloads and unpacks the site's package into the scratch directory, unless an earlier run did."""
    unpacked = SCRATCH / "sites" / site.package
    if unpacked.is_dir():
        return
    unpacked.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as temporary:
        # apt downloads as another user and warns if that user cannot write here.
        os.chmod(temporary, 0o777)
        downloads = Path(temporary)
        if not run_apt("download", site.package, directory=downloads):
            sys.exit(f"bench: cannot download {site.package}; does this machine's apt offer it (Debian 12 does)?")
        [package] = downloads.glob("*.deb")
        # Unpack and then rename, so that an interrupted run leaves no incomplete site.
        subprocess.run(["dpkg-deb", "-x", package, downloads / "tree"], check=True)
        (downloads / "tree").rename(unpacked)
    if not (site.directory() / "index.html").is_file():
        sys.exit(f"bench: {site.package} has no {site.root}/index.html; is it another release of the package?")


def sample_pages(site: Site, number: int) -> list[Path]:
    """Up to `number` pages of the site, sampled evenly, the same in every run."""
    pages = sorted(path for path in site.directory().rglob("*.html") if path.is_file())
    return pages[:: max(1, -(-len(pages) // number))]
