#!/bin/sh
# Installs the command, its completion scripts and its manual pages.
#
#     install.sh COMMAND PREFIX
#
# COMMAND is the file that cargo built. With DESTDIR set, the files are installed below it.
set -eu

command=$1
root=${DESTDIR:-}$2

# The scripts and the pages do not depend on the options of who installs them.
unset CRAWLER_CONFIG || true

install -D -m 755 "$command" "$root/bin/crawler"

# Writes what COMMAND prints for a shell to a file.
completions() {
    mkdir -p "$(dirname "$2")"
    "$command" completions "$1" >"$2"
}
completions bash "$root/share/bash-completion/completions/crawler"
completions zsh "$root/share/zsh/site-functions/_crawler"
completions fish "$root/share/fish/vendor_completions.d/crawler.fish"

mkdir -p "$root/share/man/man1"
"$command" man "$root/share/man/man1"
