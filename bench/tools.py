"""The crawlers under comparison: the command that crawls all pages of a site, and the pages that it saved."""

from pathlib import Path
from typing import Callable, NamedTuple
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
CRAWLER = ROOT / "target/release/crawler"
FLOOR = ROOT / "target/release/examples/floor"
SPIDER = ROOT / "bench/spider"

CONCURRENCY = "16"

# Deeper than any of the sites. The other tools have no limit.
DEPTH = "1000"

# Some index pages have megabytes, and the other tools have no limit.
MAX_PAGE_BYTES = "67108864"


class Tool(NamedTuple):
    name: str
    # Returns the command line for a URL, a page directory and a certificate authority.
    command: Callable[[str, Path, Path], list]
    # Returns the saved pages as file paths relative to the site's root.
    saved: Callable[[Path], set[str]]
    accepted_statuses: set[int]
    # Whether it is fast enough for a big site.
    fast: bool = True


def crawler_command(url: str, pages: Path, authority: Path) -> list:
    options = ["--delay", "0", "--ignore-robots", "--concurrency", CONCURRENCY, "--max-page-bytes", MAX_PAGE_BYTES, "-q"]
    trust = ["--ca-file", authority] if url.startswith("https:") else []
    return [CRAWLER, url, pages, DEPTH, *options, *trust]


def pipeline_command(url: str, *options: str | Path) -> list:
    concurrency = ["--concurrency", CONCURRENCY, "--per-host", CONCURRENCY, "--workers", "1"]
    unlimited = ["--max-pages", "1000000", "--max-bytes", "100GB", "--max-page-bytes", MAX_PAGE_BYTES]
    modules = [] if "--module" in options else ["--module", "noop"]
    return [CRAWLER, "crawl", url, "--delay", "0", "--ignore-robots", "--scope", "host", "-q", *concurrency, *unlimited,
            *modules, *options]


def crawler_saved(pages: Path) -> set[str]:
    return {file_of(first_line(path)) for path in pages.iterdir() if path.name.isdigit()}


def wget2_command(url: str, pages: Path, authority: Path) -> list:
    # Ignore the tags that do not link to pages. --filter-mime-type would request everything twice (HEAD, then GET), and missed a
    # quarter of the pages of one site.
    ignored = "img,script,link,object,embed,source,video,audio,track,form,input,body,table,td,th,tr,q,blockquote,ins,del"
    # Writing extended attributes and time stamps would cost wget2 nearly half as much CPU time again.
    only_pages = ["--no-xattr", "--no-use-server-timestamps", f"--ignore-tags={ignored}"]
    recursive = ["--recursive", "--level=inf", "--no-robots", f"--max-threads={CONCURRENCY}"]
    # OCSP and HSTS have no use on loopback.
    trust = [f"--ca-certificate={authority}", "--no-ocsp", "--no-hsts"]
    return ["wget2", "--quiet", "--no-config", *recursive, *only_pages, *trust,
            "--no-host-directories", f"--directory-prefix={pages}", url]


def wget2_discarding_command(url: str, pages: Path, authority: Path) -> list:
    """The same without saving the pages."""
    return [*wget2_command(url, pages, authority), "--output-document=/dev/null"]


def spider_command(url: str) -> list:
    return [SPIDER / "target/release/spider-bench", url, CONCURRENCY]


def floor_command(url: str, page_list: Path) -> list:
    """Fetches the listed pages and finds their links, and does nothing else: see crates/crawler/examples/floor.rs."""
    return [FLOOR, url, page_list, CONCURRENCY]


def wget_command(url: str, pages: Path, authority: Path) -> list:
    recursive = ["--recursive", "--level=inf", "--execute", "robots=off"]
    only_pages = ["--no-use-server-timestamps", "--follow-tags=a,area,frame,iframe,meta"]
    trust = [f"--ca-certificate={authority}", "--no-hsts"]
    return ["wget", "--quiet", "--no-config", *recursive, *only_pages, *trust,
            "--no-host-directories", f"--directory-prefix={pages}", url]


def wget_saved(pages: Path) -> set[str]:
    return {str(path.relative_to(pages)) for path in pages.rglob("*") if path.is_file()}


def first_line(path: Path) -> str:
    with path.open("rb") as page:
        return page.readline().decode(errors="replace").rstrip("\n")


def file_of(url: str) -> str:
    """The file to which wget and wget2 save `url`. `/a/` and `/a/index.html` are the same file."""
    parts = urlsplit(url)
    path = unquote(parts.path).lstrip("/")
    if not path or path.endswith("/"):
        path += "index.html"
    return f"{path}?{parts.query}" if parts.query else path


# wget and wget2 exit with status 8 if any link was dead, as on every real site.
WGET_STATUSES = {0, 8}

TOOLS = [
    Tool("crawler", crawler_command, crawler_saved, {0}),
    Tool("wget2", wget2_command, wget_saved, WGET_STATUSES),
    Tool("wget", wget_command, wget_saved, WGET_STATUSES, fast=False),
]
