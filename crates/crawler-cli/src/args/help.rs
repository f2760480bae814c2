//! The texts of `--help` other than the options: usage lines, sections after the options, exit statuses.
//!
//! Lines are at most 80 columns long, so that no terminal wraps them.

use std::io::{self, Write};

use crate::EXIT_USAGE;

/// The classic form of the command line, as messages show it.
pub const CLASSIC_USAGE: &str = "crawler [OPTIONS] <seedURL> <pageDirectory> <maxDepth>";

/// All forms of the command line.
pub const USAGE: &str = "\
crawler [OPTIONS] <seedURL> <pageDirectory> <maxDepth>
       crawler <COMMAND> [OPTIONS] ...";

pub const COLLECT_USAGE: &str = "\
crawler collect [OPTIONS] <PART>... --output <PATH>
       crawler collect [OPTIONS] --of <PATH> [--output <PATH>]";

pub const SHOW_USAGE: &str = "\
crawler show [OPTIONS] <URL> --state <DIR>
       crawler show [OPTIONS] <URL> --redis <URL>
       crawler show [OPTIONS] <URL> --archive <FILE>...";

pub const FRONTIER_USAGE: &str = "crawler frontier [OPTIONS] --redis <URL>";
pub const WORKER_USAGE: &str = "crawler worker [OPTIONS] --redis <URL>";
pub const SUBMIT_USAGE: &str = "crawler submit [OPTIONS] <URL>... --redis <URL>";
pub const DASHBOARD_USAGE: &str = "\
crawler dashboard [OPTIONS] <DIR>
       crawler dashboard [OPTIONS] --redis <URL>";
pub const REPORT_USAGE: &str = "\
crawler report [OPTIONS] <DIR>
       crawler report [OPTIONS] --redis <URL>";
pub const STATUS_USAGE: &str = "\
crawler status [OPTIONS] <DIR>
       crawler status [OPTIONS] --redis <URL>";
pub const PAUSE_USAGE: &str = "\
crawler pause [OPTIONS] <DIR>
       crawler pause [OPTIONS] --redis <URL>";
pub const UNPAUSE_USAGE: &str = "\
crawler unpause [OPTIONS] <DIR>
       crawler unpause [OPTIONS] --redis <URL>";
pub const CHANGE_USAGE: &str = "\
crawler change [OPTIONS] <DIR>
       crawler change [OPTIONS] --redis <URL>";
pub const STOP_USAGE: &str = "\
crawler stop [OPTIONS] <DIR>
       crawler stop [OPTIONS] --redis <URL>";
pub const PURGE_USAGE: &str = "crawler purge [OPTIONS] --redis <URL>";

/// Printed when there are no arguments at all.
const SHORT_USAGE: &str = "\
Usage: crawler [OPTIONS] <seedURL> <pageDirectory> <maxDepth>
       crawler <COMMAND> [OPTIONS] ...

Common uses:
  crawler https://example.org/ pages 2
          save a site to the directory 'pages', up to 2 links from the seed
  crawler crawl https://example.org/ --module jsonl=pages.jsonl
          crawl many hosts and write one JSON object per page
  crawler check https://example.org/
          report the broken links of a site
  crawler demo
          crawl a small site served on this machine; needs no network

For all commands and options, run 'crawler --help'.
";

/// Prints the short usage to standard error and exits.
pub fn exit_with_short_usage() -> ! {
    // If standard error is closed, the exit status still reports the error.
    let _ = io::stderr().write_all(SHORT_USAGE.as_bytes());
    std::process::exit(EXIT_USAGE.into())
}

pub const AFTER_HELP: &str = "\
Without a command, crawler saves one site: it fetches each page on the seed's
server that is at most <maxDepth> links away from <seedURL>. It writes page N to
the file <pageDirectory>/N: the URL, the depth, then the decoded body.

TIME is a number followed by ms, s, m or h; without a unit, seconds.
SIZE is a number followed by KB, MB, GB or TB (or KiB, MiB, GiB); without a
unit, bytes.

