# The clock, the thread and a number's bits, without a call of Python's.

cdef extern from * nogil:
    """
    #include <string.h>
    #include <time.h>
    static inline unsigned long long phasewatt_monotonic_ns(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec * 1000000000ULL + now.tv_nsec;
    }
    static inline long long phasewatt_bits_of(double value) {
        long long bits;
        memcpy(&bits, &value, sizeof bits);
        return bits;
    }
    """
    long long bits_of "phasewatt_bits_of"(double value) noexcept
    unsigned long long monotonic_ns "phasewatt_monotonic_ns"() noexcept

cdef extern from "Python.h" nogil:
    unsigned long get_ident "PyThread_get_thread_ident"() noexcept
