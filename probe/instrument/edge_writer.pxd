from ..ring.native cimport monotonic_ns
from ..ring.slots cimport Slots
from .signal_handler cimport Receiver

cdef int MARK

cdef class Marks(Receiver):
    cdef Slots _slots
    cdef bint _plain, _enriched
    cdef int _current
    cdef list _user
    cdef object _allocated, _device

    cpdef int base(self) noexcept
    cpdef _force(self, int code)
    cpdef _named(self, int code)
