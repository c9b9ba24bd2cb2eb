from ...ring.native cimport get_ident
from ..state_machine cimport Machine

cdef int FORWARD, BACKWARD

cdef class SplitMachine(Machine):
    cdef int _ahead, _behind

    cpdef int base(self) noexcept
    cpdef forward_begin(self, unsigned long long root)
    cpdef forward_end(self, unsigned long long root)
    cpdef backward_begin(self)
