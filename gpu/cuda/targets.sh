#!/bin/sh
# Prints the architectures that kernels are compiled for, as names of nvcc's option `code`:
# gpu/cuda/targets.sh NVCC native|all|ARCH...
#
#   sm_90       machine code for compute capability 9.0
#   compute_90  PTX, which the driver of a GPU of 9.0 or later compiles when it loads a kernel
#
# native: machine code for the GPUs of this host and PTX of the newest one; without a GPU, only PTX
#         of the oldest supported architecture
# all:    machine code for all supported architectures that this nvcc knows, PTX of the newest one
# ARCH    such as 90: machine code for these, PTX of the newest one
set -eu
supported="75 80 86 89 90 100 120"

nvcc=$1
shift
known=$("$nvcc" --list-gpu-arch | sed -n 's/^compute_\([0-9]*\)$/\1/p' | sort -n)

knows() { printf '%s\n' "$known" | grep -qx "$1"; }
# The compute capabilities of the GPUs here, such as 90; nothing without a GPU or its driver.
gpus() {
    { nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null || true; } |
        sed -n 's/^ *\([0-9]\{1,\}\)\.\([0-9]\) *$/\1\2/p' | sort -nu
}
# The newest known architecture whose PTX runs on this one, else the oldest known one.
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
