//! The names of the kernel's functions.

/// The kernel's functions by address, as /proc/kallsyms lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kallsyms {
    functions: Vec<(u64, String)>,
}

impl Kallsyms {
    /// Reads the text of /proc/kallsyms. Where addresses are hidden (all 0) there are no names.
    pub fn parse(text: &str) -> Self {
        let function = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let kind = words.next()?;
            let is_code = matches!(kind, "t" | "T" | "w" | "W");
            (is_code && address != 0).then(|| Some((address, words.next()?.to_owned())))?
        };
        let mut functions: Vec<_> = text.lines().filter_map(function).collect();
        functions.sort();
        Self { functions }
    }

    /// The function that an address lies in.
    pub fn name(&self, address: u64) -> Option<&str> {
        let after = self.functions.partition_point(|(start, _)| *start <= address);
        let name = self.functions.get(after.checked_sub(1)?).map(|(_, name)| name.as_str());
        // Behind the kernel's code, as programs loaded later are.
        name.filter(|name| !matches!(*name, "_etext" | "_einittext"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_lies_in_the_function_before_it() {
        let text = "ffffffff81000000 T _stext\nffffffff81000100 t do_it\nffffffff81000200 D data\n";
        let kernel = Kallsyms::parse(text);
        assert_eq!(kernel.name(0xffff_ffff_8100_0150), Some("do_it"));
        assert_eq!(kernel.name(0xffff_ffff_8100_0100), Some("do_it"));
        assert_eq!(kernel.name(0xffff_ffff_8100_00ff), Some("_stext"));
        assert_eq!(kernel.name(5), None);
    }

    #[test]
    fn what_lies_behind_the_kernel_is_none_of_its_functions() {
        let kernel =
            Kallsyms::parse("1000 T last\n2000 T _etext\n3000 T early\n4000 T _einittext\n");
        assert_eq!(kernel.name(0x1fff), Some("last"));
        assert_eq!(kernel.name(0x2fff), None);
        assert_eq!(kernel.name(0xffff_ffff_c000_0000), None);
    }

    #[test]
    fn hidden_addresses_are_no_names() {
        assert_eq!(Kallsyms::parse("0000000000000000 T _stext\n"), Kallsyms::default());
    }
}
