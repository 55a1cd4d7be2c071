/*
 * faults - runs the fault cases and prints what was injected, expected and seen.
 *
 *     faults [--build FOLDER] [--quick] [--tap] [--only TEXT] [--beside N]
 *
 * FOLDER is the build folder; default: the program's own. --only runs the cases whose line "GROUP:
 * CASE: INJECTED" contains TEXT. Each case runs in its own child process: if it crashes or hangs,
 * only its row is wrong. The exit status is 1 if any row is not as expected.
 */
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/faults/rig.h"
#include "tests/fixtures/arguments.h"
#include "tests/fixtures/redis_server.h"
#include "tests/fixtures/text_file.h"

#define LIMIT_S 120
#define ROWS_MAX 256
#define BESIDE 4
#define DRAIN_S 40 /* above the default drain_timeout_s */

static const struct {
    const char *name;
    const struct fault_case *cases;
} groups[] = {
    {"death", death_faults},     {"redis", redis_faults},   {"conditions", condition_faults},
    {"disk", disk_faults},       {"memory", memory_faults}, {"ceiling", ceiling_faults},
    {"room", room_faults},       {"outage", outage_faults}, {"gpu", gpu_faults},
    {"library", library_faults}, {"codec", codec_faults},   {"sets", set_faults}};

struct row {
    const char *group;
    const struct fault_case *fault;
    pid_t child;
    bool running;
    double started, seconds;
    char seen[RIG_SEEN_BYTES]; /* the child writes it */
};

struct session {
    const char *build, *only;
    bool quick, tap;
    unsigned beside;        /* cases that run at one time */
    struct row *rows;       /* in memory shared with the children */
    size_t count, printed, wrong, skipped;
};

/* ---- one case, in the child ------------------------------------------------------------------ */

static void show_logs(const struct rig *rig)
{
    for (size_t i = 0; i < WORLD_DAEMONS_MAX; i++) {
        const struct process *daemon = &rig->world.daemons[i];
        char *log = daemon->log_path[0] ? process_log(daemon) : NULL;
        size_t length = log ? strlen(log) : 0;
        if (length)
            fprintf(stderr, "---- log of daemon %zu:\n%s\n", i, log + (length > 6000 ? length - 6000
                                                                                  : 0));
        free(log);
    }
}

/* At the end of every case the daemons must stop on SIGTERM and leave nothing behind. */
static void end_rig(struct rig *rig)
{
    struct world *w = &rig->world;
    char names[512];
    for (size_t i = 0; i < WORLD_DAEMONS_MAX; i++)
        process_signal(&w->daemons[i], SIGTERM);
    for (size_t i = 0; i < WORLD_DAEMONS_MAX; i++) {
        if (!process_running(&w->daemons[i]))
            continue;
        const char *end = rig_end_of(&w->daemons[i], DRAIN_S);
        if (strcmp(end, "exit 0") != 0)
            rig_saw(rig, "daemon %zu: %s after SIGTERM", i, end);
    }
    size_t before = rig_answered(rig, "") + rig->strangers;
    rig_wait_for(rig, 0, 0);
    if (rig_answered(rig, "") + rig->strangers != before)
        rig_saw(rig, "late results");
    /* The name of a killed daemon stays for ten leases, so that its host can tell. */
    redis_integer(w->client, "DEL %s:inst", w->ns);
    if (world_leftovers(w, names, sizeof names))
        rig_saw(rig, "keys left:%s", names);
    if (text_file_count(w->out, ".tmp"))
        rig_saw(rig, "%zu temporary files left", text_file_count(w->out, ".tmp"));
}

static void run_case(const struct session *session, struct row *row)
{
    static struct rig rig;
    const struct fault_case *fault = row->fault;
    const char *const *a = fault->redis_args;
    rig.build = session->build;
    rig.fault = fault;
    rig.seen = row->seen;
    world_open(&rig.world, redis_server_start(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7],
                                              NULL));
    world_put_photo(&rig.world, "p.jpg", 160, 120);
    fault->run(&rig);
    if (strncmp(rig.seen, "SKIP ", 5) != 0) {
        end_rig(&rig);
        if (strcmp(rig.seen, fault->expected) != 0)
            show_logs(&rig);
    }
    if (rig.mounted)
        umount2(rig.mounted, MNT_DETACH);
    world_close(&rig.world);
    line_close(rig.line);
}

/* ---- all cases ------------------------------------------------------------------------------- */

static void start_row(const struct session *session, struct row *row)
{
    pid_t parent = getpid();
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) {
        perror("a case cannot be started");
        exit(1);
    }
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        run_case(session, row);
        exit(0); /* not _exit: sanitizers report at exit */
    }
    row->child = child; /* not in the child: it shares the row */
    row->started = process_now();
    row->running = true;
}

