#!/bin/bash
# Runs inside the booted tree: tests the Debian packages from apt install to apt purge. Prints one
# TAP line per check; package.sh counts them.
set -uo pipefail
cd "$(dirname "$0")" || exit 1
. ./tap.sh
. ./service.sh

readonly second=gpuimgd@second.service
readonly load=5000 # jobs: ten seconds or more for a worker, while apt takes one or two
export DEBIAN_FRONTEND=noninteractive

# Offline: all packages are in apt's cache or in this folder.
apt() { apt-get -q -y "$@" </dev/null; }
version() { dpkg-query -W -f '${Version}' gpuimgd; }
# The package is installed, and its files are unchanged.
verified() { dpkg --status "$1" && equal "$(dpkg --verify "$1")" ""; }
is_gone() { not test -e "$1"; }

client_alone() {
    chapter "apt install gpuimgctl, on a host that only makes jobs"
    check "it installs with its dependencies" apt install ./new/gpuimgctl_*.deb
    check "its files are unchanged" verified gpuimgctl
    check "there is no service, no user and no codec" \
        equal "$(ls -d /usr/sbin/gpuimgd /lib/systemd/system/$unit /usr/lib/*/libjpeg.so* 2>/dev/null)$(getent passwd gpuimgd)" ""
    check "its manual is installed" manual_is_there 1/gpuimgctl.1
    gpuimgctl status
    check "it runs, and reports that there is no Redis" equal $? 69
    check "bash has its completion" bash -c \
        '. /usr/share/bash-completion/completions/gpuimgctl && complete -p gpuimgctl'
}

installation() {
    chapter "apt install"
    check "it installs with its dependencies" apt install ./new/gpuimgd_*.deb
    check "its files are unchanged" verified gpuimgd
    check "the service runs" within 20 is_active
    check "the service is enabled" equal "$(systemctl is-enabled "$unit")" enabled
    check "the user gpuimgd exists" getent passwd gpuimgd
    check "in belongs to root and group gpuimgd, which may write to it" \
        equal "$(stat -c '%U:%G %a' $in)" "root:gpuimgd 2775"
    check "out belongs to gpuimgd" equal "$(stat -c '%U:%G %a' $out)" "gpuimgd:gpuimgd 755"
    check "Redis is installed, and the service is connected" within 20 logged 'jobs from 127.0.0.1'
    check "the configuration is a conffile" \
        has "$(dpkg-query -W -f '${Conffiles}' gpuimgd)" "/etc/gpuimgd/gpuimgd.conf"
    check "the manual is installed" manual_is_there 8/gpuimgd.8 5/gpuimgd.conf.5 5/gpuimgd-job.5
    cp ./*.jpg $in/
    push '{"id":"edges","input":"small.jpg","output":"edges.png","ops":["grayscale","sobel"]}'
    check "a job is done" has "$(result)" '"status":"done"'
    check "its output is a PNG" begins_with 89504e470d0a1a0a $out/edges.png
    check "gpuimgctl submits a job, which is done" gpuimgctl submit $in/small.jpg --ops sobel --out ctl.png --wait
    check "the output of gpuimgctl is a PNG" begins_with 89504e470d0a1a0a $out/ctl.png
    check "the Python package installs" apt install ./new/python3-gpuimgd_*.deb
    check "its files are unchanged" verified python3-gpuimgd
    check "a Python program submits a job, which is done" python3 -c '
import redis, gpuimgd
with gpuimgd.Client(redis.Redis()) as client:
    job = gpuimgd.Job("small.jpg", "python.png", [gpuimgd.ops.sobel()])
    client.run(job, timeout=30).raise_for_status()'
    check "the output of Python is a PNG" begins_with 89504e470d0a1a0a $out/python.png
    check "the Python package can be purged" apt purge python3-gpuimgd
    check "with what Python wrote" is_gone /usr/lib/python3/dist-packages/gpuimgd
}

manual_is_there() {
    local page
    for page in "$@"; do
        zgrep -q '^\.Sh SEE ALSO' "/usr/share/man/man$page.gz" || { echo "no $page"; return 1; }
    done
}

# An upgrade keeps the administrator's changes and loses no job.
upgrade() {
    local pid old all second_pid
    chapter "an upgrade with jobs in flight"
    printf 'workers = 1\ninflight = 8\n' >$conf_d/10-check.conf
    echo "stats_interval_s = 1" >>/etc/gpuimgd/gpuimgd.conf
    systemctl restart "$unit"
    cp /etc/gpuimgd/gpuimgd.conf /etc/gpuimgd/gpuimgd-second.conf
    check "an instance of the template starts" systemctl enable --quiet --now $second
    pid=$(main_pid) old=$(version) second_pid=$(systemctl show --property=MainPID --value $second)
    push_many upgraded $load small.jpg
    check "work has begun" within 20 results_at_least 100
    mark
    check "apt install of a higher version" apt install ./newer/gpuimg*.deb
    check "work was left" test "$(redis-cli LLEN gpuimgd:results)" -lt $load
    echo "    $old -> $(version); $(redis-cli LLEN gpuimgd:results) of $load jobs were answered by then"
    check "the new version is installed" dpkg --compare-versions "$(version)" gt "$old"
    check "another process runs" within 20 restarted "$pid"
    check "the instance is another process, too" within 20 second_restarted "$second_pid"
    check "the old process drained its jobs first" logged 'draining, [1-9][0-9]* jobs? in flight'
    check "the administrator's configuration is kept and used" \
        within 10 logged '^stats interval_s=1\.0'
    check "all jobs end" within 240 results_at_least $load
    all=$(redis-cli --raw LRANGE gpuimgd:results 0 -1)
    check "no job was started twice" equal "$(grep -c '"attempt":1,' <<<"$all")" $load
    check "each with one result, status done, and its output" results_complete upgraded $load
    check "no queued job, no lease and no temporary file is left" within 10 no_leftovers
}

second_restarted() { # pid before the upgrade
    equal "$(systemctl is-active $second)" active &&
        not equal "$(systemctl show --property=MainPID --value $second)" "$1"
}

removal() {
    local answered
    chapter "apt remove with jobs in flight"
    push_many removed $load small.jpg
    check "work has begun" within 20 results_at_least 100
    mark
    check "apt remove" apt remove gpuimgd
    answered=$(redis-cli LLEN gpuimgd:results)
    echo "    $answered of $load jobs were answered by then"
    check "no daemon runs" equal "$(cat /proc/[0-9]*/comm 2>/dev/null | grep -cx gpuimgd)" 0
    check "the daemon drained its jobs first" logged 'draining, [1-9][0-9]* jobs? in flight'
    check "the program is removed" is_gone /usr/sbin/gpuimgd
    check "the unit is removed" is_gone /lib/systemd/system/$unit
    check "the configuration is kept" \
        equal "$(tail -1 /etc/gpuimgd/gpuimgd.conf)" "stats_interval_s = 1"
    check "images are kept" test -s $out/edges.png -a -s $in/small.jpg
    check "no lease is left" equal "$(redis-cli ZCARD gpuimgd:lease)" 0
    check "the other jobs still wait" \
        equal $((answered + $(redis-cli LLEN gpuimgd:jobs))) $load
    check "it can be installed again" apt install ./newer/gpuimgd_*.deb
    check "all jobs end" within 240 results_at_least $load
    check "each with one result, status done, and its output" results_complete removed $load
}

