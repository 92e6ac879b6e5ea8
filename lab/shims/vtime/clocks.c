/* Clocks: all but the CPU clocks show virtual time. The wall clock is the group's own. */
#include "inside.h"

#include <sys/time.h>
#include <sys/timeb.h>

/* A thread that reads the clock so often at one instant, without a wait in between, waits for it to move: Netty
 * does, for the last fraction of a millisecond. Without a sleep it would never move. */
#define READS_AT_ONCE 5000
#define SPIN_STEP_NS 20000
#define SPIN_STEP_MAX_NS 10000000
#define STEPS_ALIKE 100

static __thread struct {
    int64_t at_ns;
    int64_t step_ns;
    int reads, steps;
} spin __attribute__((tls_model("initial-exec")));

void vt_waited(void)
{
    spin.reads = 0;
    vt_hint();
}

static int64_t counted_now_ns(void)
{
    atomic_fetch_add_explicit(&vt_block->clock_reads, 1, memory_order_relaxed);
    int64_t now_ns = vt_now_ns();
    if (now_ns != spin.at_ns) {
        spin.at_ns = now_ns;
        spin.reads = 0;
        spin.step_ns = SPIN_STEP_NS;
        spin.steps = 0;
    } else if (++spin.reads == READS_AT_ONCE) {
        spin.reads = 0;
        clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){0, spin.step_ns}, NULL);
        now_ns = spin.at_ns = vt_now_ns();
        /* Each step costs real time: one that spins for milliseconds moves on by longer ones. */
        if (++spin.steps > STEPS_ALIKE && spin.step_ns < SPIN_STEP_MAX_NS)
            spin.step_ns *= 2;
    }
    return now_ns;
}

static int64_t wall_now_ns(void)
{
    int64_t now_ns = counted_now_ns();
    return now_ns + wall_shift_ns(vt_page, &vt_group->wall, now_ns);
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    if (vt_on()) {
        bool monotonic = clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW ||
                         clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_BOOTTIME ||
                         clock == CLOCK_BOOTTIME_ALARM;
        if (monotonic || vt_is_wall(clock)) {
            int64_t ns = monotonic ? counted_now_ns() : wall_now_ns();
            *out = (struct timespec){ns / NS_PER_S, ns % NS_PER_S};
            return 0;
        }
    }
    return (int)vt_result(vt_kernel(SYS_clock_gettime, clock, (long)out, 0, 0, 0, 0));
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    if (zone != NULL)
        *(struct timezone *)zone = (struct timezone){0, 0};
    struct timespec now;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    if (result == 0)
        *out = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return result;
}

time_t time(time_t *out)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME_COARSE, &now) != 0)
        return (time_t)-1;
    if (out != NULL)
        *out = now.tv_sec;
    return now.tv_sec;
}

int timespec_get(struct timespec *out, int base)
{
    if (base == TIME_UTC)
        return clock_gettime(CLOCK_REALTIME, out) == 0 ? base : 0;
    return REAL(timespec_get) != NULL ? REAL(timespec_get)(out, base) : 0;
}

int ftime(struct timeb *out)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    *out = (struct timeb){.time = now.tv_sec, .millitm = (unsigned short)(now.tv_nsec / 1000000)};
    return 0;
}
