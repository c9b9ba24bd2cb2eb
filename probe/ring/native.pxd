# The clock, the thread, addresses and a number's bits, without a call of Python's.

cdef extern from * nogil:
    """
    #include <time.h>
    #ifndef PHASEWATT_BUILT_FROM
    #define PHASEWATT_BUILT_FROM ""  /* setup.py defines it */
    #endif
    static inline unsigned long long phasewatt_monotonic_ns(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec * 1000000000ULL + now.tv_nsec;
    }
    static inline unsigned long phasewatt_thread(void) {
    #if defined(__GLIBC__) && defined(__x86_64__) && __GNUC__ >= 11
        return (unsigned long) __builtin_thread_pointer();  /* pthread_self, without the calls */
    #else
        return PyThread_get_thread_ident();
    #endif
    }
    static inline unsigned long long phasewatt_address(PyObject *object) {
        return (unsigned long long) (size_t) object;
    }
    static inline unsigned long long *phasewatt_words(PyObject *view) {
        return (unsigned long long *) PyMemoryView_GET_BUFFER(view)->buf;
    }
    static inline void phasewatt_publish(
        unsigned long long *words, Py_ssize_t place, unsigned long long value
    ) {
    #if defined(__GNUC__) || defined(__clang__)
        __atomic_store_n(words + place, value, __ATOMIC_RELEASE);
    #else
        *(volatile unsigned long long *) (words + place) = value;
    #endif
    }
    static inline unsigned long long phasewatt_version(PyObject *dict) {
    #if PY_VERSION_HEX < 0x030C0000
        return ((PyDictObject *) dict)->ma_version_tag;
    #else
        return 0;  /* it says no more whether anything was set */
    #endif
    }
    """
    unsigned long long monotonic_ns "phasewatt_monotonic_ns"() noexcept
    unsigned long get_ident "phasewatt_thread"() noexcept  # what threading.get_ident() returns
    unsigned long long address "phasewatt_address"(object)  # what id() returns
    # Stores it; another process that sees it also sees all that was stored before.
    void publish "phasewatt_publish"(unsigned long long *, Py_ssize_t, unsigned long long) noexcept
    unsigned long long version_of "phasewatt_version"(dict)  # changes whenever it does; 0: unknown
    unsigned long long *words_of "phasewatt_words"(object)  # of a memoryview; not to outlive it
    const char *BUILT_FROM "PHASEWATT_BUILT_FROM"  # hash of the sources of the module that is compiled
