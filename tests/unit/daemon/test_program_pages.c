/* Tests that constants of the program leave resident memory, and can still be read. */
#include <sys/mman.h>
#include <unistd.h>

#include "conf/limits.h"
#include "daemon/program_pages.h"
#include "tests/fixtures/test.h"

/* In the read-only segment, as the kernels are. */
#define KERNELS_BYTES (4 * MIB)
__attribute__((section(".nv_fatbin"))) static const uint8_t kernels[KERNELS_BYTES] = {1, 2, 3};

static uint64_t sum_kernels(void)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < KERNELS_BYTES; i++)
        sum += ((const volatile uint8_t *)kernels)[i];
    return sum;
}

/* Pages of files in this process's resident memory, in bytes. */
static uint64_t resident_file_bytes(void)
{
    unsigned long long total, resident, shared;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%llu %llu %llu", &total, &resident, &shared), 3);
    fclose(file);
    return shared * (uint64_t)sysconf(_SC_PAGESIZE);
}

TEST(test_constants_leave_resident_memory)
{
    assert_int_equal(sum_kernels(), 6);
    uint64_t before = resident_file_bytes();
    program_pages_release();
    uint64_t after = resident_file_bytes();
    print_message("# %llu KiB, then %llu KiB\n", (unsigned long long)before / KIB,
                  (unsigned long long)after / KIB);
    assert_true(after + KERNELS_BYTES / 2 < before);
    assert_int_equal(sum_kernels(), 6);
}

TEST_MAIN()
