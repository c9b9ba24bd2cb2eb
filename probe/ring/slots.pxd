cimport cython
from .native cimport monotonic_ns, words_of

cdef unsigned long long CHECK, SEQUENCE_MASK, _UNSIGNED
cdef Py_ssize_t _FIRST, _WORDS, _TAIL, _DROPPED

@cython.final
cdef class Slots:
    cdef unsigned long long _capacity, _position, _sequence, _limit, _dropped
    cdef unsigned long long *_words
    cdef object _view  # keeps them

    cpdef void write(
        self, unsigned long long kind, unsigned long long code, long long payload) noexcept
    @cython.locals(place=Py_ssize_t)
    cpdef void write_at(
        self, unsigned long long time_ns, unsigned long long kind, unsigned long long code,
        long long payload) noexcept
