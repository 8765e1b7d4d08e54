//! Network interfaces: the physical ones, their queues, interrupts and what their drivers answer.

use quietcore_measure::{CpuSet, Reading};
use quietcore_sys::host::{Ethtool, Trouble, reading};

use crate::Facts;

const NET: &str = "/sys/class/net";

/// The network interfaces of a host.
#[derive(Clone, Debug)]
pub struct Nics {
    /// Every interface by name, or why they could not be listed.
    pub names: Reading<Vec<String>>,
    /// Why some could not be looked at, though they are there.
    pub unread: Option<String>,
    /// Interfaces with a device behind them that are in use.
    pub up: Vec<Nic>,
    /// Interfaces built upon others: bridges, bonds, VLANs.
    pub stacks: Vec<Stack>,
    /// Interfaces that default routes leave by, the preferred one first.
    pub default_routes: Reading<Vec<String>>,
}

/// A physical interface.
#[derive(Clone, Debug)]
pub struct Nic {
    /// As `eth0`.
    pub name: String,
    /// Name of the device on its bus, as `0000:3b:00.0` or `virtio2`.
    pub device: String,
    /// Whether it is a radio.
    pub wireless: bool,
    /// Largest packet.
    pub mtu: Option<i64>,
    /// NUMA node of the device; `None` where the firmware does not tell.
    pub node: Option<usize>,
    /// What the driver answers.
    pub ethtool: Reading<Ethtool>,
    /// Receive queues.
    pub rx: Vec<Queue>,
    /// Send queues.
    pub tx: Vec<Queue>,
    /// Its interrupts, by the device's own list and by the handlers' names.
    pub irqs: Vec<u32>,
    /// Whether the device may be powered down at run time (`power/control`: `on`, `auto`).
    pub power_control: Reading<String>,
    /// How long merged packets may be held back, in nanoseconds.
    pub gro_flush_timeout_ns: Reading<i64>,
    /// What was received and lost since the driver was loaded.
    pub received: Reading<Received>,
}

/// A queue of an interface.
#[derive(Clone, Debug)]
pub struct Queue {
    /// As `rx-0`.
    pub name: String,
    /// Receive: CPUs that packets are handed to in software (RPS). Send: CPUs that use the queue
    /// (XPS). Empty where the feature is off.
    pub cpus: Reading<CpuSet>,
    /// Flows that are steered to the CPU of their reader (RFS); receive only.
    pub flows: Reading<i64>,
}

/// Packets received and lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Packets.
    pub packets: u64,
    /// Lost because no descriptor or no room on the device was free.
    pub missed: u64,
    /// Lost for any other reason; unknown protocols are among them.
    pub dropped: u64,
}

/// An interface upon others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// As `br0`.
    pub name: String,
    /// Largest packet.
    pub mtu: Option<i64>,
    /// What it is built upon, with the largest packet of each.
    pub lower: Vec<(String, Option<i64>)>,
}

impl Nics {
    pub(crate) fn read(facts: &Facts) -> Self {
        let host = facts.host();
        let names = reading(host.list(NET));
        let default_routes = reading(host.default_routes());
        let (up, stacks) = (Vec::new(), Vec::new());
        let mut nics = Self { names, unread: None, up, stacks, default_routes };
        let mtu = |name: &str| host.number(&format!("{NET}/{name}/mtu")).ok();
        for name in nics.names.value().into_iter().flatten() {
            let entries = match host.list(&format!("{NET}/{name}")) {
                Ok(entries) => entries,
                // It went away in between; a plain file there, as `bonding_masters`, is none.
                Err(error) if error.trouble == Trouble::Missing => continue,
                Err(error) => {
                    nics.unread.get_or_insert_with(|| error.to_string());
                    continue;
                }
            };
            let lower: Vec<_> = entries
                .iter()
                .filter_map(|entry| entry.strip_prefix("lower_"))
                .map(|lower| (lower.to_owned(), mtu(lower)))
                .collect();
            if !lower.is_empty() {
                nics.stacks.push(Stack { name: name.clone(), mtu: mtu(name), lower });
            }
            if entries.iter().any(|entry| entry == "device") && in_use(facts, name) {
                let wireless = entries.iter().any(|e| e == "wireless" || e == "phy80211");
                nics.up.push(Nic::read(facts, name, wireless, mtu(name)));
            }
        }
        nics
    }

