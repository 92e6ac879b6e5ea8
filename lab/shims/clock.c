/*
 * LD_PRELOAD shim: shifts and stretches one process's wall clock, and nothing else.
 *
 * The file named by LOCK_LAB_CLOCK holds one record, shared by every process that maps it:
 *
 *     now = real + offset_ns + (monotonic - anchor_ns) * rate_ppb / 1e9
 *
 * It is protected by a sequence lock (Lameter, "Effective synchronization on Linux/NUMA systems", 2005):
 * the single writer makes `seq` odd, writes, makes it even; a reader that met an odd or a changed `seq` reads
 * again. A reader never blocks: if the record stays torn (its writer died), it keeps the last whole one it
 * saw.
 *
 * Shifted: clock_gettime and timespec_get on CLOCK_REALTIME, _COARSE and _ALARM; gettimeofday; time.
 * Translated back: the deadline of sem_timedwait. A Python built for an old glibc times its locks with it,
 * and would wait as much too long as the clock was shifted. A jump during the wait does not end it.
 * Not shifted:
 *   - CLOCK_MONOTONIC and its kin, CPU clocks, CLOCK_TAI (nobody reads leases off it);
 *   - other deadlines given as absolute CLOCK_REALTIME times (clock_nanosleep with TIMER_ABSTIME, timerfd,
 *     timer_settime, pthread_cond_timedwait, pthread_mutex_timedlock): the kernel goes by its own clock;
 *   - what the kernel stamps itself (file times);
 *   - programs that bypass libc or ignore LD_PRELOAD (Go, static binaries, setuid).
 * Without LOCK_LAB_CLOCK, or with a file that is missing or too short, the time is the real one.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)
#define SPINS 1000

_Static_assert(sizeof(time_t) == 8 && sizeof(long) == 8, "64-bit systems only");

/* The file, in native byte order; lab/shims/__init__.py writes it. */
struct record {
    _Atomic uint64_t seq;
    _Atomic int64_t offset_ns;
    _Atomic int64_t rate_ppb;
    _Atomic int64_t anchor_ns;
};

/* The last whole record this thread saw. seq 1 is odd: none yet. */
struct seen {
    uint64_t seq;
    int64_t offset_ns, rate_ppb, anchor_ns;
};

typedef int clock_gettime_fn(clockid_t, struct timespec *);
typedef int sem_timedwait_fn(sem_t *, const struct timespec *);

/* Set once, before main. Other libraries' constructors may read the time earlier; they get the real one. */
static const struct record *shared;
static clock_gettime_fn *real_clock_gettime;
static sem_timedwait_fn *real_sem_timedwait;

/* initial-exec: no allocation on first use, so it is safe in signal handlers and inside malloc. */
static __thread struct seen last __attribute__((tls_model("initial-exec"))) = {.seq = 1};

__attribute__((constructor)) static void attach(void)
{
    real_clock_gettime = (clock_gettime_fn *)dlsym(RTLD_NEXT, "clock_gettime");
    real_sem_timedwait = (sem_timedwait_fn *)dlsym(RTLD_NEXT, "sem_timedwait");
    const char *path = getenv("LOCK_LAB_CLOCK");
    if (path == NULL)
        return;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    struct stat st;
    if (fstat(fd, &st) == 0 && st.st_size >= (off_t)sizeof(struct record)) { /* else: SIGBUS on first read */
        void *map = mmap(NULL, sizeof(struct record), PROT_READ, MAP_SHARED, fd, 0);
        if (map != MAP_FAILED)
            shared = map;
    }
    close(fd);
}

static int real_time(clockid_t clock, struct timespec *out)
{
    if (real_clock_gettime != NULL)
        return real_clock_gettime(clock, out);
    return (int)syscall(SYS_clock_gettime, clock, out); /* before attach(): dlsym here could recurse */
}

