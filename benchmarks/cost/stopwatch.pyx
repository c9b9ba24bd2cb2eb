"""A clock of a thread's CPU time that takes little itself: compiled by who imports it."""

import functools

cdef extern from * nogil:
    """
    #include <time.h>
    static inline long long thread_ns(void) {
        struct timespec now;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return now.tv_sec * 1000000000LL + now.tv_nsec;
    }
    """
    long long thread_ns() noexcept


def nothing(*args, **kwargs):
    """What is timed in place of a hook."""


cdef class Stopwatch:
    """How long this thread was in what is wrapped by ``within``, but not ``outside``.

    While ``empty``, a call of nothing is timed at the same places: what the clock takes there, of
    which the first reading after a wait is the dearest, and being called through it.
    """

    cdef public long long ns, clock_ns, stays
    cdef public bint empty
    cdef long long _since

    def within(self, call):
        @functools.wraps(call)
        def entered(*args, **kwargs):
            cdef long long since
            if self.empty:
                since = thread_ns()
                nothing(*args, **kwargs)
                self.clock_ns += thread_ns() - since
                return call(*args, **kwargs)
            self._since = thread_ns()
            try:
                return call(*args, **kwargs)
            finally:
                self.ns += thread_ns() - self._since
                self.stays += 1

        return entered

    def outside(self, call):
        @functools.wraps(call)
        def left(*args, **kwargs):
            cdef long long since
            if self.empty:
                try:
                    return call(*args, **kwargs)
                finally:
                    since = thread_ns()
                    nothing(*args, **kwargs)
                    self.clock_ns += thread_ns() - since
            self.ns += thread_ns() - self._since
            self.stays += 1
            try:
                return call(*args, **kwargs)
            finally:
                self._since = thread_ns()

        return left
