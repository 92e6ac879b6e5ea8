/*
 * The conductor's side of virtual time: the page, the clock, whose deadline comes next.
 *
 * With quiet.c and watch.c an ordinary library, called from virtual_time.py by one thread.
 */
#include "conductor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct conductor *vt_open(const char *path, int64_t now_ns, int64_t wall_ns)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return NULL;
    void *map = MAP_FAILED;
    if (ftruncate(fd, sizeof(struct page)) == 0)
        map = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int error = errno;
    close(fd);
    struct conductor *c = map == MAP_FAILED ? NULL : calloc(1, sizeof *c);
    if (c == NULL) {
        if (map != MAP_FAILED)
            munmap(map, sizeof(struct page));
        errno = error;
        return NULL;
    }
    c->page = map;
    c->page->magic = PAGE_MAGIC;
    c->page->wall_base_ns = wall_ns - now_ns;
    atomic_store(&c->page->now_ns, now_ns);
    return c;
}

void vt_close(struct conductor *c)
{
    for (int i = 0; i < BLOCKS; i++)
        vt_forget(&c->watch[i]);
    munmap(c->page, sizeof(struct page));
    free(c);
}

/* Where the time stands in the page, for who reads and writes it there. */
int64_t vt_time_at(void)
{
    return offsetof(struct page, now_ns);
}

/* A number for a process that is about to be started; -1 if all are taken. */
int vt_admit(struct conductor *c, uint64_t seed)
{
    for (int i = 0; i < BLOCKS; i++) {
        struct block *block = block_of(c, i);
        int32_t was = FREE;
        if (!atomic_compare_exchange_strong(&block->state, &was, STARTING))
            continue;
        vt_wipe(block);
        atomic_store(&block->seed, seed);
        atomic_store(&block->group, i);
        atomic_store(&block->state, ADMITTED);
        raise_to(&c->page->blocks, i + 1);
        c->touched[i] = TOUCHED;
        return i;
    }
    return -1;
}

int vt_arrived(struct conductor *c, int number)
{
    return atomic_load(&block_of(c, number)->attached);
}

void vt_set_wall(struct conductor *c, int number, int64_t offset_ns, int64_t rate_ppb, int64_t anchor_ns)
{
    struct wall *wall = &block_of(c, number)->wall;
    uint64_t seq = atomic_load(&wall->seq);
    atomic_store(&wall->seq, seq + 1);
    atomic_store(&wall->offset_ns, offset_ns);
    atomic_store(&wall->rate_ppb, rate_ppb);
    atomic_store(&wall->anchor_ns, anchor_ns);
    atomic_store(&wall->seq, seq + 2);
    for (int i = 0; i < blocks_used(c); i++) { /* deadlines on the wall clock move with it */
        if (!in_group(c, i, number))
            continue;
        struct block *block = block_of(c, i);
        for (uint32_t s = 0; s < atomic_load(&block->slots); s++) {
            struct slot *slot = &block->slot[s];
            if (atomic_load(&slot->deadline_ns) != 0 && atomic_load(&slot->wall_ns) != 0)
                atomic_store(&slot->deadline_ns, when_wall_shows(c->page, wall, atomic_load(&slot->wall_ns)));
        }
    }
}

void vt_reseed(struct conductor *c, int number, uint64_t seed)
{
    struct block *block = block_of(c, number);
    atomic_store(&block->seed, seed);
    atomic_store(&block->drawn, 0);
    atomic_store(&block->children, 0);
    uint32_t next = 0; /* threads that have ended do not count: the next one has the slot that it would have there */
    for (uint32_t s = 0; s < atomic_load(&block->slots); s++)
        if (atomic_load(&block->slot[s].tid) != 0)
            next = s + 1;
    atomic_store(&block->threads, next);
}

void vt_hold(struct conductor *c, int number, int held)
{
    atomic_store(&block_of(c, number)->held, held);
}

void vt_touch(struct conductor *c, int number)
{
    if (c->touched[number] != TOUCHED)
        c->hints[number] = atomic_load(&block_of(c, number)->hints);
    c->touched[number] = TOUCHED;
}

/* Where tcp_bytes_written stands in the page; halves_ended follows it. */
int64_t vt_counters_at(int number)
{
    _Static_assert(offsetof(struct block, halves_ended) == offsetof(struct block, tcp_bytes_written) + 8, "");
    return (int64_t)(offsetof(struct page, block) + sizeof(struct block) * (size_t)number +
                     offsetof(struct block, tcp_bytes_written));
}

void vt_stop_at_write(struct conductor *c, int number, int nth)
{
    atomic_store(&block_of(c, number)->stop_in, nth);
}

int vt_stopped(struct conductor *c, int number)
{
    return atomic_load(&block_of(c, number)->stopped);
}

