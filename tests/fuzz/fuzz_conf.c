/* fuzz_conf.c - any bytes as a configuration file: accepted values are within their limits. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "conf/log.h"
#include "conf/limits.h"
#include "conf/options.h"
#include "queue/redis/address.h"
#include "queue/redis/shard.h"
#include "tests/fuzz/fuzz.h"

static void check_text(const char *text, double min, double max)
{
    FUZZ_MUST(text != NULL && (double)strlen(text) >= min && (double)strlen(text) <= max);
}

/* 0 means "auto" if that is allowed. */
static void check_number(double number, const char *standard, double min, double max)
{
    FUZZ_MUST((number >= min && number <= max) ||
              (number == 0 && strcmp(standard, "auto") == 0));
}

#define CHECK_TEXT(value, standard, min, max)    check_text(value, min, max)
#define CHECK_SECONDS(value, standard, min, max) check_number(value, standard, min, max)
#define CHECK_COUNT(value, standard, min, max)   check_number((double)value, standard, min, max)
#define CHECK_BYTES(value, standard, min, max)   check_number((double)value, standard, min, max)
#define CHECK_BOOL(value, standard, min, max)    FUZZ_MUST(value == 0 || value == 1)

static void check_bounds(const struct options *options)
{
#define OPTION(kind, name, standard, min, max, reload, help)                                       \
    CHECK_##kind(options->name, standard, (double)(min), (double)(max));
#include "conf/options.def"
#undef OPTION
}

static void must_init(struct options *options)
{
    struct error error = {0};
    FUZZ_MUST(options_init(options, &error));
}

static void check_address(const struct redis_address *address)
{
    FUZZ_MUST(address->count >= 1 && address->count <= REDIS_ENDPOINTS_MAX);
    for (size_t i = 0; i < address->count; i++) {
        const struct redis_endpoint *endpoint = &address->endpoints[i];
        FUZZ_MUST(endpoint->host[0] != '\0' && (endpoint->is_unix || endpoint->port[0] != '\0'));
        FUZZ_MUST(!endpoint->is_unix || (address->count == 1 && !*address->master));
    }
}

/* Each shard has an address that can be parsed, and another namespace. */
static void check_shards(const struct options *all)
{
    char *last = NULL;
    for (uint32_t i = 0; i < all->shards; i++) {
        struct options shard;
        struct redis_address address;
        struct error error = {0};
        FUZZ_MUST(shard_options(&shard, all, i, &error));
        FUZZ_MUST(redis_address_parse(&address, shard.redis, &error) == STATUS_OK);
        check_address(&address);
        FUZZ_MUST(!last || strcmp(last, shard.namespace) != 0);
        free(last);
        last = strdup(shard.namespace);
        options_clear(&shard);
    }
    free(last);
}

/* Loads the file as the daemon does at its start and again on SIGHUP. */
static void check_file(const char *path)
{
    struct options options, live;
    struct error error = {0};
    must_init(&options);
    must_init(&live);
    struct errors errors = {0};
    bool good = options_load(&options, path, 0, NULL, &errors);
    FUZZ_MUST(good == (errors.count == 0) && good == (errors.first.text[0] == '\0'));
    check_bounds(&options);
    if (good && options_check(&options, &errors) && shard_check(&options, &error)) {
        check_shards(&options);
        options_adopt(&live, &options);
        check_bounds(&live);
        struct options_host host = {.memory_bytes = 2 * GIB, .cpus = 16, .others = 2};
        options_resolve(&options, host.memory_bytes, host.cpus);
        options_resolve_workers(&options, &host);
        FUZZ_MUST(options.workers >= 1 && options.pinned_bytes >= MIB);
        FUZZ_MUST(options.host_bytes / 2 >= options.input_bytes_max);
    } else {
        FUZZ_MUST(error.text[0] != '\0' || errors.first.text[0] != '\0');
    }
    options_clear(&live);
    options_clear(&options);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    char path[64];
    int fd = memfd_create("gpuimgd.conf", MFD_CLOEXEC);
    log_set_level(LOG_LEVEL_ERROR); /* hides the messages of a reload */
    FUZZ_MUST(fd >= 0 && write(fd, bytes, length) == (ssize_t)length);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    check_file(path);
    close(fd);
    return 0;
}

void fuzz_seeds(fuzz_give *give, void *context)
{
    static const char *const texts[] = {
        "",
        "[gpuimgd]\nredis = unix:/run/redis.sock\nnamespace = {a}\n",
        "redis=[::1]:6380\nstats_interval_s = 0.5\nlenient=yes ; as it is\n",
        "input_bytes_max = 1MiB\nhost_bytes: 64M\npinned_bytes=auto\n",
        "log_level = debug\nsync_outputs = off\ndevices = 0,2\nengine = cpu\n",
        "lease_s = 3\nrenew_s = 1\n# a comment\n; another\n\n",
        "redis = rediss://host:1\n",
        "redis = redis://u%41:p%40@[::1]:1,b/3\n",
        "redis = sentinels://m@host,host:1\nredis_tls_name = x\n",
        "shards = 3\nredis = a:1, b:2 unix:/c\nnamespace = {a}\n",
        "redis = a b\n",
        "lease_s = 3\nrenew_s = 2\n",
        "[other]\nworkers = 1\n",
        "workers = 1\nworkers = 2\n",
        "workers = 1e2\nside_max = 65500\npixels_max=0x10\n",
        "no such = option\n",
        "\xEF\xBB\xBFworkers = 2\r\nstreams = 3\r\n",
    };
    char name[32];
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        snprintf(name, sizeof name, "text-%02zu.conf", i);
        give(context, name, texts[i], strlen(texts[i]));
    }
    char defaults[8192];
    size_t used = 0;
#define OPTION(kind, option, standard, min, max, reload, help)                                     \
    used += (size_t)snprintf(defaults + used, sizeof defaults - used, #option " = " standard "\n");
#include "conf/options.def"
#undef OPTION
    FUZZ_MUST(used < sizeof defaults);
    give(context, "defaults.conf", defaults, used);
}
