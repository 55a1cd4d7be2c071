#include "tests/faults/rig.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fixtures/http.h"
#include "tests/fixtures/text_file.h"

/* ---- what was seen --------------------------------------------------------------------------- */

void rig_saw(struct rig *rig, const char *format, ...)
{
    size_t used = strlen(rig->seen);
    va_list args;
    if (used > 0 && used + 2 < sizeof rig->seen) {
        strcpy(rig->seen + used, "; ");
        used += 2;
    }
    va_start(args, format);
    vsnprintf(rig->seen + used, sizeof rig->seen - used, format, args);
    va_end(args);
}

void rig_skip(struct rig *rig, const char *reason)
{
    snprintf(rig->seen, sizeof rig->seen, "SKIP %s", reason);
}

void rig_saw_if(struct rig *rig, bool condition, const char *good, const char *bad)
{
    rig_saw(rig, "%s", condition ? good : bad);
}

void rig_saw_in_time(struct rig *rig, double start, double seconds)
{
    double took = process_now() - start;
    if (took <= patience(seconds))
        rig_saw(rig, "within %g s", seconds);
    else
        rig_saw(rig, "after %.1f s", took);
}

static bool named(const struct rig_job *job, const char *prefix)
{
    return strncmp(job->id, prefix, strlen(prefix)) == 0;
}

size_t rig_at_attempt(const struct rig *rig, const char *prefix, int attempt)
{
    size_t count = 0;
    for (size_t i = 0; i < rig->job_count; i++)
        count += named(&rig->jobs[i], prefix) && rig->jobs[i].attempt == attempt;
    return count;
}

void rig_saw_attempts(struct rig *rig, const char *prefix, int attempt)
{
    size_t others = 0;
    for (size_t i = 0; i < rig->job_count; i++)
        others += named(&rig->jobs[i], prefix) && rig->jobs[i].attempt != attempt;
    if (others)
        rig_saw(rig, "%zu not at attempt %d", others, attempt);
    else
        rig_saw(rig, "all at attempt %d", attempt);
}

static struct rig_job *job_of(struct rig *rig, const char *id)
{
    for (size_t i = 0; i < rig->job_count; i++)
        if (strcmp(rig->jobs[i].id, id) == 0)
            return &rig->jobs[i];
    return NULL;
}

void rig_saw_done(struct rig *rig, const char *prefix)
{
    size_t done = 0, missing = 0, repeated = 0, other = 0;
    const struct rig_job *odd = NULL;
    for (size_t i = 0; i < rig->job_count; i++) {
        const struct rig_job *job = &rig->jobs[i];
        if (!named(job, prefix))
            continue;
        bool good = job->results == 1 && strcmp(job->status, "done") == 0;
        done += good;
        missing += job->results == 0;
        repeated += job->results > 1;
        other += job->results == 1 && !good;
        odd = job->results == 1 && !good ? job : odd;
    }
    char text[256];
    int used = snprintf(text, sizeof text, "%zu done once", done);
    if (missing)
        used += snprintf(text + used, sizeof text - (size_t)used, ", %zu missing", missing);
    if (repeated)
        used += snprintf(text + used, sizeof text - (size_t)used, ", %zu repeated", repeated);
    if (other)
        used += snprintf(text + used, sizeof text - (size_t)used, ", %zu other (%s: %s %s)", other,
                         odd->id, odd->status, odd->code);
    if (rig->strangers)
        snprintf(text + used, sizeof text - (size_t)used, ", %zu strangers", rig->strangers);
    rig_saw(rig, "%s", text);
}

void rig_saw_jobs(struct rig *rig, const char *prefix)
{
    for (size_t i = 0; i < rig->job_count; i++) {
        const struct rig_job *job = &rig->jobs[i];
        if (!named(job, prefix))
            continue;
        if (job->results == 0)
            rig_saw(rig, "%s: no result", job->id);
        else
            rig_saw(rig, "%s: %s%s%s, attempt %d%s", job->id, job->status, *job->code ? " " : "",
                    job->code, job->attempt, job->results > 1 ? ", repeated" : "");
    }
}

void rig_saw_message(struct rig *rig, const char *id)
{
    const struct rig_job *job = job_of(rig, id);
    rig_saw(rig, "%s", job ? job->message : "no such job");
}

/* ---- jobs ------------------------------------------------------------------------------------ */

void rig_expect(struct rig *rig, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (rig->job_count == RIG_JOBS_MAX)
        abort();
    struct rig_job *job = &rig->jobs[rig->job_count++];
    vsnprintf(job->id, sizeof job->id, format, args);
    va_end(args);
}

void rig_push_text(struct rig *rig, const char *id, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    rig_expect(rig, "%s", id);
    world_push(&rig->world, "%s", text);
}

static void push_many(struct rig *rig, const char *prefix, size_t count, const char *rest)
{
    for (size_t i = 0; i < count; i++) {
        char id[sizeof rig->jobs->id];
        snprintf(id, sizeof id, "%s%zu", prefix, i);
        rig_push_text(rig, id, "{'id':'%s','output':{'path':'%s.png',%s}", id, id, rest);
    }
}

