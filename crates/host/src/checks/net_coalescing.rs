use quietcore_facts::Facts;
use quietcore_facts::nics::Nic;
use quietcore_measure::Cause;
use quietcore_sys::host::Coalesce;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict, interfaces};

pub const CHECK: Check = Check {
    id: "net.coalescing",
    cause: Cause::Network,
    about: "Received packets do not wait for an interrupt",
    why: "Cards hold an interrupt back for rx-usecs microseconds (or until rx-frames packets have \
          come), so that one interrupt serves many packets; adaptive-rx lets the driver choose the \
          time by load, and it chooses long ones exactly in bursts. For a reader that blocks or \
          sleeps that time is added to every first packet. With Intel's e1000e, igb and igc the \
          values 1 and 3 are no times but modes that vary between some 14 and 250 µs. The driver is \
          asked (ethtool -c); which interface carries the traffic that matters is not known, so \
          all that are up are judged. A reader that busy-polls the queue does not wait for \
          interrupts.",
    cost: Cost {
        us: 50.0,
        text: "10–200 µs for the first packet after a pause",
        origin: "article on determinism, taxonomy (interrupt coalescing)",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

/// Drivers for which 1 and 3 name a mode.
const MODES: [&str; 3] = ["e1000e", "igb", "igc"];
/// The longest wait of such a mode: 4,000 interrupts per second.
const LONGEST_OF_A_MODE: f64 = 250.0;
/// What an adaptive driver that names no time is taken for.
const ADAPTIVE: f64 = 50.0;

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let answers = match interfaces::offered(facts, "interrupt coalescing", |e| e.coalesce) {
        Ok(answers) => answers,
        Err(verdict) => return verdict,
    };
    let waits: Vec<(&Nic, f64)> = answers
        .iter()
        .map(|(nic, coalesce)| (*nic, wait_us(nic.driver(), coalesce)))
        .filter(|(_, us)| *us > 0.0)
        .collect();
    let verdict = match waits.is_empty() {
        true => Verdict::pass("no received packet waits for an interrupt"),
        false => {
            let names = interfaces::names(waits.iter().map(|(nic, _)| *nic));
            let worst = waits.iter().fold(0.0f64, |worst, (_, us)| worst.max(*us));
            let title = format!("packets wait up to {worst:.0} µs for an interrupt of {names}");
            Verdict::fail_if(scope.is_declared(), title).costs_us(worst)
        }
    };
    let commands: Vec<String> = waits
        .iter()
        .map(|(nic, _)| format!("ethtool -C {} adaptive-rx off rx-usecs 0", nic.name))
        .collect();
    answers
        .iter()
        .fold(verdict, |verdict, (nic, c)| {
            let adaptive = if c.adaptive_rx { "on" } else { "off" };
            verdict.evidence(
                format!("ethtool -c {}", nic.name),
                format!(
                    "rx-usecs {} rx-frames {} adaptive-rx {adaptive} ({})",
                    c.rx_usecs,
                    c.rx_frames,
                    nic.driver()
                ),
            )
        })
        .fix(commands.join("; "))
}

/// How long a packet may wait, in microseconds.
fn wait_us(driver: &str, coalesce: &Coalesce) -> f64 {
    let set = f64::from(coalesce.rx_usecs);
    match coalesce {
        Coalesce { rx_usecs: 1 | 3, .. } if MODES.contains(&driver) => LONGEST_OF_A_MODE,
        Coalesce { adaptive_rx: true, .. } => set.max(ADAPTIVE),
        _ => set,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_no_time_and_adaptive_waits_even_from_zero() {
        let of = |rx_usecs, adaptive_rx| Coalesce { rx_usecs, adaptive_rx, ..Coalesce::default() };
        assert_eq!(wait_us("ice", &of(0, false)), 0.0);
        assert_eq!(wait_us("ice", &of(3, false)), 3.0);
        assert_eq!(wait_us("igb", &of(3, false)), 250.0);
        assert_eq!(wait_us("mlx5_core", &of(0, true)), 50.0);
        assert_eq!(wait_us("mlx5_core", &of(128, true)), 128.0);
    }
}
