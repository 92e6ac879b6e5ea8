/*
 * LD_PRELOAD library: puts an unmodified process into virtual time.
 *
 * Each wait with a time-out is noted in the page named by LOCK_LAB_VTIME and then done without the time-out; a
 * conductor (conductor.c) moves the clock when all processes sleep, and wakes the thread whose deadline has come
 * with a signal. Clocks read the page, entropy comes from a stream that is seeded there.
 *
 * Beyond reach: programs that speak to the kernel past libc (Go, static binaries), setuid programs, the counter
 * that rdtsc reads, waits inside libc itself (a name looked up by DNS). File times are the kernel's.
 *
 * This file: finding the page and the process's block in it, waits, and the conductor's signal.
 */
#include "inside.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct page *vt_page;
struct block *vt_block;
struct block *vt_group;
_Atomic int vt_attempted;

/* initial-exec: no allocation on first use, so it is safe in signal handlers and inside malloc. */
#define THREAD_LOCAL static __thread __attribute__((tls_model("initial-exec")))
THREAD_LOCAL struct slot *my_slot;
THREAD_LOCAL struct wait *volatile my_wait;
static pthread_key_t exit_key;

void vt_die(const char *why)
{
    char line[256];
    int size = snprintf(line, sizeof line, "virtual time: process %d: %s\n", (int)getpid(), why);
    vt_kernel(SYS_write, 2, (long)line, size, 0, 0, 0);
    abort();
}

int vt_signal(void)
{
    return SIGRTMIN + WAKE_SIGNAL_OFFSET;
}

const sigset_t *vt_unblocked(const sigset_t *mask, sigset_t *kept)
{
    if (mask == NULL || !vt_on() || sigismember(mask, vt_signal()) != 1)
        return mask;
    *kept = *mask;
    sigdelset(kept, vt_signal());
    return kept;
}

static void on_wake(int number)
{
    (void)number;
    struct wait *wait = my_wait;
    if (wait == NULL)
        return;
    wait->signalled = true;
    if (vt_due(wait))
        wait->real.tv_sec = wait->past_s;
}

void vt_hint(void)
{
    if (vt_block == NULL)
        return;
    atomic_fetch_add(&vt_group->hints, 1);
    atomic_fetch_add(&vt_page->hints, 1);
    if (atomic_load(&vt_page->listening) != 0 && atomic_exchange(&vt_page->listening, 0) != 0)
        vt_kernel(SYS_futex, (long)&vt_page->hints, FUTEX_WAKE, 1, 0, 0, 0);
}

static void free_slot(void *slot)
{
    vt_hint();
    my_slot = NULL;
    atomic_store(&((struct slot *)slot)->deadline_ns, 0);
    atomic_store(&((struct slot *)slot)->tid, 0);
}

/* Slots go round: a thread's number depends on how many were made before it, not on whether another has ended in
 * the meantime. Deadlines at the same instant are served in the order of slots, so that order must repeat. */
struct slot *vt_take_slot(void)
{
    for (int tries = 0; tries < SLOTS; tries++) {
        uint32_t i = atomic_fetch_add(&vt_block->threads, 1) % SLOTS;
        struct slot *slot = &vt_block->slot[i];
        int32_t unused = 0;
        if (!atomic_compare_exchange_strong(&slot->tid, &unused, TAKEN))
            continue;
        atomic_store(&slot->deadline_ns, 0);
        uint32_t used = atomic_load(&vt_block->slots);
        while (used <= i && !atomic_compare_exchange_weak(&vt_block->slots, &used, i + 1))
            ;
        return slot;
    }
    vt_die("more than 256 threads at once; virtual time has no room for the next");
}

void vt_use_slot(struct slot *slot)
{
    atomic_store(&slot->tid, (int32_t)vt_kernel(SYS_gettid, 0, 0, 0, 0, 0, 0));
    my_slot = slot;
    pthread_setspecific(exit_key, slot); /* its destructor frees the slot when the thread ends */
}

/* Of a thread that libc did not make, or one that waits in a destructor later than ours. */
static struct slot *late_slot(void)
{
    struct slot *slot = vt_take_slot();
    vt_use_slot(slot);
    return slot;
}

