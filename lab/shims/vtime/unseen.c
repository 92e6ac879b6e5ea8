/*
 * Waits that the library does not see: a program, or a part of libc, that asks the kernel itself for a wait with a
 * time-out. It would pass in real time, and nothing else would show it.
 */
#include "conductor.h"
#include "futex.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

struct unseen {
    int32_t pid, tid, call; /* the system call's number */
};

/* Whether the kernel was given a time-out; `a` are the arguments. */
static bool is_timed(long call, const uint64_t *a)
{
    switch (call) {
    case SYS_futex:
        return futex_waits(a[1]) && a[3] != 0;
    case SYS_ppoll:
    case SYS_rt_sigtimedwait:
        return a[2] != 0;
    case SYS_epoll_pwait:
#ifdef SYS_epoll_wait
    case SYS_epoll_wait:
#endif
        return (int32_t)a[3] > 0;
#ifdef SYS_epoll_pwait2
    case SYS_epoll_pwait2:
#endif
    case SYS_semtimedop:
        return a[3] != 0;
#ifdef SYS_poll
    case SYS_poll:
        return (int32_t)a[2] > 0;
    case SYS_select:
#endif
    case SYS_pselect6:
    case SYS_io_getevents:
    case SYS_mq_timedreceive:
    case SYS_mq_timedsend:
        return a[4] != 0;
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
        return true;
    default:
        return false;
    }
}

static bool in_slot(struct block *block, int32_t tid)
{
    for (uint32_t s = 0; s < atomic_load(&block->slots); s++)
        if (atomic_load(&block->slot[s].tid) == tid)
            return atomic_load(&block->slot[s].deadline_ns) != 0;
    return false;
}

/* The system call in which a task sleeps, and its arguments; -1 if it does not, or we may not know. */
static long call_of(int32_t pid, int32_t tid, uint64_t *a)
{
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/%d/task/%d/syscall", pid, tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t size = read(fd, text, sizeof text - 1);
    close(fd);
    text[size > 0 ? size : 0] = '\0';
    char *at;
    long call = strtol(text, &at, 10);
    if (at == text) /* "running" */
        return -1;
    for (int i = 0; i < 6; i++)
        a[i] = strtoull(at, &at, 16);
    return call;
}

/* Whether a thread of the group, which is quiet, sleeps in a wait with a time-out that stands in no slot. One that
 * has not run since it was looked at last is still in the wait in which it was. */
int vt_unseen(struct conductor *c, int group, struct unseen *found)
{
    for (int i = 0; i < blocks_used(c); i++) {
        if (!in_group(c, i, group))
            continue;
        struct watch *watch = &c->watch[i];
        for (int k = 0; k < watch->count; k++) {
            uint64_t a[6];
            struct task *task = &watch->task[k];
            if (in_slot(block_of(c, i), task->tid) || (task->known && task->runs_known == task->runs_rest))
                continue;
            long call = call_of(watch->pid, task->tid, a);
            if (call >= 0 && is_timed(call, a)) {
                *found = (struct unseen){watch->pid, task->tid, (int32_t)call};
                return 1;
            }
            task->known = call >= 0;
            task->runs_known = task->runs_rest;
        }
    }
    return 0;
}
