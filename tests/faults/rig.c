#include "tests/faults/rig.h"

#include <glob.h>
#include <string.h>
#include <sys/mount.h>

#include "queue/redis/script.h"
#include "tests/fixtures/http.h"
#include "tests/fixtures/text_file.h"

/* ---- observations ---------------------------------------------------------------------------- */

void rig_append(struct rig *rig, const char *separator, const char *text)
{
    size_t used = strlen(rig->seen);
    snprintf(rig->seen + used, RIG_SEEN_BYTES - used, "%s%s", used ? separator : "", text);
}

void rig_skip(struct rig *rig, const char *reason)
{
    snprintf(rig->seen, RIG_SEEN_BYTES, "SKIP %s", reason);
}

void rig_saw_if(struct rig *rig, bool condition, const char *text)
{
    rig_saw(rig, condition ? "%s" : "not \"%s\"", text);
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
    rig_saw(rig, "%zu done once", done);
    if (missing)
        rig_append(rig, "", text_of(", %zu missing", missing));
    if (repeated)
        rig_append(rig, "", text_of(", %zu repeated", repeated));
    if (other)
        rig_append(rig, "", text_of(", %zu other (%s: %s %s)", other, odd->id, odd->status,
                                    odd->code));
    if (rig->strangers)
        rig_append(rig, "", text_of(", %zu strangers", rig->strangers));
}

