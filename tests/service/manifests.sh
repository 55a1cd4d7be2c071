#!/bin/bash
# Validates conf/deploy/kubernetes: tests/service/manifests.sh BUILD (make check-manifests)
#
# The schemas of Kubernetes are those in kubernetes-validate from PyPI, which make check-manifests
# installs into BUILD/kubernetes. It has none of custom resources. Theirs are in
# custom_resources.json, written from the published definitions (Prometheus operator 0.87, KEDA 2):
# the fields that these manifests may use, and no others. The job of README.md for Nomad is parsed by
# python-hcl2, also from PyPI. tests/scripts/test_deploy.sh compares the manifests with the daemon.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/world.sh
readonly python=${1:-build/release}/kubernetes/bin/python manifests=conf/deploy/kubernetes
readonly custom=tests/service/custom_resources.json
"$python" -c 'import kubernetes_validate, hcl2, jsonschema, yaml' 2>/dev/null ||
    { echo "ok - the manifests # SKIP $python lacks modules; make check-manifests installs them"; exit 77; }
make_world manifests

# valid VERSION FILE...: all documents are valid, and only custom resources have no schema
valid() {
    local said
    said=$("$python" -m kubernetes_validate --strict -k "$1" "${@:2}" 2>&1) &&
        [ -z "$(grep -vE ' passed for resource |Couldn.t find schema for kind (ServiceMonitor|ScaledObject|TriggerAuthentication) ' <<<"$said")" ] ||
        { echo "$said"; return 1; }
}
custom_valid() { "$python" -B tests/scripts/deploy.py custom "$custom" "$@"; }
# refuses FIELD COMMAND SED_EXPRESSION FILE: the check finds this mistake in a copy of the file, and
# names the field
refuses() {
    local copy=$dir/${4##*/} said
    sed -E "$3" "$manifests/$4" >"$copy"
    not cmp -s "$copy" "$manifests/$4" || return 1
    said=$(eval "$2 $copy") && { echo "it accepts the wrong $1"; return 1; }
    has "$said" "$1"
}
nomad() {
    awk '/^## / { here = $0 == "## Nomad" } here && /^    / { print substr($0, 5) }' conf/deploy/README.md >"$dir/job.nomad"
    [ -s "$dir/job.nomad" ] && "$python" -c 'import hcl2, sys; hcl2.load(open(sys.argv[1]))["job"]' "$dir/job.nomad"
}

main() {
    local version
    for version in 1.27 $newest; do
        check "Kubernetes $version accepts the manifests" valid "$version" "$manifests"/*.yaml
    done
    check "custom resources have the fields of their definitions" custom_valid "$manifests"/*.yaml
    check "a misspelled field of the Deployment is refused" \
        refuses readOnlyRootFileSystem "valid $newest" 's/readOnlyRootFilesystem/readOnlyRootFileSystem/' deployment.yaml
    check "a number of pods as text is refused" \
        refuses minReplicaCount custom_valid 's/(minReplicaCount: )1/\1"1"/' scaledobject.yaml
    check "a trigger without its query is refused" refuses query custom_valid '/query:/d' scaledobject.yaml
    check "a misspelled honorLabels is refused" refuses honourLabels custom_valid 's/honorLabels/honourLabels/' servicemonitor.yaml
    check "the job for Nomad is HCL" nomad
    [ "$failures" -eq 0 ]
}
newest=$("$python" -c 'import kubernetes_validate.utils as k; print(k.latest_version())')
readonly newest
main
