cimport cython
from ..ring.native cimport bits_of, get_ident, monotonic_ns
from ..ring.slots cimport Slots
from .state_machine cimport Machine

cdef int VALUE

cdef class Values:
    cdef public long long dropped
    cdef object _ring, _warn, _strided, _tensors, _pinned, _flying
    cdef Machine _machine
    cdef Slots _slots
    cdef dict _codes
    cdef set _warned
    cdef list _free, _events

    @cython.locals(time_ns=cython.ulonglong)
    cpdef log(self, dict values)
    @cython.locals(bits=cython.longlong)
    cdef _write(self, unsigned long long time_ns, code, name, value)
    cdef bint _tensor(self, unsigned long long time_ns, code, name, value) except -1
