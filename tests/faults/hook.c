/*
 * hook.c - executes $GPUIMGD_FAULT when a job of the tests' own daemon reaches a stage:
 *
 *     GPUIMGD_FAULT="run=decode,action=kill,match=victim"
 *
 *     enter=STAGE   when a job enters the stage: read (just leased), admit, decode, gpu, encode,
 *                   upload, ack (images renamed into place, Redis not notified yet)
 *     run=STAGE     when a worker begins the stage: read, decode, gpu (CPU engine), encode
 *     action=WHAT   kill (SIGKILL), stop (SIGSTOP, once), crash (abort), hang (the thread sleeps),
 *                   wild (a kernel on the device writes to an illegal address)
 *     match=TEXT    only jobs whose id begins with TEXT; default: every job
 *     after=N       only from the N-th such moment on; images of a job with many have no id, and
 * count without match= seconds=N     hang: duration; default: forever. stop: sleep of the thread
 * after the process continues; default: none while=PATH    a thread hangs as long as this file
 * exists; it creates PATH.met first
 *
 * Any other text ends the daemon at the first stage, so that a typing mistake fails its test.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>

#include "tests/faults/shim.h"

/* As in daemon/pipeline/spine.c. */
void fault_point(const char *key, const char *stage, const char *id);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char key[16], stage_name[16], action[16], match[64], flag[128];
static double seconds = -1;
static unsigned after;
static atomic_uint moments;
static bool armed;
static atomic_bool stopped;

static void take_word(const char *word)
{
    if (sscanf(word, "enter=%15s", stage_name) == 1)
        strcpy(key, "enter");
    else if (sscanf(word, "run=%15s", stage_name) == 1)
        strcpy(key, "run");
    else if (sscanf(word, "action=%15s", action) != 1 && sscanf(word, "match=%63s", match) != 1 &&
             sscanf(word, "seconds=%lf", &seconds) != 1 && sscanf(word, "after=%u", &after) != 1 &&
             sscanf(word, "while=%127s", flag) != 1) {
        fprintf(stderr, "GPUIMGD_FAULT: \"%s\" is not understood\n", word);
        _exit(99);
    }
}

static void read_environment(void)
{
    const char *text = getenv("GPUIMGD_FAULT");
    char words[256], *rest = words;
    snprintf(words, sizeof words, "%s", text ? text : "");
    for (char *word; (word = strsep(&rest, ","));)
        if (*word)
            take_word(word);
    armed = *key && *action;
    prctl(PR_SET_DUMPABLE, 0); /* no core file for an intended crash */
}

static void wait_for_flag(void)
{
    char met[sizeof flag + 8];
    snprintf(met, sizeof met, "%s.met", flag);
    int fd = open(met, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd >= 0)
        close(fd);
    while (access(flag, F_OK) == 0)
        shim_sleep(0.002);
}

/* Launches a kernel that writes to an illegal address, without waiting; the device reports the
 * fault later. false: not launched. */
#ifdef GPUIMGD_CUDA
bool wild_start(void); /* wild.cu */
#else
static bool wild_start(void)
{
    return false;
}
#endif

void fault_point(const char *at, const char *stage, const char *id)
{
    pthread_once(&once, read_environment);
    if (!armed || strcmp(at, key) != 0 || strcmp(stage, stage_name) != 0 ||
        strncmp(id ? id : "", match, strlen(match)) != 0 ||
        atomic_fetch_add(&moments, 1) + 1 < after)
        return;
    if (strcmp(action, "kill") == 0) {
        kill(getpid(), SIGKILL);
    } else if (strcmp(action, "crash") == 0) {
        abort();
    } else if (strcmp(action, "hang") == 0 && *flag) {
        wait_for_flag();
    } else if (strcmp(action, "hang") == 0) {
        shim_sleep(seconds < 0 ? 1e9 : seconds);
    } else if (strcmp(action, "stop") == 0) {
        if (atomic_exchange(&stopped, true))
            return;
        kill(getpid(), SIGSTOP);
        shim_sleep(seconds < 0 ? 0 : seconds);
    } else if (strcmp(action, "wild") == 0 && wild_start()) {
        return;
    } else {
        fprintf(stderr, "GPUIMGD_FAULT: there is no action \"%s\"\n", action);
        _exit(99);
    }
}
