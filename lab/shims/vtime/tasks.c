/* Threads and signal masks: the page must say when a process has a thread more than before, and the conductor's
 * signal is never blocked. */
#include "inside.h"

#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sem.h>

struct start {
    void *(*run)(void *);
    void *argument;
    struct slot *slot;
};

static void *started(void *given)
{
    struct start start = *(struct start *)given;
    free(given);
    vt_use_slot(start.slot);
    return start.run(start.argument);
}

int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*run)(void *),
                   void *restrict argument)
{
    if (vt_on())
        vt_stand();
    struct start *start = vt_on() ? malloc(sizeof *start) : NULL;
    if (start == NULL)
        return REAL(pthread_create)(thread, attributes, run, argument);
    struct slot *slot = vt_take_slot();
    *start = (struct start){run, argument, slot};
    int error = REAL(pthread_create)(thread, attributes, started, start);
    if (error == 0) {
        atomic_fetch_add(&vt_block->tasks, 1); /* we run until it is counted, so the process is not quiet before */
    } else {
        atomic_store(&slot->tid, 0);
        free(start);
    }
    return error;
}

/* The conductor may bind all to one CPU: that does not change how many there are, by which runtimes decide how many
 * threads they make. */
static cpu_set_t cpus_at_first;

__attribute__((constructor)) static void note_cpus(void)
{
    if (vt_on())
        REAL(sched_getaffinity)(0, sizeof cpus_at_first, &cpus_at_first);
}

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *cpus)
{
    bool own = pid == 0 || pid == getpid() || pid == (pid_t)vt_kernel(SYS_gettid, 0, 0, 0, 0, 0, 0);
    int result = REAL(sched_getaffinity)(pid, size, cpus);
    if (result == 0 && own && vt_on() && CPU_COUNT(&cpus_at_first) > 0)
        memcpy(cpus, &cpus_at_first, size < sizeof cpus_at_first ? size : sizeof cpus_at_first);
    return result;
}

int pthread_sigmask(int how, const sigset_t *restrict set, sigset_t *restrict old)
{
    sigset_t kept;
    return REAL(pthread_sigmask)(how, how == SIG_UNBLOCK ? set : vt_unblocked(set, &kept), old);
}

int pthread_attr_setsigmask_np(pthread_attr_t *attributes, const sigset_t *set)
{
    sigset_t kept;
    return REAL(pthread_attr_setsigmask_np)(attributes, vt_unblocked(set, &kept));
}

int sigprocmask(int how, const sigset_t *restrict set, sigset_t *restrict old)
{
    sigset_t kept;
    return REAL(sigprocmask)(how, how == SIG_UNBLOCK ? set : vt_unblocked(set, &kept), old);
}

/* Our handler stays, and no other handler runs with our signal blocked. */
int sigaction(int number, const struct sigaction *restrict action, struct sigaction *restrict old)
{
    if (action == NULL || !vt_on())
        return REAL(sigaction)(number, action, old);
    if (number == vt_signal())
        return REAL(sigaction)(number, NULL, old);
    struct sigaction ours = *action;
    sigdelset(&ours.sa_mask, vt_signal());
    return REAL(sigaction)(number, &ours, old);
}

/* Waits for signals, and for messages and semaphores of the kernel. */

int sigtimedwait(const sigset_t *restrict set, siginfo_t *restrict info, const struct timespec *restrict timeout)
{
    sigset_t kept;
    set = vt_unblocked(set, &kept); /* else it would take the conductor's signal */
    bool waits = timeout != NULL && vt_valid(timeout) && (timeout->tv_sec > 0 || timeout->tv_nsec > 0);
    if (!waits || !vt_on())
        return REAL(sigtimedwait)(set, info, timeout);
    struct wait wait;
    vt_begin(&wait, PAST_FOR_POLL, vt_in(timeout->tv_sec, timeout->tv_nsec));
    int result;
    do
        result = REAL(sigtimedwait)(set, info, &wait.real);
    while (result < 0 && errno == EINTR && vt_again(&wait));
    vt_end(&wait);
    return result;
}

int semtimedop(int semaphores, struct sembuf *operations, size_t count, const struct timespec *timeout)
{
    bool waits = timeout != NULL && vt_valid(timeout) && (timeout->tv_sec > 0 || timeout->tv_nsec > 0);
    if (!waits || !vt_on())
        return REAL(semtimedop)(semaphores, operations, count, timeout);
    struct wait wait;
    vt_begin(&wait, PAST_FOR_POLL, vt_in(timeout->tv_sec, timeout->tv_nsec));
    int result;
    do
        result = REAL(semtimedop)(semaphores, operations, count, &wait.real);
    while (result < 0 && errno == EINTR && vt_again(&wait));
    vt_end(&wait);
    return result;
}

/* The kernel restarts these two by itself, and reads the deadline again. */

ssize_t mq_timedreceive(mqd_t queue, char *restrict to, size_t size, unsigned *restrict priority,
                        const struct timespec *restrict deadline)
{
    if (!vt_valid(deadline) || !vt_on())
        return REAL(mq_timedreceive)(queue, to, size, priority, deadline);
    struct wait wait;
    vt_begin_on(&wait, PAST_FOR_POLL, CLOCK_REALTIME, deadline);
    ssize_t result = REAL(mq_timedreceive)(queue, to, size, priority, &wait.real);
    vt_end(&wait);
    return result;
}

int mq_timedsend(mqd_t queue, const char *from, size_t size, unsigned priority, const struct timespec *deadline)
{
    if (!vt_valid(deadline) || !vt_on())
        return REAL(mq_timedsend)(queue, from, size, priority, deadline);
    struct wait wait;
    vt_begin_on(&wait, PAST_FOR_POLL, CLOCK_REALTIME, deadline);
    int result = REAL(mq_timedsend)(queue, from, size, priority, &wait.real);
    vt_end(&wait);
    return result;
}
