//! The flags of a Java virtual machine and the collector it runs.

use std::collections::BTreeMap;

use quietcore_measure::Reading;
use quietcore_sys::Host;
use quietcore_sys::host::{Jvm, reading};

/// A Java virtual machine.
#[derive(Clone, Debug)]
pub struct Java {
    /// What it says of itself.
    pub own: Reading<Jvm>,
    /// Its flags, or why they could not be read.
    pub flags: Reading<Flags>,
}

/// Flags, each with the value that counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Values by name; `true` and `false` for switches.
    values: BTreeMap<String, String>,
    /// Where they were read.
    pub source: String,
    /// Whether a flag that is not here was not given: false where some may be in a file.
    pub complete: bool,
}

/// A garbage collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collector {
    /// One thread, everything stops.
    Serial,
    /// Many threads, everything stops.
    Parallel,
    /// Mostly concurrent, falls back to a full stop; gone since JDK 14.
    Cms,
    /// Pauses in the milliseconds.
    G1,
    /// Pauses below a millisecond.
    Z,
    /// Pauses in the low milliseconds or below.
    Shenandoah,
    /// None: memory is never freed.
    Epsilon,
}

impl Java {
    pub(crate) fn read(host: &Host, pid: u32) -> Self {
        let own = reading(host.jvm(pid));
        let flags = match own.value() {
            Some(jvm) => Reading::Measured(Flags {
                source: "the virtual machine's performance data (java.rt.vmArgs)".to_owned(),
                ..Flags::parse(jvm.options.iter().map(String::as_str))
            }),
            None => of_command_line(host, pid),
        };
        Self { own, flags }
    }

    /// The collector: as the machine names it, else as a flag asks for it. `None` where neither
    /// tells; the default depends on the version and on the memory and CPUs it was started with.
    pub fn collector(&self) -> Option<Collector> {
        let named = self.own.value().into_iter().flat_map(|jvm| &jvm.collectors);
        let mut named = named.filter_map(|collector| Collector::of_name(&collector.name));
        named.next().or_else(|| self.flags.value()?.collector())
    }
}

/// The virtual machine takes `JAVA_TOOL_OPTIONS` first, then `JDK_JAVA_OPTIONS` (from JDK 9 on, put
/// in by the launcher), the command line, and `_JAVA_OPTIONS` last.
fn of_command_line(host: &Host, pid: u32) -> Reading<Flags> {
    let environment = reading(host.environment(pid));
    let arguments = reading(host.arguments(pid));
    let (environment, arguments) = match (environment, arguments) {
        (Reading::Measured(environment), Reading::Measured(arguments)) => (environment, arguments),
        (environment, Reading::Measured(_)) => return environment.map(|_| Flags::default()),
        (_, arguments) => return arguments.map(|_| Flags::default()),
    };
    let words = |name: &str| {
        environment.get(name).map(String::as_str).unwrap_or_default().split_whitespace()
    };
    let own = arguments.iter().skip(1).map(String::as_str);
    let all = words("JAVA_TOOL_OPTIONS").chain(words("JDK_JAVA_OPTIONS")).chain(own);
    Reading::Measured(Flags {
        source: format!("/proc/{pid}/cmdline and environ"),
        ..Flags::parse(all.chain(words("_JAVA_OPTIONS")))
    })
}

impl Flags {
    /// Takes options in the order in which they count: of two for one flag, the later wins.
    pub fn parse<'a>(options: impl Iterator<Item = &'a str>) -> Self {
        let mut flags = Self { complete: true, ..Self::default() };
        for option in options {
            flags.complete &= !option.starts_with('@');
            if let Some((name, value)) = flag(option) {
                flags.complete &= !matches!(name, "Flags" | "VMOptionsFile");
                flags.values.insert(name.to_owned(), value.to_owned());
            }
        }
        flags
    }

    /// The value of a flag as given; `None` if it was not.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Whether a switch was turned on or off; `None` if it was not given.
    pub fn switch(&self, name: &str) -> Option<bool> {
        self.value(name)?.parse().ok()
    }

    /// A size in bytes, from `4g`, `512m`, `64k` or a plain number.
    pub fn bytes(&self, name: &str) -> Option<u64> {
        bytes(self.value(name)?)
    }

    /// A plain number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.value(name)?.parse().ok()
    }

    fn collector(&self) -> Option<Collector> {
        let known = [
            ("UseZGC", Collector::Z),
            ("UseShenandoahGC", Collector::Shenandoah),
            ("UseG1GC", Collector::G1),
            ("UseParallelGC", Collector::Parallel),
            ("UseParallelOldGC", Collector::Parallel),
            ("UseConcMarkSweepGC", Collector::Cms),
            ("UseSerialGC", Collector::Serial),
            ("UseEpsilonGC", Collector::Epsilon),
        ];
        known.iter().find(|(name, _)| self.switch(name) == Some(true)).map(|(_, found)| *found)
    }
}

