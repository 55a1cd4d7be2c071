/*
 * codec_main.c - gpuimgd-codec, the process in which libraries decode and encode images.
 *
 * gpuimgd starts this program with two descriptors: a socket for messages and shared memory, the
 * region (codecs/process/protocol.h). It has one thread and answers one call at a time, until the
 * socket is closed. It trusts the calls of the daemon; the daemon does not trust its replies.
 */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "codecs/confined/confine.h"
#include "codecs/confined/confined.h"

/* Exit statuses. */
enum { USAGE = 64, UNCONFINED = 70, LACKED_MEMORY = 71 };

/* malloc maps blocks of at least this size separately, so that free returns them to the system. */
#define BLOCK_BYTES (8 * MIB)

/* libaom and libjxl have frames of 40 KiB; decoders nest some of them. */
#define STACK_BYTES (1 * MIB)

/* ---- memory --------------------------------------------------------------------------------- */

/* The reply to a task that needs more memory than the daemon's limit allows. */
static const struct codec_reply lacks_memory = {
    .kind = CODEC_DONE, .status = STATUS_OUT_OF_MEMORY, .lacks_memory = 1};

/* If an allocation fails, libavif 0.11 calls abort(), libjxl executes an illegal instruction, and
 * other libraries use the null pointer. In all cases errno is still that of malloc. After any other
 * crash, the process ends as it would without this handler. */
static void on_crash(int number)
{
    if (errno == ENOMEM) {
        send(CODEC_SOCKET, &lacks_memory, sizeof lacks_memory, MSG_NOSIGNAL);
        _exit(LACKED_MEMORY);
    }
    signal(number, SIG_DFL); /* the instruction that crashed runs again */
}

/* C++ libraries call this function if an allocation fails. Otherwise they would write a message and
 * call abort(), and errno would be that of the message, which the process may not write. */
static void on_shortage(void)
{
    errno = ENOMEM;
    on_crash(SIGABRT);
}

/* std::set_new_handler; NULL if no library is of C++. */
extern void (*set_new_handler(void (*handler)(void)))(void) __asm__("_ZSt15set_new_handlerPFvvE")
    __attribute__((weak));

static void prepare_memory(void)
{
    static char stack[64 * 1024];
    const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = on_crash, .sa_flags = SA_ONSTACK};
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, BLOCK_BYTES);
    mallopt(M_TRIM_THRESHOLD, CODEC_HEAP_KEPT_BYTES);
    if (CONFINE_WITHOUT_LIMITS)
        return;
    if (set_new_handler)
        (void)set_new_handler(on_shortage);
    sigaltstack(&other, NULL);
    sigaction(SIGABRT, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGILL, &action, NULL);
    sigaction(SIGTRAP, &action, NULL); /* of GLib */
}

/* Lets the stack have its largest size from the start. Under a limit of memory it could not grow
 * when the heap has reached the limit, and the crash would not look like a lack of memory. */
static void grow_stack(void)
{
    volatile char room[STACK_BYTES];
    room[0] = 0;
    (void)room[0];
}

static ssize_t discard(void *cookie, const char *text, size_t bytes)
{
    (void)cookie, (void)text;
    return (ssize_t)bytes;
}

/* Discards the messages of libraries: to write them would be refused, which changes errno before
 * on_crash. */
static void silence(void)
{
    FILE *none = fopencookie(NULL, "w", (cookie_io_functions_t){.write = discard});
    if (none)
        stderr = none;
}

/* ---- tasks ---------------------------------------------------------------------------------- */

#ifdef GPUIMGD_FAULT_HOOKS
void confined_fault(const char *stage); /* tests/faults/codec_hook.c */
#else
static void confined_fault(const char *stage)
{
    (void)stage;
}
#endif

/* The first CODEC_REGION_KEPT_BYTES of the region. They stay mapped for all tasks, which saves page
 * faults. NULL: not mapped yet. */
static uint8_t *kept;

/* Returns the free blocks of a large heap to the kernel; by itself, malloc returns only the end of
 * the heap. Call it before the last reply of a task: then the daemon counts the memory of the task
 * as free. Returns whether much of the heap is still in use: cairo keeps up to 16,384 glyphs of any
 * size. */