/* Kills a case whose time limit has passed, and notes the end of a case. */
static void check_row(struct row *row)
{
    double limit_s = patience(row->fault->limit_s ? row->fault->limit_s : LIMIT_S);
    bool late = process_now() > row->started + limit_s;
    int status = 0;
    if (late)
        kill(row->child, SIGKILL);
    if (waitpid(row->child, &status, late ? 0 : WNOHANG) == 0)
        return;
    row->running = false;
    row->seconds = process_now() - row->started;
    size_t used = strlen(row->seen);
    if (late)
        snprintf(row->seen + used, sizeof row->seen - used, " (the case did not end in time)");
    else if (status != 0)
        snprintf(row->seen + used, sizeof row->seen - used, " (the case ended with status %#x)",
                 status);
}

/* If the machine must have a GPU, a skipped GPU case is a wrong row. */
static bool must_run(const struct row *row)
{
    const char *required = getenv("GPUIMGD_REQUIRE_CUDA");
    return required && strcmp(required, "1") == 0 && strstr(row->seen, "CUDA");
}

static void print_row(struct session *session, const struct row *row)
{
    const struct fault_case *fault = row->fault;
    bool skip = strncmp(row->seen, "SKIP ", 5) == 0 && !must_run(row);
    bool right = strcmp(row->seen, fault->expected) == 0;
    session->printed++;
    session->skipped += skip;
    session->wrong += !skip && !right;
    if (session->tap && skip)
        printf("ok %zu - %s: %s: %s # %s\n", session->printed, row->group, fault->name,
               fault->injected, row->seen);
    else if (session->tap)
        printf("%s %zu - %s: %s: %s\n", right ? "ok" : "not ok", session->printed, row->group,
               fault->name, fault->injected);
    if (!session->tap || !(right || skip))
        printf("%s%-5s %5.1f s  %-5s | %-30s | %-28s | %s | %s\n", session->tap ? "# " : "",
               skip ? "skip" : right ? "ok" : "WRONG", row->seconds, row->group, fault->name,
               fault->injected, fault->expected, right ? "the same" : row->seen);
    fflush(stdout);
}

static void choose_rows(struct session *session)
{
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        for (const struct fault_case *fault = groups[g].cases; fault->name; fault++) {
            const char *whole = text_of("%s: %s: %s", groups[g].name, fault->name,
                                        fault->injected);
            if ((session->quick && fault->slow) ||
                (session->only && !strstr(whole, session->only)))
                continue;
            if (session->count == ROWS_MAX)
                abort();
            struct row *row = &session->rows[session->count++];
            row->group = groups[g].name;
            row->fault = fault;
        }
    }
}

/* Cases mostly wait, so several run in parallel. Rows are printed in the order of the tables. */
static int run_all(struct session *session)
{
    double start = process_now();
    size_t started = 0;
    choose_rows(session);
    if (!session->tap)
        printf("%-14s group | %-30s | %-28s | expected | seen\n", "", "case", "injected");
    while (session->printed < session->count) {
        size_t running = 0;
        for (size_t i = session->printed; i < started; i++) {
            if (session->rows[i].running)
                check_row(&session->rows[i]);
            running += session->rows[i].running;
        }
        while (running < session->beside && started < session->count) {
            start_row(session, &session->rows[started++]);
            running++;
        }
        while (session->printed < started && !session->rows[session->printed].running)
            print_row(session, &session->rows[session->printed]);
        process_sleep(0.005);
    }
    if (session->tap)
        printf("1..%zu\n", session->count);
    else
        printf("%zu cases, %zu not as expected, %zu skipped, %.0f s\n", session->count,
               session->wrong, session->skipped, process_now() - start);
    return session->wrong > 0 || session->count == 0;
}

/* BUILD/tests/faults/faults gives BUILD. */
static const char *own_build(const char *program)
{
    const char *name = strrchr(program, '/');
    return text_of("%.*s/../..", name ? (int)(name - program) : 1, name ? program : ".");
}

int main(int argc, char **argv)
{
    static struct session session = {.beside = BESIDE};
    const struct argument options[] = {
        {"build", .text = &session.build}, {"quick", .flag = &session.quick},
        {"tap", .flag = &session.tap},     {"only", .text = &session.only},
        {"beside", .number = &session.beside}, {.name = NULL}};
    bool usable = arguments_read(argc, argv, options) == argc;
    if (!session.build)
        session.build = own_build(argv[0]);
    if (!usable || session.beside == 0) {
        fprintf(stderr, "usage: faults [--build FOLDER] [--quick] [--tap] [--only TEXT] "
                        "[--beside N]\n");
        return 64;
    }
    session.rows = mmap(NULL, ROWS_MAX * sizeof *session.rows, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (session.rows == MAP_FAILED)
        abort();
    setenv("GPUIMGD", text_of("%s/gpuimgd", session.build), 1);
    signal(SIGPIPE, SIG_IGN);
    redis_server_require();
    return run_all(&session);
}
