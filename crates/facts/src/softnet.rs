//! What happened to received packets between the driver and the protocols, per CPU.

use crate::Facts;

/// `/proc/net/softnet_stat`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Softnet {
    /// One row per online CPU.
    pub rows: Vec<Row>,
}

/// The packets of one CPU since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The CPU.
    pub cpu: usize,
    /// Packets received.
    pub processed: u64,
    /// Packets lost because the CPU's backlog was full.
    pub dropped: u64,
    /// How often work was left when the budget of packets or time ran out.
    pub squeezed: u64,
}

impl Softnet {
    pub(crate) fn read(facts: &Facts) -> Self {
        let text = facts.host().read("/proc/net/softnet_stat").unwrap_or_default();
        Self::parse(&text, facts)
    }

    /// Reads the table: hexadecimal columns, no header. Since 5.13 column 13 holds the CPU; before,
    /// the rows are the online CPUs in order.
    pub fn parse(text: &str, facts: &Facts) -> Self {
        let online: Vec<usize> = facts.cpus().online.iter().collect();
        Self::parse_for(text, &online)
    }

    fn parse_for(text: &str, online: &[usize]) -> Self {
        let row = |(index, line): (usize, &str)| {
            let columns: Vec<u64> = line
                .split_whitespace()
                .map_while(|word| u64::from_str_radix(word, 16).ok())
                .collect();
            let [processed, dropped, squeezed] = *columns.first_chunk()?;
            let cpu = match columns.get(12) {
                Some(&cpu) => usize::try_from(cpu).ok()?,
                None => *online.get(index)?,
            };
            Some(Row { cpu, processed, dropped, squeezed })
        };
        Self { rows: text.lines().enumerate().filter_map(row).collect() }
    }

    /// What was added since an earlier reading, for CPUs that are in both.
    pub fn since(&self, earlier: &Self) -> Vec<Row> {
        let added = |now: &Row| {
            let before = earlier.rows.iter().find(|row| row.cpu == now.cpu)?;
            Some(Row {
                cpu: now.cpu,
                processed: now.processed.saturating_sub(before.processed),
                dropped: now.dropped.saturating_sub(before.dropped),
                squeezed: now.squeezed.saturating_sub(before.squeezed),
            })
        };
        self.rows.iter().filter_map(added).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_is_a_column_since_5_13_and_the_row_before() {
        let new = "0000000a 00000001 00000002 0 0 0 0 0 0 0 0 00000000 00000007 0 0\n";
        let row = Row { cpu: 7, processed: 10, dropped: 1, squeezed: 2 };
        assert_eq!(Softnet::parse_for(new, &[0, 2]).rows, [row]);
        let old = "0000000a 00000001 00000002 0 0 0 0 0 0 0 0\n".repeat(2);
        let cpus: Vec<usize> =
            Softnet::parse_for(&old, &[0, 2]).rows.iter().map(|r| r.cpu).collect();
        assert_eq!(cpus, [0, 2]);
    }

    #[test]
    fn garbage_and_counters_that_run_backwards_add_nothing() {
        for text in ["", "x y z", "1 2", "ffffffffffffffffff 1 1\n"] {
            assert!(Softnet::parse_for(text, &[0]).rows.is_empty(), "{text}");
        }
        let more = Softnet::parse_for("5 5 5", &[0]);
        let less = Softnet::parse_for("1 1 1", &[0]);
        assert_eq!(less.since(&more), [Row { cpu: 0, ..Row::default() }]);
    }
}
