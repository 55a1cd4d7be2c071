#include "daemon/program_pages.h"

#include <link.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

/* For dl_iterate_phdr, whose first object is the program; 1 ends the iteration. Only whole pages of
 * segments that are just readable are released. */
static int release_constants(struct dl_phdr_info *program, size_t size, void *context)
{
    (void)size;
    (void)context;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < program->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &program->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || segment->p_flags != PF_R)
            continue;
        size_t begin = (program->dlpi_addr + segment->p_vaddr + page - 1) / page * page;
        size_t end = (program->dlpi_addr + segment->p_vaddr + segment->p_memsz) / page * page;
        if (begin < end)
            madvise((void *)begin, end - begin, MADV_DONTNEED); /* only saves memory */
    }
    return 1;
}

void program_pages_release(void)
{
    dl_iterate_phdr(release_constants, NULL);
}
