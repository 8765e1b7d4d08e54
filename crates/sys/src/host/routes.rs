//! Which interfaces the default routes leave by. The routes' addresses are nobody's business, and
//! stand there as bare digits that no scrubber knows: only the names are kept.

use std::path::Path;

use super::{Host, HostError, Trouble, live};

const UP: u32 = 0x1;
const REJECT: u32 = 0x200;

impl Host {
    /// The interfaces that default routes of the main table leave by: those of IPv4 by metric,
    /// then those of IPv6. Empty where there is no such route.
    ///
    /// # Errors
    /// Missing where the kernel has no network.
    pub fn default_routes(&self) -> Result<Vec<String>, HostError> {
        self.answer("default routes".to_owned(), read)
    }
}

fn read(root: &Path) -> Result<Vec<String>, Trouble> {
    let mut found = by_metric(&live::read(root, "/proc/net/route")?, ipv4);
    match live::read(root, "/proc/net/ipv6_route") {
        Ok(text) => found.extend(by_metric(&text, ipv6)),
        Err(Trouble::Missing) => {}
        Err(trouble) => return Err(trouble),
    }
    let mut names: Vec<String> = Vec::new();
    for (_, name) in found {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

fn by_metric(table: &str, line: fn(&[&str]) -> Option<(u32, String)>) -> Vec<(u32, String)> {
    let fields = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut routes: Vec<_> = fields.filter_map(|fields| line(&fields)).collect();
    // Stable: of the same metric, the kernel takes the first.
    routes.sort_by_key(|(metric, _)| *metric);
    routes
}

/// Iface, Destination, Gateway, Flags, RefCnt, Use, Metric, Mask, …
fn ipv4(fields: &[&str]) -> Option<(u32, String)> {
    let [name, "00000000", _, flags, _, _, metric, "00000000", ..] = fields else { return None };
    leads_out(name, flags).then_some((metric.parse().ok()?, (*name).to_owned()))
}

/// Destination, length, source, length, next hop, metric, references, uses, flags, device; all in
/// hexadecimal.
fn ipv6(fields: &[&str]) -> Option<(u32, String)> {
    let [destination, "00", _, "00", _, metric, _, _, flags, name] = fields else { return None };
    let any = destination.bytes().all(|digit| digit == b'0');
    let metric = u32::from_str_radix(metric, 16).ok()?;
    (any && leads_out(name, flags)).then_some((metric, (*name).to_owned()))
}

/// Whether a route is in use and leaves the host; the kernel names `lo` or `*` for one that
/// refuses.
fn leads_out(name: &str, flags: &str) -> bool {
    let flags = u32::from_str_radix(flags, 16).unwrap_or_default();
    flags & UP != 0 && flags & REJECT == 0 && !matches!(name, "lo" | "*")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const IPV4: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\n\
        wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n\
        eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
        eth1\t0000A8C0\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n\
        *\t00000000\t00000000\t0201\t0\t0\t0\t00000000\t0\t0\t0\n";

    fn asked(ipv4: Option<&str>, ipv6: Option<&str>) -> Result<Vec<String>, HostError> {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/net")).unwrap();
        for (name, text) in [("route", ipv4), ("ipv6_route", ipv6)] {
            if let Some(text) = text {
                fs::write(root.path().join("proc/net").join(name), text).unwrap();
            }
        }
        Host::from_path(root.path()).unwrap().default_routes()
    }

    #[test]
    fn the_default_route_of_the_least_metric_comes_first() {
        assert_eq!(asked(Some(IPV4), None).unwrap(), ["eth0", "wlan0"]);
    }

    #[test]
    fn routes_of_ipv6_follow_and_those_that_refuse_are_none() {
        let zero = "0".repeat(32);
        let line = |length: &str, metric: &str, flags: &str, name: &str| {
            format!("{zero} {length} {zero} 00 {zero} {metric} 00000003 00000000 {flags} {name}\n")
        };
        let table = line("00", "ffffffff", "00200200", "lo")
            + &line("00", "00000400", "00000003", "eth2")
            + &line("00", "00000064", "00000003", "eth0")
            + &line("40", "00000001", "00000001", "eth3");
        assert_eq!(asked(Some(IPV4), Some(&table)).unwrap(), ["eth0", "wlan0", "eth2"]);
        assert_eq!(asked(Some("Iface\n"), Some(&table)).unwrap(), ["eth0", "eth2"]);
    }

    #[test]
    fn a_host_without_network_or_with_garbage_has_no_default_route() {
        assert_eq!(asked(None, None).unwrap_err().trouble, Trouble::Missing);
        let garbage = "x\n00000000 00\neth0 00000000 0 zz 0 0 -1 00000000\n\u{0}\n";
        assert_eq!(asked(Some(garbage), Some(garbage)).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn this_host_answers() {
        assert!(Host::live().default_routes().is_ok());
    }
}
