/*
 * Entropy: a stream per process that its seed determines (SplitMix64: Steele, Lea, Flood, "Fast splittable
 * pseudorandom number generators", 2014). The position is in the page and taken atomically, so threads never get
 * the same word. Reads of /dev/urandom and /dev/random give it as well: read() itself is in sockets.c.
 */
#include "inside.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

uint64_t vt_mix(uint64_t x)
{
    x += GOLDEN;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

void vt_entropy(void *to, size_t size)
{
    size_t words = (size + 7) / 8;
    uint64_t seed = atomic_load(&vt_block->seed);
    uint64_t next = atomic_fetch_add(&vt_block->drawn, words);
    for (size_t i = 0; i < words; i++) {
        uint64_t word = vt_mix(seed + (next + i) * GOLDEN);
        size_t rest = size - i * 8;
        memcpy((char *)to + i * 8, &word, rest < 8 ? rest : 8);
    }
}

ssize_t getrandom(void *to, size_t size, unsigned flags)
{
    if (!vt_on())
        return vt_result(vt_kernel(SYS_getrandom, (long)to, (long)size, flags, 0, 0, 0));
    vt_entropy(to, size);
    return (ssize_t)size;
}

int getentropy(void *to, size_t size)
{
    if (size > 256) {
        errno = EIO;
        return -1;
    }
    return getrandom(to, size, 0) == (ssize_t)size ? 0 : -1;
}

void arc4random_buf(void *to, size_t size)
{
    if (getrandom(to, size, 0) != (ssize_t)size)
        vt_die("the kernel gives no random bytes");
}

/* A program's seed is mostly made of the time and of its process id, which is another one in each run. */
void srandom(unsigned seed)
{
    if (vt_on())
        vt_entropy(&seed, sizeof seed);
    REAL(srandom)(seed);
}

void srand(unsigned seed)
{
    srandom(seed);
}

uint32_t arc4random(void)
{
    uint32_t word;
    arc4random_buf(&word, sizeof word);
    return word;
}

uint32_t arc4random_uniform(uint32_t bound)
{
    if (bound < 2)
        return 0;
    uint32_t least = -bound % bound; /* below it, the remainders are not equally likely */
    for (;;) {
        uint32_t word = arc4random();
        if (word >= least)
            return word % bound;
    }
}

/*
 * libuuid makes its UUIDs of more than the kernel's random bytes: of process and thread ids, and of a file that it
 * counts in. The process id itself stays the kernel's: kill() and waitpid() need it. RFC 9562, sections 5.1, 5.4;
 * clock sequence and node are drawn each time, as the wall clock may stand still, and may be set back.
 */
static void stamp(unsigned char *uuid, unsigned char version)
{
    uuid[6] = (unsigned char)((uuid[6] & 0x0f) | version << 4);
    uuid[8] = (unsigned char)((uuid[8] & 0x3f) | 0x80);
}

void uuid_generate_random(unsigned char *to)
{
    arc4random_buf(to, 16);
    stamp(to, 4);
}

void uuid_generate(unsigned char *to)
{
    uuid_generate_random(to);
}

int uuid_generate_time_safe(unsigned char *to)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    /* 100 ns steps since 15 October 1582 */
    uint64_t time = (uint64_t)now.tv_sec * 10000000 + (uint64_t)now.tv_nsec / 100 + UINT64_C(0x01b21dd213814000);
    static const unsigned char place[8] = {3, 2, 1, 0, 5, 4, 7, 6}; /* of its bytes, the lowest first */
    for (int i = 0; i < 8; i++)
        to[place[i]] = (unsigned char)(time >> (8 * i));
    arc4random_buf(to + 8, 8);
    to[10] |= 1; /* the node is no address of a network card */
    stamp(to, 1);
    return -1; /* no daemon says that nobody else has it */
}

void uuid_generate_time(unsigned char *to)
{
    uuid_generate_time_safe(to);
}

/* The device as a file. A descriptor is marked when it is opened; libc may close it unseen, so that its number
 * comes back as another file: what it is now is asked whenever a marked one is read. */

#define DESCRIPTORS 65536
static _Atomic uint8_t marked[DESCRIPTORS];

bool vt_is_entropy(int fd)
{
    if (fd < 0 || fd >= DESCRIPTORS || !atomic_load_explicit(&marked[fd], memory_order_relaxed) || !vt_on())
        return false;
    struct stat found;
    bool is = fstat(fd, &found) == 0 && S_ISCHR(found.st_mode) && major(found.st_rdev) == 1 &&
              (minor(found.st_rdev) == 8 || minor(found.st_rdev) == 9);
    atomic_store(&marked[fd], is);
    return is;
}

static bool is_device(const char *path)
{
    return path != NULL && (strcmp(path, "/dev/urandom") == 0 || strcmp(path, "/dev/random") == 0);
}

static int opened(int fd, const char *path)
{
    if (fd >= 0 && fd < DESCRIPTORS && is_device(path))
        atomic_store(&marked[fd], 1);
    return fd;
}

#define MODE(flags)                                                                                            \
    ({                                                                                                         \
        mode_t mode_ = 0;                                                                                      \
        if (((flags) & O_CREAT) != 0 || ((flags) & O_TMPFILE) == O_TMPFILE) {                                  \
            va_list arguments;                                                                                 \
            va_start(arguments, flags);                                                                        \
            mode_ = va_arg(arguments, mode_t);                                                                 \
            va_end(arguments);                                                                                 \
        }                                                                                                      \
        mode_;                                                                                                 \
    })

int open(const char *path, int flags, ...)
{
    mode_t mode = MODE(flags);
    return opened(REAL(open)(path, flags, mode), path);
}

int open64(const char *path, int flags, ...)
{
    mode_t mode = MODE(flags);
    return opened(REAL(open64)(path, flags, mode), path);
}

int openat(int directory, const char *path, int flags, ...)
{
    mode_t mode = MODE(flags);
    return opened(REAL(openat)(directory, path, flags, mode), path);
}

int openat64(int directory, const char *path, int flags, ...)
{
    mode_t mode = MODE(flags);
    return opened(REAL(openat64)(directory, path, flags, mode), path);
}

/* What programs built with _FORTIFY_SOURCE call when no mode is given. */
int __open_2(const char *path, int flags)
{
    return open(path, flags);
}

int __open64_2(const char *path, int flags)
{
    return open64(path, flags);
}

int __openat_2(int directory, const char *path, int flags)
{
    return openat(directory, path, flags);
}

static ssize_t read_stream(void *cookie, char *to, size_t size)
{
    (void)cookie;
    vt_entropy(to, size);
    return (ssize_t)size;
}

/* A FILE reads with libc's own read(), which no library can take the place of. */
static FILE *stream(const char *path, const char *mode)
{
    if (!is_device(path) || mode[0] != 'r' || !vt_on())
        return NULL;
    return fopencookie(NULL, mode, (cookie_io_functions_t){.read = read_stream});
}

FILE *fopen(const char *restrict path, const char *restrict mode)
{
    FILE *entropy = stream(path, mode);
    return entropy != NULL ? entropy : vt_shown(path, mode, REAL(fopen)(path, mode));
}

FILE *fopen64(const char *restrict path, const char *restrict mode)
{
    FILE *entropy = stream(path, mode);
    return entropy != NULL ? entropy : vt_shown(path, mode, REAL(fopen64)(path, mode));
}
