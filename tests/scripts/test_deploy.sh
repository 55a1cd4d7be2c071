#!/bin/bash
# Checks conf/deploy: the manifests and the Containerfile agree with each other and with the daemon,
# which accepts the ConfigMap, and the scripts of the page have valid syntax. Prints TAP. Needs no
# network; make check-manifests validates the manifests by their schemas, and make check-container
# runs the image. tests/scripts/test_deploy.sh BUILD
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/world.sh
readonly build=${1:-build/release} page=conf/deploy/README.md
make_world deploy

config_accepted() {
    local said
    /usr/bin/python3 -B tests/scripts/deploy.py config >"$dir/gpuimgd.conf" && [ -s "$dir/gpuimgd.conf" ] &&
        touch "$dir/password" &&
        said=$("$build/gpuimgd" -c "$dir/gpuimgd.conf" -t --input_root="$dir" --output_root="$dir" \
            --redis_password_file="$dir/password" 2>&1) &&
        has "$said" "the configuration is good"
}
section() { awk -v heading="## $1" '/^## / { here = $0 == heading } here && /^    / { print substr($0, 5) }' $page; }
syntax() { # SECTION
    section "$1" >"$dir/script"
    [ -s "$dir/script" ] && bash -n "$dir/script"
}
# Options in the page and in the Containerfile, as --name= or name = in quotes.
options_exist() {
    local name count=0
    while read -r name; do
        count=$((count + 1))
        grep -qE "^OPTION\([A-Z]+, $name," conf/options.def || { echo "no option $name"; return 1; }
    done < <({ grep -ohE -- "--[a-z]+_[a-z_]+=" conf/deploy/*; grep -oE "'[a-z_]+ = " $page; } | tr -d "'=-" | sort -u)
    [ $count -gt 5 ]
}
files_named() { # the page names each manifest
    local file
    for file in conf/deploy/kubernetes/*; do
        grep -qF "\`${file##*/}\`" $page || { echo "$page does not name ${file##*/}"; return 1; }
    done
}
no_registry() { not grep -rnE '\b(docker|ghcr|quay|gcr|nvcr|registry)\.(io|k8s|com)\b' conf/deploy; }

main() {
    if /usr/bin/python3 -c 'import yaml' 2>/dev/null; then
        /usr/bin/python3 -B tests/scripts/deploy.py check || failures=$((failures + 1))
        check "the daemon accepts the ConfigMap" config_accepted
    else
        echo "ok - the manifests agree with the daemon # SKIP there is no python3-yaml here"
    fi
    check "the options of the page exist" options_exist
    check "the page names each manifest" files_named
    check "the commands for containers have valid syntax" syntax Container
    check "the commands for systemd have valid syntax" syntax "systemd: several daemons on one host"
    check "the script for Slurm has valid syntax" syntax Slurm
    check "no file names a registry" no_registry
    [ "$failures" -eq 0 ]
}
main