/// `-Xmx4g` and `-XX:MaxHeapSize=4g` are the same flag, and so on.
fn flag(option: &str) -> Option<(&str, &str)> {
    for (short, name) in [
        ("-Xmx", "MaxHeapSize"),
        ("-Xms", "InitialHeapSize"),
        ("-Xmn", "NewSize"),
        ("-Xss", "ThreadStackSize"),
    ] {
        if let Some(size) = option.strip_prefix(short) {
            return Some((name, size));
        }
    }
    let long = option.strip_prefix("-XX:")?;
    if let Some(name) = long.strip_prefix('+') {
        return Some((name, "true"));
    }
    if let Some(name) = long.strip_prefix('-') {
        return Some((name, "false"));
    }
    long.split_once('=')
}

fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        "t" => 1 << 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

impl Collector {
    /// By the name that the virtual machine gives it in its performance data.
    fn of_name(name: &str) -> Option<Self> {
        match name {
            _ if name.contains("Shenandoah") => Some(Self::Shenandoah),
            _ if name.starts_with("ZGC") || name.starts_with("Z ") => Some(Self::Z),
            _ if name.starts_with("G1") => Some(Self::G1),
            _ if name.starts_with("PS") || name.starts_with("Parallel") => Some(Self::Parallel),
            _ if name.contains("CMS") || name.contains("ParNew") => Some(Self::Cms),
            "Copy" | "MSC" | "MarkSweepCompact" => Some(Self::Serial),
            _ if name.starts_with("Serial") => Some(Self::Serial),
            _ => None,
        }
    }

    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Serial => "Serial",
            Self::Parallel => "Parallel",
            Self::Cms => "CMS",
            Self::G1 => "G1",
            Self::Z => "ZGC",
            Self::Shenandoah => "Shenandoah",
            Self::Epsilon => "Epsilon",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Flags {
        Flags::parse(line.split(' '))
    }

    #[test]
    fn the_last_flag_wins_under_whatever_name() {
        let flags = of("-Xmx1g -XX:MaxHeapSize=2g -XX:+UseG1GC -XX:-UseG1GC -XX:+UseZGC -Xms512m");
        assert_eq!(flags.bytes("MaxHeapSize"), Some(2 << 30));
        assert_eq!(flags.bytes("InitialHeapSize"), Some(512 << 20));
        assert_eq!(flags.switch("UseG1GC"), Some(false));
        assert_eq!(flags.collector(), Some(Collector::Z));
        assert_eq!(flags.switch("AlwaysPreTouch"), None);
        assert!(flags.complete);
    }

    #[test]
    fn the_environment_comes_before_and_after_the_command_line() {
        let mut host = quietcore_sys::host::Snapshot::new("t");
        host.set(
            "environment 7",
            serde_json::json!({
                "JAVA_TOOL_OPTIONS": "-Xmx1g -XX:MaxGCPauseMillis=5",
                "JDK_JAVA_OPTIONS": "-Xms2g",
                "_JAVA_OPTIONS": "-XX:ConcGCThreads=9",
            }),
        );
        host.set(
            "arguments 7",
            serde_json::json!(["java", "-Xmx4g", "-Xms4g", "-XX:ConcGCThreads=1"]),
        );
        host.set("jvm 7", serde_json::Value::Null);
        let java = Java::read(&Host::recorded(host), 7);
        let flags = java.flags.value().unwrap();
        assert_eq!(flags.bytes("MaxHeapSize"), Some(4 << 30));
        assert_eq!(flags.bytes("InitialHeapSize"), Some(4 << 30));
        assert_eq!(flags.number("MaxGCPauseMillis"), Some(5));
        assert_eq!(flags.number("ConcGCThreads"), Some(9));
        assert_eq!(java.collector(), None, "the default is not guessed");
    }

    #[test]
    fn flags_in_a_file_leave_the_rest_open() {
        for line in ["@", "-XX:Flags=x", "-XX:VMOptionsFile=y"] {
            assert!(!of(line).complete, "{line}");
        }
    }

    #[test]
    fn garbage_is_no_flag() {
        for line in
            ["", "-XX:", "-XX:x", "-X", "Main", "-XX:MaxHeapSize=", "-Xmx", "-Xmxä", "-Xmx5x"]
        {
            let flags = of(line);
            assert_eq!(flags.bytes("MaxHeapSize"), None, "{line}");
            assert_eq!(flags.collector(), None);
        }
        assert_eq!(of("-Xmx99999999999t").bytes("MaxHeapSize"), None);
    }

    #[test]
    fn collectors_are_known_by_the_names_of_the_virtual_machine() {
        for (name, collector) in [
            ("Copy", Some(Collector::Serial)),
            ("PSScavenge", Some(Collector::Parallel)),
            ("Parallel young collection pauses", Some(Collector::Parallel)),
            ("Parallel full collection pauses", Some(Collector::Parallel)),
            ("G1 young collection pauses", Some(Collector::G1)),
            ("G1 incremental collections", Some(Collector::G1)),
            ("ZGC concurrent cycle pauses", Some(Collector::Z)),
            ("ZGC", Some(Collector::Z)),
            ("Shenandoah", Some(Collector::Shenandoah)),
            ("ParNew", Some(Collector::Cms)),
            ("", None),
        ] {
            assert_eq!(Collector::of_name(name), collector, "{name}");
        }
    }
}
