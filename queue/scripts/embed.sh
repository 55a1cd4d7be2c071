#!/bin/sh
# Prints each Lua script as a C string `static const char SCRIPT_NAME[]`, for queue/scripts.inc. A
# line `-- include parts/NAME.lua` is replaced by that file, relative to the script. Comment lines
# are left out: they would double the size of each first call.
set -eu
for file in "$@"; do
    name=$(basename "$file" .lua | tr 'a-z-' 'A-Z_')
    text=$(awk -v folder="$(dirname "$file")" '
        /^-- include / {
            part = folder "/" $3
            while ((got = (getline line < part)) > 0) if (line !~ /^ *--/) print line
            if (got < 0) { print "embed.sh: cannot read " part > "/dev/stderr"; exit 1 }
            close(part)
            next
        }
        !/^ *--/' "$file")
    printf 'static const char SCRIPT_%s[] =\n' "$name"
    printf '%s\n' "$text" | sed 's/\\/\\\\/g; s/"/\\"/g; s/^/    "/; s/$/\\n"/'
    printf '    ;\n'
done
