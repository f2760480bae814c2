#!/bin/sh
# Installs libcrawl, its headers and its pkg-config file.
#
#     install.sh LIBRARIES PREFIX
#
# LIBRARIES is the directory that cargo built libcrawl.so and libcrawl.a in. With DESTDIR set, the files go
# below it, and still say that they are in PREFIX.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
libraries=$1
prefix=$2
root=${DESTDIR:-}$prefix
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml" | head -n 1)

case $prefix in
/*) ;;
*)
    echo "install.sh: PREFIX must be an absolute path, not $prefix" >&2
    exit 1
    ;;
esac

mkdir -p "$root/lib/pkgconfig" "$root/include"
install -m 755 "$libraries/libcrawl.so" "$root/lib/"
install -m 644 "$libraries/libcrawl.a" "$root/lib/"
install -m 644 "$here/include/crawl.h" "$here/include/crawler.h" "$root/include/"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$here/crawl.pc.in" >"$root/lib/pkgconfig/crawl.pc"