void rig_saw_done_at(struct rig *rig, const char *prefix, int attempt)
{
    rig_saw_done(rig, prefix);
    rig_saw_attempts(rig, prefix, attempt);
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

void rig_expects(struct rig *rig, const char *id)
{
    if (rig->job_count == RIG_JOBS_MAX)
        abort();
    struct rig_job *job = &rig->jobs[rig->job_count++];
    snprintf(job->id, sizeof job->id, "%s", id);
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

void rig_put_large_file(struct rig *rig, const char *name, size_t bytes)
{
    struct picture_file file = picture_jpeg(&(struct picture_jpeg){.width = 160, .height = 120});
    uint8_t *padded = calloc(1, bytes);
    if (!padded || file.length > bytes)
        abort();
    memcpy(padded, file.bytes, file.length);
    world_put(&rig->world, name, padded, bytes);
    free(padded);
    picture_free(&file);
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
        fprintf(stderr, "result of a job that was not pushed: %s\n", text);
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

void rig_wait_done(struct rig *rig, double seconds, const char *prefix)
{
    rig_wait(rig, seconds);
    rig_saw_done(rig, prefix);
}

void rig_wait_done_at(struct rig *rig, double seconds, const char *prefix, int attempt)
{
    rig_wait(rig, seconds);
    rig_saw_done_at(rig, prefix, attempt);
}

void rig_wait_jobs(struct rig *rig, double seconds, const char *prefix)
{
    rig_wait(rig, seconds);
    rig_saw_jobs(rig, prefix);
}

/* ---- daemons --------------------------------------------------------------------------------- */

struct shim_page *rig_shim(struct rig *rig, const char *name, const char *text)
{
    rig->shim = name;
    rig->shim_text = text;
    if (!name || rig->shim_page)
        return rig->shim_page;
    const char *path = rig_flag(rig, "shim");
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
    if (!rig->shim)
        return;
    const char *asan = getenv("ASAN_OPTIONS");
    char *build = realpath(rig->build, NULL);
    setenv("ASAN_OPTIONS", text_of("%s:verify_asan_link_order=0", asan ? asan : ""), 1);
    setenv("LD_PRELOAD", text_of("%s/tests/faults/shim_%s.so", build, rig->shim), 1);
    free(build);
    setenv("GPUIMGD_SHIM", rig->shim_text, 1);
}

struct process *rig_start_with(struct rig *rig, size_t index, bool cuda, const char *fault,
                               const char *const *options)
{
    const char *variable = cuda ? "GPUIMGD_CUDA_FAULT" : "GPUIMGD_FAULT";
    struct process_options how = {.unprivileged = rig->unprivileged};
    if (cuda || fault)
        how.program = text_of("%s/tests/faults/gpuimgd%s", rig->build, cuda ? "-cuda" : "");
    if (fault)
        setenv(variable, fault, 1);
    preload(rig);
    struct process *daemon = world_start_with(&rig->world, index, &how, options);
    unsetenv("LD_PRELOAD");
    unsetenv(variable);
    if (!world_ready(daemon))
        rig_saw(rig, "daemon %zu does not start", index);
    return daemon;
}

const char *rig_flag(struct rig *rig, const char *name)
{
    return text_of("%s/%s", rig->world.folder, name);
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
    rig_raise(rig, name);
    return text_of("%s,action=hang,while=%s", at, rig_flag(rig, name));
}

bool rig_met(struct rig *rig, const char *name, double seconds)
{
    const char *path = text_of("%s.met", rig_flag(rig, name));
    RIG_WAIT_UNTIL(seconds, access(path, F_OK) == 0);
    return access(path, F_OK) == 0;
}

const char *rig_option_s(const char *name, double seconds)
{
    return text_of("--%s=%g", name, patience(seconds));
}

const char *rig_place(struct rig *rig)
{
    return text_of("unix:%s/http", rig->world.folder);
}

const char *rig_listen(struct rig *rig)
{
    return text_of("--metrics_listen=%s", rig_place(rig));
}

static int answer_of(const char *place, const char *path, const char *word, bool *has_word)
{
    struct http_reply reply = http_request(place, "GET", path);
    int status = reply.status;
    *has_word = strstr(reply.body, word) != NULL;
    http_free(&reply);
    return status;
}

void rig_saw_answer(struct rig *rig, const char *path, int status, const char *word)
{
    const char *place = rig_place(rig);
    bool right;
    int answer;
    RIG_WAIT_UNTIL(20, (answer = answer_of(place, path, word, &right)) == status && right);
    rig_saw(rig, "%s %d%s", path, answer, answer == status && right ? "" : " otherwise");
}

const char *rig_line(struct rig *rig)
{
    if (!rig->line)
        rig->line = line_open(rig->world.redis->socket);
    return text_of("--redis=%s", line_address(rig->line));
}

const char *rig_end_of(struct process *daemon, double seconds)
{
    int status = process_wait(daemon, seconds);
    return status < 0 ? "still runs"
           : status >= 128 ? text_of("killed by %d", status - 128) : text_of("exit %d", status);
}

void rig_saw_end(struct rig *rig, struct process *daemon, double seconds)
{
    rig_saw(rig, "%s", rig_end_of(daemon, seconds));
}

void rig_saw_terminated(struct rig *rig, struct process *daemon)
{
    process_signal(daemon, SIGTERM);
    rig_saw_end(rig, daemon, 20);
}

static bool is_stopped(struct process *daemon)
{
    char *text = text_file_read(text_of("/proc/%ld/stat", (long)daemon->pid));
    const char *state = strrchr(text, ')');
    bool stopped = state && strncmp(state, ") T", 3) == 0;
    free(text);
    return stopped;
}

bool rig_stopped(struct process *daemon, double seconds)
{
    RIG_WAIT_UNTIL(seconds, is_stopped(daemon));
    return is_stopped(daemon);
}

void rig_saw_stopped(struct rig *rig, struct process *daemon)
{
    rig_saw_if(rig, rig_stopped(daemon, 20), "stopped");
    process_sleep(patience(2.5));
    process_signal(daemon, SIGCONT);
}

bool rig_by(struct rig *rig, const char *id, const struct process *daemon)
{
    const struct rig_job *job = job_of(rig, id);
    const char *found = job ? strrchr(job->daemon, ':') : NULL;
    return found && daemon->pid > 0 && strcmp(found + 1, text_of("%ld", (long)daemon->pid)) == 0;
}

bool rig_mount(struct rig *rig, const char *folder, const char *size)
{
    static bool unshared;
    unshared = unshared || (unshare(CLONE_NEWNS) == 0 &&
                            mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    rig->mounted = folder;
    if (unshared && mount("tmpfs", folder, "tmpfs", 0, size) == 0)
        return true;
    rig_skip(rig, text_of("no tmpfs can be mounted: %s", strerror(errno)));
    return false;
}

void rig_fill(struct rig *rig, const char *folder)
{
    static const char zeros[4096];
    int fd = open(text_of("%s/filler", folder), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ssize_t count = 1;
    while (fd >= 0 && count > 0)
        count = write(fd, zeros, sizeof zeros);
    rig_saw_if(rig, fd >= 0 && errno == ENOSPC, "full");
    if (fd >= 0)
        close(fd);
}

/* ---- Redis ----------------------------------------------------------------------------------- */

void rig_cancel(struct rig *rig, const char *id)
{
    freeReplyObject(redis_command(rig->world.client,
                                  "EVAL %s 5 gpuimgd:jobs gpuimgd:cancel gpuimgd:woken "
                                  "gpuimgd:waits:%s gpuimgd:result:%s %s",
                                  script_text(SCRIPT_ID_CANCEL), id, id, id));
}

/* Redis 7 has several append-only files: returns the incremental one. */
static const char *aof_path(struct rig *rig)
{
    const char *folder = rig->world.redis->folder;
    const char *path = text_of("%s/appendonly.aof", folder);
    glob_t found;
    if (glob(text_of("%s/appendonlydir/*.incr.aof", folder), 0, NULL, &found) == 0) {
        path = text_of("%s", found.gl_pathv[0]);
        globfree(&found);
    }
    return path;
}

off_t rig_aof_bytes(struct rig *rig)
{
    struct stat file = {.st_size = 0};
    if (stat(aof_path(rig), &file) != 0)
        rig_saw(rig, "no %s", aof_path(rig));
    return file.st_size;
}

void rig_crash_redis(struct rig *rig, off_t kept)
{
    redis_server_kill9(rig->world.redis);
    if (truncate(aof_path(rig), kept) != 0)
        rig_saw(rig, "not truncated");
    redis_server_restart(rig->world.redis);
    world_reconnect(&rig->world);
}