robots.txt is obeyed, including Crawl-delay up to 30 s. If a server fails to
send it, its URLs wait up to four minutes. nofollow is obeyed in
<meta name=robots>, X-Robots-Tag and rel. Retry-After is obeyed up to 300 s.

Exit status:
  0    the crawl finished; some pages may have failed
  1    the seed was not saved, the crawl failed, or the summary was not printed
  2    invalid arguments; nothing was fetched or written
  3    a page, a row of --urls, the summary file or the report could not be
       written
  130  interrupted by Ctrl-C; requests in flight finished first
  143  terminated by SIGTERM; requests in flight finished first
A second signal exits at once, without waiting for requests in flight.

Examples:
  crawler https://example.org/ pages 2
  crawler crawl https://example.org/ --scope host --module jsonl=pages.jsonl
  crawler check https://example.org/
  crawler demo";

pub const AFTER_CRAWL_HELP: &str = "\
Modules:
  noop          do nothing
  pages=DIR     write page N to the file DIR/N: its URL, its depth, its body
  jsonl=FILE    write one JSON object per page; ,fields=NAME,... chooses from
                url, depth, status, title, language, canonical, content_type,
                bytes, truncated, fetched, lastmod, version, changed, robots,
                links, referrer, redirects, timing, headers, text (default: up
                to links)
  csv=FILE      write the same fields as CSV
  markdown=DIR  write the main content of page N as Markdown to DIR/N.md
  extract=FILE,NAME=SELECTOR,...
                write one JSON object per page with the text of the first
                element that a CSS selector matches; NAME=SELECTOR@ATTRIBUTE
                for an attribute, NAME[]=SELECTOR for all elements
  parquet=FILE  write the fields of jsonl as a Parquet table when the crawl ends
  urls=FILE     write every URL with its outcome: as CSV if FILE ends with .csv,
                otherwise as JSON lines
  edges=FILE    write the link graph as CSV: from,to; with
                ,columns=from,to,text,rel,kind also details of links, with
                ,distinct each edge once, with ,redirects also redirects
  graphml=FILE  write the link graph as GraphML when the crawl ends
  mirror=DIR    save the site as files that a browser can open
  warc=FILE     write a web archive of all requests and responses, to files
                FILE-00001.warc.gz, ... of --warc-size each (.warc and .warc.zst
                by their names), and its index FILE.cdxj; with ,no-requisites
                without the images, stylesheets, scripts and fonts of pages
  check=FILE    write a report of broken links: .txt, .json, .xml (JUnit), .md
                or .html; options ,fragments ,redirects ,accept=CODES ,format=F
  words[=N]     print the N (20) most frequent words in the summary
  exec=COMMAND  send each page as a JSON line to the standard input of COMMAND
A FILE of '-' is standard output, except for parquet, graphml, warc and check.
A program of exec that exits with status 0 is started again for the next page;
another status is a failure.

TIME is a number followed by ms, s, m or h; without a unit, seconds.
SIZE is a number followed by KB, MB, GB or TB (or KiB, MiB, GiB); without a
unit, bytes.

Redis URLs:
  redis://[user:password@]host[:port][/db]    one server
  rediss://...                                the same over TLS
  redis://host:port,host:port/                Redis Cluster
  redis+sentinel://host:port,host:port/NAME   Sentinel, with the primary's name

Environment:
  CRAWLER_REDIS           URL for --redis without a value
  CRAWLER_REDIS_PASSWORD  Redis password, if it is not in the URL
  CRAWLER_CRAWL           default of --crawl
  CRAWLER_PAGERANK_KEY    API key for --pagerank-url

robots.txt is obeyed, including Crawl-delay up to 30 s. If a server fails to
send it, its URLs wait up to four minutes. nofollow is obeyed in
<meta name=robots>, X-Robots-Tag and rel. Retry-After is obeyed up to 300 s.

