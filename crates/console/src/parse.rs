//! Value parsers that refuse what parses but makes no sense on a command line.

use quietcore_measure::{CpuSet, Nanos};

/// Parses `--cpus`: the kernel's list format, at least one CPU.
pub fn cpus(text: &str) -> Result<CpuSet, String> {
    let set = CpuSet::parse_list(text).map_err(|error| error.to_string())?;
    if set.is_empty() {
        return Err("the list names no CPU: write 2, 0,2-5 or 0-31:2/8".to_owned());
    }
    Ok(set)
}

/// Refuses CPUs that are not online: naming them is a mistake, not a narrower wish.
///
/// # Errors
/// With what is missing and what is there, in one readable line however long the list is.
pub fn check_online(cpus: &CpuSet, online: &CpuSet) -> Result<(), String> {
    let missing = cpus.minus(online);
    if missing.is_empty() {
        return Ok(());
    }
    let are = if missing.len() == 1 { "CPU" } else { "CPUs" };
    let be = if missing.len() == 1 { "is" } else { "are" };
    Err(format!("--cpus: {are} {} {be} not online (online: {online})", short(&missing)))
}

/// The list, cut where nobody would read on.
fn short(cpus: &CpuSet) -> String {
    const LENGTH: usize = 60;
    let list = cpus.to_string();
    match list.get(..LENGTH).and_then(|head| head.rsplit_once(',')) {
        Some((head, _)) => format!("{head},… ({} in all)", cpus.len()),
        None => list,
    }
}

/// Parses a duration above zero: `500us`, `10s`, `2m`.
pub fn duration(text: &str) -> Result<Nanos, String> {
    match text.parse::<Nanos>() {
        Ok(Nanos(0)) => Err(format!("`{text}` is no time at all: give a duration above zero")),
        Ok(nanos) => Ok(nanos),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_name_at_least_one_cpu() {
        assert_eq!(cpus("0,2-3").map(|set| set.len()), Ok(3));
        assert!(cpus("").unwrap_err().contains("names no CPU"));
        assert!(cpus("3-1").unwrap_err().contains("runs backwards"));
        assert!(cpus("two").unwrap_err().contains("`two`"));
    }

    #[test]
    fn cpus_that_are_not_there_are_named_in_a_line_that_can_be_read() {
        let set = |list| CpuSet::parse_list(list).unwrap();
        assert_eq!(check_online(&set("0-1"), &set("0-3")), Ok(()));
        let error = check_online(&set("2-9"), &set("0-3")).unwrap_err();
        assert_eq!(error, "--cpus: CPUs 4-9 are not online (online: 0-3)");
        let error = check_online(&set("9"), &set("0-3")).unwrap_err();
        assert_eq!(error, "--cpus: CPU 9 is not online (online: 0-3)");
        let every_second = check_online(&set("0-8191:1/2"), &set("0-1")).unwrap_err();
        assert!(every_second.len() < 120, "{every_second}");
        assert!(every_second.contains("2,4,6,") && every_second.contains("4095 in all"));
    }

    #[test]
    fn durations_are_above_zero() {
        assert_eq!(duration("10s"), Ok(Nanos::from_secs(10)));
        assert!(duration("0s").unwrap_err().contains("above zero"));
        // Below half a nanosecond rounds to nothing and must not slip through.
        assert!(duration("0.1ns").unwrap_err().contains("above zero"));
        assert!(duration("10").unwrap_err().contains("a number and a unit"));
    }
}
