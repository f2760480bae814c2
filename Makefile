# `make help` lists the targets.

CARGO ?= cargo
PREFIX ?= /usr/local
# Arguments of `make run URL=…`.
DIR ?= pages
DEPTH ?= 2
# `make soak`: how often it kills each crawl, and the seeds of the random times.
KILLS ?= 60
SEEDS ?= 1 2 3 4 5
# `make chaos`: the size of the web, how many processes it kills, and the seeds of the random times.
CHAOS_HOSTS ?= 200
CHAOS_PAGES ?= 45
CHAOS_KILLS ?= 60
CHAOS_SEEDS ?= 1 2 3
# `make test`: how many tests run in parallel, and where the C library is built.
TEST_THREADS ?= 8
CAPI_TARGET = $(abspath $(or $(CARGO_TARGET_DIR),target))/capi
# `make test`: the binary of `make run`, without debug assertions as that of `make install`, and the tests of the command that run
# with it, too: every sub-command is in one of them.
DEMO_BINARY = $(abspath $(or $(CARGO_TARGET_DIR),target))/demo/crawler
DEMO_TESTS = arguments:: changes:: collect:: config demo health:: help:: inspect:: install:: recrawl:: replay:: report:: usage::
# `make test`: the Python that reads back what outputs write, and its packages.
TEST_PYTHON = $(abspath $(or $(CARGO_TARGET_DIR),target))/python
TEST_PYTHON_PACKAGES ?= pyarrow duckdb networkx warcio fastwarc cdxj-indexer wacz pywb
# `make test`: ReplayWeb.page, which opens archives in a browser, and where it is unpacked.
TEST_REPLAYWEBPAGE = $(abspath $(or $(CARGO_TARGET_DIR),target))/replaywebpage
REPLAYWEBPAGE ?= replaywebpage@2.4.6
# `make fuzz`: seconds per fuzz target, and the targets.
FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?= $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))

.DEFAULT_GOAL := help
.PHONY: help run demo test soak chaos lint audit bench fuzz install

help: ## list the targets
	@grep -E '^[a-z]+:.*## ' Makefile | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 18

run: ## crawl: make run URL=https://example.org/ [DIR=pages] [DEPTH=2]; without URL, the demonstration
ifdef URL
	mkdir -p '$(DIR)'
	$(CARGO) run --profile demo -p crawler-cli -- '$(URL)' '$(DIR)' '$(DEPTH)'
else
	$(CARGO) run --profile demo -p crawler-cli -- demo
endif

demo: ## crawl a small site served on loopback, no network needed
	$(CARGO) run --profile demo -p crawler-cli -- demo

test: ## run all tests; installs missing programs with apt, Python packages from PyPI and ReplayWeb.page from npm
	scripts/need cc=gcc valgrind=valgrind pkg-config=pkg-config redis-server=redis-server bash=bash zsh=zsh fish=fish groff=groff-base mandoc=mandoc openssl=openssl chromium=chromium python3=python3-venv promtool=prometheus /usr/sbin/logrotate=logrotate fuser=psmisc wget=wget npm=npm '/usr/share/doc/postgresql-doc-*/html=postgresql-doc'
	scripts/python-packages "$(TEST_PYTHON)" $(TEST_PYTHON_PACKAGES)
	scripts/npm-package "$(TEST_REPLAYWEBPAGE)" "$(REPLAYWEBPAGE)"
	@# The C tests link the library as it is installed: built alone, without the network features of the other crates.
	CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_PROFILE_DEV_DEBUG=line-tables-only \
		$(CARGO) build -p crawler-capi --target-dir "$(CAPI_TARGET)"
	@# Most tests wait for timers, servers or processes, so more tests than cores run in parallel.
	CRAWLER_CAPI_LIBRARY="$(CAPI_TARGET)/debug" CRAWLER_TEST_PYTHON="$(TEST_PYTHON)/bin/python" \
		CRAWLER_TEST_REPLAYWEBPAGE="$(TEST_REPLAYWEBPAGE)" RUST_TEST_THREADS=$(TEST_THREADS) \
		$(CARGO) test --workspace --no-fail-fast -- --include-ignored --skip in_make_chaos --skip in_make_soak
	$(CARGO) build --profile demo -p crawler-cli
	CRAWLER_TEST_BINARY="$(DEMO_BINARY)" CRAWLER_TEST_PYTHON="$(TEST_PYTHON)/bin/python" RUST_TEST_THREADS=$(TEST_THREADS) \
		$(CARGO) test -p crawler-cli --test command -- --include-ignored $(DEMO_TESTS)

