# README.md as `make install` puts it beside the files that it names: with their places there, and
# without what is about the source tree.
/^!\[The status page/,/^$/d
/^## Figures/,$d
/^| folder | holds |/,/^A folder includes/d
s/ Before installation, use `man -l [^`]*`.//
s/\[\([^]]*\)\](conf\/man\/[^)]*)/\1/g
s/\[\(queue\|daemon\|conf\|gpu\)\/\([A-Za-z.]*\)\]/[\2]/g
s/](\(queue\|daemon\|conf\|gpu\)\//](/g
s/, \[how many\](tests[^)]*)//
s/tests\/examples/examples/g
