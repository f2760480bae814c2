#!/bin/sh
# Compares libcrawl with the simplest correct C implementation, on a graph of 1,000,000 edges over
# 100,000 pages in memory.
#
#     run.sh [ROUNDS]
#
# Runs both alternately, ROUNDS times (default: 5) for each setting. The best run counts, because disturbances only add time.
# Targets: at most the CPU per edge of the simple implementation, and with 16+16 workers at most twice that with 1+1.
set -eu

rounds=${1:-5}
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}
cargo build --quiet --release -p crawler-capi
programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT
include=crates/crawler-capi/include
here=bench/callbacks
cc -O2 -I $include $here/crawl_speed.c $here/simple.c -lpthread -o "$programs/simple"
cc -O2 -I $include $here/crawl_speed.c "$target/release/libcrawl.a" -lpthread -lm -ldl -o "$programs/libcrawl"

for workers in "1 1" "4 4" "16 16"; do
    round=0
    while [ $round -lt "$rounds" ]; do
        for program in simple libcrawl; do
            # shellcheck disable=SC2086 # two words: downloaders and parsers
            echo "$workers $program $("$programs/$program" $workers)"
        done
        round=$((round + 1))
    done
done | awk '
    {
        setting = $1 "+" $2
        if (!(setting in seen)) { order[++settings] = setting; seen[setting] = 1 }
        key = setting " " $3
        if (!(key in rate) || $4 > rate[key]) rate[key] = $4
        if (!(key in cpu) || $5 < cpu[key]) cpu[key] = $5
    }
    END {
        print "workers   simple C              libcrawl              CPU ratio"
        for (i = 1; i <= settings; i++) {
            s = order[i] " simple"; l = order[i] " libcrawl"
            ratio = cpu[l] / cpu[s]
            if (ratio > 1) missed = 1
            printf "%-7s %9d/s %5d ns  %9d/s %5d ns  %6.2f\n", order[i], rate[s], cpu[s], rate[l], cpu[l], ratio
        }
        growth = cpu["16+16 libcrawl"] / cpu["1+1 libcrawl"]
        printf "libcrawl, CPU per edge at 16+16 over 1+1: %.2f (at most 2)\n", growth
        print "edges per second and CPU per edge; targets " ((missed || growth > 2) ? "MISSED" : "met")
    }'