soak: ## kill crawls of thousands of pages KILLS times for each of SEEDS, resume them, and check the results; crawl past 1,000 dead hosts
	for seed in $(SEEDS); do \
		CRAWLER_KILLS=$(KILLS) CRAWLER_SEED=$$seed $(CARGO) test -p crawler --test kill -- --nocapture killed || exit 1; \
	done
	$(CARGO) test -p crawler --test pipeline -- --ignored --nocapture in_make_soak

chaos: ## kill the processes of distributed crawls and restart Redis repeatedly, for each of CHAOS_SEEDS, and check the results
	scripts/need redis-server=redis-server
	for seed in $(CHAOS_SEEDS); do \
		CRAWLER_SEED=$$seed CRAWLER_HOSTS=$(CHAOS_HOSTS) CRAWLER_PAGES=$(CHAOS_PAGES) CRAWLER_KILLS=$(CHAOS_KILLS) \
			$(CARGO) test -p crawler-cli --test distributed -- --ignored --nocapture chaos || exit 1; \
	done
	CRAWLER_OUTAGE=30 CRAWLER_DEAD_AFTER=15 CRAWLER_LOSSES=400 \
		$(CARGO) test -p crawler-cli --test distributed -- --ignored --test-threads 1 outages failovers rebalancing

lint: ## rustfmt, clippy, rustdoc with warnings denied, the list of the public API, and the names of types
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) clippy -p crawler --no-default-features --all-targets -- -D warnings
	@# The command and the library have the same name and so the same directory below target/doc: one after the other.
	RUSTDOCFLAGS='-D warnings' $(CARGO) rustdoc -p crawler-cli --bin crawler -- --document-private-items
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --document-private-items
	@# Links of the documentation that users see must not lead to private items.
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc -p crawler --no-deps
	scripts/public-api --check
	scripts/type-names

audit: ## check licences, sources, duplicate versions and security advisories of all crates with cargo-deny
	$(CARGO) deny --version >/dev/null 2>&1 || $(CARGO) install cargo-deny --locked
	$(CARGO) deny --locked check licenses sources bans
	@if $(CARGO) deny --locked fetch db; then \
		$(CARGO) deny --locked check advisories; \
	else \
		echo 'advisories: SKIPPED, the RustSec database cannot be fetched from github.com' >&2; \
	fi

bench: ## compare with wget2, wget, spider, a minimal crawler and a simple C library; measure outputs, archives, replays, broad crawls, memory and Redis
	scripts/need cc=gcc
	python3 bench/classic.py
	python3 bench/pipeline.py
	python3 bench/outputs.py
	python3 bench/replay.py
	python3 bench/warc.py
	python3 bench/content.py
	python3 bench/broad.py
	python3 bench/frontier.py
	python3 bench/distributed.py
	bench/callbacks/run.sh

fuzz: ## run each fuzz target of fuzz/ for FUZZ_SECONDS
	$(CARGO) fuzz --version >/dev/null 2>&1 || $(CARGO) install cargo-fuzz
	RUSTC_BOOTSTRAP=1 $(CARGO) fuzz build
	for target in $(FUZZ_TARGETS); do \
		mkdir -p fuzz/corpus/$$target; \
		RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run $$target fuzz/corpus/$$target fuzz/seeds/$$target -- \
			-max_total_time=$(FUZZ_SECONDS) -max_len=4096 -len_control=20 -timeout=10 || exit 1; \
	done

install: ## install the command, its manual and completions, libcrawl, its headers and pkg-config file below PREFIX
	@case '$(PREFIX)' in /*) ;; *) echo 'PREFIX must be an absolute path, not $(PREFIX)' >&2; exit 1 ;; esac
	$(CARGO) build --release -p crawler-cli
	@# A separate build: together with the command, the library would include the network features of the command.
	$(CARGO) build --release -p crawler-capi
	DESTDIR='$(DESTDIR)' crates/crawler-cli/install.sh "$${CARGO_TARGET_DIR:-target}/release/crawler" '$(PREFIX)'
	crates/crawler-capi/install.sh "$${CARGO_TARGET_DIR:-target}/release" '$(PREFIX)'