void vt_go(struct conductor *c, int number)
{
    struct block *block = block_of(c, number);
    atomic_store(&block->stop_in, 0);
    atomic_store(&block->stopped, 0);
    syscall(SYS_futex, &block->stopped, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    if (c->touched[number] == UNTOUCHED)
        c->touched[number] = WOKEN;
}

/* A process that is about to be started is to stand still before its first thread. */
void vt_stand_still(struct conductor *c, int number)
{
    atomic_store(&block_of(c, number)->stands, STANDS_ASKED);
}

int vt_stands(struct conductor *c, int number)
{
    return atomic_load(&block_of(c, number)->stands) == STANDS;
}

/* One that stands still goes on (`copy` -1), or makes a copy of itself: the process of the number `copy`. */
void vt_stand_no_more(struct conductor *c, int number, int copy)
{
    vt_touch(c, number);
    struct block *block = block_of(c, number);
    atomic_store(&block->stands, copy < 0 ? STANDS_NOT : STANDS_COPIES + copy);
    syscall(SYS_futex, &block->stands, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* The process was ended and reaped: its blocks, and its children's, can be used again. */
void vt_retire(struct conductor *c, int number)
{
    for (int i = 0; i < BLOCKS; i++) {
        if (!in_group(c, i, number))
            continue;
        vt_forget(&c->watch[i]);
        vt_clear(block_of(c, i));
    }
    c->touched[number] = UNTOUCHED;
}

/* Deadlines. */

static bool group_held(struct conductor *c, struct block *block)
{
    int32_t group = atomic_load(&block->group);
    return group < 0 || atomic_load(&block_of(c, group)->held) != 0;
}

/* The smallest deadline, and up to `room` (number, slot) pairs that have it; returns how many there are. A slot
 * that was woken for this very deadline and has not noticed (its mutex is taken, say) is left out. */
int vt_due(struct conductor *c, int64_t *deadline_ns, int32_t *pairs, int room)
{
    int64_t least_ns = NEVER;
    int count = 0;
    for (int i = 0; i < blocks_used(c); i++) {
        struct block *block = block_of(c, i);
        if (atomic_load(&block->state) != ALIVE || group_held(c, block))
            continue;
        uint32_t used = atomic_load(&block->slots);
        for (uint32_t s = 0; s < used; s++) {
            struct slot *slot = &block->slot[s];
            int64_t ns = atomic_load(&slot->deadline_ns);
            if (ns == 0 || ns == NEVER || ns > least_ns || atomic_load(&slot->woken_ns) == ns)
                continue;
            if (ns < least_ns) {
                least_ns = ns;
                count = 0;
            }
            if (count < room) {
                pairs[2 * count] = i;
                pairs[2 * count + 1] = (int32_t)s;
            }
            count++;
        }
    }
    *deadline_ns = least_ns;
    return count < room ? count : room;
}

int64_t vt_next_deadline(struct conductor *c)
{
    int64_t deadline_ns;
    vt_due(c, &deadline_ns, NULL, 0);
    return deadline_ns;
}

/* How many threads of a group wait for a time. */
int vt_waiting(struct conductor *c, int group)
{
    int count = 0;
    for (int i = 0; i < blocks_used(c); i++) {
        if (!in_group(c, i, group))
            continue;
        struct block *block = block_of(c, i);
        uint32_t used = atomic_load(&block->slots);
        for (uint32_t s = 0; s < used; s++) {
            int64_t ns = atomic_load(&block->slot[s].deadline_ns);
            count += ns != 0 && ns != NEVER;
        }
    }
    return count;
}

/* Whose child a process is, or itself. */
int vt_group(struct conductor *c, int number)
{
    return atomic_load(&block_of(c, number)->group);
}

/* 1: signalled. 0: it does not wait (any more), or not until now. */
int vt_wake(struct conductor *c, int number, int index)
{
    struct block *block = block_of(c, number);
    struct slot *slot = &block->slot[index];
    int64_t deadline_ns = atomic_load(&slot->deadline_ns);
    if (deadline_ns == 0 || deadline_ns > atomic_load(&c->page->now_ns))
        return 0;
    atomic_store(&slot->woken_ns, deadline_ns);
    int32_t group = atomic_load(&block->group), pid = atomic_load(&block->pid);
    if (c->touched[group] == UNTOUCHED)
        c->touched[group] = WOKEN;
    if (syscall(SYS_tgkill, pid, atomic_load(&slot->tid), SIGRTMIN + WAKE_SIGNAL_OFFSET) == 0)
        return 1;
    atomic_store(&slot->deadline_ns, 0); /* the thread is gone */
    atomic_store(&slot->tid, 0);
    return 0;
}
