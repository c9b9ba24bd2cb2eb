# The clock and the thread, asked without a call of Python's.

cdef extern from * nogil:
    """
    #include <time.h>
    static inline unsigned long long phasewatt_monotonic_ns(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec * 1000000000ULL + now.tv_nsec;
    }
    """
    unsigned long long monotonic_ns "phasewatt_monotonic_ns"() noexcept

cdef extern from "Python.h" nogil:
    unsigned long get_ident "PyThread_get_thread_ident"() noexcept
