//! Files of recorded messages: `<receive time in ns> <JSON>`, a line each, plain or gzipped.