static bool trim_heap(void)
{
    struct mallinfo2 heap = mallinfo2();
    if (heap.arena > CODEC_HEAP_IDLE_BYTES)
        malloc_trim(0);
    return heap.uordblks + heap.hblkhd > CODEC_HEAP_KEPT_BYTES;
}

/* flags: MAP_POPULATE, if all pages will be used. NULL: no memory. */
static uint8_t *map(size_t bytes, int flags)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | flags, CODEC_REGION, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* Maps all pages of a large region at once, except for a probe, which uses few of them. */
static uint8_t *map_region(const struct codec_call *call)
{
    if (call->region_bytes > CODEC_REGION_KEPT_BYTES)
        return map(call->region_bytes, call->kind == CODEC_PROBE ? 0 : MAP_POPULATE);
    if (!kept)
        kept = map(CODEC_REGION_KEPT_BYTES, 0);
    return kept;
}

static void run(const struct codec_call *call, uint8_t *region, struct codec_reply *reply)
{
    const struct confined_codec *codec =
        call->format <= CODEC_TEXT ? confined_codecs[call->format] : NULL;
    confined_task_fn *task = !codec                           ? NULL
                             : call->kind == CODEC_PROBE      ? codec->probe
                             : call->kind == CODEC_DECODE     ? codec->decode
                             : call->kind == CODEC_FRAMES     ? codec->frames
                             : call->kind == CODEC_ENCODE     ? codec->encode
                             : call->kind == CODEC_RECOMPRESS ? codec->recompress
                                                              : NULL;
    if (task)
        task(call, region, reply);
    else
        confined_fail(reply, STATUS_INTERNAL, "call %u of format %u is unknown", call->kind,
                      call->format);
}

/* Runs a task. If it fails and errno is ENOMEM, memory was the reason, even if the library reports
 * another one. */
static void answer(const struct codec_call *call, struct codec_reply *reply)
{
    static const char *const stages[] = {[CODEC_PROBE] = "probe",
                                         [CODEC_DECODE] = "decode",
                                         [CODEC_FRAMES] = "frames",
                                         [CODEC_ENCODE] = "encode",
                                         [CODEC_RECOMPRESS] = "recompress"};
    errno = 0;
    confined_fault(stages[call->kind < CODEC_GO_ON ? call->kind : CODEC_PROBE]);
    uint8_t *region = map_region(call);
    if (!region) {
        *reply = lacks_memory;
        return;
    }
    run(call, region, reply);
    reply->lacks_memory = reply->status != STATUS_OK && errno == ENOMEM;
    if (region != kept)
        munmap(region, call->region_bytes);
    reply->keeps_memory = trim_heap();
}

static bool say_hello(bool draws_text)
{
    struct codec_hello hello = {.version = GPUIMGD_VERSION};
    for (unsigned i = 0; i < FORMAT_COUNT; i++) {
        const struct confined_codec *codec = confined_codecs[i];
        if (codec && codec->begin)
            codec->begin();
        if (codec && codec->can(false))
            hello.can_read |= CODEC_BIT(i);
        if (codec && codec->encode && codec->can(true))
            hello.can_write |= CODEC_BIT(i);
    }
    if (draws_text && confined_codecs[CODEC_TEXT])
        confined_codecs[CODEC_TEXT]->begin();
    const char *why = confine_enter(draws_text, &hello.address_bytes, &hello.data_bytes);
    if (why) {
        fprintf(stderr, "gpuimgd-codec: %s: %s\n", why, strerror(errno));
        return false;
    }
    silence();
    return send(CODEC_SOCKET, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello;
}

int main(int argc, char **argv)
{
    bool draws_text = argc == 3 && strcmp(argv[2], CODEC_DRAWS_TEXT) == 0;
    if (argc != 2 && !draws_text) {
        fputs("gpuimgd-codec is started by gpuimgd\n", stderr);
        return USAGE;
    }
    if (!confine_begin(atoi(argv[1])))
        return UNCONFINED;
    prepare_memory();
    grow_stack();
    confined_fault("start");
    if (!say_hello(draws_text))
        return UNCONFINED;
    for (;;) {
        struct codec_call call;
        struct codec_reply reply = {.kind = CODEC_DONE};
        confined_receive(&call);
        answer(&call, &reply);
        confined_send(&reply);
    }
}
