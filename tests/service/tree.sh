# shellcheck shell=bash
# tree.sh - Debian (or Ubuntu) trees for tests; sourced by check.sh, package.sh and fresh.sh.
#
# debootstrap creates a tree once; tests use copies of it. The sources of packages are those of this
# machine's apt: mirror, suites, key, proxy, certificates.

say() { printf '%s: %s\n' "${0##*/}" "$*"; }
die() { say "$*" >&2; exit 1; }
# Exit status 77 means that the test cannot run here.
skip() {
    say "SKIPPED: $*"
    echo "0 passed, 0 failed, 1 skipped"
    exit 77
}

need_root() {
    [ "$(id -u)" = 0 ] || skip "needs root, to make a Debian tree and run it in systemd-nspawn"
}

# need_tools [COMMAND PACKAGE]...: installs missing ones; by default those that boot a tree
need_tools() {
    local missing=()
    [ $# -gt 0 ] || set -- debootstrap debootstrap systemd-nspawn systemd-container
    for (( ; $# > 1; )); do
        command -v "$1" >/dev/null || missing+=("$2")
        shift 2
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    command -v apt-get >/dev/null || skip "needs ${missing[*]}, and there is no apt-get here"
    say "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -y -q --no-install-recommends "${missing[@]}" ||
        { apt-get update -q && apt-get install -y -q --no-install-recommends "${missing[@]}"; } ||
        skip "apt-get cannot install ${missing[*]}"
}

host_codename() { (. /etc/os-release && echo "${VERSION_CODENAME:-}"); }

# host_archives [CODENAME]: the archives of this machine's distribution, one per line: "mirror suite
# components signed-by", the main one first. With a codename, the same archives of that release.
# Other archives are ignored, because a fresh installation has none.
host_archives() {
    local own
    own=$(host_codename)
    [ -n "$own" ] || die "/etc/os-release has no VERSION_CODENAME"
    # shellcheck disable=SC2016 # apt's variables, not ours
    apt-get indextargets --format '$(SITE)|$(RELEASE)|$(COMPONENT)|$(SIGNED_BY)' \
        'Created-By: Packages' | tr -d ' ' |
        awk -F'|' -v own="$own" -v codename="${1:-$own}" '
            $2 != own && $2 != own "-updates" && $2 != own "-security" { next }
            $3 != "main" && $3 != "universe" { next }
            { key = $1 " " codename substr($2, length(own) + 1) }
            !(key in components) { order[++n] = key }
            index("," components[key] ",", "," $3 ",") == 0 {
                components[key] = components[key] (components[key] ? "," : "") $3 }
            { signed[key] = $4 ~ /^\// ? $4 : "-" }
            END { for (i = 1; i <= n; i++) {
                key = order[i]; print key, components[key], signed[key] } }' |
        awk -v codename="${1:-$own}" '
            $2 == codename { print; next } { rest = rest $0 "\n" } END { printf "%s", rest }'
}

# make_base TREE CODENAME PACKAGE... : creates TREE by debootstrap, unless it has this recipe.
make_base() {
    local tree=$1 archives mirror suite components signed_by recipe keyring=() packages=()
    archives=$(host_archives "$2")
    shift 2
    read -r mirror suite components signed_by <<<"$archives"
    [ -n "${mirror:-}" ] || die "apt on this machine names no archive of its own distribution"
    recipe="$suite $mirror $components $*"
    [ ! -e "$tree.recipe" ] || [ "$(cat "$tree.recipe")" != "$recipe" ] || return 0

    say "making ${tree##*/} with debootstrap ($suite from $mirror); the next run finds it there"
    rm -rf --one-file-system "$tree" "$tree.recipe"
    mkdir -p "$tree.debs"
    [ "$signed_by" = - ] || keyring=(--keyring="$signed_by")
    [ $# -eq 0 ] || packages=(--include="$(IFS=,; echo "$*")")
    debootstrap --variant=minbase --components="$components" "${packages[@]}" \
        --cache-dir="$tree.debs" "${keyring[@]}" "$suite" "$tree" "$mirror" >"$tree.log" 2>&1 || {
        tail -15 "$tree.log" >&2
        rm -rf --one-file-system "$tree"
        die "debootstrap failed; the whole log is $tree.log"
    }
    rm -rf "$tree.debs" "$tree"/var/cache/apt/archives/*.deb "$tree"/usr/share/doc/*
    echo "$recipe" >"$tree.recipe"
}

# copy_base BASE TREE: copies by reflink if the filesystem can. debootstrap leaves no /etc/hosts, but
# each machine has one, and some tests connect to localhost.
copy_base() {
    cp -a --reflink=auto "$1" "$2"
    [ -e "$2/etc/hosts" ] || echo "127.0.0.1 localhost" >"$2/etc/hosts"
}

# give_apt TREE CODENAME: gives apt in the tree the sources of this machine's apt.
give_apt() {
    local tree=$1 mirror suite components signed_by option
    while read -r mirror suite components signed_by; do
        option=
        if [ "$signed_by" != - ]; then
            install -D -m 0644 "$signed_by" "$tree$signed_by"
            option=" [signed-by=$signed_by]"
        fi
        echo "deb$option $mirror $suite ${components//,/ }"
    done < <(host_archives "$2") >"$tree/etc/apt/sources.list"
    # Proxies, time limits and validity checks; no hooks, because the tree may lack their commands.
    apt-config dump | grep '^Acquire::' | grep -vE '^Acquire::(IndexTargets|Changelogs)' \
        >"$tree/etc/apt/apt.conf.d/90host"
    [ ! -d /etc/apt/auth.conf.d ] || cp -a /etc/apt/auth.conf.d "$tree/etc/apt/"
    # For https archives, before the tree has its own certificates.
    local certificates=/etc/ssl/certs/ca-certificates.crt
    [ ! -e $certificates ] || install -D -m 0644 $certificates "$tree$certificates"
}

# Passes the proxy variables to the tree.
proxies() {
    local name
    for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
        [ -z "${!name:-}" ] || printf -- '--setenv=%s=%s\n' "$name" "${!name}"
    done
}

# in_tree TREE FOLDER COMMAND... : runs a command in a container without its own init, with /proc,
# /dev, loopback and the machine's network. $tree_options: more options of systemd-nspawn.
tree_options=()
in_tree() {
    local tree=$1 folder=$2 environment
    shift 2
    mapfile -t environment < <(proxies)
    systemd-nspawn --quiet --register=no --keep-unit --as-pid2 --resolv-conf=copy-host \
        --machine="gpuimgd-tree-$$" --directory="$tree" --chdir="$folder" \
        --setenv=LC_ALL=C.UTF-8 "${environment[@]}" "${tree_options[@]}" "$@" </dev/null
}