Exit status:
  0    the crawl finished or reached a limit; some pages may have failed. Also
       if the reader of standard output closed it (| head), which stops a crawl
       that writes its pages nowhere else
  1    no page was stored, or the crawl failed, or the summary was not printed
  2    invalid arguments; nothing was fetched or written
  3    a page, the summary file or the report could not be written, or a module
       can process no more pages: its program cannot be run or keeps failing
  130  interrupted by Ctrl-C; requests in flight finished first
  143  terminated by SIGTERM; requests in flight finished first
A second signal exits at once, without waiting for requests in flight.

Examples:
  crawler crawl https://example.org/ --scope host --module jsonl=pages.jsonl
  crawler crawl https://example.org/ --max-pages 1000000 --state crawl-state
  crawler crawl https://example.org/ --workers 4 --redis redis://127.0.0.1/";

pub const AFTER_CHECK_HELP: &str = "\
The pages in scope are crawled. Links out of scope, images, stylesheets, scripts
and links marked with nofollow are requested and not crawled: with HEAD, and
with GET if that fails. The report lists each broken URL with the pages that
link to it, and the URLs that were not checked, with the reason.

robots.txt is obeyed for every host: URLs that it disallows are not checked. If
a server responds with 429 or 503, the check waits for its Retry-After, up to
300 s.

TIME is a number followed by ms, s, m or h; without a unit, seconds.
SIZE is a number followed by KB, MB, GB or TB (or KiB, MiB, GiB); without a
unit, bytes.

Exit status:
  0    no link is broken; the report says if the check is incomplete
  1    a link is broken, or no page could be checked, or the check failed
  2    invalid arguments; nothing was fetched or written
  3    the report or an output could not be written
  130  interrupted by Ctrl-C; the report has what was checked before
  143  terminated by SIGTERM; the report has what was checked before
A second signal exits at once, without a report.

Examples:
  crawler check https://example.org/
  crawler check https://example.org/docs/ --scope prefix --fragments
  crawler check https://example.org/ --accept 403,999 --output report.html
  crawler check http://127.0.0.1:8000/ --delay 0 --format junit > links.xml";

pub const AFTER_RECRAWL_HELP: &str = "\
Visits each known URL again, once: pages, redirects, duplicates and URLs that
failed. If the server sent an ETag or a Last-Modified header, the request is
conditional: an unchanged page transfers no body and counts as unchanged. New
links are followed. Changed pages go to modules and outputs again, as the next
version.

Limits and counts start at zero for each visit. To continue an interrupted
visit, run this command again, or 'crawler resume'. URLs that are no longer in
scope are not visited. The other options are those of 'crawler resume'.

With --revisit-after auto, a URL is first due after a day. The interval halves
when the URL has changed and doubles when it has not, between 1 hour and 30
days. A URL is also due if a sitemap says that it was modified since its last
visit.

Exit status:
  0    the visit finished or reached a limit, also if no page has changed
  ...  the others are those of 'crawler resume'

Examples:
  crawler recrawl crawl-state
  crawler recrawl crawl-state --revisit-after 24h
  crawler recrawl crawl-state --revisit-after auto && crawler diff crawl-state";

pub const AFTER_DIFF_HELP: &str = "\
Compares the last visit with the one before, and lists the pages that are new,
changed (with their similarity to the version before), gone (a permanent HTTP
error such as 404), moved (redirected) or failed. If the crawl was started with
--revisit-after, the last two visits of each URL are compared.

Exit status:
  0    success
  1    there are differences, and --exit-code is given
  2    invalid arguments, DIR has no state, or there was only one visit

Examples:
  crawler diff crawl-state
  crawler diff crawl-state --format json";

pub const AFTER_RESUME_HELP: &str = "\
An option given here replaces the crawl's own; a repeatable one replaces the
whole list. The other options stay as they are. Changes apply to all pending
URLs:
  - Limits count earlier runs too.
  - Pending URLs that are no longer in scope are skipped. Links that were out
    of scope before are not followed now.
  - An output that is added starts with the next page. The file of an output
    that is removed stays as it is.
