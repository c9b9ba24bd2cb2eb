"""``probe demo``: what phasewatt finds, beside the truth, which only a simulated card can tell.

A small real model trains. Its phases draw a power that is written down as they begin; phasewatt
sees of it what a card would show, an energy counter that moves ten times a second. The joules that
it estimates per phase stand beside the true ones. On a machine with a real meter that is measured
instead, and there is no truth to compare with.
"""
