//! A clock for hot loops: the CPU's own counter where it can be trusted.
