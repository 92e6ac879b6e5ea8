/* What the conductor's files share. */
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
    int place_fd, runs_fd; /* its wchan and schedstat in /proc */
    int stat_fd;           /* its stat; -1 until wchan has not told enough */
    bool ran;           /* since the process was quiet last, as far as we know */
    bool known;         /* it was seen in which wait it is; that was when `runs_rest` was `runs_known` */
    uint64_t runs;      /* how often it was given a CPU, as the last first scan read it */
    uint64_t runs_rest; /* when the process was quiet last */
    uint64_t runs_known;
};

/* A process: that of the block with the same number. */
struct watch {
    int32_t pid;
    uint32_t version; /* of block.tasks when the tasks were listed */
    bool listed;
    bool gone;  /* it has ended, and was reaped */
    bool ended; /* its first task was a zombie when it was looked at last */
    int recent; /* the task that ran last, as far as we know: it is looked at first */
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
    int32_t hints[BLOCKS];                /* by group: its hints when it was touched */
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

int64_t vt_next_deadline(struct conductor *c); /* NEVER: no process waits for the time */

void vt_wipe(struct block *block); /* all but its state */
void vt_clear(struct block *block);

/* watch.c */
void vt_forget(struct watch *watch);
void vt_forget_tasks(struct watch *watch);
bool vt_list_tasks(struct watch *watch);              /* false: not all could be opened, or there are none */
bool vt_read_runs(struct task *task, uint64_t *runs); /* false: it has ended */
/* As in /proc; 0: it has ended; 'E': it cannot be read. */
char vt_read_state(struct watch *watch, struct task *task);
bool vt_asleep(char state);
void vt_drop(struct watch *watch, int k);

#endif
