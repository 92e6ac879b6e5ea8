/*
 * The page that the conductor and the processes under virtual time share, and arithmetic that both sides do.
 *
 * One block per process, one slot per thread. Every field is read and written with
 * atomics; who writes it stands beside it.
 */
#ifndef LOCK_LAB_VTIME_PAGE_H
#define LOCK_LAB_VTIME_PAGE_H

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#define NS_PER_S INT64_C(1000000000)
#define NEVER INT64_MAX
#define BLOCKS 256
#define SLOTS 256
#define PAGE_MAGIC UINT64_C(0x4c4f434b56540006) /* "LOCKVT", version of the layout */
#define WAKE_SIGNAL_OFFSET 12                   /* above SIGRTMIN: free in glibc, HotSpot, Node.js, Ruby */

_Static_assert(sizeof(time_t) == 8 && sizeof(long) == 8, "64-bit systems only");

/* A thread: the library says what it waits for, the conductor marks it woken. deadline_ns 0: it does not wait, or
 * without a time-out. */
struct slot {
    _Atomic int64_t deadline_ns; /* virtual monotonic time */
    _Atomic int64_t wall_ns;     /* not 0: the deadline is this time of the wall clock, and moves with it */
    _Atomic int64_t woken_ns;    /* the deadline for which the conductor signalled it last */
    _Atomic int32_t tid;         /* 0: free; TAKEN: of a thread that is about to start */
    int32_t reserved;
};

/* now = wall base + virtual now + offset_ns + (virtual now - anchor_ns) * rate_ppb / 1e9.
 * A sequence lock as in clock.c; the conductor writes. */
struct wall {
    _Atomic uint64_t seq;
    _Atomic int64_t offset_ns, rate_ppb, anchor_ns;
};

enum { TAKEN = -1 };

enum block_state {
    FREE,
    ADMITTED, /* the conductor has a number for a process that is about to be started */
    STARTING, /* a process is about to make a child, or has made it: not quiet */
    ALIVE,
};

/* Whether a process stands still before its first thread; from STANDS_COPIES on: it is to be copied, and the copy's
 * block is the one whose number is that much above. The conductor writes; STANDS the process itself. */
enum stands {
    STANDS_NOT,
    STANDS_ASKED, /* it is to stand there */
    STANDS,
    STANDS_COPIES,
};

struct block {
    _Atomic int32_t state;    /* taken by compare-and-swap: by the conductor, or by a process for its child */
    _Atomic int32_t pid;      /* of the process; of a child as soon as its parent or itself knows it */
    _Atomic int32_t attached; /* the pid that loaded the library; 0: none did */
    _Atomic int32_t group;    /* number of the process that was started; its own for that one */
    _Atomic int32_t held;     /* in the group's first block: its deadlines are not looked at */
    _Atomic uint32_t tasks;   /* version: goes up when the process has a thread or a child more */
    _Atomic uint32_t slots;   /* no slot from here on was ever used */
    _Atomic uint32_t threads; /* how many there have been: the next one's slot, if it is free */
    _Atomic uint32_t children;
    _Atomic uint64_t seed, drawn; /* entropy: word number `drawn` of the stream `seed` comes next */
    struct wall wall;             /* in the group's first block */
    _Atomic int64_t clock_reads, timed_waits;
    _Atomic int64_t tcp_bytes_written; /* in the group's first block, as are the three below */
    _Atomic int64_t halves_ended;      /* how often it has ended its half of a connection, and kept the other */
    _Atomic int32_t stop_in; /* the write to a socket before which to stop; 0: none, 1: the next */
    _Atomic int32_t stopped; /* futex: 1 while a thread is stopped there */
    _Atomic int32_t hints;   /* in the group's first block: its part of page.hints */
    _Atomic int32_t stands;  /* futex: see below */
    struct slot slot[SLOTS];
};

struct page {
    uint64_t magic;
    int64_t wall_base_ns;
    _Atomic int64_t now_ns;
    _Atomic int32_t blocks;    /* no block from here on was ever used */
    _Atomic int32_t hints;     /* futex: goes up when a thread is about to wait, or to end */
    _Atomic int32_t listening; /* the conductor waits for a hint */
    int32_t reserved;
    struct block block[BLOCKS];
};

static inline void raise_to(_Atomic int32_t *high, int32_t least)
{
    int32_t was = atomic_load(high);
    while (was < least && !atomic_compare_exchange_weak(high, &was, least))
        ;
}

/* elapsed * rate / 1e9, rounded towards zero as clock.c does. */
static inline int64_t drift_ns(int64_t elapsed_ns, int64_t rate_ppb)
{
    return elapsed_ns / NS_PER_S * rate_ppb + elapsed_ns % NS_PER_S * rate_ppb / NS_PER_S;
}

/* How far the group's wall clock is ahead of the virtual monotonic clock at `now_ns`. */
static inline int64_t wall_shift_ns(struct page *page, struct wall *wall, int64_t now_ns)
{
    for (;;) {
        uint64_t seq = atomic_load_explicit(&wall->seq, memory_order_acquire);
        int64_t offset_ns = atomic_load_explicit(&wall->offset_ns, memory_order_relaxed);
        int64_t rate_ppb = atomic_load_explicit(&wall->rate_ppb, memory_order_relaxed);
        int64_t anchor_ns = atomic_load_explicit(&wall->anchor_ns, memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        if ((seq & 1) == 0 && atomic_load_explicit(&wall->seq, memory_order_relaxed) == seq)
            return page->wall_base_ns + offset_ns + drift_ns(now_ns - anchor_ns, rate_ppb);
    }
}

/* The first virtual time at which the wall clock shows `wall_ns` or more; NEVER if it stands still before. */
static inline int64_t when_wall_shows(struct page *page, struct wall *wall, int64_t wall_ns)
{
    int64_t now_ns = atomic_load(&page->now_ns);
    int64_t missing_ns = wall_ns - now_ns - wall_shift_ns(page, wall, now_ns);
    if (missing_ns <= 0)
        return now_ns > 0 ? now_ns : 1;
    int64_t speed_ppb = NS_PER_S + atomic_load(&wall->rate_ppb);
    if (speed_ppb <= 0)
        return NEVER;
    __int128 steps = ((__int128)missing_ns * NS_PER_S + speed_ppb - 1) / speed_ppb;
    int64_t when_ns = steps > NEVER - now_ns ? NEVER : now_ns + (int64_t)steps;
    while (when_ns != NEVER && when_ns + wall_shift_ns(page, wall, when_ns) < wall_ns)
        when_ns++; /* the drift is rounded towards zero: a step or two may be missing */
    return when_ns;
}

#endif
