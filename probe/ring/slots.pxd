# What other compiled modules call of a ring's slots without a call of Python's.

cimport cython

@cython.final
cdef class Slots:
    cdef unsigned long long _capacity, _position, _limit, _sequence, _dropped
    cdef unsigned long long *_words
    cdef object _view
    cpdef void write(self, unsigned long long kind, unsigned long long code, long long payload) noexcept
    cpdef void write_at(
        self,
        unsigned long long time_ns,
        unsigned long long kind,
        unsigned long long code,
        long long payload,
    ) noexcept
