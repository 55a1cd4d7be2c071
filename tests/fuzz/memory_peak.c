/* memory_peak.c - see memory_peak.h; the hooks are those of sanitizer/allocator_interface.h. */
#include "tests/fuzz/memory_peak.h"

#include <stdbool.h>

typedef void malloc_hook(const volatile void *memory, size_t bytes);
typedef void free_hook(const volatile void *memory);
__attribute__((weak)) int __sanitizer_install_malloc_and_free_hooks(malloc_hook *allocated,
                                                                    free_hook *freed);
__attribute__((weak)) size_t __sanitizer_get_allocated_size(const volatile void *memory);

static bool installed, measuring;
static long long held, most; /* what was there before may be freed meanwhile */

static void on_malloc(const volatile void *memory, size_t bytes)
{
    if (!measuring)
        return;
    held += (long long)bytes;
    if (held > most)
        most = held;
}

static void on_free(const volatile void *memory)
{
    if (measuring && memory)
        held -= (long long)__sanitizer_get_allocated_size(memory);
}

void memory_peak_start(void)
{
    if (!installed && __sanitizer_install_malloc_and_free_hooks && __sanitizer_get_allocated_size)
        __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
    installed = true;
    held = most = 0;
    measuring = true;
}

size_t memory_peak_end(void)
{
    measuring = false;
    return (size_t)most;
}
