/* What the conductor's two files share. */
#ifndef LOCK_LAB_VTIME_CONDUCTOR_H
#define LOCK_LAB_VTIME_CONDUCTOR_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdbool.h>

#include "page.h"

/* A thread of a watched process. */
struct task {
    int32_t tid;
    int place_fd, stat_fd, runs_fd; /* its wchan, stat and schedstat in /proc */
    uint64_t runs;      /* how often it was given a CPU, as the last scan read it */
    uint64_t runs_rest; /* when the process was quiet last */
};

/* A process: that of the block with the same number. */
struct watch {
    int32_t pid;
    uint32_t version; /* of block.tasks when the tasks were listed */
    bool listed;
    bool gone; /* it has ended */
    int count, room;
    struct task *task;
};

enum touch {
    UNTOUCHED,
    WOKEN,   /* by a signal: its thread is runnable at once */
    TOUCHED, /* it is about to get something to do, which may take a moment to arrive */
};

struct conductor {
    struct page *page;
    struct watch watch[BLOCKS];
    enum touch touched[BLOCKS];           /* by group */
    int64_t reads[BLOCKS], waits[BLOCKS]; /* when the settling began */
};

static inline struct block *block_of(struct conductor *c, int number)
{
    return &c->page->block[number];
}

static inline int blocks_used(struct conductor *c)
{
    return atomic_load(&c->page->blocks);
}

static inline bool in_group(struct conductor *c, int number, int group)
{
    struct block *block = block_of(c, number);
    return atomic_load(&block->state) != FREE && atomic_load(&block->group) == group;
}

void vt_wipe(struct block *block); /* all but its state */
void vt_clear(struct block *block);
void vt_forget(struct watch *watch);

#endif
