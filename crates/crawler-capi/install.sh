#!/bin/sh
# Installs libcrawl, its headers and its pkg-config file.
#
#     install.sh LIBRARIES PREFIX
#
# LIBRARIES is the directory in which cargo built libcrawl.so and libcrawl.a. With DESTDIR set, the files are installed
# below it, and the pkg-config file still names PREFIX.
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

# The prefix escaped for pkg-config, and that escaped for sed.
in_pkg_config=$(printf '%s\n' "$prefix" | sed -e 's/[\\ "'\''#&|;]/\\&/g')
in_sed=$(printf '%s\n' "$in_pkg_config" | sed -e 's/[\\&|]/\\&/g')
sed -e "s|@PREFIX@|$in_sed|" -e "s|@VERSION@|$version|" "$here/crawl.pc.in" >"$root/lib/pkgconfig/crawl.pc"

# The dynamic loader finds a new library only after its cache is updated. Without permission for that, or without a
# cache, the installation still succeeds.
if [ -z "${DESTDIR:-}" ]; then
    PATH=$PATH:/usr/sbin:/sbin
    ldconfig 2>/dev/null || true
fi
