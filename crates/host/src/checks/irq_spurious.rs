use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "irq.spurious",
    cause: Cause::Irq,
    about: "No interrupt line fires without anybody handling it",
    why: "An interrupt that no driver claims costs its entry and the call of every handler on the \
          line, and comes again at once. Of 100,000 interrupts, 99,900 unclaimed ones make the \
          kernel write `nobody cared` and switch the line off: the devices behind it work by \
          polling at 10 Hz, or not at all. /proc/irq/N/spurious counts the unclaimed ones of the \
          current 100,000. Only wired lines are read, they alone are shared; the log proves the \
          switched-off ones, and must reach back to boot to prove that there are none.",
    cost: Cost {
        us: 10.0,
        text: "a few µs per unclaimed interrupt, up to a whole CPU in a storm",
        origin: "kernel/irq/spurious.c for the limits; judgement for the size",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

/// So many unclaimed interrupts of at most 100,000 are no accident of a shared line.
const MANY: u64 = 1000;

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let rows = &facts.irqs().counts.rows;
    let is_wired =
        |number: u32| rows.get(&number.to_string()).is_some_and(|row| !row.text.contains("MSI"));
    let mut unclaimed: Vec<(String, u64, String)> = Vec::new();
    let mut unread =
        (!facts.irqs().known()).then(|| "/proc/interrupts could not be read".to_owned());
    for irq in facts.irqs().lines.iter().filter(|irq| is_wired(irq.number)) {
        let file = format!("/proc/irq/{}/spurious", irq.number);
        match facts.host().read(&file).map(|text| unhandled(&text)) {
            Ok(Some(count)) => unclaimed.push((irq.label(), count, file)),
            Ok(None) => unread = Some(format!("{file}: no count of unhandled interrupts")),
            Err(error) => unread = Some(error.to_string()),
        }
    }
    let logged = facts.kernel().logged("nobody cared");
    if let Some(Some(line)) = logged.value() {
        let title = "the kernel switched an interrupt off that nobody handled";
        return Verdict::fail_if(scope.is_declared(), title)
            .evidence("kernel log", &line.text)
            .fix("find its devices in /proc/interrupts; update their drivers, or give the line up with the BIOS setup");
    }
    let many: Vec<_> = unclaimed.iter().filter(|(_, count, _)| *count > MANY).collect();
    if !many.is_empty() {
        let names: Vec<&str> = many.iter().map(|(label, ..)| label.as_str()).collect();
        let verdict =
            Verdict::warn(format!("nobody handles many of interrupt {}", names.join(", ")));
        return many
            .iter()
            .fold(verdict, |v, (_, count, file)| v.evidence(file, format!("unhandled {count}")))
            .fix("update the drivers of the devices on that line, see /proc/interrupts");
    }
    if let Some(why) = unread {
        return Verdict::unknown(why);
    }
    if logged.value().is_none() {
        return Verdict::unknown(logged.why());
    }
    let verdict = Verdict::pass("no interrupt is left unhandled");
    unclaimed
        .iter()
        .fold(verdict, |v, (_, count, file)| v.evidence(file, format!("unhandled {count}")))
}

/// The second line of `count 88\nunhandled 0\nlast_unhandled 0 ms\n`.
fn unhandled(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("unhandled "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unhandled_ones_are_counted() {
        assert_eq!(unhandled("count 88\nunhandled 7\nlast_unhandled 0 ms\n"), Some(7));
        for garbage in ["", "unhandled", "unhandled x", "last_unhandled 3 ms"] {
            assert_eq!(unhandled(garbage), None, "{garbage}");
        }
    }
}
