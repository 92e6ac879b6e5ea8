/* What the files of the preload library share. None of it is visible to the process. */
#ifndef LOCK_LAB_VTIME_INSIDE_H
#define LOCK_LAB_VTIME_INSIDE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "page.h"

#pragma GCC visibility push(hidden)

/* libc's own function, looked up on first use: a wrapper may be called before any constructor has run. */
#define REAL(name)                                                                                             \
    ({                                                                                                         \
        static __typeof__(&name) real_;                                                                        \
        __typeof__(&name) found_ = __atomic_load_n(&real_, __ATOMIC_RELAXED);                                  \
        if (found_ == NULL) {                                                                                  \
            found_ = (__typeof__(&name))dlsym(RTLD_NEXT, #name);                                               \
            __atomic_store_n(&real_, found_, __ATOMIC_RELAXED);                                                \
        }                                                                                                      \
        found_;                                                                                                \
    })

extern struct page *vt_page;
extern struct block *vt_block; /* this process's; NULL: not under virtual time */
extern struct block *vt_group; /* of the process that was started, of which this one may be a child */
extern _Atomic int vt_attempted;

void vt_attach(void);

/* Whether this process lives in virtual time. */
static inline bool vt_on(void)
{
    if (!atomic_load_explicit(&vt_attempted, memory_order_acquire))
        vt_attach();
    return vt_block != NULL;
}

static inline int64_t vt_now_ns(void)
{
    return atomic_load_explicit(&vt_page->now_ns, memory_order_acquire);
}

/* A wait with a time-out. The real wait gets `real`, which lies centuries ahead; when the deadline has come,
 * the handler of the conductor's signal sets it to a time that has passed: whether the thread is already in the
 * kernel (which then returns EINTR, and libc or the wrapper looks again) or not yet there, the wait ends. */
struct wait {
    struct timespec real;
    int64_t past_s; /* what real.tv_sec becomes */
    int64_t deadline_ns, wall_ns;
    struct wait *outer; /* the wait that a signal handler interrupted, in which this one is */
    volatile bool signalled;
};

#define FAR_S (INT64_C(1) << 33) /* the year 2242; the kernel takes it, absolute or relative */

/* A passed time as the waits for descriptors take it: they return at once. */
enum { PAST_FOR_POLL = 0 };
/* As glibc's locks take it. On 0 the kernel sets a timer that is already due, and the thread sleeps until it has
 * fired: no virtual time, but a scan of the conductor's would see a thread that sleeps. A negative time glibc does
 * not show to the kernel: it has passed. */
enum { PAST_FOR_LOCKS = -1 };

void vt_begin(struct wait *wait, int64_t past_s, int64_t deadline_ns);
void vt_begin_wall(struct wait *wait, int64_t past_s, int64_t wall_ns);
void vt_begin_on(struct wait *wait, int64_t past_s, clockid_t clock, const struct timespec *deadline);
void vt_end(struct wait *wait);
bool vt_due(struct wait *wait);

/* After EINTR: whether the conductor's signal came, and the wait has to be looked at again. */
static inline bool vt_again(struct wait *wait)
{
    bool was = wait->signalled;
    wait->signalled = false;
    return was;
}

/* A new thread's slot is taken by the thread that makes it, and used by itself from then on. */
struct slot *vt_take_slot(void);
void vt_use_slot(struct slot *slot);

/* Saturating; a deadline is never 0, which means none. */
int64_t vt_in(int64_t s, int64_t ns);
bool vt_is_wall(clockid_t clock);
static inline bool vt_valid(const struct timespec *t)
{
    return t->tv_nsec >= 0 && t->tv_nsec < NS_PER_S;
}
int64_t vt_ns(const struct timespec *t);

/* The thread is about to wait: it does not spin on the clock. */
void vt_waited(void);
/* The thread is about to wait, or to end: the conductor may want to look whether all sleep. */
void vt_hint(void);

int vt_signal(void);
/* `mask` without the conductor's signal, in `kept`; NULL stays NULL. */
const sigset_t *vt_unblocked(const sigset_t *mask, sigset_t *kept);

void vt_entropy(void *to, size_t size);
uint64_t vt_mix(uint64_t x);
void vt_forget_timers(void);
bool vt_is_entropy(int fd);
/* A file that was opened, or what the process is to see of it instead. */
FILE *vt_shown(const char *path, const char *mode, FILE *real);

/* Blocks for children: reserved before the child exists, so that the conductor never overlooks it. */
struct block *vt_reserve_child(void);
void vt_child_has_pid(struct block *child, pid_t pid);
void vt_release_child(struct block *child);
void vt_become_child(struct block *child);

/* Before a thread is made: stand still there, if the conductor wants it. */
void vt_stand(void);

/* futex(FUTEX_WAIT) without a time-out: until `word` is not `value`, or for no reason. */
void vt_sleep_on(_Atomic int32_t *word, int32_t value);
/* The same until `deadline_ns` of virtual time. */
void vt_sleep_on_until(_Atomic int32_t *word, int32_t value, int64_t deadline_ns);
void vt_wake_all(_Atomic int32_t *word);

void vt_die(const char *why) __attribute__((noreturn));

/* A system call without libc: no errno, usable before libc is ready and in a signal handler. Result as the
 * kernel gives it, -errno on failure. */
static inline long vt_kernel(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
#else
#error "virtual time knows the system calls of x86-64 and AArch64"
#endif
}

/* As libc returns it. */
static inline long vt_result(long result)
{
    if (result < 0 && result > -4096) {
        errno = (int)-result;
        return -1;
    }
    return result;
}

#pragma GCC visibility pop
#endif