--strip-query, --max-depth and --similarity cannot change.

A finished crawl continues if URLs are added, or with --retry-failed if URLs
failed temporarily: no connection, a timeout, no robots.txt, or an HTTP status
of 408, 425, 429 or 5xx (except 501 and 505).

For modules, TIME and SIZE, see 'crawler crawl --help'.

Environment:
  CRAWLER_PAGERANK_KEY  API key, if the crawl was started with --pagerank-url

Exit status:
  0    the crawl finished or reached a limit; some pages may have failed
  1    no page was stored, or the crawl failed, or another process is using DIR
  2    invalid arguments, an option that cannot change, or DIR has no state that
       this command can resume
  3    a page, the summary file or the report could not be written, or a module
       can process no more pages: its program cannot be run or keeps failing
  130  interrupted by Ctrl-C; requests in flight finished first
  143  terminated by SIGTERM; requests in flight finished first

Examples:
  crawler resume crawl-state --max-pages 2000000 --delay 2s
  crawler resume crawl-state --retry-failed
  crawler resume crawl-state https://example.org/new";

pub const AFTER_REPLAY_HELP: &str = "\
Processes each archived response with an http or https URL as 'crawler crawl'
would, with the same modules and outputs, except check. It sends no requests.
Of a URL that is archived more than once, the first page is used. Revisit
records, redirects and errors are not pages; the output urls lists them.

Damaged records are reported with their position and skipped. A replay that was
interrupted cannot be resumed: start it again with --overwrite.

SIZE is a number followed by KB or MB (or KiB, MiB); without a unit, bytes.

Exit status:
  0    all archives were read, or the limit of pages was reached
  1    the archives have no page, or the summary was not printed
  2    invalid arguments, or an archive cannot be opened; nothing was written
  3    an output could not be written, or a module can process no more pages
  5    records were damaged, or an archive could not be read to its end; the
       outputs have all other pages
  130  interrupted by Ctrl-C; the outputs have the pages that were read before
  143  terminated by SIGTERM; the outputs have the pages that were read before
A second signal exits at once.

Examples:
  crawler replay crawl.warc.gz --module jsonl=pages.jsonl,fields=url,title,text
  crawler replay *.warc.gz --module parquet=pages.parquet --module urls=urls.csv
  crawler replay site.wacz --module mirror=site
  curl -s https://example.org/a.warc.gz | crawler replay - --module jsonl=-";

pub const AFTER_INDEX_HELP: &str = "\
The index has a line for each response, revisit, resource and metadata record:
a key by which URLs are sorted, the time of the capture, and a JSON object with
the URL, the type, the status, the digest, and where the record is. pywb,
ReplayWeb.page and 'crawler show' find records with it. The lines are sorted as
'LC_ALL=C sort' does. Crawls with --module warc write the index themselves.

Damaged records are reported with their position and left out. Archives with one
gzip member for all records cannot be indexed: nothing could find their records.

Exit status:
  0    the index was written
  1    an archive cannot be read to its end, or cannot be indexed
  2    invalid arguments, or an archive cannot be opened; nothing was written
  3    the index could not be written
  5    records were damaged; the index has all others

Examples:
  crawler index site.warc.gz --output site.cdxj
  crawler index *.warc.gz | grep ' 2026'";