# All files with gpuimg in their names, except those of this test and in apt's cache.
traces() {
    find / -xdev \( -path /proc -o -path /sys -o -path /run -o -path /root/check -o -path /tmp \
        -o -path /var/cache/apt -o -path /etc/systemd/system/gpuimgd-check.service \
        -o -path '/etc/systemd/system/*/gpuimgd-check.service' \) -prune -o -iname '*gpuimg*' -print
}
purge() {
    chapter "apt purge"
    check "the package can be purged" apt purge gpuimgd
    check "the configuration is removed, including conf.d" is_gone /etc/gpuimgd
    check "logs and the cache are removed" test ! -e /var/log/gpuimgd -a ! -e /var/cache/gpuimgd
    check "only images are kept" \
        equal "$(traces | grep -vE 'gpuimgctl|^/usr/share/gpuimgd$')" /var/lib/gpuimgd
    check "inputs and outputs are kept" test -s $out/edges.png -a -s $in/small.jpg
    check "no temporary file is left" is_gone $out/.gpuimgd
    rm -rf ${in:?}/* ${out:?}/*
    check "without images: install" apt install ./new/gpuimgd_*.deb
    check "without images: purge of both packages" apt purge gpuimgd gpuimgctl
    check "no file is left" equal "$(traces)" ""
    check "systemd does not know the unit" has "$(systemctl status "$unit" 2>&1)" "could not be found"
}

main() {
    client_alone
    mark
    installation
    upgrade
    removal
    purge
    echo "end of the transcript"
}

trap 'journalctl --sync; journalctl -u "$unit" -o short-iso --no-pager >journal' EXIT
main
