#!/bin/bash
# Checks the form of every file, headers, includes, calls, and that the README names every operation
# (test_pages.sh checks the manual pages). Prints TAP.
# tests/scripts/test_tidy.sh [BUILD]
set -u
shopt -s lastpipe # `... | check` counts in this shell
cd "$(dirname "$0")/../.." || exit 1

count=0 failures=0
# Reads findings, one per line; the check passes if there are none.
check() { # name
    local findings
    findings=$(cat)
    count=$((count + 1))
    if [ -z "$findings" ]; then
        echo "ok $count - $1"
    else
        failures=$((failures + 1))
        echo "not ok $count - $1"
        sed 's/^/# /' <<<"$findings" | head -40
    fi
}
skip() { # name reason
    count=$((count + 1))
    echo "ok $count - $1 # SKIP $2"
}

list() { # name patterns: the project's files, tracked or not ignored
    if git rev-parse --git-dir >/dev/null 2>&1; then
        git ls-files --cached --others --exclude-standard -- "$@"
    else
        local pattern
        for pattern in "$@"; do
            find . \( -path ./build -o -path ./.git \) -prune -o -name "$pattern" -print
        done | sed 's:^\./::'
    fi | sort -u | while read -r file; do [ -f "$file" ] && echo "$file"; done
}
mapfile -t sources < <(list '*.c' '*.h' '*.cu' '*.cuh')
mapfile -t product < <(printf '%s\n' "${sources[@]}" | grep -v '^tests/')
mapfile -t scripts < <(list '*.sh' '*.lua' 'Makefile' '*.mk' '.ci/run')
mapfile -t texts < <(list '*' | grep -vE '\.(jpg|jpeg|png|gz|bin)$')

echo "# ${#sources[@]} C and CUDA files, ${#scripts[@]} scripts"

# ---- form ----------------------------------------------------------------------------------------
awk 'length($0) > 100 { printf "%s:%d: %d columns\n", FILENAME, FNR, length($0) }' \
    "${sources[@]}" | check "lines have at most 100 columns"
grep -nP '\t' "${sources[@]}" | check "no tabs in C"
grep -nE '[[:space:]]+$' "${sources[@]}" "${scripts[@]}" | check "no blanks at the ends of lines"
for file in "${sources[@]}" "${scripts[@]}"; do
    [ -s "$file" ] && [ -n "$(tail -c 1 "$file")" ] && echo "$file"
done | check "files end in a newline"
# A function begins with { in the first column and ends with } there.
awk 'FNR == 1 { start = 0 }
     /^\{/ { start = FNR }
     /^\}/ && start { if (FNR - start - 1 > 70)
                          printf "%s:%d: %d lines\n", FILENAME, start, FNR - start - 1
                      start = 0 }' "${sources[@]}" | check "functions have at most 70 lines"
grep -nE '^[a-z].*\)[[:space:]]*\{$' "${sources[@]}" | grep -vE ':(extern|struct|enum|union|static const|typedef)' |
    check "a function's brace is on its own line"
grep -nE '\b(TODO|FIXME|XXX|HACK)\b' "${sources[@]}" "${scripts[@]}" | grep -v '^tests/scripts/test_tidy.sh:' |
    check "no comment has a TODO"
wc -l "${product[@]}" | awk '$2 != "total" && $1 > 700 { print $2 ": " $1 " lines" }' |
    check "no file of the product is longer than 700 lines"

# ---- headers and includes ------------------------------------------------------------------------
for file in "${product[@]}"; do
    case $file in *.h)
        [ "$(head -c 2 "$file")" = '/*' ] || echo "$file: does not begin with a comment"
        grep -q "^#pragma once\$" "$file" || echo "$file: has no #pragma once" ;;
    esac
done | check "every header begins with a comment and has #pragma once"
for file in "${product[@]}"; do
    case $file in
    *.c | *.cu)
        [ "$(head -c 2 "$file")" = '/*' ] && continue
        # One noun per file: the header has the comment.
        head -1 "$file" | grep -q "^#include \"${file%.*}.h\"" && [ -e "${file%.*}.h" ] && continue
        echo "$file: neither a comment nor its own header comes first" ;;
    esac
done | check "every source file or its header begins with a comment"

