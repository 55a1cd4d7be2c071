/*
 * formats - prints conf/formats.def for gpuimgd-job(5): the list of formats for the key `format`,
 * and one key per encoder parameter.
 */
#include <stdio.h>

#include "conf/format.h"

static void print_format(const struct format *format)
{
    printf(".It Li %s\n%s, with the suffix", format->name, format->mime);
    for (const char *const *suffix = format->suffixes; *suffix; suffix++)
        printf("%s .%s", suffix == format->suffixes ? "" : " or", *suffix);
    puts(";");
    if (format->becomes) {
        printf("only read: %s.\nAn output that names no format is %s.\n", format->reads,
               format_by_name(format->becomes)->noun);
        return;
    }
    printf("%s; holds %sRGB%s.\n",
           format->tensor                         ? "a tensor"
           : format->lossless                     ? "lossless"
           : format->parameters & TAKES(lossless) ? "lossy or lossless"
                                                  : "lossy",
           format->gray ? format->alpha ? "gray, " : "gray and " : "",
           format->alpha ? " and RGBA" : "");
    if (format->reads)
        printf("Read as %s.\n", format->reads);
    else
        printf("Not read.\n");
}

static void print_range(const struct parameter_row *row, enum encoder_parameter parameter)
{
    if (row->standard < row->min)
        printf("%d to %d, by default none", row->min, row->max);
    else
        printf("%d to %d, by default %d", row->min, row->max, row->standard);
    for (const struct format *format = formats; format < formats + FORMAT_COUNT; format++)
        if (format_default(format, parameter) != row->standard)
            printf(",\nof %s %d", format_title(format), format_default(format, parameter));
    printf(";\n");
}

static void print_parameter(enum encoder_parameter parameter)
{
    const struct parameter_row *row = &encoder_parameters[parameter];
    char takers[FORMAT_LIST_BYTES], standard[PARAMETER_TEXT_BYTES];
    printf(".It Va %s\nOf %s, ", row->name,
           format_list(FORMAT_TITLES, 1u << parameter, "%s", " and ", takers));
    if (row->kind == PARAMETER_IS_EITHER) {
        printf("%d or %d, by default %d;\n", row->min, row->max, row->standard);
    } else if (row->kind == PARAMETER_IS_INTEGER || row->kind == PARAMETER_IS_QUALITY) {
        print_range(row, parameter);
    } else if (row->kind == PARAMETER_IS_BOOL) {
        printf("true or false, by default %s;\n", row->standard ? "true" : "false");
    } else {
        for (const char *const *word = row->words; *word; word++)
            printf("%s%s", word == row->words ? "the string " : word[1] ? ", " : " or ", *word);
        printf(", by default %s;\n", parameter_text(parameter, row->standard, standard));
    }
    printf("an error for other formats.\n%s", row->help);
}

int main(void)
{
    puts(".Bl -tag -width Ds -compact");
    for (int i = 0; i < FORMAT_COUNT; i++)
        print_format(&formats[i]);
    puts(".El");
    for (unsigned i = 0; i < PARAMETER_COUNT; i++)
        print_parameter(i);
    return 0;
}
