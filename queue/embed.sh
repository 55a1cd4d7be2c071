#!/bin/sh
# Prints each Lua script as `static const char SCRIPT_NAME[]`, line by line, for queue/scripts.inc.
set -eu
for file in "$@"; do
    name=$(basename "$file" .lua | tr 'a-z-' 'A-Z_')
    printf 'static const char SCRIPT_%s[] =\n' "$name"
    sed 's/\\/\\\\/g; s/"/\\"/g; s/^/    "/; s/$/\\n"/' "$file"
    printf '    ;\n'
done
