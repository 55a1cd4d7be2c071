#!/bin/bash
# What `make install` installs, against what the installed documents say of it: each path that they
# name is there. Prints TAP. tests/scripts/test_installed.sh BUILD
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/service/tap.sh
readonly build=${1:-build/release}
tree=$(mktemp -d /tmp/gpuimgd-installed.XXXXXX) || exit 1
trap 'rm -rf "$tree"' EXIT
readonly tree doc=$tree/usr/share/doc/gpuimgd man=$tree/usr/share/man

# `-o all`: what is built here is installed as it is.
install() { make -s -o all install "O=$build" "DESTDIR=$tree" prefix=/usr; }

# all_there FOLDER: each path on standard input is below it; there is at least one.
all_there() {
    local path count=0 status=0
    while read -r path; do
        count=$((count + 1))
        [ -e "$1/$path" ] || { echo "there is no $path"; status=1; }
    done
    [ $count -gt 0 ] || { echo "no path was found"; status=1; }
    return $status
}

# The targets of links, without those to other hosts and to places within the page.
links() { grep -ohE '\]\([^)]+\)' "$1" | sed 's/^](//; s/)$//; s/#.*//' | grep -vE '^(https?:.*)?$'; }
# Links of the README; the others have none, or all of theirs are there, too.
links_lead_somewhere() {
    local page status=0
    links "$doc/README.md" | all_there "$doc" || status=1
    for page in "$doc"/*.md; do
        [ -z "$(links "$page")" ] || links "$page" | all_there "$doc" || status=1
    done
    return $status
}
# Words of the documents that are paths in the source tree, but not where they are installed.
no_source_paths() {
    local page word status=0
    for page in "$doc"/*.md "$doc"/gpuimgd.conf "$man"/man*/*; do
        while read -r word; do
            [ ! -e "$word" ] || [ -e "$doc/$word" ] || { echo "${page##*/}: $word"; status=1; }
        done < <(grep -v '^\.\\"' "$page" | # a comment in a manual
            grep -oE '[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)+/?|\b(conf|queue|codecs|gpu|daemon|systemd|tests)/' |
            sed 's/[.,]$//' | sort -u)
    done
    return $status
}
# Files that the documents name by themselves, in code or as a manual's path.
named_files() {
    {
        grep -ohE '`[A-Za-z0-9_-]+\.(md|conf|json|yml|sh|py|js|c)`' "$doc"/*.md | tr -d '`'
        sed -nE 's/^\.(It )?Pa ([A-Za-z][A-Za-z0-9_.-]*) ?[.,]?$/\2/p' "$man"/man*/*
    } | sort -u | grep -vxE 'cat\.(jpg|png)|conf\.d'
}
# Absolute ones of what is installed; those of other programs and of running daemons are not its
# business.
named_places() {
    sed -nE 's/^\.(It )?Pa (.*)/\2/p' "$man"/man*/* | tr ' ' '\n' | grep -E '^/(etc/gpuimgd|usr)/' |
        sed 's/[.,]$//; s|/\*\.conf$||' | sort -u
}
# /var and /run: systemd makes them.
made_places() {
    sed -nE 's/^\.(It )?Pa (.*)/\2/p' "$man"/man*/* | tr ' ' '\n' |
        grep -E '^/(var|run)/[a-z/]*gpuimgd' | sort -u
}
systemd_makes_them() {
    local place status=0
    while read -r place; do
        case $place in
        /var/log/*) word=LogsDirectory=gpuimgd ;;
        /var/cache/*) word=CacheDirectory=gpuimgd ;;
        /run/*) word=RuntimeDirectory=gpuimgd ;;
        *) word=$place ;;
        esac
        grep -qF "$word" "$tree/usr/lib/systemd/system/gpuimgd.service" \
            "$tree/usr/lib/tmpfiles.d/gpuimgd.conf" || { echo "nobody makes $place"; status=1; }
    done < <(made_places)
    return $status
}
examples() { # each is there as it is, and a script can be run
    local file status=0
    diff -r tests/examples "$doc/examples" || status=1
    for file in "$doc"/examples/*; do
        [ -x "$file" ] || [ "$(head -c 2 "$file")" != "#!" ] || { echo "${file##*/} cannot be run"; status=1; }
    done
    return $status
}
uninstalled() {
    make -s uninstall "O=$build" "DESTDIR=$tree" prefix=/usr && [ ! -e "$doc" ] || { echo "$doc stays"; return 1; }
}

main() {
    check "make install" install
    check "the examples are installed" examples
    check "links in the documents lead somewhere" links_lead_somewhere
    check "no document names a path of the source tree" no_source_paths
    check "files that the documents name are beside them" all_there "$doc" < <(named_files)
    check "places that the manuals name" all_there "$tree" < <(named_places)
    check "and those that a service has" systemd_makes_them
    check "make uninstall takes the documents away" uninstalled
    [ "$failures" -eq 0 ]
}
main