    /// The physical interfaces in use that are, or lie below, the one of this name.
    pub fn below(&self, name: &str) -> Vec<&Nic> {
        let mut names = vec![name];
        // Each name once, so that it ends.
        let mut at = 0;
        while let Some(name) = names.get(at).copied() {
            let stacks = self.stacks.iter().filter(|stack| stack.name == name);
            for (lower, _) in stacks.flat_map(|stack| &stack.lower) {
                if !names.contains(&lower.as_str()) {
                    names.push(lower);
                }
            }
            at += 1;
        }
        self.up.iter().filter(|nic| names.contains(&nic.name.as_str())).collect()
    }
}

impl Nic {
    fn read(facts: &Facts, name: &str, wireless: bool, mtu: Option<i64>) -> Self {
        let host = facts.host();
        let path = format!("{NET}/{name}");
        let link = host.link(&format!("{path}/device")).unwrap_or_default();
        let device = link.rsplit('/').next().unwrap_or_default().to_owned();
        let bus = bus_of(name, &device);
        let queues = host.list(&format!("{path}/queues")).unwrap_or_default();
        let queue = |kind: &str, steering: &str| -> Vec<Queue> {
            let of_kind = queues.iter().filter(|queue| queue.starts_with(kind));
            of_kind
                .map(|queue| Queue {
                    name: queue.clone(),
                    cpus: reading(host.cpu_mask(&format!("{path}/queues/{queue}/{steering}"))),
                    flows: match kind {
                        "rx-" => {
                            reading(host.number(&format!("{path}/queues/{queue}/rps_flow_cnt")))
                        }
                        _ => Reading::Measured(0),
                    },
                })
                .collect()
        };
        Self {
            wireless,
            mtu,
            node: host.number(&format!("{bus}/numa_node")).ok().and_then(|n| n.try_into().ok()),
            ethtool: reading(host.ethtool(name)),
            rx: queue("rx-", "rps_cpus"),
            tx: queue("tx-", "xps_cpus"),
            irqs: irqs(facts, name, &device, &bus),
            power_control: reading(host.line(&format!("{bus}/power/control"))),
            gro_flush_timeout_ns: reading(host.number(&format!("{path}/gro_flush_timeout"))),
            received: Received::read(facts, name),
            name: name.to_owned(),
            device,
        }
    }

    /// The folder of the device that has its interrupts and its power state.
    pub fn bus(&self) -> String {
        bus_of(&self.name, &self.device)
    }

    /// The driver's name, `?` where it does not tell.
    pub fn driver(&self) -> &str {
        self.ethtool.value().and_then(|e| e.driver.as_deref()).unwrap_or("?")
    }
}

/// A virtio device sits upon the PCI device that has the interrupts and the power state.
fn bus_of(name: &str, device: &str) -> String {
    let up = if device.starts_with("virtio") { "/.." } else { "" };
    format!("{NET}/{name}/device{up}")
}

impl Received {
    fn read(facts: &Facts, name: &str) -> Reading<Self> {
        let count = |counter: &str| {
            let path = format!("{NET}/{name}/statistics/{counter}");
            reading(facts.host().line(&path)).and_then(|text| match text.parse::<u64>() {
                Ok(count) => Reading::Measured(count),
                Err(_) => Reading::Failed(format!("{path}: expected a count")),
            })
        };
        count("rx_packets").and_then(|packets| {
            count("rx_dropped").and_then(|dropped| {
                let lost = ["rx_missed_errors", "rx_fifo_errors", "rx_over_errors"];
                let none = Reading::Measured(0u64);
                let missed = lost.iter().fold(none, |sum, counter| {
                    sum.and_then(|sum| count(counter).map(|more| sum.saturating_add(more)))
                });
                missed.map(|missed| Self { packets, missed, dropped })
            })
        })
    }
}

/// Drivers that do not report a link leave it `unknown`; then the administrator's word counts
/// (`IFF_UP`, bit 0 of the flags).
fn in_use(facts: &Facts, name: &str) -> bool {
    let host = facts.host();
    match host.line(&format!("{NET}/{name}/operstate")).as_deref() {
        Ok("up") => true,
        Ok("unknown") => {
            // Rather judged in vain than passed over.
            let Ok(flags) = host.line(&format!("{NET}/{name}/flags")) else { return true };
            let digits = flags.strip_prefix("0x").unwrap_or_default();
            u32::from_str_radix(digits, 16).is_ok_and(|flags| flags & 1 == 1)
        }
        Ok(_) => false,
        Err(_) => true,
    }
}

