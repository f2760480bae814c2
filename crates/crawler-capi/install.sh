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

# The prefix as pkg-config has to read it, and that as sed has to.
in_pkg_config=$(printf '%s\n' "$prefix" | sed -e 's/[\\ "'\''#&|;]/\\&/g')
in_sed=$(printf '%s\n' "$in_pkg_config" | sed -e 's/[\\&|]/\\&/g')
sed -e "s|@PREFIX@|$in_sed|" -e "s|@VERSION@|$version|" "$here/crawl.pc.in" >"$root/lib/pkgconfig/crawl.pc"

# The loader finds a new library in a directory that it searches only when its cache has been renewed. Who may not do
# that, or has no such cache, has a library all the same.
if [ -z "${DESTDIR:-}" ]; then
    PATH=$PATH:/usr/sbin:/sbin
    ldconfig 2>/dev/null || true
fi
