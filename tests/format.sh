#!/bin/bash
# Formats the changed lines of C and CUDA files with clang-format: tests/format.sh [--check] [BASE]
#
# Changed are all lines that differ from the commit BASE, and untracked files. By default that is HEAD;
# if nothing differs from it, the commit before it. --check changes nothing, prints what it would
# change, and fails if there is anything. Exit status 77: there is no clang-format or no commit here.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
mode=format
[ "${1:-}" != --check ] || { mode=check; shift; }

# give_up REASON
give_up() { echo "there is no $1 here"; exit 77; }
command -v clang-format >/dev/null && git clang-format -h >/dev/null 2>&1 || give_up clang-format
git rev-parse --verify --quiet HEAD >/dev/null || give_up "git repository"

readonly kinds=('*.c' '*.h' '*.cu' '*.cuh')
mapfile -t new < <(git ls-files --others --exclude-standard -- "${kinds[@]}")
base=${1:-HEAD}
if [ $# -eq 0 ] && [ ${#new[@]} -eq 0 ] && git diff --quiet HEAD -- "${kinds[@]}"; then
    base=HEAD~1
fi
git rev-parse --verify --quiet "$base^{commit}" >/dev/null || give_up "commit $base"

status=0
if [ $mode = check ]; then
    changes=$(
        # Its status says nothing in some versions.
        git clang-format --extensions c,h,cu,cuh --diff "$base" | grep -E '^(---|\+\+\+|@@|[-+ ])'
        for file in "${new[@]}"; do
            diff -u --label "$file" --label "$file, formatted" "$file" <(clang-format "$file")
        done
    )
    [ -z "$changes" ] || { printf '%s\n' "$changes" "run make format"; status=1; }
else
    git clang-format --force --extensions c,h,cu,cuh "$base"
    [ ${#new[@]} -eq 0 ] || clang-format -i "${new[@]}"
fi
exit $status
