cimport cython
from ..ring.native cimport address, get_ident, monotonic_ns
from .edge_writer cimport Marks

cdef int MARK, STEP, SYNC, DATA, FORWARD, BACKWARD, RECOMPUTE, COMMUNICATION, OPTIMIZER, EVAL, OTHER
cdef int PRE, TAIL
cdef frozenset NONE

# What most signals look at comes first: it shares a cache line.
cdef class Machine(Marks):
    cdef public unsigned long thread
    cdef unsigned long long _optimizing, _root, _stepped, _chores_due_ns
    cdef bint _backward, _closure, _communication, _fused, _heard, _loading, _pending, _recompute
    cdef bint _unstepped, _wrapped
    cdef int _forward, _idle
    cdef public bint alive, optimizer_seen, root_fired
    cdef public long long micro, per_reduction, steps
    cdef long long _kept
    cdef public object grad_enabled, after_backward, after_optimizer, on_reducer, rest
    cdef public object changed, lanes
    cdef object _warn, _chores
    cdef frozenset _also_stepped

    cpdef int base(self) noexcept
    @cython.final
    cdef void mark(self, int code) noexcept
    cpdef fail(self, error)
    cpdef stop(self)
    @cython.final
    cdef close_step(self)
    cpdef forward_begin(self, unsigned long long root)
    cpdef forward_end(self, unsigned long long root)
    @cython.final
    cdef bint _trains(self) noexcept
    @cython.final
    cdef _close_if_due(self)
    @cython.final
    cdef _stopped_optimizing(self, unsigned long long key, bint closes)
    @cython.final
    cdef _ask(self, call)
    @cython.final
    cdef _tell(self, call, what)
    @cython.final
    cdef void _mark_enriched(self, int code) noexcept
    @cython.final
    cdef _between_steps(self, unsigned long long now_ns)
    @cython.final
    cdef bint _native(self) noexcept
    @cython.final
    cdef _enter_lane(self, int code, bint active)
