//! Keeps one instrument's book proven continuous, or says that it is not.
