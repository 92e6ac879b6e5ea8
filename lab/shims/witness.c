/*
 * Tells the time: CLOCK_REALTIME and CLOCK_MONOTONIC in nanoseconds, as a program with this environment sees
 * them. In a container it is the proof that the clock shim acts there, and that its monotonic clock is ours.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

static int64_t now_ns(clockid_t clock)
{
    struct timespec t = {0, 0};
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

int main(void)
{
    printf("%" PRId64 " %" PRId64 "\n", now_ns(CLOCK_REALTIME), now_ns(CLOCK_MONOTONIC));
    return 0;
}
