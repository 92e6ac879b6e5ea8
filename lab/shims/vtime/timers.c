/*
 * Timers that the kernel would run by itself: timerfd, timer_create, setitimer and alarm.
 *
 * A thread of the library waits for them in virtual time, like any other thread of the process, and makes the
 * descriptor readable or sends the signal. A timerfd is an eventfd: both give 8 bytes on read, and both mean how
 * often it has happened. CPU-time timers stay the kernel's.
 */
#include "inside.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <sys/timerfd.h>

#define TIMERS 256
#define ALARM_TIMER 0 /* of setitimer(ITIMER_REAL), alarm and ualarm */

struct timer {
    bool used;
    clockid_t clock;
    int64_t deadline_ns, interval_ns; /* deadline 0: not armed */
    int64_t wall_ns;                  /* not 0: the deadline, on the wall clock */
    int fd;                           /* of its eventfd; -1: it sends a signal */
    int signal, tid;                  /* tid 0: to the process; signal 0: nothing is sent */
    union sigval value;
    int64_t overruns;
};

static struct timer timer[TIMERS];
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int32_t changes; /* futex of the thread */
static bool runs;
static bool descriptors; /* whether there ever was a timerfd */

void vt_forget_timers(void)
{
    memset(timer, 0, sizeof timer); /* after fork: a child has neither the timers nor the thread */
    runs = descriptors = false;
    guard = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/* With all signals blocked: a handler may set a timer as well. */
static __thread sigset_t before_lock __attribute__((tls_model("initial-exec")));

static void lock(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pthread_mutex_lock(&guard);
    before_lock = before;
}

static void unlock(void)
{
    sigset_t before = before_lock;
    pthread_mutex_unlock(&guard);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static int64_t deadline_of(const struct timer *each)
{
    return each->wall_ns != 0 ? when_wall_shows(vt_page, &vt_group->wall, each->wall_ns) : each->deadline_ns;
}

static void fire(struct timer *each, int64_t now_ns)
{
    uint64_t times = 1;
    if (each->interval_ns > 0) {
        int64_t late_ns = now_ns - each->deadline_ns;
        times += late_ns > 0 ? (uint64_t)(late_ns / each->interval_ns) : 0;
        each->deadline_ns += (int64_t)times * each->interval_ns;
        each->wall_ns = 0; /* the further ones come at intervals, whatever the wall clock does */
    } else
        each->deadline_ns = each->wall_ns = 0;
    each->overruns = (int64_t)times - 1;
    if (each->fd >= 0) {
        vt_kernel(SYS_write, each->fd, (long)&times, sizeof times, 0, 0, 0);
    } else if (each->signal != 0) {
        siginfo_t info = {.si_signo = each->signal, .si_code = SI_TIMER, .si_value = each->value};
        if (each == &timer[ALARM_TIMER])
            vt_kernel(SYS_kill, getpid(), each->signal, 0, 0, 0, 0);
        else if (each->tid != 0)
            vt_kernel(SYS_rt_tgsigqueueinfo, getpid(), each->tid, each->signal, (long)&info, 0, 0);
        else
            vt_kernel(SYS_rt_sigqueueinfo, getpid(), each->signal, (long)&info, 0, 0, 0);
    }
}

static void *run_timers(void *nothing)
{
    for (;;) {
        int32_t seen = atomic_load(&changes);
        int64_t next_ns = NEVER, now_ns = vt_now_ns();
        lock();
        for (int i = 0; i < TIMERS; i++) {
            struct timer *each = &timer[i];
            if (!each->used || each->deadline_ns == 0)
                continue;
            if (each->wall_ns != 0)
                each->deadline_ns = deadline_of(each);
            if (each->deadline_ns <= now_ns)
                fire(each, now_ns);
            if (each->used && each->deadline_ns != 0 && each->deadline_ns < next_ns)
                next_ns = each->deadline_ns;
        }
        unlock();
        if (next_ns == NEVER)
            vt_sleep_on(&changes, seen);
        else
            vt_sleep_on_until(&changes, seen, next_ns);
    }
    return nothing;
}

/* Called under the lock, so that the thread gets a mask that blocks the program's signals. */
static void start_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_timers, NULL) != 0)
        vt_die("no thread can be made to run timers in virtual time");
    pthread_detach(thread);
    runs = true;
}

