#!/bin/bash
# Runs inside the booted tree: the life of the Debian packages, from apt install to apt purge.
# Prints one TAP line a fact; package.sh counts them.
set -uo pipefail
cd "$(dirname "$0")" || exit 1
. ./tap.sh
. ./service.sh

readonly load=5000 # jobs: ten seconds or more for a worker, while apt takes one or two
export DEBIAN_FRONTEND=noninteractive

# Offline: everything lies in apt's cache, or beside this.
apt() { apt-get -q -y "$@" </dev/null; }
version() { dpkg-query -W -f '${Version}' gpuimgd; }
# What dpkg has installed, and nobody has changed it.
verified() { dpkg --status "$1" && equal "$(dpkg --verify "$1")" ""; }
is_gone() { not test -e "$1"; }

client_alone() {
    chapter "apt install gpuimgctl, on a host that only makes jobs"
    check "installs with everything that it depends on" apt install ./new/gpuimgctl_*.deb
    check "the files are as they were packed" verified gpuimgctl
    check "there is no service, no user and no codec" \
        equal "$(ls -d /usr/sbin/gpuimgd /lib/systemd/system/$unit /usr/lib/*/libjpeg.so* 2>/dev/null)$(getent passwd gpuimgd)" ""
    check "its manual is there" manual_is_there 1/gpuimgctl.1
    gpuimgctl status
    check "it runs, and says that there is no Redis" equal $? 69
    check "bash completes it" bash -c \
        '. /usr/share/bash-completion/completions/gpuimgctl && complete -p gpuimgctl'
}

installation() {
    chapter "apt install"
    check "installs with everything that it depends on" apt install ./new/gpuimgd_*.deb
    check "the files are as they were packed" verified gpuimgd
    check "the service runs at once" within 20 is_active
    check "and is enabled" equal "$(systemctl is-enabled "$unit")" enabled
    check "the user gpuimgd exists" getent passwd gpuimgd
    check "in belongs to root and group gpuimgd, which may write to it" \
        equal "$(stat -c '%U:%G %a' $in)" "root:gpuimgd 2775"
    check "out belongs to gpuimgd" equal "$(stat -c '%U:%G %a' $out)" "gpuimgd:gpuimgd 755"
    check "Redis came along, and the service has found it" within 20 logged 'jobs from 127.0.0.1'
    check "the configuration is a conffile" \
        has "$(dpkg-query -W -f '${Conffiles}' gpuimgd)" "/etc/gpuimgd/gpuimgd.conf"
    check "the manual is there" manual_is_there 8/gpuimgd.8 5/gpuimgd.conf.5 5/gpuimgd-job.5
    cp ./*.jpg $in/
    push '{"id":"edges","input":"small.jpg","output":"edges.png","ops":["grayscale","sobel"]}'
    check "a job is done" has "$(result)" '"status":"done"'
    check "its output is a PNG" begins_with 89504e470d0a1a0a $out/edges.png
    check "gpuimgctl has one done, too" gpuimgctl submit $in/small.jpg --ops sobel --out ctl.png --wait
    check "which is a PNG" begins_with 89504e470d0a1a0a $out/ctl.png
}

manual_is_there() {
    local page
    for page in "$@"; do
        zgrep -q '^\.Sh SEE ALSO' "/usr/share/man/man$page.gz" || { echo "no $page"; return 1; }
    done
}

# What an administrator has changed stays; jobs do not notice.
upgrade() {
    local pid old all
    chapter "an upgrade with jobs in flight"
    printf 'workers = 1\ninflight = 8\n' >$conf_d/10-check.conf
    echo "stats_interval_s = 1" >>/etc/gpuimgd/gpuimgd.conf
    systemctl restart "$unit"
    pid=$(main_pid) old=$(version)
    push_many upgraded $load small.jpg
    check "work has begun" within 20 results_at_least 100
    mark
    check "apt install of a higher version" apt install ./newer/*.deb
    check "work was left" test "$(redis-cli LLEN gpuimgd:results)" -lt $load
    echo "    $old -> $(version); $(redis-cli LLEN gpuimgd:results) of $load jobs were answered by then"
    check "it is installed" dpkg --compare-versions "$(version)" gt "$old"
    check "another process runs" within 20 restarted "$pid"
    check "the one before ended its jobs first" logged 'draining, [1-9][0-9]* jobs? in flight'
    check "the administrator's configuration stays, and is in force" \
        within 10 logged '^stats interval_s=1\.0'
    check "all jobs end" within 240 results_at_least $load
    all=$(redis-cli --raw LRANGE gpuimgd:results 0 -1)
    check "none was begun twice" equal "$(grep -c '"attempt":1,' <<<"$all")" $load
    check "each with one result, status done, and its output" results_complete upgraded $load
    check "nothing is left in the queue, no lease, no temporary file" within 10 no_leftovers
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
    check "it ended its jobs first" logged 'draining, [1-9][0-9]* jobs? in flight'
    check "the program is gone" is_gone /usr/sbin/gpuimgd
    check "and the unit" is_gone /lib/systemd/system/$unit
    check "the configuration is not" \
        equal "$(tail -1 /etc/gpuimgd/gpuimgd.conf)" "stats_interval_s = 1"
    check "nor are pictures" test -s $out/edges.png -a -s $in/small.jpg
    check "no lease is left" equal "$(redis-cli ZCARD gpuimgd:lease)" 0
    check "what was not answered still waits" \
        equal $((answered + $(redis-cli LLEN gpuimgd:jobs))) $load
    check "installed once more, it goes on with them" apt install ./newer/gpuimgd_*.deb
    check "all jobs end" within 240 results_at_least $load
    check "each with one result, status done, and its output" results_complete removed $load
}

# Names of all files that are gpuimgd's, but for those of this test and apt's cache of packages.
traces() {
    find / -xdev \( -path /proc -o -path /sys -o -path /run -o -path /root/check -o -path /tmp \
        -o -path /var/cache/apt -o -path /etc/systemd/system/gpuimgd-check.service \
        -o -path '/etc/systemd/system/*/gpuimgd-check.service' \) -prune -o -iname '*gpuimg*' -print
}
purge() {
    chapter "apt purge"
    check "of the package" apt purge gpuimgd
    check "the configuration is gone, with what was put into conf.d" is_gone /etc/gpuimgd
    check "logs and the cache are, too" test ! -e /var/log/gpuimgd -a ! -e /var/cache/gpuimgd
    check "the pictures stay, and nothing else does" \
        equal "$(traces | grep -v gpuimgctl)" /var/lib/gpuimgd
    check "those that came in and those that were made" test -s $out/edges.png -a -s $in/small.jpg
    check "no temporary file is among them" is_gone $out/.gpuimgd
    rm -rf ${in:?}/* ${out:?}/*
    check "without pictures: install" apt install ./new/gpuimgd_*.deb
    check "and purge of both packages" apt purge gpuimgd gpuimgctl
    check "then nothing at all is left" equal "$(traces)" ""
    check "systemd knows no such unit" has "$(systemctl status "$unit" 2>&1)" "could not be found"
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