pub const AFTER_WACZ_HELP: &str = "\
A WACZ file has WARC files, their index, a list of their HTML pages with titles,
and digests of all of this. ReplayWeb.page (https://replayweb.page/) opens it in
a browser, 'crawler replay' and 'crawler show' read it. The WARC files are
copied unchanged. Crawls with --wacz write it by themselves.

Exit status:
  0    the file was written
  1    an archive cannot be read to its end, or cannot be in a WACZ file
  2    invalid arguments, or an archive cannot be opened; nothing was written
  3    the file could not be written
  5    records were damaged; they are in the file, but not in its index

Example:
  crawler wacz site-*.warc.gz --output site.wacz";

pub const AFTER_SHOW_HELP: &str = "\
The decoded body is printed to standard output, unchanged.

With --archive, prints the newest capture of the URL; captures of pages are
preferred to those of errors and redirects. For a revisit record, prints the
content that it refers to. Uses the index next to an archive (site.cdxj) or in
a WACZ file; without one, the whole archive is read.

Environment:
  CRAWLER_REDIS           URL for --redis without a value
  CRAWLER_REDIS_PASSWORD  Redis password, if it is not in the URL
  CRAWLER_CRAWL           default of --crawl

Exit status:
  0    the page was printed
  1    the page is not stored, or the state or an archive cannot be read
  2    invalid arguments, or there is no state in DIR

Examples:
  crawler show https://example.org/ --state crawl-state
  crawler show https://example.org/ --archive site-*.warc.gz
  crawler show https://example.org/ --archive site.wacz --at 2026-11-05";

pub const AFTER_WHY_HELP: &str = "\
With --redis, the records of all URLs of the crawl are read.

Environment:
  CRAWLER_REDIS           URL for --redis without a value
  CRAWLER_REDIS_PASSWORD  Redis password, if it is not in the URL
  CRAWLER_CRAWL           default of --crawl

Exit status:
  0    the outcome was printed
  1    the URL was never added to the crawl, or the state cannot be read
  2    invalid arguments, or there is no state in DIR

Example:
  crawler why https://example.org/ --state crawl-state";

pub const AFTER_FRONTIER_HELP: &str = "\
The frontier decides which worker fetches which URL. It holds the state of the
crawl in memory, with a copy in Redis. One frontier is active in a crawl. A
second one stands by, and takes over from that copy when the first one dies.
A frontier waits for a crawl that has not started, and exits when the crawl
finishes, or on Ctrl-C or SIGTERM.

Settings come from Redis, where 'crawler submit' or 'crawler crawl --redis'
stored them. The options above apply to this process only. Each can also be set
in the environment (CRAWLER_STAY for --stay), or in the table [frontier] of the
file of --config.

Environment:
  CRAWLER_REDIS           default of --redis
  CRAWLER_REDIS_PASSWORD  Redis password, if it is not in the URL
  CRAWLER_CRAWL           default of --crawl
  CRAWLER_PAGERANK_KEY    API key for --pagerank-url

Exit status:
  0    the crawl finished
  1    the crawl failed, or Redis cannot be used
  2    invalid arguments
  3    an output could not be written
  130  interrupted by Ctrl-C
  143  terminated by SIGTERM";

pub const AFTER_WORKER_HELP: &str = "\
Run as many workers as you like, on any number of machines. A worker waits for
a crawl that has not started, and exits when the crawl finishes. On Ctrl-C or
SIGTERM it finishes the requests in flight and returns the rest of its URLs.

Settings come from Redis, where 'crawler submit' or 'crawler crawl --redis'
stored them. The options above apply to this worker only. Each can also be set
in the environment (CRAWLER_MODULE for --module), or in the table [worker] of
the file of --config.

Environment:
  CRAWLER_REDIS           default of --redis
  CRAWLER_REDIS_PASSWORD  Redis password, if it is not in the URL
  CRAWLER_CRAWL           default of --crawl

Exit status:
  0    the crawl finished
  1    the crawl failed, or Redis cannot be used
  2    invalid arguments, or an output exists already
  3    an output could not be written
  4    the proxy could not be used
  130  interrupted by Ctrl-C; requests in flight finished first
  143  terminated by SIGTERM; requests in flight finished first
A second signal exits at once, without waiting for requests in flight.";

pub const AFTER_SUBMIT_HELP: &str = "\
If the crawl does not exist, submit starts it with the options given here. If it
has finished, submit reopens it. Options given for an existing crawl replace its
settings. To fetch the URLs, run 'crawler frontier' and 'crawler worker'. If a
frontier is running, submit prints how many of the URLs are new. For modules,
TIME, SIZE and Redis URLs, see 'crawler crawl --help'.

Environment:
  CRAWLER_REDIS           default of --redis
  CRAWLER_REDIS_PASSWORD  Redis password, if it is not in the URL
  CRAWLER_CRAWL           default of --crawl

Exit status:
  0    the URLs were added, or had been added before
  1    Redis cannot be used, or the crawl's settings cannot be changed like this
  2    invalid arguments; nothing was changed

Example:
  crawler submit https://example.org/ --scope host --redis redis://127.0.0.1/";

pub const AFTER_STATUS_HELP: &str = "\
The crawl may be running. --watch repaints the status on a terminal; otherwise
it prints a line, or with --json an object, each time. It exits when the crawl
ends.

Environment:
  CRAWLER_REDIS           default of --redis
  CRAWLER_REDIS_PASSWORD  Redis password, if it is not in the URL
  CRAWLER_CRAWL           default of --crawl

Exit status:
  0    the status was printed (with --ready: Redis can be used)
  1    Redis or the state cannot be used, or there is no such crawl
  2    invalid arguments, or there is no state in DIR
  130  --watch was interrupted by Ctrl-C";

pub const AFTER_DASHBOARD_HELP: &str = "\
Prints the URL of the page, and serves it until Ctrl-C. The crawl may be running
or finished; a distributed crawl may also start later. An address other than
loopback needs a token, which is part of the printed URL.

Environment:
  CRAWLER_REDIS            default of --redis
  CRAWLER_REDIS_PASSWORD   Redis password, if it is not in the URL
  CRAWLER_CRAWL            default of --crawl
  CRAWLER_DASHBOARD_TOKEN  token to use instead of a random one

Exit status:
  1    Redis or the state cannot be used
  2    invalid arguments, no state in DIR, or the address cannot be used
  130  interrupted by Ctrl-C
  143  terminated by SIGTERM";

pub const AFTER_REPORT_HELP: &str = "\
The report is one file that loads nothing from the network. It contains the
seeds and options, the course of the crawl, outcomes, hosts, broken links with
the pages that contain them, redirects, duplicates and the structure of the
site. The crawl may be running or finished. Stored pages are searched for links
for up to a minute; the report says if that was not enough.

With --report FILE, a crawl writes its own report when it ends.

Environment:
  CRAWLER_REDIS           default of --redis
  CRAWLER_REDIS_PASSWORD  Redis password, if it is not in the URL
  CRAWLER_CRAWL           default of --crawl

Exit status:
  0    the report was written
  1    Redis or the state cannot be used, or there is no such crawl
  2    invalid arguments, no state in DIR, or the file cannot be created
  3    the report could not be written

Examples:
  crawler report state -o report.html
  crawler report state --format markdown | less";

pub const AFTER_HEALTH_HELP: &str = "\
Requests /healthz, or with --ready /readyz, of a crawl, a frontier, a worker or
a dashboard on this machine, and prints the response. No token is needed.

Environment:
  CRAWLER_METRICS         default of --metrics, for the process and this command

Exit status:
  0    the process is healthy, or ready
  1    it is not, or it does not respond
  2    invalid arguments, or the process at the address is another one";

pub const AFTER_PAUSE_HELP: &str = "\
Requests in flight finish. The time of the pause does not count for --max-time.
To continue, run 'crawler unpause'. A crawl with --state is no longer paused
after it is resumed; a distributed crawl stays paused until 'crawler unpause'.

Environment:
  CRAWLER_REDIS           default of --redis
  CRAWLER_REDIS_PASSWORD  Redis password, if it is not in the URL
  CRAWLER_CRAWL           default of --crawl

Exit status:
  0    the crawl is paused
  1    no process runs it, or Redis or the state cannot be used
  2    invalid arguments, or there is no state in DIR";

pub const AFTER_UNPAUSE_HELP: &str = "\
To continue a crawl that was stopped instead, run 'crawler resume DIR', or for a
distributed crawl 'crawler submit'.

Environment:
  CRAWLER_REDIS           default of --redis
  CRAWLER_REDIS_PASSWORD  Redis password, if it is not in the URL
  CRAWLER_CRAWL           default of --crawl

Exit status:
  0    the crawl continues, or was not paused
  1    no process runs it, or Redis or the state cannot be used
  2    invalid arguments, or there is no state in DIR";

pub const AFTER_CHANGE_HELP: &str = "\
Prints what was changed. Changes to a crawl with --state last until its process
exits; those to a distributed crawl last as long as the crawl. Added seeds stay
in both. A limit below what is already used stops the crawl. A block cannot be
undone.

TIME is a number followed by ms, s, m or h; without a unit, seconds.
SIZE is a number followed by KB, MB, GB or TB (or KiB, MiB, GiB); without a
unit, bytes.

Environment:
  CRAWLER_REDIS           default of --redis
  CRAWLER_REDIS_PASSWORD  Redis password, if it is not in the URL
  CRAWLER_CRAWL           default of --crawl

Exit status:
  0    all changes were made
  1    a change could not be made, nor those after it: no process runs the
       crawl, or Redis or the state cannot be used
  2    invalid arguments, or there is no state in DIR; nothing was changed

Examples:
  crawler change crawl-state --set-delay 5s --set-max-pages 20000
  crawler change --redis redis://127.0.0.1/ --block-host calendar.example.org";

pub const AFTER_STOP_HELP: &str = "\
Requests in flight finish. Pending URLs stay in the state or in Redis. To
continue the crawl, run 'crawler resume DIR', or over Redis 'crawler submit' or
the same 'crawler crawl --redis' again.

Environment:
  CRAWLER_REDIS           default of --redis
  CRAWLER_REDIS_PASSWORD  Redis password, if it is not in the URL
  CRAWLER_CRAWL           default of --crawl

Exit status:
  0    the crawl is stopping, or no process is running it
  1    Redis or the state cannot be used, or there is no such crawl
  2    invalid arguments, or there is no state in DIR";

pub const AFTER_PURGE_HELP: &str = "\
This cannot be undone. The workers' part files are not deleted.

Environment:
  CRAWLER_REDIS           default of --redis
  CRAWLER_REDIS_PASSWORD  Redis password, if it is not in the URL
  CRAWLER_CRAWL           default of --crawl

Exit status:
  0    the crawl was deleted, or did not exist
  1    Redis cannot be used, or processes are working on the crawl
  2    invalid arguments";

pub const AFTER_COLLECT_HELP: &str = "\
Each worker of a distributed crawl writes part files of its own: worker 3 writes
pages.3.jsonl and its index pages.3.jsonl.index, or the directory pages.3. The
merged output contains each page once, as if one process had written it. Part
files can come from several machines, and from a crawl that is still running.

Parquet tables, GraphML files, mirrors and reports of link checks are made from
records: pages.3.parquet.records of worker 3, or pages.parquet.records of a
crawl in one process that could not make pages.parquet, because it was killed or
the disk was full.

A web archive gets its index, site.cdxj, and with --wacz the file site.wacz.

Exit status:
  0    the output was written
  1    a part file is damaged or cannot be read
  2    invalid arguments; nothing was written
  3    the output could not be written

Examples:
  crawler collect pages.*.jsonl --output pages.jsonl
  crawler collect --of pages.jsonl
  crawler collect --of pages.parquet";

/// The help of `--config`.
pub const CONFIG_OPTION: &str =
    "Read options from this TOML file (see 'crawler config --help') [env: CRAWLER_CONFIG]";

pub const CONFIG_USAGE: &str = "\
crawler config [--config <FILE>]
       crawler config [--config <FILE>] <COMMAND> [OPTIONS] ...
       crawler config [--config <FILE>] classic [OPTIONS] ...";

pub const AFTER_CONFIG_HELP: &str = "\
Every option can be set in three places. The first that sets it wins:
  1. the command line:  --max-pages 500
  2. the environment:   CRAWLER_MAX_PAGES=500
  3. a TOML file:       max-pages = 500

The file is the one of --config or CRAWLER_CONFIG. No other file is read. Keys
at its top apply to all commands that have the option. Keys in the table of a
command, such as [crawl], or [classic] for the form without a command, apply to
that command only, and override those at the top:

  user-agent = \"mybot/1.0\"

  [crawl]
  delay = \"2s\"
  max-pages = 500
  module = [\"words\", \"jsonl=pages.jsonl\"]
  follow-duplicates = true

An option that conflicts with one set in a place above is ignored. A list
replaces the list of a place below. In the environment, a list has one value per
line, and a flag is true or false; an empty variable counts as not set. Paths
are relative to the working directory.

The output is TOML and can be used as a file: 'crawler config crawl > my.toml'.
Passwords, and values of options that contain them, are left out.

Exit status:
  0    the options were printed
  1    the options could not be printed
  2    invalid arguments, variables or file

Examples:
  crawler config
  crawler config crawl --config my.toml --delay 3s";

pub const AFTER_COMPLETIONS_HELP: &str = "\
'make install' installs the scripts for bash, zsh and fish.

Exit status:
  0    the script was printed
  1    the script could not be printed
  2    invalid arguments

Examples:
  source <(crawler completions bash)
  crawler completions fish > ~/.config/fish/completions/crawler.fish";

pub const AFTER_DEMO_HELP: &str = "\
Environment:
  CRAWLER_REDIS           URL for --redis without a value
  CRAWLER_REDIS_PASSWORD  Redis password, if it is not in the URL

Exit status:
  0    the demo worked
  1    the demo could not run
  2    invalid arguments
Signals and all other statuses are those of 'crawler' and 'crawler crawl'.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_longer_than_80_columns() {
        let texts = [
            CLASSIC_USAGE,
            USAGE,
            COLLECT_USAGE,
            FRONTIER_USAGE,
            WORKER_USAGE,
            SUBMIT_USAGE,
            DASHBOARD_USAGE,
            STATUS_USAGE,
            PAUSE_USAGE,
            UNPAUSE_USAGE,
            CHANGE_USAGE,
            STOP_USAGE,
            PURGE_USAGE,
            SHORT_USAGE,
            AFTER_HELP,
            AFTER_CRAWL_HELP,
            AFTER_CHECK_HELP,
            AFTER_RESUME_HELP,
            AFTER_RECRAWL_HELP,
            AFTER_DIFF_HELP,
            AFTER_REPLAY_HELP,
            AFTER_INDEX_HELP,
            AFTER_WACZ_HELP,
            SHOW_USAGE,
            AFTER_SHOW_HELP,
            AFTER_WHY_HELP,
            AFTER_FRONTIER_HELP,
            AFTER_WORKER_HELP,
            AFTER_SUBMIT_HELP,
            AFTER_STATUS_HELP,
            AFTER_HEALTH_HELP,
            AFTER_PAUSE_HELP,
            AFTER_UNPAUSE_HELP,
            AFTER_CHANGE_HELP,
            AFTER_DASHBOARD_HELP,
            REPORT_USAGE,
            AFTER_REPORT_HELP,
            AFTER_STOP_HELP,
            AFTER_PURGE_HELP,
            AFTER_COLLECT_HELP,
            AFTER_DEMO_HELP,
            CONFIG_USAGE,
            AFTER_CONFIG_HELP,
            AFTER_COMPLETIONS_HELP,
        ];
        for line in texts.iter().flat_map(|text| text.lines()) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
