/*
 * Waits for other threads: conditions, semaphores, mutexes, read-write locks, the end of a thread.
 *
 * glibc waits for each with futex in a loop, and gives the kernel the address of the absolute deadline it was
 * called with. Ours lies centuries ahead until the conductor's signal sets it to the past: the kernel returns
 * EINTR, glibc goes round its loop, and now the deadline has passed. So glibc itself gives up, and takes
 * the thread off the lock's queue as it does for every time-out.
 */
#include "inside.h"

#include <pthread.h>
#include <semaphore.h>
#include <threads.h>

/* glibc keeps a condition's clock in its flags (since 2.25; struct __pthread_cond_s is public). */
enum { COND_IS_MONOTONIC = 2 };

static clockid_t clock_of(const pthread_cond_t *condition)
{
    unsigned flags = __atomic_load_n(&condition->__data.__wrefs, __ATOMIC_RELAXED);
    return (flags & COND_IS_MONOTONIC) != 0 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

/* `call` is libc's function with &wait.real in place of the deadline; gives its error number. */
#define UNTIL(clock, deadline, call)                                                                           \
    ({                                                                                                         \
        struct wait wait;                                                                                      \
        vt_begin_on(&wait, PAST_FOR_LOCKS, clock, deadline);                                                   \
        int error_ = (call);                                                                                   \
        vt_end(&wait);                                                                                         \
        error_;                                                                                                \
    })

#define REAL_ONE(deadline) (!vt_valid(deadline) || !vt_on()) /* an invalid deadline: libc says so */

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict deadline)
{
    if (REAL_ONE(deadline))
        return REAL(pthread_cond_timedwait)(condition, mutex, deadline);
    return UNTIL(clock_of(condition), deadline, REAL(pthread_cond_timedwait)(condition, mutex, &wait.real));
}

int pthread_cond_clockwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, clockid_t clock,
                           const struct timespec *restrict deadline)
{
    if (REAL_ONE(deadline))
        return REAL(pthread_cond_clockwait)(condition, mutex, clock, deadline);
    return UNTIL(clock, deadline, REAL(pthread_cond_clockwait)(condition, mutex, clock, &wait.real));
}

int pthread_mutex_clocklock(pthread_mutex_t *restrict mutex, clockid_t clock,
                            const struct timespec *restrict deadline)
{
    if (REAL_ONE(deadline))
        return REAL(pthread_mutex_clocklock)(mutex, clock, deadline);
    struct wait wait;
    vt_begin_on(&wait, PAST_FOR_LOCKS, clock, deadline);
    int error = REAL(pthread_mutex_clocklock)(mutex, clock, &wait.real);
    vt_end(&wait);
    /* For a mutex with priority inheritance the kernel itself reads the deadline again, and refuses this one. */
    return error == EINVAL && vt_due(&wait) ? ETIMEDOUT : error;
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict deadline)
{
    if (REAL_ONE(deadline))
        return REAL(pthread_mutex_timedlock)(mutex, deadline);
    return pthread_mutex_clocklock(mutex, CLOCK_REALTIME, deadline);
}

int pthread_rwlock_timedrdlock(pthread_rwlock_t *restrict lock, const struct timespec *restrict deadline)
{
    if (REAL_ONE(deadline))
        return REAL(pthread_rwlock_timedrdlock)(lock, deadline);
    return UNTIL(CLOCK_REALTIME, deadline, REAL(pthread_rwlock_timedrdlock)(lock, &wait.real));
}

int pthread_rwlock_timedwrlock(pthread_rwlock_t *restrict lock, const struct timespec *restrict deadline)
{
    if (REAL_ONE(deadline))
        return REAL(pthread_rwlock_timedwrlock)(lock, deadline);
    return UNTIL(CLOCK_REALTIME, deadline, REAL(pthread_rwlock_timedwrlock)(lock, &wait.real));
}

int pthread_rwlock_clockrdlock(pthread_rwlock_t *restrict lock, clockid_t clock,
                               const struct timespec *restrict deadline)
{
    if (REAL_ONE(deadline))
        return REAL(pthread_rwlock_clockrdlock)(lock, clock, deadline);
    return UNTIL(clock, deadline, REAL(pthread_rwlock_clockrdlock)(lock, clock, &wait.real));
}

int pthread_rwlock_clockwrlock(pthread_rwlock_t *restrict lock, clockid_t clock,
                               const struct timespec *restrict deadline)
{
    if (REAL_ONE(deadline))
        return REAL(pthread_rwlock_clockwrlock)(lock, clock, deadline);
    return UNTIL(clock, deadline, REAL(pthread_rwlock_clockwrlock)(lock, clock, &wait.real));
}

int pthread_timedjoin_np(pthread_t thread, void **result, const struct timespec *deadline)
{
    if (REAL_ONE(deadline))
        return REAL(pthread_timedjoin_np)(thread, result, deadline);
    return UNTIL(CLOCK_REALTIME, deadline, REAL(pthread_timedjoin_np)(thread, result, &wait.real));
}

int pthread_clockjoin_np(pthread_t thread, void **result, clockid_t clock, const struct timespec *deadline)
{
    if (REAL_ONE(deadline))
        return REAL(pthread_clockjoin_np)(thread, result, clock, deadline);
    return UNTIL(clock, deadline, REAL(pthread_clockjoin_np)(thread, result, clock, &wait.real));
}

/* Semaphores give EINTR to the caller: after the conductor's signal they are asked again, here. */
#define UNTIL_SEM(clock, deadline, call)                                                                       \
    ({                                                                                                         \
        struct wait wait;                                                                                      \
        vt_begin_on(&wait, PAST_FOR_LOCKS, clock, deadline);                                                   \
        int result_;                                                                                           \
        do                                                                                                     \
            result_ = (call);                                                                                  \
        while (result_ != 0 && errno == EINTR && vt_again(&wait));                                             \
        vt_end(&wait);                                                                                         \
        result_;                                                                                               \
    })

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict deadline)
{
    if (REAL_ONE(deadline))
        return REAL(sem_timedwait)(semaphore, deadline);
    return UNTIL_SEM(CLOCK_REALTIME, deadline, REAL(sem_timedwait)(semaphore, &wait.real));
}

int sem_clockwait(sem_t *restrict semaphore, clockid_t clock, const struct timespec *restrict deadline)
{
    if (REAL_ONE(deadline))
        return REAL(sem_clockwait)(semaphore, clock, deadline);
    return UNTIL_SEM(clock, deadline, REAL(sem_clockwait)(semaphore, clock, &wait.real));
}

/* C11's names for the same objects: in glibc a cnd_t is a pthread_cond_t, a mtx_t a pthread_mutex_t. */
static int thrd_code(int error)
{
    return error == 0 ? thrd_success : error == ETIMEDOUT ? thrd_timedout : thrd_error;
}

int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict mutex, const struct timespec *restrict deadline)
{
    return thrd_code(pthread_cond_timedwait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex, deadline));
}

int mtx_timedlock(mtx_t *restrict mutex, const struct timespec *restrict deadline)
{
    return thrd_code(pthread_mutex_timedlock((pthread_mutex_t *)mutex, deadline));
}
