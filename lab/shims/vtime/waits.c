/* Waits for descriptors and for time alone: poll, select, epoll and the sleeps. */
#include "inside.h"

#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <threads.h>

enum outcome { RETURN, TIMED_OUT, AGAIN };

/* What the result of a real wait means. The kernel says EINTR only if nothing else was there. */
static enum outcome outcome_of(struct wait *wait, long result)
{
    if (result == 0)
        return vt_due(wait) ? TIMED_OUT : AGAIN;
    if (result > 0 || errno != EINTR || !vt_again(wait))
        return RETURN;
    return vt_due(wait) ? TIMED_OUT : AGAIN;
}

static int poll_until(struct pollfd *fds, nfds_t count, int64_t deadline_ns, const sigset_t *mask)
{
    struct wait wait;
    int result;
    enum outcome outcome;
    do {
        vt_begin(&wait, PAST_FOR_POLL, deadline_ns);
        result = REAL(ppoll)(fds, count, &wait.real, mask);
        vt_end(&wait);
        outcome = outcome_of(&wait, result);
    } while (outcome == AGAIN);
    return outcome == TIMED_OUT ? 0 : result;
}

int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    if (timeout_ms < 0)
        vt_waited();
    if (timeout_ms <= 0 || !vt_on())
        return REAL(poll)(fds, count, timeout_ms);
    return poll_until(fds, count, vt_in(timeout_ms / 1000, timeout_ms % 1000 * 1000000L), NULL);
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
    sigset_t kept;
    mask = vt_unblocked(mask, &kept);
    bool waits = timeout != NULL && vt_valid(timeout) && (timeout->tv_sec > 0 || timeout->tv_nsec > 0);
    if (timeout == NULL)
        vt_waited();
    if (!waits || !vt_on())
        return REAL(ppoll)(fds, count, timeout, mask);
    return poll_until(fds, count, vt_in(timeout->tv_sec, timeout->tv_nsec), mask);
}

int __poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    return poll(fds, count, timeout_ms);
}

/* What a program built with _FORTIFY_SOURCE calls; `size` is that of the array. */
int __poll_chk(struct pollfd *fds, nfds_t count, int timeout_ms, size_t size)
{
    if (size / sizeof *fds < count)
        vt_die("poll: buffer overflow");
    return poll(fds, count, timeout_ms);
}

int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask,
                size_t size)
{
    if (size / sizeof *fds < count)
        vt_die("ppoll: buffer overflow");
    return ppoll(fds, count, timeout, mask);
}

static void nothing_ready(int count, fd_set *set)
{
    if (set != NULL) /* as many words as the kernel writes: programs give larger sets than fd_set */
        memset(set, 0, (size_t)(count + 63) / 64 * 8);
}

static int select_until(int count, fd_set *in, fd_set *out, fd_set *except, int64_t deadline_ns,
                        const sigset_t *mask)
{
    struct wait wait;
    int result;
    enum outcome outcome;
    do { /* the kernel leaves the sets alone when it says EINTR */
        vt_begin(&wait, PAST_FOR_POLL, deadline_ns);
        result = REAL(pselect)(count, in, out, except, &wait.real, mask);
        vt_end(&wait);
        outcome = outcome_of(&wait, result);
    } while (outcome == AGAIN);
    if (outcome == RETURN)
        return result;
    nothing_ready(count, in);
    nothing_ready(count, out);
    nothing_ready(count, except);
    return 0;
}

int pselect(int count, fd_set *restrict in, fd_set *restrict out, fd_set *restrict except,
            const struct timespec *restrict timeout, const sigset_t *restrict mask)
{
    sigset_t kept;
    mask = vt_unblocked(mask, &kept);
    bool waits = timeout != NULL && vt_valid(timeout) && (timeout->tv_sec > 0 || timeout->tv_nsec > 0);
    if (timeout == NULL)
        vt_waited();
    if (!waits || !vt_on())
        return REAL(pselect)(count, in, out, except, timeout, mask);
    return select_until(count, in, out, except, vt_in(timeout->tv_sec, timeout->tv_nsec), mask);
}

int select(int count, fd_set *restrict in, fd_set *restrict out, fd_set *restrict except,
           struct timeval *restrict timeout)
{
    bool waits = timeout != NULL && timeout->tv_sec >= 0 && timeout->tv_usec >= 0 &&
                 (timeout->tv_sec > 0 || timeout->tv_usec > 0);
    if (timeout == NULL)
        vt_waited();
    if (!waits || !vt_on())
        return REAL(select)(count, in, out, except, timeout);
    int64_t s = timeout->tv_sec + timeout->tv_usec / 1000000;
    int64_t deadline_ns = vt_in(s, timeout->tv_usec % 1000000 * 1000);
    int result = select_until(count, in, out, except, deadline_ns, NULL);
    int64_t left_ns = deadline_ns - vt_now_ns(); /* Linux says how much is left */
    left_ns = left_ns > 0 ? left_ns : 0;
    *timeout = (struct timeval){left_ns / NS_PER_S, left_ns % NS_PER_S / 1000};
    return result;
}