includes() { # folder: the project's own headers that files of this folder include
    grep -HoE '^#include "[^"]+"' /dev/null $(printf '%s\n' "${product[@]}" | grep "^$1/") |
        sed -E 's|:#include "([^"]+)"|: \1|'
}
{
    includes conf | grep -vE ': conf/'
    includes queue | grep -vE ': (conf|queue)/'
    includes codecs | grep -vE ': (conf|codecs)/' | grep -v '^codecs/avif/.*: gpu/avif/encode\.h$'
    includes gpu | grep -vE ': (conf|gpu)/' | grep -vE ': codecs/(image|jpeg/frame|jpeg/zigzag|avif/frame|png/frame|png/png_tiles|webp/frame|median_cut|quality_search|ssim_search)\.h$'
    includes daemon | grep -vE ': (conf|queue|codecs|gpu|daemon)/'
} | check "folders only include lower ones: conf <- queue, codecs, gpu <- daemon, but for gpu/avif/encode.h"
{
    includes gpu/colour | grep ': gpu/' | grep -v ': gpu/colour/'
    includes gpu/plan | grep ': gpu/' | grep -vE ': gpu/(colour|plan)/'
    includes gpu/engine | grep ': gpu/' | grep -vE ': gpu/(plan|engine)/'
    includes gpu/ops | grep ': gpu/' | grep -vE ': gpu/(colour|plan|engine|ops)/'
    includes gpu/simt | grep ': gpu/' | grep -vE ': gpu/(ops|simt)/'
    includes gpu/jpeg | grep ': gpu/' | grep -vE ': gpu/(plan|ops|simt|jpeg)/'
    includes gpu/png | grep ': gpu/' | grep -vE ': gpu/(plan|simt|png)/'
    includes gpu/webp | grep ': gpu/' | grep -vE ': gpu/(plan|simt|webp)/'
    includes gpu/avif | grep ': gpu/' | grep -vE ': gpu/(plan|simt|avif)/'
    includes gpu/cuda | grep ': gpu/' | grep -vE ': gpu/(plan|engine|jpeg|png|webp|avif|cuda)/'
} | check "so do the folders of gpu: colour <- plan <- engine <- ops <- simt <- jpeg, png, webp, avif <- cuda"
grep -ln GPUIMGD_CUDA gpu/*/*.[ch] | grep -vE '^gpu/(engine/engine\.c|plan/pass\.h)$' |
    check "no other sources are compiled in another way for CUDA (STANDIN_AGAIN in tests/tests.mk)"
{
    includes gpu/avif/frame | grep -vE ': (conf|gpu/simt|gpu/avif/frame)/'
    includes gpu/avif/predict | grep -vE ': gpu/(simt|avif/(frame|predict))/'
    includes gpu/avif/transform | grep -vE ': gpu/(simt|avif/(frame|transform))/'
    includes gpu/avif/kernels | grep ': gpu/' | grep -vE ': gpu/(simt|avif/(frame|predict|transform|kernels))/'
    includes gpu/avif/decide | grep -vE ': gpu/avif/(frame|predict|transform|kernels|decide)/'
    includes gpu/avif/entropy | grep -vE ': gpu/(simt|avif/(frame|predict|transform|entropy))/'
    includes gpu/avif/device | grep ': gpu/avif/decide/'
} | check "and those of gpu/avif: frame <- predict, transform <- kernels <- decide; entropy does without the last two, device without decide"
includes daemon/overlays | grep ': daemon/' | grep -vE ': daemon/(files|overlays)/' |
    check "the overlays do not include the pipeline"
# Only main.c prints its own help; no other file prints.
grep -nE '\b(printf|puts|putchar|fputs|fputc|fprintf|fwrite|vfprintf|stdout|stderr|perror) *[(,;]' \
    queue/ctl/*.c queue/ctl/*/*.c |
    grep -vE '^queue/ctl/(out|gpuimgctl)\.c:' | check "gpuimgctl prints only through queue/ctl/out.c"
grep -nE '^#include "' "${sources[@]}" | grep -E '"\.\.?/' | check "own headers are named from the root"

# ---- calls -----------------------------------------------------------------------------------------
# In a folder, files call each other in one direction; tsort names those that call in a circle. The
# folders of gpuimgctl count as one. queue/redis is left out: two of its files call each other.
if [ -x "${1:-}/gpuimgd" ]; then
    for file in "${product[@]}"; do
        case $file in
        queue/redis/*) continue ;;
        *.c) object=$1/${file%.c}.o ;;
        *) object=$1/$file.o ;; # CUDA
        esac
        [ -e "$object" ] && echo "$object"
    done | xargs nm -gA | awk '{ object = $1; sub(/:.*/, "", object)
             folder = object; sub("/[^/]*$", "", folder); sub("queue/ctl/.*", "queue/ctl", folder)
             if ($(NF - 1) ~ /^[Uvw]$/) used[object " " $NF] = folder " " $NF
             else defined[folder " " $NF] = object }
         END { for (use in used) { split(use, from, " ")
                   if (used[use] in defined) print from[1], defined[used[use]] } }' |
        tsort 2>&1 >/dev/null | check "no files of a folder call each other in a circle"
else
    skip "no files of a folder call each other in a circle" "no daemon was built"
fi

