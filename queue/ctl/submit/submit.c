/* submit.c - gpuimgctl submit: pictures to jobs, in batches, and their results while they come. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "conf/clock.h"
#include "conf/format.h"
#include "queue/ctl/ctl.h"
#include "queue/ctl/out.h"
#include "queue/ctl/progress.h"
#include "queue/ctl/screen/overview.h"
#include "queue/ctl/show.h"
#include "queue/ctl/submit/key_transfer.h"
#include "queue/ctl/submit/output_names.h"
#include "queue/ctl/submit/result_reader.h"
#include "queue/ctl/submit/output_file.h"
#include "queue/ctl/submit/job_template.h"
#include "queue/ctl/submit/source.h"

/* Jobs a push: some 30 KB, which Redis takes in 100 us. */
#define BATCH_MAX       128
#define BATCH_BYTES_MAX (1 << 20)
/* Looks for results: often while they come, rarely while they do not. */
#define LOOK_FIRST_S 0.005
#define LOOK_LAST_S  0.1
/* Without a result for so long it is looked whether anybody works at all. */
#define QUIET_S 3
/* A folder in the wrong place has thousands of them. */
#define REFUSALS_SHOWN 10

const struct ctl_option ctl_submit_options[] = {
    {"out", 'o', "OUT", "where results go: a folder, a file or a pattern"},
    {"no-output", 0, NULL, "make no pictures: only the values of operations"},
    {"force", 'f', NULL, "with --keys: replace files that were there before, but no picture"},
    {"ops", 0, "OPS", "operations, with commas between them"},
    {"ops-file", 0, "FILE", "operations as a JSON array in a file"},
    {"job-file", 'j', "FILE", "a job whose outputs are patterns, for each picture; - reads it"},
    {"format", 0, "FORMAT", "@names@; without it, by the suffix of OUT"},
    {"quality", 0, "N", "of @quality@"},
    {"set", 0, "KEY=JSON", "a further key of each job, such as timeout_s=5 (may be repeated)"},
    {"recursive", 'r', NULL, "send the pictures (@suffixes@) in folders"},
    {"null", '0', NULL, "names on standard input end in NUL, as of find -print0"},
    {"keys", 'k', NULL, "send pictures through Redis, fetch the results (waits, as --wait)"},
    {"id", 0, "ID", "the jobs' id, for gpuimgctl result; a pattern for more than one"},
    {"first", 0, NULL, "before all other jobs (RPUSH) instead of behind them"},
    {"wait", 'w', NULL, "wait for the results and show them as they come"},
    {"timeout", 0, "SECONDS", "wait no longer than this"},
    {"verbose", 'v', NULL, "on a terminal too, a line for each job"},
    {0}};

struct submit {
    struct ctl *ctl;
    struct client *client;
    struct recipe recipe;
    struct source *source;
    struct carrier carrier;
    struct claims claims;       /* names of results */
    struct place_rules rules;
    struct source_options options;
    struct harvest harvest;
    struct progress progress;
    bool wait, first, sourced; /* sourced: no more pictures */
    double timeout_s;          /* 0: none */
    uint64_t number;           /* the last picture's */
    size_t count, bytes;       /* of the batch */
    struct { char *job, *file, id[JOB_ID_BYTES_MAX + 1]; } batch[BATCH_MAX];
    char list[160];
    double heard_s, look_s;    /* the last result; the pause before the next look */
    bool told_away, told_idle; /* each is said once, until it is over */
    bool occupied;             /* a picture was refused because of where its result would go */
    bool scanned;              /* all operands are known to rules */
    bool unclaimed;            /* there is no more room for names of results */
    int status;                /* not 0: over */
};

/* ---- sending ------------------------------------------------------------------------------ */

static void clear_batch(struct submit *submit)
{
    while (submit->count > 0) {
        free(submit->batch[--submit->count].job);
        free(submit->batch[submit->count].file);
    }
    submit->bytes = 0;
}

static bool is_late(const struct submit *submit)
{
    return submit->wait && submit->timeout_s > 0 &&
           clock_now_s() - submit->progress.began_s > submit->timeout_s;
}

