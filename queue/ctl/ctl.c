/* ctl.c - functions of all commands of gpuimgctl: messages, values of options, JSON, the exit. */
#include "queue/ctl/ctl.h"

#include <stdlib.h>
#include <string.h>

#include "queue/ctl/out.h"
#include "queue/job/json.h"

/* ---- messages and the end ------------------------------------------------------------------- */

void ctl_say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    out_error(format, args);
    va_end(args);
}

static void close_shards(struct ctl *ctl)
{
    for (uint32_t i = 0; i < ctl->shard_count; i++) {
        client_close(ctl->shards[i].client);
        options_clear(&ctl->shards[i].options);
    }
    free(ctl->shards);
    ctl->shards = NULL;
    ctl->shard_count = 0;
}

void ctl_end(struct ctl *ctl, int status)
{
    close_shards(ctl);
    options_clear(&ctl->options);
    if (out_failed()) {
        ctl_say("cannot write to standard output");
        status = status ? status : CTL_FAULT;
    }
    exit(status);
}

void ctl_usage(struct ctl *ctl, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    out_error(format, args);
    va_end(args);
    ctl_say("see gpuimgctl %s%s-h", ctl->command ? ctl->command->name : "",
            ctl->command ? " " : "");
    ctl_end(ctl, CTL_USAGE);
}

void ctl_out_of_memory(struct ctl *ctl, const char *what)
{
    ctl_say("out of memory for %s", what);
    ctl_end(ctl, CTL_FAULT);
}

/* ---- values of options ---------------------------------------------------------------------- */

const char *ctl_value(const struct ctl *ctl, const char *name)
{
    for (int i = ctl->value_count; i-- > 0;)
        if (strcmp(ctl->values[i].name, name) == 0)
            return ctl->values[i].value;
    return NULL;
}

double ctl_number(struct ctl *ctl, const char *name, double least, double most, double standard)
{
    const char *text = ctl_value(ctl, name);
    char *end;
    if (!text)
        return standard;
    double number = strtod(text, &end);
    if (end == text || *end || !(number >= least && number <= most))
        ctl_usage(ctl, "--%s is \"%s\"; it must be a number from %g to %g", name, text, least,
                  most);
    return number;
}

long long ctl_whole(struct ctl *ctl, const char *name, double least, double most, double standard)
{
    double number = ctl_number(ctl, name, least, most, standard);
    if (number != (double)(long long)number)
        ctl_usage(ctl, "--%s is %g; it must be an integer from %g to %g", name, number, least,
                  most);
    return (long long)number;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

void ctl_print_json(struct ctl *ctl, cJSON *json)
{
    char *text = json ? cJSON_PrintUnformatted(json) : NULL;
    cJSON_Delete(json);
    if (!text) /* uncovered: memory */
        ctl_out_of_memory(ctl, "the answer");
    out_json(text);
    free(text);
}

void ctl_print_text(struct ctl *ctl, const char *text)
{
    struct error ignored = {0};
    const char *end = text;
    while ((unsigned char)*end >= 0x20)
        end++;
    if (!*end && json_check(text, strlen(text), &ignored) == STATUS_OK)
        out_json(text);
    else
        ctl_print_json(ctl, cJSON_Parse(text));
}
