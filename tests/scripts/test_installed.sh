#!/bin/bash
# Compares the files that `make install` installs with the paths that the installed documents name.
# Prints TAP. tests/scripts/test_installed.sh BUILD
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/service/tap.sh
readonly build=${1:-build/release}
tree=$(mktemp -d /tmp/gpuimgd-installed.XXXXXX) || exit 1
trap 'rm -rf "$tree"' EXIT
readonly tree doc=$tree/usr/share/doc/gpuimgd man=$tree/usr/share/man

# `-o all-gpus`: installs the existing build, which `make` made.
install() { make -s -o all-gpus install CUDA_ARCHS=native "O=$build" "DESTDIR=$tree" prefix=/usr; }

# all_there FOLDER: each path on standard input exists below the folder; there is at least one.
all_there() {
    local path count=0 status=0
    while read -r path; do
        count=$((count + 1))
        [ -e "$1/$path" ] || { echo "there is no $path"; status=1; }
    done
    [ $count -gt 0 ] || { echo "no path was found"; status=1; }
    return $status
}

# Targets of links, except those to other hosts and within the page.
links() { grep -ohE '\]\([^)]+\)' "$1" | sed 's/^](//; s/)$//; s/#.*//' | grep -vE '^(https?:.*)?$'; }
# The README has links; other documents may have none. All targets must exist.
links_lead_somewhere() {
    local page status=0
    links "$doc/README.md" | all_there "$doc" || status=1
    for page in "$doc"/*.md; do
        [ -z "$(links "$page")" ] || links "$page" | all_there "$doc" || status=1
    done
    return $status
}
# Words that are paths in the source tree, but not relative to the installed documents.
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
# File names in the documents, in code spans or as a path in a manual.
named_files() {
    {
        grep -ohE '`[A-Za-z0-9_-]+\.(md|conf|json|yml|sh|py|js|c)`' "$doc"/*.md | tr -d '`'
        sed -nE 's/^\.(It )?Pa ([A-Za-z][A-Za-z0-9_.-]*) ?[.,]?$/\2/p' "$man"/man*/*
    } | sort -u | grep -vxE 'cat\.(jpg|png)|conf\.d'
}
# Absolute paths of installed files, without those of other programs and of running daemons.
named_places() {
    sed -nE 's/^\.(It )?Pa (.*)/\2/p' "$man"/man*/* | tr ' ' '\n' | grep -E '^/(etc/gpuimgd|usr)/' |
        sed 's/[.,]$//; s|/\*\.conf$||' | sort -u
}
# Paths in /var and /run, which systemd creates.
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
            "$tree/usr/lib/tmpfiles.d/gpuimgd.conf" || { echo "the unit does not create $place"; status=1; }
    done < <(made_places)
    return $status
}
examples() { # each is unchanged, and scripts are executable
    local file status=0
    diff -r tests/examples "$doc/examples" || status=1
    for file in "$doc"/examples/*; do
        [ -x "$file" ] || [ "$(head -c 2 "$file")" != "#!" ] || { echo "${file##*/} is not executable"; status=1; }
    done
    return $status
}
recipes() { # as examples
    local file status=0
    diff -r queue/clients/recipes "$doc/clients/recipes" || status=1
    for file in "$doc"/clients/recipes/*; do
        [ -x "$file" ] || [ "$(head -c 2 "$file")" != "#!" ] || { echo "${file##*/} is not executable"; status=1; }
    done
    links "$doc/clients/recipes/README.md" | all_there "$doc/clients/recipes" || status=1
    return $status
}
deployment() { diff -r conf/deploy "$doc/deploy"; }
uninstalled() {
    make -s uninstall "O=$build" "DESTDIR=$tree" prefix=/usr && [ ! -e "$doc" ] || { echo "$doc still exists"; return 1; }
}

main() {
    check "make install" install
    check "the examples are installed" examples
    check "the recipes are installed" recipes
    check "the page about deployment and its files are installed" deployment
    check "targets of links in the documents exist" links_lead_somewhere
    check "no document names a path of the source tree" no_source_paths
    check "files that the documents name are in their folder" all_there "$doc" < <(named_files)
    check "paths that the manuals name exist" all_there "$tree" < <(named_places)
    check "paths in /var and /run are created by systemd" systemd_makes_them
    check "make uninstall removes the documents" uninstalled
    [ "$failures" -eq 0 ]
}
main
