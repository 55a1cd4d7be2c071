#!/bin/bash
# Checks that the table of metrics, METRICS.md, the dashboard, the alert rules and KEDA's query have
# the same names. If $PROMTOOL is set (make check-metrics), it checks the rules, the dashboard's expressions
# and the metrics of a daemon of BUILD. Prints TAP: tests/scripts/test_metrics.sh BUILD
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/world.sh
build=${1:-build/release}
readonly build table=daemon/telemetry/metrics.def document=daemon/METRICS.md
readonly alerts=conf/alerts.yml dashboard=conf/grafana.json scaling=conf/deploy/kubernetes/scaledobject.yaml
make_world metrics

names() { sed -nE 's/^METRIC\(([a-z_]+), .*/\1/p' "$table"; }
documented() { daemon/telemetry/metrics_table.sh | diff - "$document"; }
all_documented() {
    [ "$(names | wc -l)" -gt 40 ] && equal "$(grep -c '^METRIC(' "$table")" "$(names | wc -l)" &&
        equal "$(grep -cE '^\| `(gpuimgd|process)_' "$document")" "$(names | wc -l)"
}

# Prints metric names in the given files that the table lacks.
unknown_names() {
    local name base known
    known=$(names)
    grep -ohE '\b(gpuimgd|process)_[a-z_]*[a-z]\b' "$@" | sort -u | while read -r name; do
        base=$(sed -E 's/_(bucket|sum|count)$//' <<<"$name")
        grep -qxE "$name|$base" <<<"$known" || echo "$name"
    done
}
known_names() {
    local names
    names=$(unknown_names "$@")
    [ -z "$names" ] || { echo "no such metrics: $names"; return 1; }
}

# Each alert needs a comment above it with its reason.
reasons() {
    awk '/^      - alert:/ { alerts++; if (before !~ /^      #/) { print "no reason: " $0; bad = 1 } }
         { before = $0 }
         END { exit bad || alerts < 10 }' "$alerts"
}

# The daemon can be built without libmicrohttpd.
stub() {
    ${CC:-cc} -std=c11 -Wall -Wextra -Werror -I. -D_GNU_SOURCE -fsyntax-only \
        $("${PKG_CONFIG:-pkg-config}" --cflags libuv libcjson) daemon/http/http_server.c
}

# ---- with promtool -------------------------------------------------------------------------------
# The dashboard's expressions as rules; a JSON string is a YAML string, too.
expressions() {
    echo 'groups: [{name: dashboard, rules: ['
    { sed -nE 's/^ *"expr": (".*"),?$/{record: "dashboard", expr: \1},/p' "$dashboard"
      sed -nE "s/^ *query: (.*)$/{record: \"dashboard\", expr: '\1'},/p" "$scaling"; } |
        sed -E 's/\$__rate_interval/1m/g; s/\$(namespace|instance)/.*/g' | awk '{ sub(/dashboard/, "r" NR); print }'
    echo ']}]'
}
check_expressions() {
    expressions >"$dir/dashboard.yml"
    [ "$(grep -c 'record' "$dir/dashboard.yml")" -gt 20 ] && "$PROMTOOL" check rules "$dir/dashboard.yml"
}