/* Whoever waits does not give up. */
static void on_away(void *context)
{
    struct submit *submit = context;
    snprintf(submit->progress.note, sizeof submit->progress.note, "Redis is away; trying again");
    submit->heard_s = clock_now_s();
    if (submit->told_away) {
        progress_draw(&submit->progress);
        return;
    }
    progress_hide(&submit->progress);
    ctl_say("%s; waiting until it is there again", client_why(submit->client));
    submit->told_away = true;
}

static void on_back(struct submit *submit)
{
    if (!submit->told_away)
        return;
    submit->told_away = false;
    submit->progress.note[0] = '\0';
}

/* When its answer is lost the jobs may be there already. Who waits sends them again, for results
 * are told apart; nobody else does. True: the batch is still to be sent. */
static bool is_to_be_sent_again(struct submit *submit, const redisReply *reply)
{
    if (!submit->wait || !client_may_pass(reply))
        return false;
    on_away(submit);
    if (!reply)
        ctl_say("the last %zu jobs are sent again, since Redis did not answer: some may run twice",
                submit->count);
    else
        client_pause(submit->client, LOOK_LAST_S);
    return true;
}

/* The ids, for whoever does not wait here: gpuimgctl result shows what became of them. */
static void print_ids(struct submit *submit)
{
    for (size_t i = 0; i < submit->count && !submit->wait; i++) {
        const char *id = submit->batch[i].id;
        if (submit->ctl->json) {
            cJSON *line = cJSON_CreateObject();
            if (*id)
                cJSON_AddStringToObject(line, "id", id);
            cJSON_AddStringToObject(line, "file", submit->batch[i].file);
            ctl_print_json(line);
        } else if (*id) {
            out_line("%s", id);
        }
    }
}

static void say_unsure(struct submit *submit, bool answered)
{
    submit->status = ctl_no_answer(submit->ctl);
    ctl_say("%" PRIu64 " jobs had been sent; %s", submit->progress.sent,
            answered ? "no more are"
                     : "whether the last few are in the queue is not known, since Redis went away "
                       "before it answered");
    if (!answered && *submit->batch[0].id)
        ctl_say("those have the ids from %s to %s", submit->batch[0].id,
                submit->batch[submit->count - 1].id);
}

static void push_batch(struct submit *submit)
{
    const char *argv[BATCH_MAX + 2] = {submit->first ? "RPUSH" : "LPUSH", submit->list};
    size_t lengths[BATCH_MAX + 2] = {5, strlen(submit->list)};
    if (submit->count == 0 || submit->status || (submit->wait && !client_up(submit->client)))
        return;
    for (size_t i = 0; i < submit->count; i++) {
        argv[i + 2] = submit->batch[i].job;
        lengths[i + 2] = strlen(argv[i + 2]);
    }
    client_send(submit->client, (int)submit->count + 2, argv, lengths);
    redisReply *reply = client_take(submit->client);
    if (client_good(submit->client, reply, argv[0])) {
        submit->progress.sent += submit->count;
        print_ids(submit);
    } else if (is_to_be_sent_again(submit, reply)) {
        freeReplyObject(reply);
        return;
    } else {
        progress_hide(&submit->progress);
        say_unsure(submit, reply != NULL);
    }
    freeReplyObject(reply);
    clear_batch(submit);
}

static void refuse(struct submit *submit, const char *name, const struct error *error)
{
    progress_hide(&submit->progress);
    if (submit->progress.refused < REFUSALS_SHOWN)
        ctl_say("%s%s%s", name ? name : "", name ? ": " : "",
                error ? error->text : source_why(submit->source));
    else if (submit->progress.refused == REFUSALS_SHOWN)
        ctl_say("and so on; further pictures that are not sent are only counted");
    submit->progress.refused++;
    /* What is wrong with the first job is wrong with all of them. */
    if (error && submit->progress.sent == 0 && submit->count == 0 && submit->number == 1 &&
        (error->status == STATUS_BAD_JOB || error->status == STATUS_BAD_JSON))
        submit->status = ctl_usage(submit->ctl, "nothing was sent");
}

