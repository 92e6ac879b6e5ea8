/*
 * A process that stands still before it makes its first thread, and copies of it.
 *
 * What a server does until then is the same each time: it reads its settings, opens its sockets, draws what it keeps.
 * A copy has all of that, and nothing that any other copy has done. It is a child of the conductor's process, as the
 * one that stands is (CLONE_PARENT), in a session and in a group of its own.
 *
 * Both share what was open already. Listening sockets: connections that a copy before it left untaken are taken and
 * closed first. An epoll: what a copy registered goes with its descriptors, of which the others have none.
 */
#include "inside.h"

#include <linux/sched.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define DESCRIPTORS 256

/* The listening sockets of this process: as it stands still, they stay the same. */
static int listening[DESCRIPTORS], listening_count;

static void find_listening(void)
{
    listening_count = 0;
    for (int fd = 0; fd < DESCRIPTORS; fd++) {
        int listens = 0;
        socklen_t size = sizeof listens;
        long kernel = vt_kernel(SYS_getsockopt, fd, SOL_SOCKET, SO_ACCEPTCONN, (long)&listens, (long)&size, 0);
        if (kernel == 0 && listens != 0)
            listening[listening_count++] = fd;
    }
}

static void take_what_waits(void)
{
    for (int i = 0; i < listening_count; i++) {
        struct pollfd ready = {.fd = listening[i], .events = POLLIN};
        struct timespec now = {0, 0};
        while (vt_kernel(SYS_ppoll, (long)&ready, 1, (long)&now, 0, 8, 0) == 1) {
            long taken = vt_kernel(SYS_accept4, listening[i], 0, 0, SOCK_CLOEXEC, 0, 0);
            if (taken < 0)
                break;
            vt_kernel(SYS_close, taken, 0, 0, 0, 0, 0);
        }
    }
}

/* As fork() does it, but for the parent. 0 in the copy; below 0 on failure. libc keeps the thread's id where the
 * kernel is to write it, and lets go of it when the thread ends. */
static long make_copy(void)
{
    long robust = 0, size = 0, tid_at = 0;
    if (vt_kernel(SYS_prctl, PR_GET_TID_ADDRESS, (long)&tid_at, 0, 0, 0, 0) != 0 || tid_at == 0)
        return -1;
    vt_kernel(SYS_get_robust_list, 0, (long)&robust, (long)&size, 0, 0, 0);
    long flags = CLONE_PARENT | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD;
#if defined(__x86_64__)
    long made = vt_kernel(SYS_clone, flags, 0, 0, tid_at, 0, 0);
#else
    long made = vt_kernel(SYS_clone, flags, 0, 0, 0, tid_at, 0);
#endif
    if (made == 0) {
        vt_kernel(SYS_set_robust_list, robust, size, 0, 0, 0, 0);
        vt_kernel(SYS_setsid, 0, 0, 0, 0, 0, 0);
    }
    return made;
}

void vt_stand(void)
{
    int32_t asked = STANDS_ASKED;
    if (vt_block != vt_group || !atomic_compare_exchange_strong(&vt_block->stands, &asked, STANDS))
        return;
    find_listening();
    for (;;) {
        vt_hint();
        int32_t now = atomic_load(&vt_block->stands);
        if (now == STANDS) {
            vt_sleep_on(&vt_block->stands, STANDS);
        } else if (now == STANDS_NOT) {
            return;
        } else {
            take_what_waits();
            long made = make_copy();
            if (made == 0) {
                vt_become_child(&vt_page->block[now - STANDS_COPIES]);
                return;
            }
            if (made < 0)
                vt_die("it cannot be copied");
            atomic_store(&vt_block->stands, STANDS);
        }
    }
}
