from ...ring.native cimport address, version_of
from ..state_machine cimport Machine
from ..signal_handler cimport Receiver

cdef class Aim:
    cdef public Receiver target
    cdef public object undo, missing
    cdef public bint reduces, traced

cdef class Listener:
    cpdef begin(self, args)
    cpdef end(self, output)

cdef class Forward(Listener):
    cdef Machine _machine
    cdef unsigned long long _root

cdef class Called:
    cdef object _own, _base
    cdef dict _heard
    cdef unsigned long long _id
    cdef Listener _alone

cdef class Tracing:
    cdef dict _names
    cdef object _ask
    cdef unsigned long long _version
    cdef bint _said

    cdef bint now(self) except -1

cdef class Met:
    cdef Aim _aim
    cdef object _modules, _reference
    cdef unsigned long long _last

    cdef again(self, ddp)