static bool is_one_too_many(struct submit *submit)
{
    const struct recipe *recipe = &submit->recipe;
    const char *id = recipe->id && !strchr(recipe->id, '%') ? recipe->id : NULL;
    if (submit->number != 2 || (!recipe->single && !id))
        return false;
    progress_hide(&submit->progress);
    submit->status =
        recipe->single
            ? ctl_usage(submit->ctl, "all results would be written to %s; a pattern such as "
                                     "edges/%%n.png, or a folder, tells them apart", recipe->single)
            : ctl_usage(submit->ctl, "all jobs would have the id %s; a pattern such as %s-%%i "
                                     "tells them apart", id, id);
    return true;
}

/* ---- where results go ---------------------------------------------------------------------- */

/* cat.jpg and cat.png with --format, or a/1.png and b/1.png: one result would be lost. */
static bool is_claimed(const struct submit *submit, const struct source_file *file, size_t index,
                       const char *out, struct error *error)
{
    const char *holder = claims_holder(&submit->claims, out);
    char other[PATH_MAX];
    struct error ignored = {0};
    if (holder)
        error_set(error, STATUS_PATH_REFUSED, "not sent: its result would have the name of that of "
                  "%.120s, %.120s; %%i or %%p in --out tells them apart", holder, out);
    for (size_t i = 0; i < index; i++)
        if (recipe_place(&submit->recipe, file, submit->number, i, other, &ignored) &&
            strcmp(other, out) == 0)
            error_set(error, STATUS_PATH_REFUSED, "not sent: two of its results would be %.200s",
                      out);
    return error->status != STATUS_OK;
}

/* Pictures that come later in the command line are no less to be kept. */
static void note_operands(struct submit *submit)
{
    struct source_file file;
    enum source_step step;
    submit->scanned = true;
    for (int i = 0; i < submit->options.count; i++) {
        struct source_options one = submit->options;
        one.names += i;
        one.count = 1;
        struct source *source = strcmp(*one.names, "-") == 0 ? NULL : source_open(&one);
        while (source && (step = source_next(source, &file)) != SOURCE_END)
            if (step == SOURCE_FILE)
                place_add_input(&submit->rules, file.path);
        source_close(source);
    }
}

/* Whether there is a file that the result must not replace. */
static bool is_occupied(struct submit *submit, const char *out, struct error *error)
{
    char path[2 * PATH_MAX];
    struct stat about;
    bool keys = submit->recipe.keys;
    snprintf(path, sizeof path, "%s%s%s", keys ? "" : submit->recipe.output_root, keys ? "" : "/",
             out);
    if (lstat(path, &about) != 0)
        return false;
    if (!submit->scanned)
        note_operands(submit);
    /* Without keys it is the daemon that writes, and it replaces results. */
    if (keys || place_input(&submit->rules, path))
        place_check(&submit->rules, path, error);
    return error->status != STATUS_OK;
}

/* false with a sentence: another picture's result, or a file, has the name. */
static bool check_places(struct submit *submit, const struct source_file *file,
                         struct error *error)
{
    char out[PATH_MAX];
    struct error ignored = {0}; /* recipe_job says it */
    for (size_t i = 0; i < submit->recipe.output_count; i++) {
        if (!recipe_place(&submit->recipe, file, submit->number, i, out, &ignored) || !*out)
            continue;
        if (is_claimed(submit, file, i, out, error) || is_occupied(submit, out, error)) {
            submit->occupied = true;
            return false;
        }
    }
    return true;
}

static void claim(struct submit *submit, const struct source_file *file)
{
    char out[PATH_MAX];
    struct error ignored = {0};
    for (size_t i = 0; i < submit->recipe.output_count && !submit->unclaimed; i++)
        submit->unclaimed =
            recipe_place(&submit->recipe, file, submit->number, i, out, &ignored) && *out &&
            !claims_add(&submit->claims, out, file->path);
    if (!submit->unclaimed)
        return;
    progress_hide(&submit->progress);
    ctl_say("that is %" PRIu64 " pictures: further ones whose results have the same name are "
            "not noticed", submit->number);
}

/* ---- pictures ------------------------------------------------------------------------------ */

