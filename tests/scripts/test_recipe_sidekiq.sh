#!/bin/bash
# Runs queue/clients/recipes/sidekiq.rb with a real Sidekiq: tests/scripts/test_recipe_sidekiq.sh
# BUILD. Prints TAP.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build/release}")
. tests/scripts/recipe.sh
if ! ruby -e 'require "sidekiq"; require "redis"' 2>/dev/null || ! command -v sidekiq >/dev/null; then
    echo "ok - ${0##*/} # SKIP there is no ruby-sidekiq here"
    exit 77
fi
begin sidekiq

# The workers of an application: each writes a line.
cat >"$dir/app.rb" <<'END'
require "#{ENV.fetch('recipes')}/sidekiq.rb"
class PhotoReady
  def perform(*words) = File.write("#{ENV.fetch('dir')}/ready", "#{words.flatten.join(' ')}\n", mode: "a")
end
class PhotoFailed
  def perform(*words) = File.write("#{ENV.fetch('dir')}/failed", "#{words.join(' ')}\n", mode: "a")
end
END
start_sidekiq() {
    sidekiq -r "$dir/app.rb" -c 2 -q default >>"$dir/sidekiq.log" 2>&1 &
    sidekiq=$!
}
start_consumer() {
    ruby "$recipes/sidekiq.rb" >>"$dir/consumer.log" 2>&1 &
    consumer=$!
}
end() { # SIGNAL PROCESS
    kill "-$1" "$2"
    wait "$2" 2>"$dir/null"
}
upload() { # PHOTO VERSION PATH
    ruby -e 'require ARGV.shift; PhotoUploaded.perform_async(*ARGV)' "$dir/app.rb" "$@" 2>>"$dir/upload.log"
}
lines_are() { diff <(sort "$dir/$1") <(printf '%s\n' "${@:2}" | sort); } # FILE LINE...
ready() { echo "$1 photos/$1/large.webp photos/$1/small.webp"; }
nothing_is_left() { equal "$(ask_redis LLEN gpuimgd:reply:sidekiq)$(ask_redis LLEN gpuimgd:reply:sidekiq:taken:1)" 00; }
count_is() { equal "$(wc -l <"$dir/$1")" "$2"; }
webp_is_right() {
    if command -v dwebp >/dev/null; then
        dwebp -quiet -pgm "$1" -o "$dir/small.pgm" && equal "$(head -c 14 "$dir/small.pgm" | xargs)" "P5 320 360 255" &&
            tail -c +16 "$dir/small.pgm" | head -c 76800 | od -An -v -tu1 -w1 | awk '$1 < 97 || $1 > 103 { bad++ }
                END { print bad + 0, "wrong pixels"; exit bad > 0 }'
    else
        has "$(head -c 12 "$1" | tr -d '\0')" WEBP
    fi
}

: >"$dir/ready" >"$dir/failed"
awk 'BEGIN { printf "P2\n640 480\n255\n"; for (i = 0; i < 307200; i++) print 100 }' | cjpeg -outfile "$dir/in/a.jpg"
start_daemon
start_sidekiq
start_consumer
upload 1 v1 a.jpg
check "a worker makes a job, and the next worker runs" within 60 lines_are ready "$(ready 1)"
check "the image is there" webp_is_right "$dir/out/photos/1/small.webp"
upload 2 v1 missing.jpg
check "a failed job runs the other worker" within 30 grep -q '^2 input_missing ' "$dir/failed"
inode=$(stat -c %i "$dir/out/photos/1/small.webp")
upload 1 v1 a.jpg
check "a worker that runs twice gets the same result" within 30 count_is ready 2
check "from one job" equal "$(stat -c %i "$dir/out/photos/1/small.webp")" "$inode"
upload 1 v2 a.jpg
check "another version of the photo runs again" within 30 count_is ready 3
check "and writes new images" not equal "$(stat -c %i "$dir/out/photos/1/small.webp")" "$inode"

end KILL "$consumer"
upload 3 v1 a.jpg
sleep 2
start_consumer
check "a result that came while the consumer was dead" within 30 grep -q "^3 " "$dir/ready"
end KILL "$consumer"
ask_redis LPUSH gpuimgd:reply:sidekiq:taken:1 \
    '{"status":"done","meta":{"photo":"4"},"outputs":[{"path":"photos/4/large.webp"},{"path":"photos/4/small.webp"}]}' >"$dir/null"
ask_redis RPUSH gpuimgd:reply:sidekiq:taken:1 garbage '[1]' null '{"meta":1}' >"$dir/null"
start_consumer
check "one that it had taken, after some that are no results" within 30 grep -q "^4 " "$dir/ready"

end KILL "$redis"
sleep 1
restart_redis
upload 5 v1 a.jpg
check "after Redis was away" within 60 grep -q "^5 " "$dir/ready"
end KILL "$daemon"
upload 6 v1 a.jpg
sleep 1
start_daemon
check "after the daemon was killed" within 60 grep -q "^6 " "$dir/ready"
check "no result is left" within 10 nothing_is_left
end TERM "$consumer"
end TERM "$sidekiq"
check "what is no result was printed" equal "$(grep -c '^not a result of a photo: ' "$dir/consumer.log")" 4
check "the consumer printed nothing else but Redis's errors" not grep -vE '^not a result of a photo: |^Redis(Client)?::[A-Za-z]*Error: |^Redis#sadd will ' "$dir/consumer.log"
exit $((failures > 0))
