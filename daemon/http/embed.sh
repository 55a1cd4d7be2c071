#!/bin/sh
# Prints each page (NAME.html) as a C string NAME_page, and its Content-Security-Policy. The policy
# allows only the page's own style and script, by their SHA-256. <style>, </style>, <script> and
# </script> must each be alone on a line. A line `/* include FILE */` is replaced by that file.
set -eu

# whole PAGE: the page with its includes.
whole() {
    awk -v folder="$(dirname "$1")" '
        /^\/\* include / {
            part = folder "/" $3
            while ((got = (getline line < part)) > 0) print line
            if (got < 0) { print "embed.sh: cannot read " part > "/dev/stderr"; exit 1 }
            close(part)
            next
        }
        { print }' "$1"
}

# digest TAG: the SHA-256, in base64, of the text between the tags of the page on standard input.
digest() {
    hex=$({
        echo
        awk -v tag="$1" '$0 == "</" tag ">" { within = 0 } within { print }
                         $0 == "<" tag ">" { within = 1 }'
    } | sha256sum | cut -c 1-64)
    while [ -n "$hex" ]; do
        rest=${hex#??}
        printf "\\$(printf %03o "0x${hex%"$rest"}")"
        hex=$rest
    done | base64
}

for page in "$@"; do
    name=$(basename "$page" .html)
    text=$(whole "$page")
    echo "#define $(echo "$name" | tr a-z A-Z)_PAGE_POLICY \\"
    script=$(printf '%s\n' "$text" | digest script)
    style=$(printf '%s\n' "$text" | digest style)
    echo "    \"default-src 'none'; script-src 'sha256-$script'; style-src 'sha256-$style'; \" \\"
    echo "    \"connect-src 'self'; img-src data:; \" \\"
    echo "    \"base-uri 'none'; form-action 'none'; frame-ancestors 'none'\""
    echo "static const char ${name}_page[] ="
    printf '%s\n' "$text" | sed 's/\\/\\\\/g; s/"/\\"/g; s/?/\\?/g; s/^/    "/; s/$/\\n"/'
    echo '    ;'
done