/* The picture's bytes, where they travel. false with a sentence, or the submit over. */
static bool carry(struct submit *submit, const struct source_file *file, struct error *error)
{
    if (!submit->recipe.keys || carrier_send(&submit->carrier, file, submit->number, error))
        return true;
    if (submit->carrier.redis_lost) {
        progress_hide(&submit->progress);
        if (!client_interrupted() && !is_late(submit))
            submit->status = ctl_no_answer(submit->ctl);
    }
    return false;
}

static void add_picture(struct submit *submit, const struct source_file *file)
{
    struct error error = {0};
    char *job = NULL, *name = strdup(file->path);
    submit->number++;
    place_add_input(&submit->rules, file->path);
    if (!is_one_too_many(submit) && check_places(submit, file, &error))
        job = recipe_job(&submit->recipe, file, submit->number, submit->batch[submit->count].id,
                         &error);
    if (job && name && carry(submit, file, &error)) {
        if (!submit->unclaimed)
            claim(submit, file);
        submit->batch[submit->count].job = job;
        submit->batch[submit->count++].file = name;
        submit->bytes += strlen(job);
        return;
    }
    if (!name)
        error_set(&error, STATUS_OUT_OF_MEMORY, "out of memory for its name");
    free(job);
    free(name);
    if (error.status)
        refuse(submit, file->path, &error);
}

/* One turn: up to a batch of pictures, as far as they are there and there is room for them. */
static void send_some(struct submit *submit)
{
    struct source_file file;
    while (!submit->sourced && !submit->status && submit->count < BATCH_MAX &&
           submit->bytes < BATCH_BYTES_MAX && !client_interrupted()) {
        if (submit->recipe.keys && carrier_full(&submit->carrier))
            break;
        if (!source_ready(submit->source))
            break;
        enum source_step step = source_next(submit->source, &file);
        if (step == SOURCE_FILE)
            add_picture(submit, &file);
        else if (step == SOURCE_BAD)
            refuse(submit, NULL, NULL);
        else
            submit->sourced = source_ready(submit->source);
    }
    push_batch(submit);
}

/* ---- results ------------------------------------------------------------------------------ */

static void say_unwritten(struct submit *submit, const char *file, const cJSON *unwritten)
{
    const cJSON *item;
    char left[SHOW_BYTES];
    if (cJSON_GetArraySize(unwritten) > 0)
        progress_hide(&submit->progress);
    cJSON_ArrayForEach(item, unwritten)
        if (*show_text(item, "key"))
            ctl_say("%s: the result cannot be written: %s; Redis has it for another %s as the "
                    "string %s", file, show_text(item, "message"),
                    show_age(show_number(item, "left_s"), left), show_text(item, "key"));
        else
            ctl_say("%s: the result cannot be written: %s", file, show_text(item, "message"));
}

static void on_result(void *context, const cJSON *result, const char *text, uint64_t number,
                      const char *file)
{
    struct submit *submit = context;
    struct carrier *carrier = &submit->carrier;
    cJSON *unwritten = submit->recipe.keys ? carrier_fetch(carrier, number, result) : NULL;
    say_unwritten(submit, file, unwritten);
    progress_result(&submit->progress, result, text, file, carrier_outs(carrier, number),
                    unwritten);
    if (submit->recipe.keys)
        carrier_end(carrier, number, show_text(result, "status"), unwritten);
    cJSON_Delete(unwritten);
    submit->heard_s = clock_now_s();
    submit->progress.note[0] = '\0';
}

static bool is_over(const struct submit *submit)
{
    return submit->sourced && submit->count == 0 &&
           (!submit->wait || progress_ended(&submit->progress) >= submit->progress.sent);
}

/* Nothing comes: is anybody there to do it? */
static void look_for_daemons(struct submit *submit)
{
    struct overview overview;
    const char *why = NULL;
    submit->heard_s = clock_now_s();
    if (!overview_read(&overview, submit->client, submit->ctl->options.namespace, false))
        return;
    if (overview.daemon_count == 0)
        why = "no gpuimgd is running";
    else if (overview.paused)
        why = "taking jobs is paused (gpuimgctl resume)";
    submit->progress.note[0] = '\0';
    if (why)
        snprintf(submit->progress.note, sizeof submit->progress.note, "%s", why);
    if (why && !submit->told_idle) {
        progress_hide(&submit->progress);
        ctl_say("%s on %s with the namespace %s: the jobs wait, and Ctrl-C leaves them there", why,
                client_server(submit->client), submit->ctl->options.namespace);
        submit->told_idle = true;
    }
    overview_clear(&overview);
}

