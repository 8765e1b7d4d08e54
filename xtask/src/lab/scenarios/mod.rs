//! One file per scenario; the list is in `scenario.rs`.

pub mod cstates;
pub mod isolated;
pub mod kills;
pub mod numa;
pub mod recorder;
pub mod smi;
pub mod stall;
pub mod typo;
