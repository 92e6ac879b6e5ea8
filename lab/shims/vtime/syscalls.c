/* syscall(): runtimes reach futex, getrandom and the clocks by it (Rust's standard library, libuv, OpenSSL). */
#include "inside.h"
#include "futex.h"

#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/time.h>

void vt_sleep_on(_Atomic int32_t *word, int32_t value)
{
    vt_kernel(SYS_futex, (long)word, FUTEX_WAIT, value, 0, 0, 0);
}

void vt_wake_all(_Atomic int32_t *word)
{
    vt_kernel(SYS_futex, (long)word, FUTEX_WAKE, INT32_MAX, 0, 0, 0);
}

void vt_sleep_on_until(_Atomic int32_t *word, int32_t value, int64_t deadline_ns)
{
    struct wait wait;
    vt_begin(&wait, PAST_FOR_POLL, deadline_ns);
    if (!vt_due(&wait)) /* with a time-out, however far: without one, the kernel would wait on after the signal */
        vt_kernel(SYS_futex, (long)word, FUTEX_WAIT_BITSET, value, (long)&wait.real, 0, FUTEX_BITSET_MATCH_ANY);
    vt_end(&wait);
}

static long futex_until(int *word, int operation, long value, const struct timespec *timeout, long second,
                        long mask)
{
    int command = operation & FUTEX_CMD_MASK;
    struct wait wait;
    if (command == FUTEX_WAIT) { /* the only one whose time-out is relative */
        vt_begin(&wait, PAST_FOR_POLL, vt_in(timeout->tv_sec, timeout->tv_nsec));
        operation = (operation & ~FUTEX_CMD_MASK & ~FUTEX_CLOCK_REALTIME) | FUTEX_WAIT_BITSET;
        mask = FUTEX_BITSET_MATCH_ANY;
    } else {
        bool wall = command == FUTEX_LOCK_PI || (operation & FUTEX_CLOCK_REALTIME) != 0;
        vt_begin_on(&wait, PAST_FOR_POLL, wall ? CLOCK_REALTIME : CLOCK_MONOTONIC, timeout);
    }
    long result = -EINTR;
    bool plain = command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET;
    while (result == -EINTR) {
        if (plain && vt_due(&wait)) /* the kernel would let the thread sleep for a moment of real time */
            result = __atomic_load_n(word, __ATOMIC_SEQ_CST) != (int)value ? -EAGAIN : -ETIMEDOUT;
        else
            result = vt_kernel(SYS_futex, (long)word, operation, value, (long)&wait.real, second, mask);
        if (result == -EINTR && !vt_again(&wait))
            break;
    }
    vt_end(&wait);
    return vt_result(result);
}

/* The kernel's signal sets have 8 bytes, libc's 128. */
static const sigset_t *whole(long set, sigset_t *copy)
{
    if (set == 0)
        return NULL;
    sigemptyset(copy);
    memcpy(copy, (const void *)set, 8);
    return copy;
}

long syscall(long number, ...)
{
    va_list arguments;
    va_start(arguments, number);
    long a = va_arg(arguments, long), b = va_arg(arguments, long), c = va_arg(arguments, long);
    long d = va_arg(arguments, long), e = va_arg(arguments, long), f = va_arg(arguments, long);
    va_end(arguments);
    if (!vt_on())
        return vt_result(vt_kernel(number, a, b, c, d, e, f));
    sigset_t mask;
    switch (number) {
    case SYS_futex:
        if (futex_waits(b) && d != 0 && vt_valid((const struct timespec *)d))
            return futex_until((int *)a, (int)b, c, (const struct timespec *)d, e, f);
        break;
    case SYS_getrandom:
        return getrandom((void *)a, (size_t)b, (unsigned)c);
    case SYS_clock_gettime:
        return clock_gettime((clockid_t)a, (struct timespec *)b);
    case SYS_gettimeofday:
        return gettimeofday((struct timeval *)a, (void *)b);
    case SYS_nanosleep:
        return nanosleep((const struct timespec *)a, (struct timespec *)b);
    case SYS_clock_nanosleep: {
        int error = clock_nanosleep((clockid_t)a, (int)b, (const struct timespec *)c, (struct timespec *)d);
        return vt_result(-error);
    }
    case SYS_ppoll:
        return ppoll((struct pollfd *)a, (nfds_t)b, (const struct timespec *)c, whole(d, &mask));
    case SYS_epoll_pwait:
        return epoll_pwait((int)a, (struct epoll_event *)b, (int)c, (int)d, whole(e, &mask));
    case SYS_epoll_pwait2:
        return epoll_pwait2((int)a, (struct epoll_event *)b, (int)c, (const struct timespec *)d, whole(e, &mask));
    case SYS_rt_sigprocmask:
        if (b != 0 && a != SIG_UNBLOCK && sigismember(whole(b, &mask), vt_signal()) == 1) {
            sigdelset(&mask, vt_signal());
            b = (long)&mask;
        }
        break;
#ifdef __x86_64__
    case SYS_time:
        return time((time_t *)a);
    case SYS_poll:
        return poll((struct pollfd *)a, (nfds_t)b, (int)c);
    case SYS_select:
        return select((int)a, (fd_set *)b, (fd_set *)c, (fd_set *)d, (struct timeval *)e);
    case SYS_epoll_wait:
        return epoll_wait((int)a, (struct epoll_event *)b, (int)c, (int)d);
#endif
    case SYS_futex_waitv:
    case SYS_pselect6:
    case SYS_io_getevents:
        if ((number == SYS_futex_waitv ? d : e) != 0)
            vt_die("a system call with a time-out that is not there in virtual time: futex_waitv, pselect6 or "
                   "io_getevents");
        break;
    case SYS_io_uring_setup: /* its time-outs are the kernel's: programs fall back on epoll */
        errno = ENOSYS;
        return -1;
    default:
        break;
    }
    return vt_result(vt_kernel(number, a, b, c, d, e, f));
}
