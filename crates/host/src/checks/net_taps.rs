use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "net.taps",
    cause: Cause::Network,
    about: "No capture copies every packet",
    why: "A packet socket for all protocols (tcpdump, a probe of the monitoring, a DHCP client \
          that does not let go) is handed a copy of every packet, in and out, before its filter \
          decides; that is work in the softirq and in the sender's own system call. \
          /proc/net/ptype lists them as type ALL, for one interface or for all. Captures by \
          AF_XDP, by a switch's mirror port or by the card do not show and do not cost this. \
          Packet sockets of other network namespaces are not seen.",
    cost: Cost {
        us: 1.0,
        text: "0.3–2 µs per packet and capture",
        origin: "judgement: a clone of the packet and a filter run",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    const SOURCE: &str = "/proc/net/ptype";
    let table = match facts.host().read(SOURCE) {
        Ok(table) => table,
        Err(error) => return Verdict::unanswered(&error),
    };
    if !table.starts_with("Type") {
        return Verdict::unknown(format!("{SOURCE} is not the table of packet types"));
    }
    let taps = taps(&table);
    if taps.is_empty() {
        return Verdict::pass("no capture copies every packet").evidence(SOURCE, "no type ALL");
    }
    let verdict = Verdict::warn(format!("{} captures copy every packet", taps.len()));
    taps.iter().fold(verdict, |verdict, tap| verdict.evidence(SOURCE, tap)).fix(
        "ss --packet --processes   # names who captures; end it, or restrict it to one protocol",
    )
}

/// Rows as `ALL  eth0     tpacket_rcv`; handlers that are no packet socket (a bond's, a bridge's)
/// copy nothing.
fn taps(table: &str) -> Vec<String> {
    let is_tap = |line: &&str| {
        line.starts_with("ALL ")
            && (line.contains("packet_rcv") || line.contains("packet_rcv_spkt"))
    };
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    table.lines().filter(is_tap).map(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_packet_sockets_for_all_protocols_are_taps() {
        let table = "Type Device      Function\n\
            ALL  eth0     tpacket_rcv\nALL           packet_rcv [af_packet]\n\
            0800          ip_rcv\n88cc eth0     packet_rcv [af_packet]\nALL  x  other_rcv\n";
        assert_eq!(taps(table), ["ALL eth0 tpacket_rcv", "ALL packet_rcv [af_packet]"]);
    }
}
