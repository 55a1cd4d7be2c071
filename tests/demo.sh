#!/bin/bash
# Runs a demonstration of gpuimgd: tests/demo.sh build/release/gpuimgd (make demo)
#
# Draws two images, starts a private Redis and a daemon, pushes jobs with redis-cli, and prints each
# command, so that you can run it by hand. Fails if a result is wrong. It keeps the images and stops
# Redis and the daemon.
set -euo pipefail

if [ $# -ne 1 ] || [ ! -x "$1" ]; then
    echo "usage: $0 DAEMON, such as build/release/gpuimgd" >&2
    exit 64
fi
readonly daemon=$1
. "$(dirname "$0")/redis.sh"
dir=$(mktemp -d /tmp/gpuimgd-demo.XXXXXX)
readonly dir in=$dir/in out=$dir/out log=$dir/gpuimgd.log
port="" redis="" gpuimgd="" results=()

die() {
    echo "demo: $*" >&2
    [ ! -s "$log" ] || sed 's/^/    gpuimgd: /' "$log" >&2
    exit 1
}
cleanup() {
    [ -z "$gpuimgd" ] || kill "$gpuimgd" 2>/dev/null || true
    [ -z "$redis" ] || kill "$redis" 2>/dev/null || true
    wait
}
trap cleanup EXIT
trap 'exit 130' INT TERM

title() { printf '\n== %s\n' "$*"; }

# Prints a command as one would type it, then runs it.
run() {
    local word line=
    for word in "$@"; do
        case $word in
        *[!A-Za-z0-9_./:=,-]*) line+=" '${word//\'/\'\\\'\'}'" ;;
        *) line+=" $word" ;;
        esac
    done
    echo "\$$line"
    "$@"
}

# ---- images --------------------------------------------------------------------------------------
# Each image is a PPM text from awk that cjpeg converts to JPEG.

draw_cat() {
    awk -v w=640 -v h=480 '
    function ellipse(cx, cy, rx, ry) { return ((x-cx)/rx)^2 + ((y-cy)/ry)^2 <= 1 }
    function side(ax, ay, bx, by) { return (bx-ax)*(y-ay) - (by-ay)*(x-ax) >= 0 }
    function triangle(ax, ay, bx, by, cx, cy) {
        return side(ax, ay, bx, by) && side(bx, by, cx, cy) && side(cx, cy, ax, ay) }
    # A thin line from (ax, ay) to (bx, by), left to right.
    function whisker(ax, ay, bx, by,    d) {
        d = y - (ay + (by-ay)*(x-ax)/(bx-ax)); return x >= ax && x <= bx && d*d < 4 }
    function colour(r, g, b) { red = r; green = g; blue = b }
    BEGIN {
        printf "P3\n%d %d\n255\n", w, h
        for (y = 0; y < h; y++) {
            for (x = 0; x < w; x++) {
                colour(90 + y/5, 150 + y/8, 225 - y/6)                              # sky
                if (ellipse(520, 90, 50, 50)) colour(255, 236, 150)                 # sun
                if (y > 400 + 14*sin(x/70)) colour(70 + x/16, 140 - x/20, 70)       # grass
                if (ellipse(320, 500, 150, 140)) colour(214, 132, 56)               # body
                if (triangle(180, 70, 290, 150, 190, 240) || \
                    triangle(460, 70, 450, 240, 350, 150)) colour(214, 132, 56)     # ears
                if (triangle(198, 105, 262, 152, 202, 205) || \
                    triangle(442, 105, 438, 205, 378, 152)) colour(240, 170, 160)
                if (ellipse(320, 260, 155, 130))                                    # head
                    colour(232 - (y-130)/6, 152 - (y-130)/8, 70)
                if (y < 190 && ellipse(320, 260, 155, 130) && int((x+10)/30) % 2 == 0 && \
                    x > 260 && x < 380) colour(168, 92, 36)                         # stripes
                if (ellipse(278, 322, 48, 38) || ellipse(362, 322, 48, 38)) colour(250, 238, 220)
                if (ellipse(255, 240, 34, 27) || ellipse(385, 240, 34, 27)) colour(180, 220, 90)
                if (ellipse(255, 240, 10, 25) || ellipse(385, 240, 10, 25)) colour(20, 24, 20)
                if (ellipse(262, 230, 5, 6) || ellipse(392, 230, 5, 6)) colour(255, 255, 255)
                if (triangle(300, 288, 340, 288, 320, 308)) colour(214, 90, 110)    # nose
                if (whisker(130, 290, 262, 318) || whisker(125, 335, 262, 330) || \
                    whisker(378, 318, 510, 290) || whisker(378, 330, 515, 335)) colour(60, 40, 30)
                printf "%d %d %d ", red, green, blue
            }
            print ""
        } }' | cjpeg -quality 92 -outfile "$in/cat.jpg"
}

# A zone plate: rings that get thinner outwards, with all hues around the centre.
draw_rings() {
    awk -v w=512 -v h=512 'BEGIN {
        printf "P3\n%d %d\n255\n", w, h
        for (y = 0; y < h; y++) {
            for (x = 0; x < w; x++) {
                dx = x - w/2; dy = y - h/2; wave = (1 + cos((dx*dx + dy*dy) / 500)) / 2
                turn = atan2(dy, dx)
                printf "%d %d %d ", wave * (128 + 127*cos(turn)), \
                    wave * (128 + 127*cos(turn - 2.094)), wave * (128 + 127*cos(turn + 2.094))
            }
            print ""
        } }' | cjpeg -quality 92 -outfile "$in/rings.jpg"
}

