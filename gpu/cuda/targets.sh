#!/bin/sh
# Prints for which GPU architectures the kernels are compiled, as values of nvcc's --gpu-code:
# gpu/cuda/targets.sh NVCC native|all|ARCH...
#
#   sm_90       machine code for compute capability 9.0
#   compute_90  PTX, which the driver of a GPU of 9.0 or later compiles when it loads a kernel
#
# native  machine code for the GPUs of this host, and PTX for the newest of them; on a host without
#         a GPU, only PTX for the oldest supported architecture
# all     machine code for all supported architectures that this nvcc knows, and PTX for the newest
# ARCH    for example 90: machine code for the given architectures, and PTX for the newest of them
set -eu
supported="75 80 86 89 90 100 120"

nvcc=$1
shift
known=$("$nvcc" --list-gpu-arch | sed -n 's/^compute_\([0-9]*\)$/\1/p' | sort -n)

knows() { printf '%s\n' "$known" | grep -qx "$1"; }
# Prints the compute capabilities of this host's GPUs, for example 90; nothing if there is no GPU or
# no driver.
gpus() {
    { nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null || true; } |
        sed -n 's/^ *\([0-9]\{1,\}\)\.\([0-9]\) *$/\1\2/p' | sort -nu
}
# Prints the newest architecture that nvcc knows and whose PTX runs on the architecture $1; if there
# is none, the oldest that nvcc knows.
ptx_for() {
    printf '%s\n' "$known" | awk -v of="$1" 'NR == 1 || $1 <= of { best = $1 } END { print best }'
}

codes='' newest=0
add() { # ARCH
    codes="$codes sm_$1"
    [ "$1" -le "$newest" ] || newest=$1
}
oldest=${supported%% *}
case $* in
native)
    for arch in $(gpus); do
        [ "$arch" -ge "$oldest" ] || continue
        if knows "$arch"; then add "$arch"; else newest=$arch; fi
    done
    [ "$newest" != 0 ] || newest=$oldest
    ;;
all)
    for arch in $supported; do
        if knows "$arch"; then add "$arch"; fi
    done
    ;;
*)
    for arch in "$@"; do
        knows "$arch" || {
            echo "CUDA_ARCHS has $arch; it must be native, all or some of" $known >&2
            exit 1
        }
        add "$arch"
    done
    ;;
esac
echo $codes "compute_$(ptx_for "$newest")"
