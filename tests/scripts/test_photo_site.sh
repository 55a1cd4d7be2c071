#!/bin/bash
# Runs the job of README.md, with a photo as an iPhone writes it, and checks the outputs with other
# programs: tests/scripts/test_photo_site.sh BUILD
#
# The photo is in an S3 server (moto) if `make check-urls` has installed it; the job and the option
# url_prefixes are those of README.md with the address of that server. Without it, the input is a
# local file. tests/scripts/photo_site.py makes the photo and checks pixels. Prints TAP.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/world.sh
. tests/scripts/s3.sh
build=${1:?usage: tests/scripts/test_photo_site.sh BUILD, such as build/release}
need_tools redis-server redis-cli /usr/bin/python3 cjpeg djpeg
readonly program=$PWD/$build/gpuimgd
readonly origin=https://s3.eu-west-1.amazonaws.com
make_world photo-site
mkdir "$dir/in" "$dir/out"
readonly photo=$dir/IMG_0042.jpg
# Keys of the user who runs the test must not take part.
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_PROFILE

photo_site() { /usr/bin/python3 -B tests/scripts/photo_site.py "$@"; }
has_library() { # the daemon's, or its codec process's
    ldd "$program" "$program-codec" 2>/dev/null | grep "$1" >/dev/null
}
skip() { echo "ok - $1 # SKIP $2"; }

# ---- the input ----------------------------------------------------------------------------------

# Sets $place: "local", or empty for S3.
prepare_input() {
    local moto=$build/moto/bin/moto_server
    place=local s3=0 keys=()
    options=(-c /dev/null "--redis=unix:$dir/redis.sock" "--input_root=$dir/in"
        "--output_root=$dir/out" --engine=cpu --workers=2 --attempts=1)
    check "the photo is made" photo_site photo "$dir"
    mv "$dir/logo.png" "$dir/in/"
    if ! has_library libcurl; then
        skip "the photo is in S3" "this build has no libcurl"
    elif [ ! -x "$moto" ] || ! command -v curl >/dev/null; then
        skip "the photo is in S3" "make check-urls installs the S3 server"
    else
        place=""
        start_s3 "$moto" eu-west-1 s3:GetObject IMG_0042.jpg "$photo"
        mapfile -t keys < <(sed 's/ = /=/; s/^[a-z_]*/\U&/' "$dir/credentials/photos")
        options+=("--url_networks=127.0.0.0/8"
            "--url_prefixes=$(sed -n 's/.*`url_prefixes = \([^`]*\)`.*/\1/p' README.md | here)")
    fi
    [ -z "$place" ] || cp "$photo" "$dir/in/"
}
here() { sed "s|$origin|http://127.0.0.1:$s3|g"; }

# ---- the job ------------------------------------------------------------------------------------

run_job() { # reads the job; sets $result
    ask_redis LPUSH gpuimgd:jobs "$(here)" >"$dir/null"
    result=$(ask_redis BRPOP gpuimgd:results 120 | tail -n +2)
}
run_jobs() {
    local without=()
    has_library libwebp || without+=(without:webp)
    has_library libavif || without+=(without:avif)
    run_daemon env "${keys[@]}" "$program" "${options[@]}"
    check "the daemon starts" within 20 grep -q 'connected' "$log"
    run_job < <(photo_site preview $place)
    check "a job for the pixels before the blurhash" has "$result" '"status":"done"'
    run_job < <(photo_site job $place "${without[@]}")
    check "the job of README.md" has "$result" '"status":"done"'
    [ -n "$place" ] ||
        check "its input is in S3" has "$result" "\"url\":\"http://127.0.0.1:$s3/photos/"
    stop_daemon
    check "the daemon stops with status 0" equal "$exit_status" 0
}

# ---- the outputs --------------------------------------------------------------------------------

