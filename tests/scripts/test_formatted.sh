#!/bin/bash
# Checks that changed lines of C and CUDA files are formatted (tests/format.sh). Prints TAP.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/service/tap.sh
dir=$(mktemp -d /tmp/gpuimgd-format.XXXXXX) || exit 1
trap 'rm -rf "$dir"' EXIT

# A repository of its own, with one commit.
make_repository() {
    mkdir -p "$dir/tests"
    cp tests/format.sh "$dir/tests/" && cp .clang-format "$dir/"
    printf 'int  left(void);\nint a(void);\n' >"$dir/a.c"
    in_it init -q && in_it add . && in_it -c user.name=t -c user.email=t@t commit -q -m first
}
in_it() { git -C "$dir" "$@"; }
finds_lines() { # only those that changed
    local said
    printf 'int  left(void);\nint  a(void);\n' >"$dir/a.c"
    said=$("$dir/tests/format.sh" --check) && { echo "it succeeds"; return 1; }
    has "$said" "+int a(void);" && not has "$said" "+int left(void);"
}
finds_files() {
    printf 'int  b(void);\n' >"$dir/b.cuh"
    has "$("$dir/tests/format.sh" --check)" "+int b(void);"
}
formats() {
    "$dir/tests/format.sh" && "$dir/tests/format.sh" --check &&
        equal "$(cat "$dir/a.c" "$dir/b.cuh" | xargs)" "int left(void); int a(void); int b(void);" &&
        equal "$(head -1 "$dir/a.c")" "int  left(void);"
}

output=$(tests/format.sh --check 2>&1)
status=$?
if [ $status -eq 77 ]; then
    echo "ok - the changed lines are formatted # SKIP $output"
    exit 0
fi
check "the changed lines are formatted" equal "$status $output" "0 "
check "a repository for a try" make_repository
check "a changed line is found, and no other" finds_lines
check "a new file is found" finds_files
check "make format formats them" formats
[ "$failures" -eq 0 ]