static struct seen current(const struct record *from)
{
    for (int spin = 0; spin < SPINS; spin++) {
        uint64_t seq = atomic_load_explicit(&from->seq, memory_order_acquire);
        if (seq == last.seq && (seq & 1) == 0)
            return last;
        if ((seq & 1) != 0)
            continue;
        struct seen fresh = {
            .seq = seq,
            .offset_ns = atomic_load_explicit(&from->offset_ns, memory_order_relaxed),
            .rate_ppb = atomic_load_explicit(&from->rate_ppb, memory_order_relaxed),
            .anchor_ns = atomic_load_explicit(&from->anchor_ns, memory_order_relaxed),
        };
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&from->seq, memory_order_relaxed) != seq)
            continue;
        last.seq = 1; /* a signal handler that interrupts the copy must not take half of it */
        atomic_signal_fence(memory_order_seq_cst);
        last.offset_ns = fresh.offset_ns;
        last.rate_ppb = fresh.rate_ppb;
        last.anchor_ns = fresh.anchor_ns;
        atomic_signal_fence(memory_order_seq_cst);
        last.seq = seq;
        return fresh;
    }
    return last; /* all zero, so real time, if this thread never saw a whole record */
}

/* elapsed * rate / 1e9 without overflow: both products stay below 1e18 for |rate| <= 1e9 and 30 years. */
static int64_t drift_ns(int64_t elapsed_ns, int64_t rate_ppb)
{
    return elapsed_ns / NS_PER_S * rate_ppb + elapsed_ns % NS_PER_S * rate_ppb / NS_PER_S;
}

/* How far the process's clock is ahead of the real one, now. */
static int64_t shift_ns(clockid_t elapsing)
{
    struct seen now = current(shared);
    struct timespec mono;
    if (now.rate_ppb == 0 || real_time(elapsing, &mono) != 0)
        return now.offset_ns;
    int64_t mono_ns = (int64_t)mono.tv_sec * NS_PER_S + mono.tv_nsec;
    return now.offset_ns + drift_ns(mono_ns - now.anchor_ns, now.rate_ppb);
}

static void add_ns(struct timespec *t, int64_t by_ns)
{
    t->tv_sec += by_ns / NS_PER_S;
    t->tv_nsec += by_ns % NS_PER_S; /* now within (-1e9, 2e9) */
    if (t->tv_nsec < 0) {
        t->tv_nsec += NS_PER_S;
        t->tv_sec -= 1;
    } else if (t->tv_nsec >= NS_PER_S) {
        t->tv_nsec -= NS_PER_S;
        t->tv_sec += 1;
    }
}

static int shifted_time(clockid_t clock, struct timespec *out)
{
    int result = real_time(clock, out);
    if (result != 0 || shared == NULL)
        return result;
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_ALARM)
        add_ns(out, shift_ns(CLOCK_MONOTONIC));
    else if (clock == CLOCK_REALTIME_COARSE) /* of the same tick: else a slow clock would step back */
        add_ns(out, shift_ns(CLOCK_MONOTONIC_COARSE));
    return 0;
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    return shifted_time(clock, out);
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    if (zone != NULL)
        *(struct timezone *)zone = (struct timezone){0, 0};
    struct timespec now;
    int result = shifted_time(CLOCK_REALTIME, &now);
    if (result == 0) {
        out->tv_sec = now.tv_sec;
        out->tv_usec = now.tv_nsec / 1000;
    }
    return result;
}

time_t time(time_t *out)
{
    /* COARSE, as libc's own does: time() must not run ahead of a time() in an unshifted neighbour. */
    struct timespec now;
    if (shifted_time(CLOCK_REALTIME_COARSE, &now) != 0)
        return (time_t)-1;
    if (out != NULL)
        *out = now.tv_sec;
    return now.tv_sec;
}

int timespec_get(struct timespec *out, int base)
{
    if (base == TIME_UTC)
        return shifted_time(CLOCK_REALTIME, out) == 0 ? base : 0;
    static int (*real_timespec_get)(struct timespec *, int); /* C23's other bases, where libc has them */
    if (real_timespec_get == NULL)
        real_timespec_get = (int (*)(struct timespec *, int))dlsym(RTLD_NEXT, "timespec_get");
    return real_timespec_get != NULL ? real_timespec_get(out, base) : 0;
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict deadline)
{
    if (real_sem_timedwait == NULL) { /* before attach() */
        errno = ENOSYS;
        return -1;
    }
    struct timespec real = *deadline;
    if (shared != NULL && real.tv_nsec >= 0 && real.tv_nsec < NS_PER_S) /* else: libc says EINVAL */
        add_ns(&real, -shift_ns(CLOCK_MONOTONIC));
    return real_sem_timedwait(semaphore, &real);
}
