use quietcore_facts::Facts;
use quietcore_facts::nics::{Nic, Queue};
use quietcore_measure::CpuSet;

use super::{Ask, Cores, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "xps",
    about: "Isolated CPUs share no send queue with the others",
    why: "A queue that both sides send by has one lock and one order: a packet that matters waits \
          behind a backup's, and its sender spins while another CPU holds the lock.",
    price: "fewer send queues for each side",
    risk: "",
    checks: &["net.xps"],
    takes: Takes::Words(&["apart"]),
    propose,
};

/// Only cards with several queues that are given to CPUs at all.
fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    for nic in facts.nics().up.iter().filter(|nic| nic.tx.len() > 1) {
        let masks: Option<Vec<&CpuSet>> = nic.tx.iter().map(|queue| queue.cpus.value()).collect();
        let Some(masks) = masks.filter(|all| all.iter().any(|mask| !mask.is_empty())) else {
            continue;
        };
        for (queue, mask) in nic.tx.iter().zip(apart(&masks, ask.cpus)) {
            proposal.mask(facts, file(nic, queue), &mask);
        }
    }
}

/// Shared queues lose their isolated CPUs. An isolated CPU that is left without one gets the last
/// queue, whose other CPUs go to the first.
fn apart(masks: &[&CpuSet], cpus: &Cores) -> Vec<CpuSet> {
    let is_shared =
        |mask: &CpuSet| mask.intersects(&cpus.isolated) && mask.intersects(&cpus.housekeeping);
    let mut apart: Vec<CpuSet> = masks
        .iter()
        .map(|mask| if is_shared(mask) { mask.minus(&cpus.isolated) } else { (*mask).clone() })
        .collect();
    let all = |masks: &[CpuSet]| masks.iter().fold(CpuSet::new(), |all, mask| all.or(mask));
    let before = masks.iter().fold(CpuSet::new(), |all, mask| all.or(mask));
    let bereft = before.minus(&all(&apart));
    if let (false, [first, .., last]) = (bereft.is_empty(), apart.as_mut_slice()) {
        *first = first.or(&last.minus(&cpus.isolated));
        *last = last.and(&cpus.isolated).or(&bereft);
    }
    apart
}

fn file(nic: &Nic, queue: &Queue) -> String {
    format!("/sys/class/net/{}/queues/{}/xps_cpus", nic.name, queue.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(lists: &[&str]) -> Vec<CpuSet> {
        lists.iter().map(|list| CpuSet::parse_list(list).unwrap()).collect()
    }

    #[test]
    fn isolated_cpus_get_a_queue_of_their_own_and_it_stays_so() {
        let [housekeeping, isolated] = ["0-3", "4-7"].map(|l| CpuSet::parse_list(l).unwrap());
        let cpus = Cores { isolated, housekeeping };
        let of = |lists: &[&str]| {
            let masks = sets(lists);
            let once = apart(&masks.iter().collect::<Vec<_>>(), &cpus);
            assert_eq!(apart(&once.iter().collect::<Vec<_>>(), &cpus), once, "{lists:?}");
            once
        };
        assert_eq!(of(&["0,4", "1,5", "2,6", "3,7"]), sets(&["0,3", "1", "2", "4-7"]));
        assert_eq!(of(&["0", "1", "4", "5"]), sets(&["0", "1", "4", "5"]));
        assert_eq!(of(&["0-7", "0-7"]), sets(&["0-3", "4-7"]));
        assert_eq!(of(&["0-4", "4-7"]), sets(&["0-3", "4-7"]));
        assert_eq!(of(&["0-3", ""]), sets(&["0-3", ""]));
    }
}
