//! What the helps of the commands say after their options: what to know, and the exit status.

/// The commands, as they are typed.
pub const USAGE: &str = "\
crawler [OPTIONS] <seedURL> <pageDirectory> <maxDepth>
       crawler crawl [OPTIONS] <URL>...
       crawler resume [OPTIONS] <DIR>
       crawler show|why <URL> --state <DIR> | --redis <URL>
       crawler frontier|worker|submit|status|stop|purge --redis <URL>
       crawler collect <PART>... --output <PATH>
       crawler demo [--pipeline | --redis <URL>] [-v]";

/// Of the classic crawl.
pub const AFTER_HELP: &str = "\
Files: page N is pageDirectory/N (1, 2, 3 …): its URL, its depth, then the page as served.

Exit status:
  0    the crawl ran to its end (some pages may have failed)
  1    the seed yielded no saved page, or the crawl could not be carried out or its summary printed
  2    bad arguments; nothing was fetched or written
  3    ended, but some page could not be written
  130  after Ctrl-C (143 after SIGTERM): what was in flight was finished; a second one ends at once

robots.txt is fetched and obeyed; of a Crawl-delay up to 30s, of a Retry-After up to 300s.
Try it without a network: crawler demo, and crawler demo --pipeline
To crawl many hosts: crawler crawl --help";

/// Of `crawl`.
pub const AFTER_CRAWL_HELP: &str = "\
A time is a number with ms, s, m or h; a size one with KB, MB, GB or TB (KiB, MiB, GiB).

Exit status:
  0    the crawl ran to its end, or a budget was spent (some pages may have failed)
  1    no page was kept, or the crawl could not be carried out or its summary printed
  2    bad arguments; nothing was fetched or written
  3    ended, but some page or the summary file could not be written
  130  after Ctrl-C (143 after SIGTERM): what was in flight was finished; a second one ends at once

robots.txt is fetched and obeyed; of a Crawl-delay up to 30s, of a Retry-After up to 300s.
The manual is docs/pipeline.md; try it without a network: crawler demo --pipeline";

/// Of `resume`.
pub const AFTER_RESUME_HELP: &str = "\
Everything else stays as it was when the crawl was begun. A finished crawl says so, and nothing is done.

Exit status: as of crawler crawl, and
  1    if another process is at work on the crawl, or its state cannot be read
  2    if there is no state in DIR, or it was begun otherwise than by this command";

/// Of `show`.
pub const AFTER_SHOW_HELP: &str = "\
Exit status:
  0    the page was printed, byte for byte
  1    it is not stored, for the reason given; or the state cannot be read
  2    bad arguments, or no state in DIR";

/// Of `why`.
pub const AFTER_WHY_HELP: &str = "\
Exit status:
  0    the URL was admitted: what became of it was printed
  1    it never was, for the reason given as far as it can be told; or the state cannot be read
  2    bad arguments, or no state in DIR";

/// Of `frontier` and `worker`.
pub const AFTER_ROLE_HELP: &str = "\
Settings come from Redis, where those who began the crawl put them. Options given here win, and so do environment
variables: CRAWLER_MODULE for --module, CRAWLER_MAX_PAGES for --max-pages, and so on. It waits for a crawl that has not
begun yet, and ends with it; Ctrl-C or SIGTERM let it hand over what it has.

Exit status:
  0    the crawl is over
  1    the crawl could not be carried out
  2    bad arguments, or an output that is in the way
  3    an output could not be written
  130  after Ctrl-C (143 after SIGTERM): what was in flight was finished; a second one ends at once

The manual is docs/distributed.md";

/// Of `submit`.
pub const AFTER_SUBMIT_HELP: &str = "\
A crawl that has not begun begins, with the options given here; one that is over goes on. Somebody has to work on it:
crawler frontier and crawler worker.

Exit status:
  0    the URLs were admitted, or were known already
  1    Redis could not be reached or used, or the crawl was begun with other settings
  2    bad arguments";

/// Of `status`, `stop` and `purge`.
pub const AFTER_REMOTE_HELP: &str = "\
Exit status:
  0    done
  1    Redis could not be reached or used, or there is no such crawl (purge does not mind)
  2    bad arguments";

/// Of `collect`.
pub const AFTER_COLLECT_HELP: &str = "\
Each worker of a crawl on Redis writes parts of its own: worker 3 writes pages.3.jsonl and beside it \
pages.3.jsonl.index, which is needed; or a directory pages.3. Parts may come from many machines, and from a crawl \
that is still going on. The result is what one process would have written, with each page once.

Examples: crawler collect pages.*.jsonl --output pages.jsonl
          crawler collect --of pages.jsonl

Exit status:
  0    collected
  1    a part is damaged or cannot be read, or what was collected cannot be told
  2    bad arguments; nothing was written
  3    the output could not be written";