/* Is there nothing to be sent at this moment? */
static bool is_waiting(const struct submit *submit)
{
    return submit->sourced || !source_ready(submit->source) ||
           (submit->recipe.keys && carrier_full(&submit->carrier));
}

/* Redis may be away for a while; the results wait there. */
static void harvest(struct submit *submit)
{
    size_t taken = 0;
    if (harvest_take(&submit->harvest, &taken))
        on_back(submit);
    else if (!client_interrupted() && !is_late(submit))
        submit->status = ctl_no_answer(submit->ctl);
    else
        return;
    if (taken > 0) {
        submit->look_s = LOOK_FIRST_S;
    } else if (!submit->status && !client_interrupted()) {
        if (clock_now_s() - submit->heard_s > QUIET_S && submit->progress.sent > 0)
            look_for_daemons(submit);
        progress_draw(&submit->progress);
        if (is_waiting(submit)) {
            client_pause(submit->client, submit->look_s);
            submit->look_s = submit->look_s * 2 < LOOK_LAST_S ? submit->look_s * 2 : LOOK_LAST_S;
        }
    }
    progress_draw(&submit->progress);
}

/* ---- the whole ---------------------------------------------------------------------------- */

static void say_left(struct submit *submit, const char *why)
{
    uint64_t sent = submit->progress.sent, ended = progress_ended(&submit->progress);
    const char *rest =
        submit->sourced && submit->count == 0 ? "" : "; further pictures were not sent";
    progress_hide(&submit->progress);
    if (!submit->wait) {
        ctl_say("%s: %" PRIu64 " jobs had been sent%s", why, sent, rest);
        return;
    }
    ctl_say("%s: %" PRIu64 " of %" PRIu64 " jobs have ended%s", why, ended, sent, rest);
    if (sent <= ended)
        return;
    ctl_say("%" PRIu64 " go on in the background; their results come to the list %s and stay "
            "there for %g s; %s", sent - ended, submit->recipe.reply_to,
            submit->ctl->options.result_ttl_s,
            submit->recipe.id ? "gpuimgctl result --wait shows them by their ids"
                              : "gpuimgctl status shows how many still wait or run");
    if (submit->recipe.keys)
        ctl_say("their pictures and what is made of them are the keys %s:img:%s:*, which expire "
                "within a day", submit->recipe.ns, submit->recipe.run);
}

static void work(struct submit *submit)
{
    while (!submit->status && !is_over(submit)) {
        send_some(submit);
        if (submit->wait && !submit->status)
            harvest(submit);
        else if (!submit->sourced && !submit->status && !source_ready(submit->source))
            client_pause(submit->client, LOOK_LAST_S);
        if (client_interrupted()) {
            say_left(submit, "interrupted");
            submit->status = CTL_INTERRUPTED;
        } else if (is_late(submit) && !is_over(submit)) {
            say_left(submit, "the time given with --timeout is over");
            submit->status = CTL_TIMEOUT;
        }
    }
}

/* For the bar: how many pictures there are, where that can be known beforehand. */
static uint64_t count_pictures(const struct source_options *options)
{
    struct source *source = source_open(options);
    struct source_file file;
    uint64_t count = 0;
    enum source_step step;
    for (int i = 0; i < options->count; i++)
        if (strcmp(options->names[i], "-") == 0) {
            source_close(source);
            return 0;
        }
    while (source && (step = source_next(source, &file)) != SOURCE_END)
        count++;
    source_close(source);
    return count;
}