# Prints an image as text, for terminals: show FILE.jpg. Scaling down makes thin lines dark, so the
# levels are multiplied.
show() {
    djpeg -grayscale -scale 1/8 -pnm "$1" | tail -c $((80 * 60)) | od -An -v -tu1 -w80 |
        awk 'NR % 2 { line = "    "
            for (i = 1; i <= NF; i++) {
                level = int($i * 3 * 9 / 255)
                line = line substr(" .:-=+*#%@", 1 + (level > 9 ? 9 : level), 1) }
            sub(/ +$/, "", line); print line }'
}

# ---- Redis and the daemon ------------------------------------------------------------------------

# Uses its own configuration file instead of the one in /etc.
start_daemon() {
    cat >"$dir/gpuimgd.conf" <<END
redis = 127.0.0.1:$port
input_root = $in
output_root = $out
END
    run cat "$dir/gpuimgd.conf"
    echo "\$ $daemon -c $dir/gpuimgd.conf &"
    "$daemon" -c "$dir/gpuimgd.conf" >"$log" 2>&1 &
    gpuimgd=$!
}

push() { run redis-cli -p "$port" LPUSH gpuimgd:jobs "$1"; }

# Takes one result into $results. BRPOP prints the list's name and the value.
take_result() {
    local json
    json=$(redis-cli -p "$port" --raw BRPOP gpuimgd:results 30 | tail -n +2)
    [ -n "$json" ] || die "no result came within 30 s"
    results+=("$json")
}

# ---- results -------------------------------------------------------------------------------------

# text NAME JSON, number NAME JSON: the first value with that name. Good enough for this table;
# programs should use a JSON library.
text() {
    grep -oE "\"$1\":\"([^\"\\]|\\\\.)*\"" <<<"$2" | head -1 | sed 's/^[^:]*:"//; s/"$//' || true
}
number() { grep -oE "\"$1\":[0-9.]+" <<<"$2" | head -1 | cut -d: -f2 || true; }

print_table() {
    local json id status engine what
    printf '%-9s %-7s %-7s %9s  %s\n' id status engine 'total ms' 'outputs or error'
    for json in "${results[@]}"; do
        id=$(text id "$json")
        status=$(text status "$json")
        engine=$(text engine "$json")
        if [ "$status" = "done" ]; then
            what=${json#*\"outputs\"}
            what=$(grep -o '"path":"[^"]*"' <<<"$what" | cut -d'"' -f4 | xargs || true)
        else
            what="$(text code "$json"): $(text message "$json" | sed 's/\\"/"/g')"
        fi
        printf '%-9s %-7s %-7s %9s  %s\n' \
            "${id:--}" "$status" "${engine:--}" "$(number total "$json")" "$what"
    done
}

# is FORMAT FILE: checks the first bytes
is() {
    local magic
    magic=$(head -c 4 "$2" 2>/dev/null | od -An -tx1 | tr -d ' \n')
    case $1:$magic in png:89504e47 | jpeg:ffd8ff*) return 0 ;; esac
    die "$2 is not a $1 file"
}

verify() {
    local all
    all=$(printf '%s\n' "${results[@]}")
    [ "$(grep -c '"status":"done"' <<<"$all")" = 3 ] || die "not exactly three jobs are done"
    [ "$(grep -c '"code":"unknown_op"' <<<"$all")" = 1 ] || die "not exactly one job has unknown_op"
    is png "$out/cat-edges.png"
    is png "$out/rings.png"
    is jpeg "$out/cat-gray.jpg"
    is jpeg "$out/cat-lines.jpg"
    [ ! -e "$out/oops.png" ] || die "the refused job wrote $out/oops.png"
}

stats_line() {
    local i
    run kill -USR1 "$gpuimgd"
    for ((i = 0; i < 600; i++)); do
        if grep -o 'stats interval_s=.*' "$log"; then return; fi
        sleep 0.1
    done
    die "no stats line within 60 s"
}

stop_daemon() {
    local status=0
    run kill -TERM "$gpuimgd"
    wait "$gpuimgd" || status=$?
    gpuimgd=""
    [ $status -eq 0 ] || die "the daemon exited with status $status"
    echo "the daemon drained and exited with status 0"
}

main() {
    local i
    mkdir "$in" "$out"
    title "Input images"
    draw_cat
    draw_rings
    run ls -l "$in"

    title "Redis and the daemon"
    start_redis "$dir" --port || die "no Redis"
    echo "\$ redis-server --port $port --save '' &"
    start_daemon

    title "Jobs"
    push '{"input":"cat.jpg","output":"cat-edges.png","ops":["grayscale","sobel"]}'
    echo "# no operations, only another format"
    push '{"id":"format","input":"rings.jpg","output":"rings.png","ops":[]}'
    echo "# one input, two outputs"
    push '{"id":"both","input":"cat.jpg","outputs":[
    {"output":"cat-gray.jpg","ops":["grayscale"]},
    {"output":"cat-lines.jpg","ops":[{"op":"sobel","magnitude":"l2"}]}]}'
    echo "# a typing mistake"
    push '{"id":"mistake","input":"cat.jpg","output":"oops.png","ops":["sobell"]}'

    title "Results"
    echo "\$ redis-cli -p $port --raw BRPOP gpuimgd:results 30    (four times)"
    for i in 1 2 3 4; do take_result; done
    print_table
    echo
    echo "The result of the first job:"
    printf '%s\n' "${results[@]}" | grep -F '"cat-edges.png"'
    verify

    title "cat-lines.jpg"
    show "$out/cat-lines.jpg"

    title "Statistics"
    stats_line

    title "The end"
    stop_daemon
    echo
    echo "The daemon's log:"
    sed 's/^/    /' "$log"
    echo
    echo "The images are in $in (inputs) and $out (outputs)."
}
main
