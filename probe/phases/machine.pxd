from ..ring.native cimport get_ident, monotonic_ns
from .marks cimport Marks

cdef int STEP, SYNC, DATA, FORWARD, BACKWARD, RECOMPUTE, COMMUNICATION, OPTIMIZER, EVAL, OTHER, PRE, TAIL

cdef class Machine(Marks):
    cdef public object lanes, grad_enabled, changed, after_backward, after_optimizer, on_reducer, rest
    cdef public unsigned long thread
    cdef public long long micro, per_reduction, steps
    cdef public bint alive, optimizer_seen, root_fired
    cdef object _warn, _chores
    cdef unsigned long long _chores_due_ns, _optimizing, _root
    cdef long long _kept
    cdef bint _backward, _closure, _communication, _fused, _loading, _pending, _recompute
    cdef bint _unstepped, _wrapped
    cdef int _forward, _idle
    cdef set _stepped

    cpdef int base(self) except -1
    cpdef fail(self, error)
    cpdef stop(self)
    cpdef close_step(self)
    cpdef forward_begin(self, unsigned long long root)
    cpdef forward_end(self, unsigned long long root)
    cpdef _close_if_due(self)
    cpdef _stopped_optimizing(self, unsigned long long key, bint closes)
