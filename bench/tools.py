"""The crawlers under comparison: how each is told to save every page of a site, and what it then saved.

Only this file knows their options and how they name their files.
"""

from pathlib import Path
from typing import Callable, NamedTuple
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
CRAWLER = ROOT / "target/release/crawler"
SPIDER = ROOT / "bench/spider"

CONCURRENCY = "16"

# Deeper than any of the sites; the other tools are given no limit.
DEPTH = "1000"

# Some index pages have megabytes, and nobody else drops them.
MAX_PAGE_BYTES = "67108864"


class Tool(NamedTuple):
    name: str
    # From URL, page directory and certificate authority to the command line.
    command: Callable[[str, Path, Path], list]
    # The pages saved, each named as the path of a file under the site's root.
    saved: Callable[[Path], set[str]]
    accepted_statuses: set[int]
    # Whether it is worth its time on a big site.
    fast: bool = True


def crawler_command(url: str, pages: Path, authority: Path) -> list:
    options = ["--delay", "0", "--ignore-robots", "--concurrency", CONCURRENCY, "--max-page-bytes", MAX_PAGE_BYTES, "-q"]
    trust = ["--ca-file", authority] if url.startswith("https:") else []
    return [CRAWLER, url, pages, DEPTH, *options, *trust]


def pipeline_command(url: str, *options: str | Path) -> list:
    at_once = ["--concurrency", CONCURRENCY, "--per-host", CONCURRENCY, "--workers", "1"]
    unbounded = ["--max-pages", "1000000", "--max-bytes", "100GB", "--max-page-bytes", MAX_PAGE_BYTES]
    modules = [] if "--module" in options else ["--module", "noop"]
    return [CRAWLER, "crawl", url, "--delay", "0", "--ignore-robots", "--scope", "host", "-q", *at_once, *unbounded,
            *modules, *options]


def crawler_saved(pages: Path) -> set[str]:
    return {file_of(first_line(path)) for path in pages.iterdir() if path.name.isdigit()}


def wget2_command(url: str, pages: Path, authority: Path) -> list:
    # Only what leads to pages is followed, by ignoring the tags that lead to anything else. The option made for the
    # purpose, --filter-mime-type, asks for everything twice (HEAD, then GET) and lost a quarter of one site's pages.
    ignored = "img,script,link,object,embed,source,video,audio,track,form,input,body,table,td,th,tr,q,blockquote,ins,del"
    # Extended attributes and time stamps are more than the page, and would cost wget2 nearly half as much CPU time again.
    nothing_but_pages = ["--no-xattr", "--no-use-server-timestamps", f"--ignore-tags={ignored}"]
    recursive = ["--recursive", "--level=inf", "--no-robots", f"--max-threads={CONCURRENCY}"]
    # OCSP and HSTS would ask, or write down, what has no meaning on loopback.
    trust = [f"--ca-certificate={authority}", "--no-ocsp", "--no-hsts"]
    return ["wget2", "--quiet", "--no-config", *recursive, *nothing_but_pages, *trust,
            "--no-host-directories", f"--directory-prefix={pages}", url]


def wget2_discarding_command(url: str, pages: Path, authority: Path) -> list:
    """All the same, but no page is saved."""
    return [*wget2_command(url, pages, authority), "--output-document=/dev/null"]


def spider_command(url: str) -> list:
    return [SPIDER / "target/release/spider-bench", url, CONCURRENCY]


def wget_command(url: str, pages: Path, authority: Path) -> list:
    recursive = ["--recursive", "--level=inf", "--execute", "robots=off"]
    nothing_but_pages = ["--no-use-server-timestamps", "--follow-tags=a,area,frame,iframe,meta"]
    trust = [f"--ca-certificate={authority}", "--no-hsts"]
    return ["wget", "--quiet", "--no-config", *recursive, *nothing_but_pages, *trust,
            "--no-host-directories", f"--directory-prefix={pages}", url]


def wget_saved(pages: Path) -> set[str]:
    return {str(path.relative_to(pages)) for path in pages.rglob("*") if path.is_file()}


def first_line(path: Path) -> str:
    with path.open("rb") as page:
        return page.readline().decode(errors="replace").rstrip("\n")


def file_of(url: str) -> str:
    """The file under which the wgets save `url`: `/a/` and `/a/index.html` are one to them."""
    parts = urlsplit(url)
    path = unquote(parts.path).lstrip("/")
    if not path or path.endswith("/"):
        path += "index.html"
    return f"{path}?{parts.query}" if parts.query else path


# Both wgets end with 8 when any link was dead, which is so on every real site.
WGET_STATUSES = {0, 8}

TOOLS = [
    Tool("crawler", crawler_command, crawler_saved, {0}),
    Tool("wget2", wget2_command, wget_saved, WGET_STATUSES),
    Tool("wget", wget_command, wget_saved, WGET_STATUSES, fast=False),
]
