# report.awk - the table of report.sh, from gcov's text: "count:line:source" a line, and before those
# of a file "-:0:Source:NAME". -v reasons=FILE -v percent_min=N
#
# The file of reasons has a paragraph for each: a line with the reason, then lines of
# "file: extended regular expression", which name uncovered lines by their own text, that of the line
# before (a condition), or that of the nearest line above that is not indented (the function).
function trim(text) { gsub(/^[ \t]+|[ \t]+$/, "", text); return text }

BEGIN {
    folder_count = split("conf queue codecs daemon gpu", folders, " ")
    while ((getline line < reasons) > 0) {
        if (line ~ /^#/) continue
        if (line ~ /^[ \t]*$/) { reason = ""; continue }
        if (reason == "") { reason = line; reason_order[++reason_count] = reason; continue }
        colon = index(line, ": ")
        rule_file[++rule_count] = substr(line, 1, colon - 1)
        rule_text[rule_count] = substr(line, colon + 2)
        rule_reason[rule_count] = reason
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
    if (count == "-") next
    seen[file, number] = 1
    if (count !~ /^[#=]/) run[file, number] = 1
}

function why(file, number, above,    i) {
    for (i = 1; i <= rule_count; i++)
        if (file ~ ("^" rule_file[i] "$") &&
            (source[file, number] ~ rule_text[i] || source[file, number - 1] ~ rule_text[i] ||
             above ~ rule_text[i])) {
            rule_used[i] = 1
            return rule_reason[i]
        }
    return ""
}

function percent(part, whole) { return whole ? 100 * part / whole : 100 }

function table_row(name, lines, runs) {
    printf "  %-28s %6d %6d %7.1f%%\n", name, lines, runs, percent(runs, lines)
}

# Uncovered lines with no line that ran between them are one region.
function regions(file,    number, above, from, to, reason) {
    above = ""
    for (number = 1; number <= last[file]; number++) {
        if (source[file, number] ~ /^[a-z].*\(/) above = source[file, number]
        if (!seen[file, number]) continue
        if (run[file, number]) continue
        reason = why(file, number, above)
        if (reason == "") { unexplained++; reason = "(not explained)" }
        left[reason]++
        places[reason] = places[reason] sprintf("\n      %s:%d: %s", file, number,
                                                trim(source[file, number]))
    }
}

END {
    for (key in last) names[++name_count] = key
    for (i = 2; i <= name_count; i++) { # few enough to be sorted so
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
            printf "\n  %s (%d)%s\n", reason_order[i], left[reason_order[i]],
                   places[reason_order[i]]
    if (unexplained)
        printf "\n  not explained (%d)%s\n", unexplained, places["(not explained)"]
    for (i = 1; i <= rule_count; i++)
        if (!rule_used[i] && rule_reason[i] !~ /^Moments/) # which come or do not
            printf "\nreasons: %s: %s: all of it runs\n", rule_file[i], rule_text[i]
    printf "\n%s", complaint
    if (!total) { print "no line was counted"; bad = 1 }
    exit bad
}
