"""The only file with unit constants.

Inside phasewatt time is int64 nanoseconds and energy is float joules; a sensor's
raw counters are stored as read and scaled by :attr:`probe.model.Source.scale`.
"""

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
NS_PER_US = 1_000
S_PER_NS = 1e-9

J_PER_MJ = 1e-3  # NVML reports millijoules and milliwatts
J_PER_UJ = 1e-6  # Linux powercap reports microjoules
W_PER_MW = 1e-3
HZ_PER_MHZ = 1e6
J_PER_KWH = 3.6e6
