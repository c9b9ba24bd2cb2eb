from .machine cimport Machine

cdef class Aim:
    cdef public object target, undo, missing
    cdef public bint reduces

cdef class Forward:
    cdef Machine _machine
    cdef unsigned long long _root