output_number=-1
# begin_output LIBRARY FILE TOOL...: whether the build and this machine can check the output
begin_output() {
    local library=$1 file=$2 tool
    shift 2
    has_library "$library" || { skip "$file" "this build has no $library"; return 1; }
    output_number=$((output_number + 1))
    chapter "$file"
    for tool in "$@"; do
        command -v "$tool" >/dev/null || { skip "$file" "there is no $tool here"; return 1; }
    done
}
image_is() { equal "$(head -c 20 "$1" | tr '\n' ' ' | cut -d' ' -f1-3)" "P6 $2"; }
colours() { photo_site colours "$1" "$result" "$output_number"; }
# The tag of the GPS directory.
place_is_in() { LC_ALL=C grep -aqP "\x88\x25\0\x04\0\0\0\x01" "$1"; }
# Big-endian EXIF stores the tag of the orientation, its type, its count and its value.
orientation_is() { LC_ALL=C grep -aqP "\x01\x12\0\x03\0\0\0\x01\0\\x0$2" "$1"; }

check_large() {
    begin_output libwebp 42/large.webp webpinfo dwebp || return
    local file=$dir/out/42/large.webp
    check "webpinfo accepts it" webpinfo -quiet "$file"
    check "it has no profile and no EXIF" not grep -qE 'ICCP|EXIF' <<<"$(webpinfo "$file")"
    check "dwebp decodes it" dwebp -quiet -ppm "$file" -o "$dir/large.ppm"
    check "its size is that of the rotated photo" image_is "$dir/large.ppm" "1200 1600"
    check "its colours are sRGB, and the watermark is there" colours "$dir/large.ppm"
}
check_small() {
    begin_output libavif 42/small.avif avifdec || return
    local file=$dir/out/42/small.avif info
    info=$(avifdec --info "$file")
    check "it has no profile" grep -qE 'ICC Profile *: Absent' <<<"$info"
    check "its colours are labelled sRGB" grep -qE 'Color Primaries: 1$' <<<"$info"
    check "with the curve of sRGB" grep -qE 'Transfer Char. *: 13$' <<<"$info"
    check "it has no EXIF" grep -qE 'Exif Metadata *: Absent' <<<"$info"
    check "it is not rotated by a reader" grep -qE 'Transformations *: None' <<<"$info"
    # avifdec writes no PPM; this JPEG is good enough for means.
    check "avifdec decodes it" avifdec -q 100 "$file" "$dir/small.jpg"
    check "djpeg decodes that" djpeg -pnm -outfile "$dir/small.ppm" "$dir/small.jpg"
    check "its size is that of the rotated photo" image_is "$dir/small.ppm" "640 853"
    check "its colours are sRGB, and the watermark is there" colours "$dir/small.ppm"
}
check_square() {
    output_number=$((output_number + 1))
    chapter 42/square.jpg
    local file=$dir/out/42/square.jpg
    check "djpeg decodes it" djpeg -pnm -outfile "$dir/square.ppm" "$file"
    check "its size" image_is "$dir/square.ppm" "320 320"
    check "it has no profile" not grep -aq ICC_PROFILE "$file"
    check "the photo's EXIF has orientation 6" orientation_is "$photo" 6
    check "this file names no orientation" not orientation_is "$file" 6
    check "it names the artist and the copyright" grep -aq '(c) 2024 Ann Artist' "$file"
    check "it names no phone" not grep -aq Apple "$file"
    check "it has no serial number" not grep -aq SERIAL "$file"
    check "the photo's EXIF has a place" place_is_in "$photo"
    check "this file has none" not place_is_in "$file"
    check "it has at most 15,000 bytes" less "$(stat -c %s "$file")" 15001
    check "its colours are sRGB, its place is right, and the watermark is there" \
        colours "$dir/square.ppm"
}
check_hash() {
    chapter blurhash
    if /usr/bin/python3 -c 'import blurhash' 2>"$dir/null"; then
        check "it is that of Python's blurhash" photo_site hash "$dir/out/preview.png" "$result"
    else
        skip "it is that of Python's blurhash" "there is no python3-blurhash here"
    fi
}

start_redis "$dir" --port || exit 1
prepare_input
run_jobs
check_large
check_small
check_square
check_hash
exit $((failures > 0))
