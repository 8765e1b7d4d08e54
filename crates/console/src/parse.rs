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
    fn durations_are_above_zero() {
        assert_eq!(duration("10s"), Ok(Nanos::from_secs(10)));
        assert!(duration("0s").unwrap_err().contains("above zero"));
        // Below half a nanosecond rounds to nothing and must not slip through.
        assert!(duration("0.1ns").unwrap_err().contains("above zero"));
        assert!(duration("10").unwrap_err().contains("a number and a unit"));
    }
}
