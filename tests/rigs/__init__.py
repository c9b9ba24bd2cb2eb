"""Stand-ins for the outermost real boundaries: libraries, trees and devices, never our functions."""