void rig_push(struct rig *rig, const char *prefix, size_t count)
{
    push_many(rig, prefix, count, "'compression':1},'input':'p.jpg','ops':['sobel']");
}

void rig_push_slow(struct rig *rig, const char *prefix, size_t count)
{
    if (!rig->has_slow)
        world_put_slow(&rig->world);
    rig->has_slow = true;
    push_many(rig, prefix, count, "'compression':9},'input':'slow.png','ops':[]");
}

static void copy(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from);
}

static void take(struct rig *rig, const char *text)
{
    cJSON *result = cJSON_Parse(text);
    struct rig_job *job = job_of(rig, json_text(result, "id"));
    if (job) {
        job->results++;
        job->attempt = (int)json_number(result, "attempt");
        copy(job->status, sizeof job->status, json_text(result, "status"));
        copy(job->code, sizeof job->code, json_text(result, "error.code"));
        copy(job->message, sizeof job->message, json_text(result, "error.message"));
        copy(job->daemon, sizeof job->daemon, json_text(result, "daemon"));
    } else {
        rig->strangers++;
        fprintf(stderr, "a result that nobody asked for: %s\n", text);
    }
    cJSON_Delete(result);
}

static void take_all(struct rig *rig)
{
    struct world *w = &rig->world;
    for (;;) {
        redisReply *reply = redis_command(w->client, "RPOP %s:results 200", w->ns);
        size_t count = reply->type == REDIS_REPLY_ARRAY ? reply->elements : 0;
        for (size_t i = 0; i < count; i++)
            take(rig, reply->element[i]->str);
        freeReplyObject(reply);
        if (count == 0)
            return;
    }
}

size_t rig_answered(const struct rig *rig, const char *prefix)
{
    size_t answered = 0;
    for (size_t i = 0; i < rig->job_count; i++)
        answered += named(&rig->jobs[i], prefix) && rig->jobs[i].results > 0;
    return answered;
}

bool rig_wait_for(struct rig *rig, size_t count, double seconds)
{
    double deadline = process_now() + patience(seconds);
    for (;;) {
        take_all(rig);
        for (size_t i = 0; i < WORLD_DAEMONS_MAX; i++)
            process_mark(&rig->world.daemons[i]);
        if (rig_answered(rig, "") >= count)
            return true;
        if (process_now() > deadline)
            return false;
        process_sleep(0.005);
    }
}

bool rig_wait(struct rig *rig, double seconds)
{
    return rig_wait_for(rig, rig->job_count, seconds);
}

/* ---- daemons --------------------------------------------------------------------------------- */

struct shim_page *rig_shim(struct rig *rig, const char *name, const char *text)
{
    char path[160];
    rig->shim = name;
    rig->shim_text = text;
    if (!name || rig->shim_page)
        return rig->shim_page;
    snprintf(path, sizeof path, "%s/shim", rig->world.folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || ftruncate(fd, sizeof *rig->shim_page) != 0)
        abort();
    rig->shim_page = mmap(NULL, sizeof *rig->shim_page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (rig->shim_page == MAP_FAILED)
        abort();
    close(fd);
    setenv("GPUIMGD_SHIM_PAGE", path, 1);
    return rig->shim_page;
}

/* Sets LD_PRELOAD for the next process. AddressSanitizer warns if it is not first; that is safe. */
static void preload(const struct rig *rig)
{
    char text[1024], folder[512];
    if (!rig->shim || !getcwd(folder, sizeof folder))
        return;
    const char *asan = getenv("ASAN_OPTIONS");
    snprintf(text, sizeof text, "%s:verify_asan_link_order=0", asan ? asan : "");
    setenv("ASAN_OPTIONS", text, 1);
    snprintf(text, sizeof text, "%s%s%s/tests/faults/shim_%s.so", *rig->build == '/' ? "" : folder,
             *rig->build == '/' ? "" : "/", rig->build, rig->shim);
    setenv("LD_PRELOAD", text, 1);
    setenv("GPUIMGD_SHIM", rig->shim_text, 1);
}

/* name: a daemon in tests/faults that executes the fault in the environment variable `variable`;
 * NULL: the installed daemon. first: an option before those in args, or NULL. */
static struct process *start(struct rig *rig, size_t index, const char *name, const char *variable,
                             const char *fault, const char *first, va_list args)
{
    const char *extra[32];
    char program[512];
    size_t count = 0;
    if (first)
        extra[count++] = first;
    while (count < 31 && (extra[count] = va_arg(args, const char *)))
        count++;
    extra[count] = NULL;
    snprintf(program, sizeof program, "%s/tests/faults/%s", rig->build, name ? name : "");
    struct process_options how = {.program = name ? program : NULL,
                                  .unprivileged = rig->unprivileged};
    if (fault)
        setenv(variable, fault, 1);
    preload(rig);
    struct process *daemon = world_start_with(&rig->world, index, &how, extra);
    unsetenv("LD_PRELOAD");
    unsetenv(variable);
    if (!world_ready(daemon))
        rig_saw(rig, "daemon %zu does not start", index);
    return daemon;
}

struct process *rig_start(struct rig *rig, size_t index, const char *fault, ...)
{
    va_list args;
    va_start(args, fault);
    struct process *daemon =
        start(rig, index, fault ? "gpuimgd" : NULL, "GPUIMGD_FAULT", fault, NULL, args);
    va_end(args);
    return daemon;
}

struct process *rig_start_cuda(struct rig *rig, size_t index, const char *fault, ...)
{
    va_list args;
    va_start(args, fault);
    struct process *daemon = start(rig, index, "gpuimgd-cuda", "GPUIMGD_CUDA_FAULT", fault,
                                   "--engine=cuda", args);
    va_end(args);
    return daemon;
}

const char *rig_flag(struct rig *rig, const char *name)
{
    static char paths[4][128];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof *paths, "%s/%s", rig->world.folder, name);
    return path;
}

