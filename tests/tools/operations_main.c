/*
 * operations - prints the table of operations in the format of each document that repeats it:
 *
 *     operations names|list|mdoc|markdown|readme|words
 *
 * Each paragraph is one line. tests/operations.sh wraps them and writes them to the documents;
 * `make check` compares them.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gpu/plan/op.h"

/* ---- parts ---- */

/* Formats a limit as people write it: 1e9, not 1e+09. */
static const char *number(double value, char text[32])
{
    double size = fabs(value);
    if (size >= 1e6)
        snprintf(text, 32, "%s%ge%d", value < 0 ? "-" : "", size / pow(10, floor(log10(size))),
                 (int)floor(log10(size)));
    else
        snprintf(text, 32, "%.10g", value);
    return text;
}

static void print_words(const char *const *words)
{
    for (size_t i = 0; words[i]; i++)
        printf("%s%s", i == 0 ? "" : words[i + 1] ? ", " : " or ", words[i]);
}

/* Prints the allowed values and the default. */
static void print_bounds(const struct op_param *param)
{
    char low[32], high[32], last[32];
    number(param->min, low);
    number(param->max, high);
    switch (param->kind) {
    case OP_KIND_INTEGER: printf("An integer of %s to %s", low, high); break;
    case OP_KIND_ODD:
        printf(param->max == param->min + 2 ? "%s or %s" : "An odd integer of %s to %s", low, high);
        break;
    case OP_KIND_NUMBER: printf("%s to %s", low, high); break;
    case OP_KIND_BOOLEAN: printf("true or false"); break;
    case OP_KIND_WORD: print_words(param->words); break;
    case OP_KIND_INTEGERS: printf("%d integers of %s to %s", param->columns, low, high); break;
    case OP_KIND_NUMBERS: printf("%d numbers of %s to %s", param->columns, low, high); break;
    case OP_KIND_MATRIX:
        printf("%d rows of %d numbers from %s to %s; the last number of a row is from -%s to %s",
               param->rows, param->columns, low, high, number(param->last_max, last), last);
        break;
    case OP_KIND_TEXT:
        printf("A string of %s to %s bytes of UTF-8", low, high);
        break;
    case OP_KIND_PLACE: printf("A path, or an object with path or key"); break;
    case OP_KIND_ODD_MATRIX:
        printf("Rows of numbers from %s to %s; the row count and the column count are odd and at "
               "most %d", low, high, param->columns);
        break;
    case OP_KIND_COLOR:
        printf("[red,green,blue] or [red,green,blue,alpha], integers of 0 to 255, or transparent");
        break;
    }
    if (param->need == OP_REQUIRED)
        printf("; required");
    if (param->need != OP_HAS_DEFAULT)
        return;
    if (param->kind == OP_KIND_BOOLEAN)
        printf("; by default %s", param->standard != 0 ? "true" : "false");
    else if (param->kind == OP_KIND_WORD)
        printf("; by default %s", param->words[(int)param->standard]);
    else if (param->kind != OP_KIND_INTEGERS)
        printf("; by default %s", number(param->standard, low));
    for (int i = 0; param->kind == OP_KIND_INTEGERS && i < param->columns; i++)
        printf("%s%d%s", i ? "," : "; by default [", param->standards[i],
               i == param->columns - 1 ? "]" : "");
}

static const struct {
    enum op_flag flag;
    const char *text;
} flags[] = {
    {OP_VALUES, "Gives values."},
    {OP_STARTS_GRAY, "Begins with gray."},
    {OP_GRAY_BY_DEFAULT, "Begins with gray."},
    {OP_MOVES, "Only moves pixels."},
    {OP_POINT, "Works on single pixels."},
};

/* ---- output formats ---- */

static void print_name(const struct op *op)
{
    puts(op->name);
}

/* Prints a row for gpuimgctl. */
static void print_row(const struct op *op)
{
    printf("X(%s, \"%-14s ", op->name, op->name);
    for (const char *at = op->help; *at; at++)
        if (*at != '`')
            putchar(*at);
    puts("\")");
}

static void print_mdoc(const struct op *op)
{
    printf(".It Ic %s\n%s.\n", op->name, op->help);
    if (op->params)
        puts(".Bl -tag -width Ds");
    op_each_param (param, op) {
        printf(".It Va %s\n", param->name);
        print_bounds(param);
        printf(".\n%s%s", param->help ? param->help : "", param->help ? ".\n" : "");
    }
    if (op->params)
        puts(".El");
}

static void print_markdown(const struct op *op)
{
    printf("\n## %s\n\n%s.", op->name, op->help);
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if (op->flags & flags[i].flag && !(flags[i].flag == OP_MOVES && op->moves))
            printf(" %s", flags[i].text);
    printf("\n%s", op->params ? "\n" : "");
    op_each_param (param, op) {
        printf("- `%s`: ", param->name);
        print_bounds(param);
        printf(".%s%s%s\n", param->help ? " " : "", param->help ? param->help : "",
               param->help ? "." : "");
    }
    printf("\n%s\n", op->definition);
}

static void print_readme(const struct op *op)
{
    printf("| `%s` | %s |\n", op->name, op->help);
}

/* Prints words for the fuzzer: the name, and each parameter with a value other than its default. */
static void print_fuzz_words(const struct op *op)
{
    printf("\"\\\"%s\\\"\"\n", op->name);
    op_each_param (param, op) {
        if (param->kind == OP_KIND_BOOLEAN)
            printf("\"\\\"%s\\\":%s\"\n", param->name, param->standard != 0 ? "false" : "true");
        else if (!param->words)
            printf("\"\\\"%s\\\":%s\"\n", param->name,
                   param->kind == OP_KIND_INTEGERS     ? "["
                   : param->kind == OP_KIND_NUMBERS    ? "["
                   : param->kind == OP_KIND_MATRIX     ? "[["
                   : param->kind == OP_KIND_ODD_MATRIX ? "[[1]]"
                   : param->kind == OP_KIND_COLOR      ? "\\\"transparent\\\""
                   : param->kind == OP_KIND_PLACE || param->kind == OP_KIND_TEXT ? "\\\"a\\\""
                                                                                 : "");
        const char *quote = param->kind == OP_KIND_WORD ? "\\\"" : "";
        for (size_t i = 0; param->words && param->words[i]; i++)
            printf("\"\\\"%s\\\":%s%s%s\"\n", param->name, quote, param->words[i], quote);
    }
}

static const struct {
    const char *name;
    void (*print)(const struct op *op);
} forms[] = {
    {"names", print_name},   {"list", print_row},         {"mdoc", print_mdoc},
    {"markdown", print_markdown}, {"readme", print_readme}, {"words", print_fuzz_words},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (strcmp(argv[1], forms[i].name) != 0)
            continue;
        for (size_t op = 0; op < op_count; op++)
            forms[i].print(op_table[op]);
        return 0;
    }
    fprintf(stderr, "usage: operations names|list|mdoc|markdown|readme|words\n");
    return 64;
}
