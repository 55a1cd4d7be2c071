#include "codecs/process/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conf/clock.h"

#ifndef MFD_NOEXEC_SEAL /* Linux 6.3 */
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* A process must send its struct codec_hello within this time. An idle machine needs some 10 ms. */
#define START_S 20
#define PATH_BYTES 4096
#define VARIABLES_MAX 7

/* ---- the program ---------------------------------------------------------------------------- */

/* The path of gpuimgd-codec: the environment variable GPUIMGD_CODEC, else a file beside this
 * program (as in a build tree), else in libexec below the prefix of this program (as `make install`
 * puts them), else in the configured folder. */
static const char *program_path(char path[PATH_BYTES])
{
    static const char *const places[] = {"gpuimgd-codec", "../libexec/gpuimgd/gpuimgd-codec"};
    enum { place_bytes = 64 };
    const char *given = getenv("GPUIMGD_CODEC");
    if (given && *given)
        return given;
    ssize_t length = readlink("/proc/self/exe", path, PATH_BYTES - place_bytes);
    while (length > 0 && path[length - 1] != '/')
        length--;
    for (size_t i = 0; length > 0 && i < sizeof places / sizeof *places; i++) {
        strcpy(path + length, places[i]);
        if (access(path, X_OK) == 0)
            return path;
    }
    return GPUIMGD_LIBEXECDIR "/gpuimgd-codec";
}

/* Passes on only these variables: others may be secrets. The codec process's malloc asks for huge
 * pages, because the kernel provides them in a tenth of the time of small ones. */
static void take_environment(char *environment[VARIABLES_MAX + 1])
{
    static const char *const names[] = {"LD_LIBRARY_PATH=", "ASAN_OPTIONS=",    "UBSAN_OPTIONS=",
                                        "TSAN_OPTIONS=",    "FONTCONFIG_FILE=", "FONTCONFIG_PATH="};
    static char pages[] = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1";
    size_t count = 0;
    environment[count++] = pages;
    for (char **variable = environ; variable && *variable; variable++)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (count < VARIABLES_MAX && strncmp(*variable, names[i], strlen(names[i])) == 0)
                environment[count++] = *variable;
    environment[count] = NULL;
}

/* ---- spawn ---------------------------------------------------------------------------------- */

static bool set_up(posix_spawn_file_actions_t *files, posix_spawnattr_t *attributes, int socket,
                   int region)
{
    sigset_t all;
    sigfillset(&all);
    /* All signals are blocked in the codec process. A service manager or a terminal sends signals
     * to all processes of a service, but the codec process must go on until its task ends. */
    return posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDWR, 0) == 0 &&
           posix_spawn_file_actions_adddup2(files, 0, 1) == 0 &&
           posix_spawn_file_actions_adddup2(files, socket, CODEC_SOCKET) == 0 &&
           posix_spawn_file_actions_adddup2(files, region, CODEC_REGION) == 0 &&
           posix_spawnattr_setsigmask(attributes, &all) == 0 &&
           posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK) == 0;
}

/* Uses posix_spawn, because fork would copy the page tables of the daemon, which has much memory,
 * many threads and a CUDA context. Returns 0 or an errno. */
static int spawn(struct codec_process *process, const char *path, bool draws_text, int socket,
                 int region)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    char parent[16], *environment[VARIABLES_MAX + 1];
    static char text[] = CODEC_DRAWS_TEXT;
    char *arguments[] = {(char *)(uintptr_t)path, parent, draws_text ? text : NULL, NULL};
    snprintf(parent, sizeof parent, "%d", (int)getpid());
    take_environment(environment);
    if (posix_spawn_file_actions_init(&files) != 0)
        return ENOMEM;
    if (posix_spawnattr_init(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&files);
        return ENOMEM;
    }
    int failure = ENOMEM;
    if (set_up(&files, &attributes, socket, region))
        failure = posix_spawn(&process->pid, path, &files, &attributes, arguments, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return failure;
}

