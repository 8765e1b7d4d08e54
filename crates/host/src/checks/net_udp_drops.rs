use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "net.udp-drops",
    cause: Cause::Network,
    about: "No datagram was dropped for want of room in a socket",
    why: "A datagram that finds its socket's buffer full is dropped and counted (RcvbufErrors in \
          /proc/net/snmp). For a multicast feed that is a gap: a request for retransmission, or a \
          new snapshot, and a book that is wrong meanwhile. It happens when the reader is not \
          scheduled for a moment, so it is also a sign of jitter. The count is of all sockets \
          since boot; which one it was, `ss -uampn` tells (the d in skmem).",
    cost: Cost {
        us: 500.0,
        text: "a recovered gap costs ms; ranked below, for the count is of the time since boot",
        origin: "Documentation/networking/snmp_counter.rst for the counter; judgement for the size",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

const SOURCE: &str = "/proc/net/snmp";

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let text = match facts.host().read(SOURCE) {
        Ok(text) => text,
        Err(error) => return Verdict::unanswered(&error),
    };
    let count = |name| counter(&text, "Udp", name);
    let (Some(dropped), Some(received)) = (count("RcvbufErrors"), count("InDatagrams")) else {
        return Verdict::unknown(format!("{SOURCE}: no `Udp:` lines with RcvbufErrors"));
    };
    if dropped == 0 {
        return Verdict::pass("no datagram found its socket full")
            .evidence(SOURCE, format!("Udp: RcvbufErrors 0, InDatagrams {received}"));
    }
    Verdict::fail_if(
        scope.is_declared(),
        format!("{dropped} datagrams found their socket full since boot"),
    )
    .evidence(SOURCE, format!("Udp: RcvbufErrors {dropped}, InDatagrams {received}"))
    .fix(
        "ss -uampn   # names the socket; give it room: sysctl -w net.core.rmem_max=16777216, and \
         SO_RCVBUF in the program",
    )
}

/// A counter of `/proc/net/snmp`: a line of names and one of values, each behind `Udp:`.
fn counter(text: &str, protocol: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol)?.strip_prefix(':'));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split_whitespace().position(|word| word == name)?;
    values.split_whitespace().nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_found_by_its_name_and_not_by_its_place() {
        let text =
            "Udp: InDatagrams NoPorts RcvbufErrors\nUdp: 7 1 3\nUdpLite: InDatagrams\nUdpLite: 9\n";
        assert_eq!(counter(text, "Udp", "RcvbufErrors"), Some(3));
        assert_eq!(counter(text, "UdpLite", "InDatagrams"), Some(9));
        for garbage in ["", "Udp:", "Udp: RcvbufErrors\n", "Udp: RcvbufErrors\nUdp: x\n"] {
            assert_eq!(counter(garbage, "Udp", "RcvbufErrors"), None, "{garbage}");
        }
    }
}
