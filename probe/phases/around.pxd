from .machine cimport Machine
from .receiver cimport Receiver

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
