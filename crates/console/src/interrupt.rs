//! Ctrl-C ends a measurement, not the program: what was measured is still worth printing.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// The flag that the first Ctrl-C (or SIGTERM) sets; the second one kills.
///
/// The handlers are installed by the first call, so that commands which do not measure keep the
/// usual behaviour. Should the kernel refuse them, the flag stays false and the first one kills.
pub fn interrupted() -> &'static AtomicBool {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    FLAG.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The order matters: the killer must look at the flag before it is set.
            let killer = flag::register_conditional_default(signal, Arc::clone(&flag));
            if killer.is_ok() {
                let _ = flag::register(signal, Arc::clone(&flag));
            }
        }
        flag
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn the_first_signal_only_sets_the_flag() {
        assert!(!interrupted().load(Ordering::Relaxed));
        signal_hook::low_level::raise(SIGTERM).unwrap();
        assert!(interrupted().load(Ordering::Relaxed));
    }
}
