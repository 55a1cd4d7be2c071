# report.awk - prints the table of report.sh from gcov's text: lines "count:line:source", after a
# line "-:0:Source:NAME" for each file. -v reasons=FILE -v percent_min=N
#
# A comment "uncovered: KEY" in the source excuses lines that need not run; KEY is one of the file
# of reasons (lines "KEY sentence"). A region is a run of uncovered lines with no executed line
# between them. A mark excuses the region that it is in or directly before: on its condition, on one
# of its lines, or on a separate line. "uncovered file: KEY" excuses a whole file.
# STATUS_OUT_OF_MEMORY is a mark with the key "memory".
function trim(text) { gsub(/^[ \t]+|[ \t]+$/, "", text); return text }

BEGIN {
    folder_count = split("conf queue codecs daemon gpu", folders, " ")
    while ((getline line < reasons) > 0) {
        if (line ~ /^#/ || line ~ /^[ \t]*$/) continue
        space = index(line, " ")
        key = substr(line, 1, space - 1)
        reason_order[++reason_count] = key
        reason[key] = trim(substr(line, space))
    }
}

{
    first = index($0, ":")
    count = trim(substr($0, 1, first - 1))
    rest = substr($0, first + 1)
    second = index(rest, ":")
    number = trim(substr(rest, 1, second - 1)) + 0
    text = substr(rest, second + 1)
}
number == 0 {
    if (text ~ /^Source:/) file = substr(text, 8)
    wanted = file ~ /^(conf|queue|codecs|daemon|gpu)\//
    next
}
!wanted || count == "" || first == 0 { next }
{
    source[file, number] = text
    if (number > last[file]) last[file] = number
    if (match(text, /uncovered( file)?: [a-z]+/)) {
        key = substr(text, RSTART, RLENGTH)
        sub(/.* /, "", key)
        if (text ~ /uncovered file:/) file_mark[file] = key
        else mark[file, number] = key
    } else if (text ~ /STATUS_OUT_OF_MEMORY/) {
        named[file, number] = "memory"
    }
    if (count == "-") next
    seen[file, number] = 1
    if (count !~ /^[#=]/) run[file, number] = 1
}

# The key of the region from..to; its marks may begin at the executed line before it.
function why(file, before, from, to,    i, key) {
    for (i = before; i <= to; i++)
        if ((file, i) in mark) {
            mark_used[file, i] = 1
            if (!key) key = mark[file, i]
        }
    for (i = from; i <= to && !key; i++) key = named[file, i]
    return key ? key : file_mark[file]
}

function percent(part, whole) { return whole ? 100 * part / whole : 100 }

function table_row(name, lines, runs) {
    printf "  %-28s %6d %6d %7.1f%%\n", name, lines, runs, percent(runs, lines)
}

function regions(file,    number, before, from, to, i, key) {
    for (number = 1; number <= last[file] + 1; number++) {
        if (number <= last[file] && !seen[file, number]) continue
        if (number <= last[file] && !run[file, number]) {
            if (!from) from = number
            to = number
            continue
        }
        if (from) {
            key = why(file, before, from, to)
            if (!(key in reason)) {
                unexplained++
                key = "(not explained)"
            }
            for (i = from; i <= to; i++) {
                if (!seen[file, i]) continue
                left[key]++
                places[key] = places[key] sprintf("\n      %s:%d: %s", file, i,
                                                  trim(source[file, i]))
            }
        }
        from = 0
        before = number
    }
}

END {
    for (key in last) names[++name_count] = key
    for (i = 2; i <= name_count; i++) { # short enough for this sort
        key = names[i]
        for (j = i - 1; j > 0 && names[j] > key; j--) names[j + 1] = names[j]
        names[j + 1] = key
    }
    printf "  %-28s %6s %6s %8s\n", "", "lines", "run", ""
    for (f = 1; f <= folder_count; f++) {
        lines = runs = 0
        for (i = 1; i <= name_count; i++) {
            file = names[i]
            if (index(file, folders[f] "/") != 1) continue
            file_lines = file_runs = 0
            for (number = 1; number <= last[file]; number++) {
                file_lines += (file, number) in seen
                file_runs += ((file, number) in run) && ((file, number) in seen)
            }
            if (file_lines) table_row(file, file_lines, file_runs)
            lines += file_lines
            runs += file_runs
            regions(file)
        }
        table_row(folders[f] "/", lines, runs)
        print ""
        total += lines
        total_run += runs
        if (folders[f] != "gpu" && percent(runs, lines) < percent_min) {
            bad = 1
            complaint = complaint sprintf("%s/: less than %d%% of its lines run\n", folders[f],
                                          percent_min)
        }
    }
    table_row("all", total, total_run)
    print "\nLines that do not run, and why:"
    for (i = 1; i <= reason_count; i++)
        if (left[reason_order[i]])
            printf "\n  %s (%d)%s\n", reason[reason_order[i]], left[reason_order[i]],
                   places[reason_order[i]]
    if (unexplained)
        printf "\n  not explained (%d)%s\n", left["(not explained)"], places["(not explained)"]
    for (place in mark)
        if (!mark_used[place] && mark[place] != "moment") { # moments may run or not
            split(place, at, SUBSEP)
            printf "\n%s:%d: uncovered: %s: all of it runs\n", at[1], at[2], mark[place]
        }
    printf "\n%s", complaint
    if (!total) { print "no line was counted"; bad = 1 }
    exit bad
}