static void begin(struct wait *wait, int64_t past_s, int64_t deadline_ns, int64_t wall_ns)
{
    vt_waited();
    struct slot *slot = my_slot != NULL ? my_slot : late_slot();
    wait->past_s = past_s;
    wait->deadline_ns = deadline_ns;
    wait->wall_ns = wall_ns;
    wait->signalled = false;
    wait->outer = my_wait;
    wait->real = (struct timespec){deadline_ns > vt_now_ns() ? FAR_S : past_s, 0};
    atomic_signal_fence(memory_order_seq_cst);
    my_wait = wait;
    atomic_signal_fence(memory_order_seq_cst);
    atomic_fetch_add_explicit(&vt_block->timed_waits, 1, memory_order_relaxed);
    atomic_store(&slot->deadline_ns, 0);
    atomic_store(&slot->woken_ns, 0);
    atomic_store(&slot->wall_ns, wall_ns);
    atomic_store(&slot->deadline_ns, deadline_ns);
}

void vt_begin(struct wait *wait, int64_t past_s, int64_t deadline_ns)
{
    begin(wait, past_s, deadline_ns, 0);
}

void vt_begin_wall(struct wait *wait, int64_t past_s, int64_t wall_ns)
{
    wall_ns = wall_ns > 0 ? wall_ns : 1;
    begin(wait, past_s, when_wall_shows(vt_page, &vt_group->wall, wall_ns), wall_ns);
}

void vt_begin_on(struct wait *wait, int64_t past_s, clockid_t clock, const struct timespec *deadline)
{
    int64_t ns = vt_ns(deadline);
    if (vt_is_wall(clock))
        vt_begin_wall(wait, past_s, ns);
    else
        vt_begin(wait, past_s, ns > 0 ? ns : 1);
}

void vt_end(struct wait *wait)
{
    struct wait *outer = wait->outer;
    my_wait = outer;
    atomic_signal_fence(memory_order_seq_cst);
    struct slot *slot = my_slot;
    atomic_store(&slot->deadline_ns, 0);
    if (outer == NULL)
        return;
    atomic_store(&slot->woken_ns, 0);
    atomic_store(&slot->wall_ns, outer->wall_ns);
    atomic_store(&slot->deadline_ns, outer->wall_ns == 0
                                         ? outer->deadline_ns
                                         : when_wall_shows(vt_page, &vt_group->wall, outer->wall_ns));
}

bool vt_due(struct wait *wait)
{
    int64_t now_ns = vt_now_ns();
    if (wait->wall_ns == 0)
        return now_ns >= wait->deadline_ns;
    return now_ns + wall_shift_ns(vt_page, &vt_group->wall, now_ns) >= wait->wall_ns;
}

int64_t vt_in(int64_t s, int64_t ns)
{
    int64_t now_ns = vt_now_ns();
    if (s < 0)
        return now_ns > 0 ? now_ns : 1;
    if (s >= (NEVER - now_ns) / NS_PER_S - 1)
        return NEVER;
    int64_t deadline_ns = now_ns + s * NS_PER_S + ns;
    return deadline_ns > 0 ? deadline_ns : 1;
}

int64_t vt_ns(const struct timespec *t)
{
    if (t->tv_sec < 0)
        return 0;
    return t->tv_sec >= NEVER / NS_PER_S ? NEVER : t->tv_sec * NS_PER_S + t->tv_nsec;
}

bool vt_is_wall(clockid_t clock)
{
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_REALTIME_ALARM ||
           clock == CLOCK_TAI;
}

/* Blocks. */

static struct block *reserve_in(struct page *page, int32_t group)
{
    for (int32_t i = 0; i < BLOCKS; i++) {
        struct block *block = &page->block[i];
        int32_t was = FREE;
        if (!atomic_compare_exchange_strong(&block->state, &was, STARTING))
            continue;
        struct block *first = &page->block[group];
        uint32_t birth = atomic_fetch_add(&first->children, 1) + 1;
        atomic_store(&block->pid, 0);
        atomic_store(&block->attached, 0);
        atomic_store(&block->slots, 0);
        memset(block->slot, 0, sizeof block->slot);
        atomic_store(&block->seed, vt_mix(atomic_load(&first->seed) + birth * UINT64_C(0xd1342543de82ef95)));
        atomic_store(&block->drawn, 0);
        atomic_store(&block->group, group);
        raise_to(&page->blocks, i + 1);
        return block;
    }
    vt_die("more than 256 processes; virtual time has no room for the next");
}

