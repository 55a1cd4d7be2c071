#!/bin/sh
# Prints the status page as a C string, and its Content-Security-Policy. The policy allows only the
# page's own style and script, by their SHA-256. <style>, </style>, <script> and </script> must each
# be alone on a line.
set -eu
page=$1

# Prints the SHA-256, in base64, of the text between the tags.
digest() { # tag
    hex=$({
        echo
        awk -v tag="$1" '$0 == "</" tag ">" { within = 0 } within { print }
                         $0 == "<" tag ">" { within = 1 }' "$page"
    } | sha256sum | cut -c 1-64)
    while [ -n "$hex" ]; do
        rest=${hex#??}
        printf "\\$(printf %03o "0x${hex%"$rest"}")"
        hex=$rest
    done | base64
}

echo "#define STATUS_PAGE_POLICY \\"
echo "    \"default-src 'none'; script-src 'sha256-$(digest script)'; \" \\"
echo "    \"style-src 'sha256-$(digest style)'; connect-src 'self'; img-src data:; \" \\"
echo "    \"base-uri 'none'; form-action 'none'; frame-ancestors 'none'\""
echo 'static const char status_page[] ='
sed 's/\\/\\\\/g; s/"/\\"/g; s/?/\\?/g; s/^/    "/; s/$/\\n"/' "$page"
echo '    ;'