static int finish(struct submit *submit)
{
    struct progress *progress = &submit->progress;
    char known[FORMAT_LIST_BYTES];
    if (submit->status)
        return submit->status;
    progress_end(progress, submit->wait);
    uint64_t left_out = source_left_out(submit->source);
    if (left_out > 0)
        ctl_say("%" PRIu64 " files in folders were left out: their suffix is not %s", left_out,
                format_list(FORMAT_SUFFIXES, 0, "%s", " or ", known));
    if (progress->refused > 0 && progress->sent == 0)
        return submit->occupied ? CTL_FAILED : CTL_NO_INPUT;
    if (progress->sent == 0) {
        ctl_say("there was no picture to send");
        return CTL_NO_INPUT;
    }
    return progress->refused > 0 || progress->done < progress_ended(progress) ? CTL_FAILED : CTL_OK;
}

static int run(struct submit *submit, int count, char **operands)
{
    struct ctl *ctl = submit->ctl;
    submit->options = (struct source_options){
        .names = operands,
        .count = count,
        .recursive = ctl_value(ctl, "recursive") != NULL,
        .nul = ctl_value(ctl, "null") != NULL,
        .input_root = submit->recipe.keys ? NULL : submit->recipe.input_root,
    };
    int status = ctl_connect(ctl);
    if (status)
        return status;
    submit->source = source_open(&submit->options);
    if (!submit->source) {
        ctl_say("out of memory for the pictures' names");
        return CTL_FAULT;
    }
    submit->client = ctl->client;
    snprintf(submit->list, sizeof submit->list, "%s:jobs", ctl->options.namespace);
    submit->carrier = (struct carrier){.client = ctl->client,
                                       .recipe = &submit->recipe,
                                       .rules = &submit->rules,
                                       .bytes_max = ctl->options.input_bytes_max};
    submit->harvest = (struct harvest){.client = ctl->client,
                                       .list = submit->recipe.reply_to,
                                       .each = on_result,
                                       .context = submit};
    /* Values are there to be read. */
    progress_begin(&submit->progress, ctl->json,
                   ctl_value(ctl, "verbose") || ctl_value(ctl, "no-output"));
    if (submit->progress.bar && submit->wait)
        submit->progress.total = count_pictures(&submit->options);
    submit->heard_s = clock_now_s();
    submit->look_s = LOOK_FIRST_S;
    client_catch_interrupt();
    if (submit->wait)
        client_be_patient(ctl->client, submit->timeout_s > 0 ? submit->timeout_s : 1e9, on_away,
                          submit);
    work(submit);
    return finish(submit);
}

/* What options are of no use without, or cannot go together with. */
static int check_operands(const struct submit *submit, int count, char **operands)
{
    const struct ctl *ctl = submit->ctl;
    const char *job = ctl_value(ctl, "job-file");
    if (count == 0)
        return ctl_usage(ctl, "FILE is missing: which pictures are to be sent?");
    if (submit->timeout_s > 0 && !submit->wait)
        return ctl_usage(ctl, "--timeout is of no use without --wait or --keys");
    if (submit->rules.force && !ctl_value(ctl, "keys"))
        return ctl_usage(ctl, "--force is of no use without --keys: the daemon replaces files");
    for (int i = 0; i < count; i++)
        if (job && strcmp(job, "-") == 0 && strcmp(operands[i], "-") == 0)
            return ctl_usage(ctl, "--job-file and FILE are both standard input");
    return CTL_OK;
}

int ctl_submit(struct ctl *ctl, int count, char **operands)
{
    struct submit submit = {.ctl = ctl};
    submit.wait = ctl_value(ctl, "wait") || ctl_value(ctl, "keys");
    submit.first = ctl_value(ctl, "first") != NULL;
    submit.rules.force = ctl_value(ctl, "force") != NULL;
    if (!ctl_number(ctl, "timeout", 0.001, 1e9, &submit.timeout_s))
        return CTL_USAGE;
    int status = check_operands(&submit, count, operands);
    if (!status)
        status = recipe_read(&submit.recipe, ctl);
    if (!status)
        status = run(&submit, count, operands);
    clear_batch(&submit);
    harvest_clear(&submit.harvest);
    carrier_clear(&submit.carrier);
    claims_clear(&submit.claims);
    claims_clear(&submit.rules.inputs);
    source_close(submit.source);
    recipe_clear(&submit.recipe);
    return status;
}