# ---- the documents ---------------------------------------------------------------------------------
mapfile -t options < <(grep -oE '^OPTION\([A-Z]+, [a-z_0-9]+' conf/options.def | sed 's/.*, //')
[ ${#options[@]} -gt 20 ] || echo "only ${#options[@]} options found in conf/options.def" |
    check "the option table can be read"
if [ -e README.md ] && [ -e conf/gpuimgd.conf ]; then
    for option in "${options[@]}"; do
        grep -qE "(^|[^a-z_])$option([^a-z_]|\$)" conf/gpuimgd.conf README.md || echo "$option"
    done | check "every option is in conf/gpuimgd.conf or README.md"
else
    skip "every option is in conf/gpuimgd.conf or README.md" "one of them is missing"
fi
mapfile -t operations < <(sed -n 's/^X(\([a-z0-9_]*\),.*/\1/p' queue/ctl/operations.inc)
if [ -e README.md ]; then
    for option in "${operations[@]}"; do grep -q "$option" README.md || echo "$option"; done |
        check "every operation is in README.md"
    for operation in "${operations[@]}"; do
        awk -v word="$operation" 'FNR == 1 { here = 1 }
            here && match($0, "(^|[^a-z_])" word "([^a-z_]|$)") { found = 1 }
            /\*\// { here = 0 }
            END { if (!found) print word }' tests/unit/gpu/test_op_*.c
    done | check "every operation is named in the first comment of a tests/unit/gpu/test_op_*.c"
    grep -oE '\]\([^)# ]+' README.md queue/PROTOCOL.md queue/CLIENTS.md queue/clients/recipes/README.md daemon/METRICS.md \
        gpu/OPERATIONS.md tests/*.md tests/bench/FIGURES.md | sed -E 's/^([^:]*):\]\(/\1 /' |
        while read -r from to; do
            case $to in http*|mailto*) continue ;; esac
            [ -e "$(dirname "$from")/$to" ] || echo "$from: $to"
        done | check "the targets of links between the documents exist"
else
    skip "every operation is in README.md" "README.md is missing"
fi
grep -m1 -oE '\(.*\)' systemd/debian/changelog | tr -d '()' |
    diff - <(sed -n 's/^VERSION = //p' Makefile) | check "the packages have the version of the Makefile"
awk '/^gpuimgd / { if (told == 0) print last; last = $0; told = /\(0\.1\.0\)/ } /^  \* Operators: / { told = 1 }
    END { if (told == 0) print last }' systemd/debian/changelog |
    check "each version's entry in the change log tells operators what to do"
if command -v dpkg-parsechangelog >/dev/null; then
    dpkg-parsechangelog -l systemd/debian/changelog --all 2>&1 >/dev/null |
        check "dpkg-parsechangelog reads the change log without a warning"
else
    skip "dpkg-parsechangelog reads the change log" "there is no dpkg-parsechangelog here"
fi
if [ -x "${1:-}/gpuimgd" ]; then
    "$1/gpuimgd" --sample | diff - conf/gpuimgd.conf |
        check "conf/gpuimgd.conf is the output of --sample"
    for program in gpuimgd gpuimgctl; do "$1/$program" --version | head -1; done |
        diff - <(sed -n 's/^gpuimgd (\(.*\)).*/\1/p' systemd/debian/changelog | head -1 |
            sed 's/.*/gpuimgd &\ngpuimgctl &/') | check "the programs have the version of the change log"
else
    skip "conf/gpuimgd.conf is the output of --sample" "no daemon was built"
fi

# ---- the rest ----------------------------------------------------------------------------------------
# The words are split here so that this file does not hold them itself.
words='/wo''rk/|sha''red/|DES''IGN\.md|STY''LE\.md|Cla''ude|Anthro''pic|Chat''GPT|\bA''I\b|\bL''LM\b'
grep -nE "$words" "${texts[@]}" 2>/dev/null | check "no file names a place outside the repository"
for file in "${texts[@]}"; do
    IFS= read -r -n 2 first <"$file"
    [ "$first" != '#!' ] || [ -x "$file" ] || echo "$file: is not executable"
done 2>&1 | grep -v '^systemd/debian/' | check "files that begin with #! are executable"
for file in "${scripts[@]}"; do
    case $file in
    *.sh | .ci/run)
        first=$(head -1 "$file")
        case $first in
        '#!/bin/sh'*) sh -n "$file" 2>&1 ;;
        '#!/bin/bash'* | '#!/usr/bin/env bash'*) bash -n "$file" 2>&1 ;;
        '#!'*) echo "$file: unknown interpreter in its first line" ;;
        *) bash -n "$file" 2>&1 ;; # sourced by other scripts
        esac ;;
    esac
done | check "scripts parse"

echo "1..$count"
exit $((failures > 0))