struct block *vt_reserve_child(void)
{
    return reserve_in(vt_page, atomic_load(&vt_block->group));
}

void vt_child_has_pid(struct block *child, pid_t pid)
{
    int32_t unknown = 0;
    atomic_compare_exchange_strong(&child->pid, &unknown, (int32_t)pid); /* else the child was first */
    atomic_store(&child->state, ALIVE);
    atomic_fetch_add(&vt_block->tasks, 1);
}

void vt_release_child(struct block *child)
{
    atomic_store(&child->group, -1);
    atomic_store(&child->state, FREE);
}

static void listen_for_the_conductor(void)
{
    struct sigaction action = {.sa_handler = on_wake, .sa_flags = SA_RESTART | SA_ONSTACK};
    REAL(sigaction)(vt_signal(), &action, NULL);
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, vt_signal());
    REAL(pthread_sigmask)(SIG_UNBLOCK, &ours, NULL);
}

static void live_in(struct block *block, int32_t pid)
{
    my_slot = NULL;
    my_wait = NULL;
    atomic_store(&block->slots, 0);
    atomic_store(&block->threads, 0);
    memset(block->slot, 0, sizeof block->slot);
    atomic_store(&block->pid, pid);
    atomic_store(&block->attached, pid);
    atomic_store(&block->state, ALIVE);
    atomic_fetch_add(&block->tasks, 1);
    vt_group = &vt_page->block[atomic_load(&block->group)];
    vt_block = block;
    vt_use_slot(vt_take_slot());
}

void vt_become_child(struct block *child)
{
    vt_forget_timers();
    live_in(child, (int32_t)getpid());
    listen_for_the_conductor();
}

/* The block of this process. `number` stands in the environment, which children inherit: it is this one's own
 * number, or that of the process from which it descends. */
static struct block *find_block(struct page *page, int32_t number, int32_t pid)
{
    for (int32_t i = 0; i < atomic_load(&page->blocks); i++) /* after exec, or a child whose parent was first */
        if (atomic_load(&page->block[i].pid) == pid && atomic_load(&page->block[i].group) == number)
            return &page->block[i];
    int32_t unknown = 0;
    if (atomic_load(&page->block[number].state) == ADMITTED &&
        atomic_compare_exchange_strong(&page->block[number].pid, &unknown, pid))
        return &page->block[number];
    for (int32_t i = 0; i < atomic_load(&page->blocks); i++) {
        unknown = 0;
        if (atomic_load(&page->block[i].state) == STARTING && atomic_load(&page->block[i].group) == number &&
            atomic_compare_exchange_strong(&page->block[i].pid, &unknown, pid))
            return &page->block[i];
    }
    return reserve_in(page, number);
}

static struct page *map_page(const char *path)
{
    int fd = (int)vt_kernel(SYS_openat, AT_FDCWD, (long)path, O_RDWR | O_CLOEXEC, 0, 0, 0);
    if (fd < 0)
        return NULL;
    struct stat found;
    void *map = MAP_FAILED;
    if (fstat(fd, &found) == 0 && found.st_size >= (off_t)sizeof(struct page))
        map = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    vt_kernel(SYS_close, fd, 0, 0, 0, 0, 0);
    if (map == MAP_FAILED || ((struct page *)map)->magic != PAGE_MAGIC)
        return NULL;
    return map;
}

__attribute__((constructor)) void vt_attach(void)
{
    static _Atomic int begun; /* on first use: other libraries' constructors may read the time before ours runs */
    if (atomic_exchange(&begun, 1) != 0)
        return;
    const char *path = getenv("LOCK_LAB_VTIME"), *number = getenv("LOCK_LAB_VTIME_PROCESS");
    if (path != NULL && *path != '\0' && number != NULL) {
        long n = strtol(number, NULL, 10);
        struct page *page = map_page(path);
        if (page == NULL || n < 0 || n >= BLOCKS)
            vt_die("LOCK_LAB_VTIME or LOCK_LAB_VTIME_PROCESS names no page of this version, or no block in it");
        if (pthread_key_create(&exit_key, free_slot) != 0)
            vt_die("no thread key is left");
        int32_t pid = (int32_t)getpid();
        vt_page = page;
        live_in(find_block(page, (int32_t)n, pid), pid);
        listen_for_the_conductor();
    }
    atomic_store_explicit(&vt_attempted, 1, memory_order_release);
}
