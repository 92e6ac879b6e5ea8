/*
 * LD_PRELOAD shim: notes how much of each file would survive a power cut, and lets a disk stall.
 *
 * SIGKILL loses nothing, since the page cache outlives the process. To play a power cut, the lab kills the
 * process and cuts its files back to what was synced. This shim leaves the evidence: for every successful
 * fsync or fdatasync of a regular file, the size that the file had BEFORE the call (what was written during
 * it may or may not be covered) goes to $LOCK_LAB_SYNC_DIR/<inode>, as one native int64.
 *
 * A disk stalls while the first word of the file $LOCK_LAB_STALL is not 0: no fsync or fdatasync of a regular
 * file is begun before it is 0 again. The second word counts the calls that wait for that now. Both are native
 * int64, mapped, and written in place by the lab.
 *
 * Limits, to be stated wherever the fault is offered:
 *   - tails only: bytes overwritten in place, and directory entries (a rename not yet synced), are kept;
 *   - not covered: O_SYNC, O_DSYNC, RWF_DSYNC, sync, syncfs, sync_file_range (which promises no durability),
 *     msync, io_uring, and programs that bypass libc (Go, static binaries). Such data counts as not synced;
 *   - an inode number that is used again keeps the old record until the first sync of the new file: the lab
 *     takes the smaller of record and size;
 *   - of two overlapping syncs of one file, the one that ends last counts;
 *   - one directory serves the files of one file system, since inode numbers repeat across them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NAME_MAX_BYTES 24
#define STALL_POLL_NS 1000000

/* Absolute, since the program may chdir; a path, since it may close descriptors that are not its own. */
static char directory[PATH_MAX];

static struct stall { int64_t stalls, waiting; } *stall;

static void map_stall(void)
{
    const char *path = getenv("LOCK_LAB_STALL");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    void *mapped = mmap(NULL, sizeof *stall, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped != MAP_FAILED)
        stall = mapped;
}

__attribute__((constructor)) static void attach(void)
{
    const char *path = getenv("LOCK_LAB_SYNC_DIR");
    if (path == NULL || realpath(path, directory) == NULL)
        directory[0] = '\0';
    map_stall();
}

/* Polled, since the lab changes the file with pwrite, of which no futex hears. */
static void wait_for_the_disk(void)
{
    if (stall == NULL || !__atomic_load_n(&stall->stalls, __ATOMIC_ACQUIRE))
        return;
    __atomic_add_fetch(&stall->waiting, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&stall->stalls, __ATOMIC_ACQUIRE))
        nanosleep(&(struct timespec){0, STALL_POLL_NS}, NULL);
    __atomic_sub_fetch(&stall->waiting, 1, __ATOMIC_SEQ_CST);
}

static void record(ino_t inode, int64_t size_bytes)
{
    char path[PATH_MAX + NAME_MAX_BYTES];
    snprintf(path, sizeof path, "%s/%llu", directory, (unsigned long long)inode);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        return; /* no record counts as nothing synced, which the lab's receipt shows */
    while (pwrite(fd, &size_bytes, sizeof size_bytes, 0) < 0 && errno == EINTR)
        ;
    close(fd);
}

/* The system call itself, not libc's function: no look-up that could fail. Cancellation points are lost. */
static int synced(long call, int fd)
{
    struct stat st;
    int regular = directory[0] != '\0' && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    if (regular) {
        wait_for_the_disk();
        regular = fstat(fd, &st) == 0; /* what was written meanwhile is covered too */
    }
    int result = (int)syscall(call, fd);
    if (result == 0 && regular) {
        int kept = errno;
        record(st.st_ino, st.st_size);
        errno = kept;
    }
    return result;
}

int fsync(int fd)
{
    return synced(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return synced(SYS_fdatasync, fd);
}