int __select(int count, fd_set *in, fd_set *out, fd_set *except, struct timeval *timeout)
{
    return select(count, in, out, except, timeout);
}

static int epoll_until(int epoll, struct epoll_event *events, int most, int64_t deadline_ns, const sigset_t *mask)
{
    struct wait wait;
    int result;
    enum outcome outcome;
    do {
        vt_begin(&wait, PAST_FOR_POLL, deadline_ns);
        int timeout_ms = wait.real.tv_sec != 0 ? -1 : 0;
        result = REAL(epoll_pwait)(epoll, events, most, timeout_ms, mask);
        vt_end(&wait);
        outcome = outcome_of(&wait, result);
    } while (outcome == AGAIN);
    return outcome == TIMED_OUT ? 0 : result;
}

int epoll_pwait(int epoll, struct epoll_event *events, int most, int timeout_ms, const sigset_t *mask)
{
    sigset_t kept;
    mask = vt_unblocked(mask, &kept);
    if (timeout_ms < 0)
        vt_waited();
    if (timeout_ms <= 0 || !vt_on())
        return REAL(epoll_pwait)(epoll, events, most, timeout_ms, mask);
    int64_t deadline_ns = vt_in(timeout_ms / 1000, timeout_ms % 1000 * 1000000L);
    return epoll_until(epoll, events, most, deadline_ns, mask);
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout_ms)
{
    if (timeout_ms < 0)
        vt_waited();
    if (timeout_ms <= 0 || !vt_on())
        return REAL(epoll_wait)(epoll, events, most, timeout_ms);
    return epoll_pwait(epoll, events, most, timeout_ms, NULL);
}

int epoll_pwait2(int epoll, struct epoll_event *events, int most, const struct timespec *timeout,
                 const sigset_t *mask)
{
    sigset_t kept;
    mask = vt_unblocked(mask, &kept);
    if (timeout != NULL && !vt_valid(timeout)) {
        errno = EINVAL;
        return -1;
    }
    bool waits = timeout != NULL && (timeout->tv_sec > 0 || timeout->tv_nsec > 0);
    if (timeout == NULL)
        vt_waited();
    if (!waits || !vt_on())
        return REAL(epoll_pwait)(epoll, events, most, timeout == NULL ? -1 : 0, mask);
    return epoll_until(epoll, events, most, vt_in(timeout->tv_sec, timeout->tv_nsec), mask);
}

/* Sleeps. Returns 0 or an error number; `left` is filled on EINTR of a relative sleep. */
static int sleep_until(struct wait *wait, int64_t deadline_ns, int64_t wall_ns, struct timespec *left)
{
    for (;;) {
        if (wall_ns != 0)
            vt_begin_wall(wait, PAST_FOR_POLL, wall_ns);
        else
            vt_begin(wait, PAST_FOR_POLL, deadline_ns);
        int error = wait->real.tv_sec == PAST_FOR_POLL
                        ? 0
                        : REAL(clock_nanosleep)(CLOCK_MONOTONIC, TIMER_ABSTIME, &wait->real, NULL);
        vt_end(wait);
        if (vt_due(wait))
            return 0;
        if (error == EINTR && vt_again(wait))
            continue;
        if (left != NULL) {
            int64_t left_ns = deadline_ns - vt_now_ns();
            *left = (struct timespec){left_ns / NS_PER_S, left_ns % NS_PER_S};
        }
        return error;
    }
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
    if (!vt_valid(time) || time->tv_sec < 0)
        return EINVAL;
    bool cpu = clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID || clock < 0;
    if (cpu || !vt_on())
        return REAL(clock_nanosleep)(clock, flags, time, left);
    struct wait wait;
    if ((flags & TIMER_ABSTIME) == 0)
        return time->tv_sec == 0 && time->tv_nsec == 0
                   ? 0
                   : sleep_until(&wait, vt_in(time->tv_sec, time->tv_nsec), 0, left);
    int64_t until_ns = vt_ns(time);
    until_ns = until_ns > 0 ? until_ns : 1;
    return vt_is_wall(clock) ? sleep_until(&wait, 0, until_ns, NULL) : sleep_until(&wait, until_ns, 0, NULL);
}

int nanosleep(const struct timespec *time, struct timespec *left)
{
    int error = clock_nanosleep(CLOCK_MONOTONIC, 0, time, left);
    if (error == 0)
        return 0;
    errno = error;
    return -1;
}

int __nanosleep(const struct timespec *time, struct timespec *left)
{
    return nanosleep(time, left);
}

int usleep(useconds_t us)
{
    struct timespec time = {us / 1000000, us % 1000000 * 1000L};
    return nanosleep(&time, NULL);
}

unsigned sleep(unsigned s)
{
    struct timespec time = {s, 0}, left = {0, 0};
    return nanosleep(&time, &left) == 0 ? 0 : (unsigned)left.tv_sec + (left.tv_nsec > 0);
}

int thrd_sleep(const struct timespec *time, struct timespec *left)
{
    int error = clock_nanosleep(CLOCK_MONOTONIC, 0, time, left);
    return error == 0 ? 0 : error == EINTR ? -1 : -2;
}
