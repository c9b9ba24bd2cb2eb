cdef class Aim:
    cdef public object target, undo, missing
    cdef public bint reduces