/* Some systems refuse a memfd without MFD_NOEXEC_SEAL (sysctl vm.memfd_noexec), and kernels before
 * Linux 6.3 refuse the flag with EINVAL. */
static int make_region(void)
{
    int region = memfd_create("gpuimgd-codec", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
    return region >= 0 || errno != EINVAL ? region : memfd_create("gpuimgd-codec", MFD_CLOEXEC);
}

/* Moves a descriptor to a number above CODEC_REGION, because dup2 in the codec process would close
 * it if it had the number CODEC_SOCKET or CODEC_REGION. */
static int move_up(int descriptor)
{
    if (descriptor < 0 || descriptor > CODEC_REGION)
        return descriptor;
    int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, CODEC_REGION + 1);
    close(descriptor);
    return moved;
}

static void close_if(int descriptor)
{
    if (descriptor >= 0)
        close(descriptor);
}

/* ---- hello ---------------------------------------------------------------------------------- */

static bool take_hello(struct codec_process *process, struct codec_hello *hello,
                       struct error *error)
{
    char buffer[PATH_BYTES];
    hello->version[sizeof hello->version - 1] = '\0';
    if (strcmp(hello->version, GPUIMGD_VERSION) != 0)
        return error_fail(error, STATUS_INTERNAL,
                          "the codec process %s has version %s, but this is gpuimgd %s; install "
                          "the same version and restart gpuimgd",
                          program_path(buffer), hello->version, GPUIMGD_VERSION);
    process->base_bytes = hello->address_bytes;
    process->data_bytes = hello->data_bytes;
    process->can_read = hello->can_read;
    process->can_write = hello->can_write;
    process->start_ns = 0;
    return true;
}

bool codec_process_said_hello(struct codec_process *process, int ms, struct error *error)
{
    struct codec_hello hello;
    char buffer[PATH_BYTES];
    struct pollfd poll_for = {.fd = process->socket, .events = POLLIN};
    int ready = poll(&poll_for, 1, ms);
    bool is_over = clock_now_ns() >= clock_after_s(process->start_ns, START_S);
    if (ready > 0 && recv(process->socket, &hello, sizeof hello, MSG_DONTWAIT) == sizeof hello)
        return take_hello(process, &hello, error);
    if (ready > 0 || is_over)
        return error_fail(error, STATUS_INTERNAL,
                          "the codec process %s did not start; its message is in the log",
                          program_path(buffer));
    return false;
}

/* ---- start ---------------------------------------------------------------------------------- */

bool codec_process_limit(pid_t pid, int resource, uint64_t bytes)
{
    struct rlimit limit;
    if (prlimit(pid, resource, NULL, &limit) != 0)
        return false;
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    return prlimit(pid, resource, &limit, NULL) == 0;
}

static bool is_shortage(int failure)
{
    return failure == ENOMEM || failure == EAGAIN || failure == EMFILE || failure == ENFILE;
}

bool codec_process_start(struct codec_process *process, bool draws_text, struct error *error)
{
    char buffer[PATH_BYTES];
    int pair[2] = {-1, -1};
    const char *path = program_path(buffer);
    *process = (struct codec_process){0};
    int region = move_up(make_region());
    bool has_pair = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0;
    pair[1] = move_up(pair[1]);
    int failure = region >= 0 && has_pair && pair[1] >= 0 ? 0 : errno;
    if (failure == 0)
        failure = spawn(process, path, draws_text, pair[1], region);
    close_if(pair[1]);
    if (failure != 0) {
        close_if(pair[0]);
        close_if(region);
        *process = (struct codec_process){0};
        return error_fail(error, is_shortage(failure) ? STATUS_OUT_OF_MEMORY : STATUS_INTERNAL,
                          "the codec process %s cannot be started: %s", path, strerror(failure));
    }
    process->draws_text = draws_text;
    process->socket = pair[0];
    process->region = region;
    process->start_ns = clock_now_ns();
    return true;
}
