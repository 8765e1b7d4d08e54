//! JSON as venues send it, without a tree and without copies.
