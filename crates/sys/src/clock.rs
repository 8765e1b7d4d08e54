//! The kernel's clocks and sleeping until an absolute time.