static struct timer *reserve(clockid_t clock, int fd)
{
    for (int i = ALARM_TIMER + 1; i < TIMERS; i++) {
        struct timer *each = &timer[i];
        if (each->used)
            continue;
        *each = (struct timer){.used = true, .clock = clock, .fd = fd};
        return each;
    }
    vt_die("more than 255 timers; virtual time has no room for the next");
}

static int64_t ns_of(struct timespec t)
{
    return vt_ns(&t);
}

static struct itimerspec left(const struct timer *each)
{
    int64_t left_ns = each->deadline_ns == 0 ? 0 : deadline_of(each) - vt_now_ns();
    if (each->deadline_ns != 0 && left_ns <= 0)
        left_ns = 1;
    return (struct itimerspec){
        .it_value = {left_ns / NS_PER_S, left_ns % NS_PER_S},
        .it_interval = {each->interval_ns / NS_PER_S, each->interval_ns % NS_PER_S},
    };
}

/* Called under the lock. */
static void arm(struct timer *each, bool absolute, const struct itimerspec *to)
{
    int64_t ns = ns_of(to->it_value);
    each->interval_ns = ns_of(to->it_interval);
    each->overruns = 0;
    each->wall_ns = absolute && vt_is_wall(each->clock) ? ns : 0;
    if (ns == 0)
        each->deadline_ns = 0;
    else if (each->wall_ns != 0)
        each->deadline_ns = deadline_of(each);
    else
        each->deadline_ns = absolute ? ns : vt_in(to->it_value.tv_sec, to->it_value.tv_nsec);
    if (!runs)
        start_thread();
    atomic_fetch_add(&changes, 1);
    vt_wake_all(&changes);
}

static int set(struct timer *each, bool absolute, const struct itimerspec *to, struct itimerspec *old)
{
    if (!vt_valid(&to->it_value) || !vt_valid(&to->it_interval)) {
        errno = EINVAL;
        return -1;
    }
    lock();
    if (old != NULL)
        *old = left(each);
    arm(each, absolute, to);
    unlock();
    return 0;
}

/* timerfd */

int timerfd_create(int clock, int flags)
{
    if (!vt_on())
        return REAL(timerfd_create)(clock, flags);
    int fd = eventfd(0, ((flags & TFD_NONBLOCK) != 0 ? EFD_NONBLOCK : 0) |
                            ((flags & TFD_CLOEXEC) != 0 ? EFD_CLOEXEC : 0));
    if (fd < 0)
        return fd;
    lock();
    reserve(clock, fd);
    descriptors = true;
    unlock();
    return fd;
}

static struct timer *of_descriptor(int fd)
{
    for (int i = ALARM_TIMER + 1; i < TIMERS; i++)
        if (timer[i].used && timer[i].fd == fd)
            return &timer[i];
    return NULL;
}

int timerfd_settime(int fd, int flags, const struct itimerspec *to, struct itimerspec *old)
{
    struct timer *each = vt_on() ? of_descriptor(fd) : NULL;
    if (each == NULL)
        return REAL(timerfd_settime)(fd, flags, to, old);
    uint64_t seen; /* what was due under the old setting is forgotten */
    int status = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, status | O_NONBLOCK);
    vt_kernel(SYS_read, fd, (long)&seen, sizeof seen, 0, 0, 0);
    fcntl(fd, F_SETFL, status);
    return set(each, (flags & TFD_TIMER_ABSTIME) != 0, to, old);
}

int timerfd_gettime(int fd, struct itimerspec *now)
{
    struct timer *each = vt_on() ? of_descriptor(fd) : NULL;
    if (each == NULL)
        return REAL(timerfd_gettime)(fd, now);
    *now = left(each);
    return 0;
}

int close(int fd)
{
    struct timer *each = descriptors ? of_descriptor(fd) : NULL;
    if (each != NULL) {
        lock();
        each->used = false;
        unlock();
    }
    return REAL(close)(fd);
}

/* timer_create: a timer_t is the address of our entry. */

static struct timer *ours(timer_t id)
{
    struct timer *each = (struct timer *)id;
    return vt_on() && each > &timer[ALARM_TIMER] && each < &timer[TIMERS] ? each : NULL;
}