void rig_raise(struct rig *rig, const char *name)
{
    if (!text_file_write(rig_flag(rig, name), "", 0))
        abort();
}

void rig_lower(struct rig *rig, const char *name)
{
    unlink(rig_flag(rig, name));
}

const char *rig_hang_while(struct rig *rig, const char *name, const char *at)
{
    static char fault[256];
    rig_raise(rig, name);
    snprintf(fault, sizeof fault, "%s,action=hang,while=%s", at, rig_flag(rig, name));
    return fault;
}

bool rig_met(struct rig *rig, const char *name, double seconds)
{
    double deadline = process_now() + patience(seconds);
    char path[160];
    snprintf(path, sizeof path, "%s.met", rig_flag(rig, name));
    while (access(path, F_OK) != 0) {
        if (process_now() > deadline)
            return false;
        process_sleep(0.005);
    }
    return true;
}

const char *rig_option_s(const char *name, double seconds)
{
    static char texts[8][64];
    static unsigned next;
    char *text = texts[next++ % 8];
    snprintf(text, sizeof *texts, "--%s=%g", name, patience(seconds));
    return text;
}

const char *rig_place(struct rig *rig)
{
    static char text[128];
    snprintf(text, sizeof text, "unix:%s/http", rig->world.folder);
    return text;
}

const char *rig_listen(struct rig *rig)
{
    static char text[160];
    snprintf(text, sizeof text, "--metrics_listen=%s", rig_place(rig));
    return text;
}

void rig_saw_answer(struct rig *rig, const char *path, int status, const char *word)
{
    double deadline = process_now() + patience(20);
    for (;;) {
        struct http_reply reply = http_request(rig_place(rig), "GET", path);
        bool so = reply.status == status && strstr(reply.body, word);
        bool ends = so || process_now() > deadline;
        if (ends)
            rig_saw(rig, "%s %d%s", path, reply.status, so ? "" : " otherwise");
        http_free(&reply);
        if (ends)
            return;
        process_sleep(0.02);
    }
}

const char *rig_line(struct rig *rig)
{
    static char option[64];
    if (!rig->line)
        rig->line = line_open(rig->world.redis->socket);
    snprintf(option, sizeof option, "--redis=%s", line_address(rig->line));
    return option;
}

const char *rig_end_of(struct process *daemon, double seconds)
{
    static char text[32];
    int status = process_wait(daemon, seconds);
    if (status < 0)
        return "still runs";
    snprintf(text, sizeof text, status >= 128 ? "killed by %d" : "exit %d",
             status >= 128 ? status - 128 : status);
    return text;
}

bool rig_stopped(struct process *daemon, double seconds)
{
    double deadline = process_now() + patience(seconds);
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)daemon->pid);
    for (bool stopped = false; !stopped;) {
        char *text = text_file_read(path);
        const char *state = strrchr(text, ')');
        stopped = state && strncmp(state, ") T", 3) == 0;
        free(text);
        if (!stopped && process_now() > deadline)
            return false;
        if (!stopped)
            process_sleep(0.005);
    }
    return true;
}

bool rig_by(struct rig *rig, const char *id, const struct process *daemon)
{
    const struct rig_job *job = job_of(rig, id);
    char pid[32];
    snprintf(pid, sizeof pid, ":%ld", (long)daemon->pid);
    const char *found = job ? strrchr(job->daemon, ':') : NULL;
    return found && daemon->pid > 0 && strcmp(found, pid) == 0;
}

/* ---- Redis ----------------------------------------------------------------------------------- */

void rig_aof(const struct rig *rig, char *path, size_t size)
{
    const char *folder = rig->world.redis->folder;
    char pieces[192];
    snprintf(pieces, sizeof pieces, "%s/appendonlydir", folder);
    snprintf(path, size, "%s/appendonly.aof", folder);
    DIR *list = opendir(pieces);
    for (struct dirent *entry; list && (entry = readdir(list));)
        if (strstr(entry->d_name, ".incr.aof"))
            snprintf(path, size, "%s/%s", pieces, entry->d_name);
    if (list)
        closedir(list);
}
