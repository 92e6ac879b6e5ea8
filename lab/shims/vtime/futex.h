/* Which operations of futex() wait. */
#ifndef LOCK_LAB_VTIME_FUTEX_H
#define LOCK_LAB_VTIME_FUTEX_H

#include <linux/futex.h>
#include <stdbool.h>
#include <stdint.h>

static inline bool futex_waits(uint64_t operation)
{
    switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
    case FUTEX_LOCK_PI:
    case FUTEX_LOCK_PI2:
    case FUTEX_WAIT_REQUEUE_PI:
        return true;
    default:
        return false;
    }
}

#endif