int timer_create(clockid_t clock, struct sigevent *restrict event, timer_t *restrict id)
{
    if (!vt_on() || clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID || clock < 0)
        return REAL(timer_create)(clock, event, id);
    if (event != NULL && event->sigev_notify == SIGEV_THREAD)
        vt_die("timer_create with SIGEV_THREAD is not there in virtual time");
    lock();
    struct timer *each = reserve(clock, -1);
    each->signal = event == NULL ? SIGALRM : event->sigev_notify == SIGEV_NONE ? 0 : event->sigev_signo;
    if (event == NULL)
        each->value.sival_ptr = each;
    else
        each->value = event->sigev_value;
    if (event != NULL && event->sigev_notify == SIGEV_THREAD_ID)
        each->tid = event->_sigev_un._tid;
    unlock();
    *id = (timer_t)each;
    return 0;
}

int timer_settime(timer_t id, int flags, const struct itimerspec *restrict to, struct itimerspec *restrict old)
{
    struct timer *each = ours(id);
    return each == NULL ? REAL(timer_settime)(id, flags, to, old)
                        : set(each, (flags & TIMER_ABSTIME) != 0, to, old);
}

int timer_gettime(timer_t id, struct itimerspec *now)
{
    struct timer *each = ours(id);
    if (each == NULL)
        return REAL(timer_gettime)(id, now);
    *now = left(each);
    return 0;
}

int timer_getoverrun(timer_t id)
{
    struct timer *each = ours(id);
    return each == NULL ? REAL(timer_getoverrun)(id) : (int)each->overruns;
}

int timer_delete(timer_t id)
{
    struct timer *each = ours(id);
    if (each == NULL)
        return REAL(timer_delete)(id);
    lock();
    each->used = false;
    unlock();
    return 0;
}

/* setitimer and alarm share one timer, as in the kernel. */

static struct timespec of_timeval(struct timeval t)
{
    return (struct timespec){t.tv_sec, t.tv_usec * 1000};
}

static struct timeval to_timeval(struct timespec t)
{
    return (struct timeval){t.tv_sec, t.tv_nsec / 1000};
}

int setitimer(__itimer_which_t which, const struct itimerval *restrict to, struct itimerval *restrict old)
{
    if (which != ITIMER_REAL || !vt_on())
        return REAL(setitimer)(which, to, old);
    struct itimerspec wanted = {of_timeval(to->it_interval), of_timeval(to->it_value)}, before;
    struct timer *each = &timer[ALARM_TIMER];
    if (!each->used)
        *each = (struct timer){.used = true, .clock = CLOCK_MONOTONIC, .fd = -1, .signal = SIGALRM};
    if (set(each, false, &wanted, &before) != 0)
        return -1;
    if (old != NULL)
        *old = (struct itimerval){to_timeval(before.it_interval), to_timeval(before.it_value)};
    return 0;
}

int getitimer(__itimer_which_t which, struct itimerval *now)
{
    if (which != ITIMER_REAL || !vt_on())
        return REAL(getitimer)(which, now);
    struct itimerspec is = left(&timer[ALARM_TIMER]);
    *now = (struct itimerval){to_timeval(is.it_interval), to_timeval(is.it_value)};
    return 0;
}

unsigned alarm(unsigned s)
{
    struct itimerval to = {.it_value = {.tv_sec = s}}, old;
    if (setitimer(ITIMER_REAL, &to, &old) != 0)
        return 0;
    unsigned left_s = (unsigned)old.it_value.tv_sec; /* rounded as the kernel does, but never to 0 while it runs */
    return left_s + (old.it_value.tv_usec >= 500000 || (left_s == 0 && old.it_value.tv_usec > 0));
}

useconds_t ualarm(useconds_t us, useconds_t interval_us)
{
    struct itimerval to = {{interval_us / 1000000, interval_us % 1000000}, {us / 1000000, us % 1000000}}, old;
    return setitimer(ITIMER_REAL, &to, &old) != 0
               ? 0
               : (useconds_t)old.it_value.tv_sec * 1000000 + (useconds_t)old.it_value.tv_usec;
}