# KEDA's query gives the number of pods: full ones count as one, a half as a half. 1000 queued jobs need
# one, of which busy pods are some. Another queue, jobs beyond `inflight`, a daemon that starts and the
# length that a daemon reports while it is not ready do not count. Delayed jobs keep one pod.
series() { # METRIC POD VALUES
    echo "  - {series: 'gpuimgd_$1{namespace=\"gpuimgd\",pod=\"$2\"}', values: $3}"
}
pods_needed() {
    local query pod queued held delayed ready minute=0 pods
    query=$(sed -nE 's/^ *query: (.*)$/\1/p' "$scaling")
    {
        printf '%s\n' 'rule_files: []' 'tests:' '- interval: 1m' '  input_series:'
        # Minutes: 0 busy, 1 and a short backlog, 2 a long one, 3 idle, 4 delayed jobs, 5 no daemon ready.
        for pod in "a|0 2000 3000 0 0 7000|24 24 24 0 0 0|0 0 0 0 2 0|1 1 1 1 1 0" \
                "b|0 1900 2900 0 0 0|30 30 30 0 0 0|0 0 0 0 2 0|1 1 1 1 1 0" \
                "c|8000 8000 8000 8000 8000 8000|12 12 12 0 0 0|0 0 0 0 0 0|0 0 0 0 0 0"; do
            IFS='|' read -r pod queued held delayed ready <<<"$pod"
            series queue_jobs "$pod" "$queued"
            series jobs_in_flight "$pod" "$held"
            series jobs_in_flight_limit "$pod" 24+0x5
            series queue_delayed_jobs "$pod" "$delayed"
            series ready "$pod" "$ready"
        done
        series jobs_in_flight starts 0+0x5
        series jobs_in_flight_limit starts 0+0x5
        echo "  - {series: 'gpuimgd_queue_jobs{namespace=\"other\",pod=\"d\"}', values: 9000+0x5}"
        echo "  - {series: 'gpuimgd_ready{namespace=\"other\",pod=\"d\"}', values: 1+0x5}"
        echo "  promql_expr_test:"
        for pods in 2.5 2.5 3 0 1 0; do
            echo "  - {expr: '$query', eval_time: ${minute}m, exp_samples: [{labels: '{}', value: $pods}]}"
            minute=$((minute + 1))
        done
    } >"$dir/scaling.yml"
    "$PROMTOOL" test rules "$dir/scaling.yml"
}

start_daemon() {
    mkdir "$dir/in" "$dir/out"
    run_daemon "$build/gpuimgd" -c /dev/null "--redis=127.0.0.1:$port" "--input_root=$dir/in" \
        "--output_root=$dir/out" --engine=cpu --metrics_listen=0
}
place() { sed -nE 's|.*metrics and status on [a-z]+://127.0.0.1:([0-9]+)/.*|\1|p' "$log"; }
get() { # path
    exec 3<>"/dev/tcp/127.0.0.1/$(place)" || return 1
    printf 'GET %s HTTP/1.0\r\n\r\n' "$1" >&3
    sed '1,/^\r$/d' <&3
    exec 3>&-
}
ready() { equal "$(get /readyz)" running; }
exposed() { get /metrics >"$dir/metrics" && "$PROMTOOL" check metrics <"$dir/metrics"; }

with_promtool() {
    check "promtool accepts $alerts" "$PROMTOOL" check rules "$alerts"
    check "the alerts fire as tests/scripts/alerts.yml expects" "$PROMTOOL" test rules tests/scripts/alerts.yml
    check "promtool accepts the expressions of $dashboard and $scaling" check_expressions
    check "$scaling asks for the pods that the jobs need" pods_needed
    if has "$(ldd "$build/gpuimgd")" libmicrohttpd >/dev/null; then
        start_redis "$dir" --port || return 1
        start_daemon
        check "a daemon is ready" within 30 ready
        check "promtool accepts the daemon's metrics" exposed
    else
        echo "ok - promtool accepts the daemon's metrics # SKIP built without libmicrohttpd"
    fi
}

main() {
    check "$document has the table that daemon/telemetry/metrics_table.sh prints" documented
    check "$document has every metric of $table" all_documented
    check "the metrics of the alert rules exist" known_names "$alerts"
    check "every alert rule has a comment with its reason" reasons
    check "the metrics of the dashboard exist" known_names "$dashboard"
    check "the metrics of $scaling exist" known_names "$scaling"
    check "daemon/http/http_server.c compiles without libmicrohttpd" stub
    [ -z "${PROMTOOL:-}" ] || with_promtool
    [ "$failures" -eq 0 ]
}
main