fn irqs(facts: &Facts, name: &str, device: &str, bus: &str) -> Vec<u32> {
    let listed = facts.host().list(&format!("{bus}/msi_irqs")).unwrap_or_default();
    let mut irqs: Vec<u32> = listed.iter().filter_map(|number| number.parse().ok()).collect();
    let lines = facts.irqs().lines.iter();
    let ours = lines.filter(|irq| names(&irq.actions, name) || names(&irq.actions, device));
    irqs.extend(ours.map(|irq| irq.number));
    irqs.sort_unstable();
    irqs.dedup();
    // A vector that was set up and has no handler is in the device's list and fires nowhere.
    irqs.retain(|number| facts.irqs().lines.iter().any(|irq| irq.number == *number));
    irqs
}

/// Whether the handlers of an interrupt name this interface or device, as a whole word:
/// `eth0-rx-3`, `i40e-eth0-TxRx-1`, `virtio2-input.0`, `mlx5_comp3@pci:0000:3b:00.0`.
fn names(actions: &str, word: &str) -> bool {
    if word.is_empty() {
        return false;
    }
    let inside = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    actions.match_indices(word).any(|(at, _)| {
        !inside(actions[..at].chars().next_back())
            && !inside(actions[at + word.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use quietcore_sys::Host;
    use quietcore_sys::host::Snapshot;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_card_that_may_not_be_looked_at_is_not_passed_over() {
        let mut host = Snapshot::new("t");
        host.set("list /sys/class/net", json!(["eth0", "gone"]));
        host.set("list /sys/class/net/gone", json!(null));
        host.set("list /sys/class/net/eth0", json!({"error": "denied"}));
        let nics = Nics::read(&Facts::of(Host::recorded(host.clone())));
        assert!(nics.unread.as_ref().is_some_and(|why| why.contains("eth0")), "{nics:?}");
        host.set("list /sys/class/net/eth0", json!(["device"]));
        host.set("read /sys/class/net/eth0/operstate", json!("unknown\n"));
        host.set("read /sys/class/net/eth0/flags", json!({"error": "denied"}));
        let nics = Nics::read(&Facts::of(Host::recorded(host)));
        assert_eq!((nics.up.len(), nics.unread), (1, None));
    }

    #[test]
    fn a_card_is_found_below_what_is_built_upon_it_even_in_a_circle() {
        let mut host = Snapshot::new("t");
        host.set("list /sys/class/net", json!(["bond0", "bond0.7", "eth0", "eth1", "odd"]));
        host.set("list /sys/class/net/bond0.7", json!(["lower_bond0"]));
        host.set("list /sys/class/net/bond0", json!(["lower_eth0", "lower_eth1"]));
        host.set("list /sys/class/net/odd", json!(["lower_odd"]));
        for name in ["eth0", "eth1"] {
            host.set(&format!("list /sys/class/net/{name}"), json!(["device"]));
        }
        let nics = Nics::read(&Facts::of(Host::recorded(host)));
        let below = |name| nics.below(name).iter().map(|nic| nic.name.as_str()).collect::<Vec<_>>();
        assert_eq!(below("bond0.7"), ["eth0", "eth1"]);
        assert_eq!(below("eth1"), ["eth1"]);
        assert!(below("odd").is_empty() && below("eth7").is_empty());
    }

    #[test]
    fn handlers_name_an_interface_as_a_whole_word_only() {
        for (actions, word, found) in [
            ("eth0-rx-3", "eth0", true),
            ("i40e-eth0-TxRx-1", "eth0", true),
            ("virtio2-input.0", "virtio2", true),
            ("mlx5_comp3@pci:0000:3b:00.0", "0000:3b:00.0", true),
            ("eth01-rx-3", "eth0", false),
            ("xeth0-rx", "eth0", false),
            ("virtio21-input.0", "virtio2", false),
            ("nvme0q1", "eth0", false),
            ("größe eth0", "eth0", true),
            ("", "eth0", false),
            ("eth0", "", false),
        ] {
            assert_eq!(names(actions, word), found, "{actions} {word}");
        }
    }
}
