/*
 * /proc/cpuinfo without the word `constant_tsc`. Servers that find it there read time from the processor's counter,
 * past libc (Redis and Valkey built with USE_PROCESSOR_CLOCK, as Valkey is since 9.1: monotonic.c); those that do not
 * ask the clock, and see virtual time. True as far as it goes: in virtual time the counter is no clock.
 */
#include "inside.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SHOWN "/proc/cpuinfo"
#define COUNTER_IS_A_CLOCK "constant_tsc"

FILE *vt_shown(const char *path, const char *mode, FILE *real)
{
    if (real == NULL || strcmp(path, SHOWN) != 0)
        return real;
    int fd = memfd_create("cpuinfo", MFD_CLOEXEC);
    if (fd < 0)
        return real;
    char *line = NULL;
    size_t room = 0;
    for (ssize_t size; (size = getline(&line, &room, real)) >= 0;) {
        for (char *at = line; (at = strstr(at, COUNTER_IS_A_CLOCK)) != NULL;)
            memset(at, ' ', sizeof COUNTER_IS_A_CLOCK - 1);
        vt_kernel(SYS_write, fd, (long)line, size, 0, 0, 0);
    }
    free(line);
    fclose(real);
    vt_kernel(SYS_lseek, fd, 0, SEEK_SET, 0, 0, 0);
    return fdopen(fd, mode);
}
