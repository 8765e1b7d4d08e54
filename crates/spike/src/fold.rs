//! Stacks of addresses as the lines that flame graphs are made of.

use quietcore_bpf::{Stack, Symbols};

/// Where a thread was: names from the outermost to the innermost, those of the kernel marked by
/// `_[k]`, as flame graphs expect it.
pub fn frames(symbols: &mut Symbols, pid: u32, user: &Stack, kernel: &Stack) -> Vec<String> {
    let user_names = symbols.user(pid, user.frames());
    let kernel_names = symbols.kernel(kernel.frames());
    let mut frames = named(user, user_names, "[user stack lost]", "");
    frames.extend(named(kernel, kernel_names, "[kernel stack lost]", "_[k]"));
    frames
}

fn named(stack: &Stack, names: Vec<String>, lost: &str, mark: &str) -> Vec<String> {
    match stack {
        Stack::None => Vec::new(),
        Stack::Lost => vec![lost.to_owned()],
        Stack::Frames(_) => names.into_iter().rev().map(|name| format!("{name}{mark}")).collect(),
    }
}

/// One line: who, and where. Inlined functions are frames of their own.
pub fn line(who: &str, frames: &[String]) -> String {
    std::iter::once(&who.replace(';', ":")).chain(frames).cloned().collect::<Vec<_>>().join(";")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_begins_with_whom_and_ends_with_where() {
        let frames = ["main".to_owned(), "do_read_[k]".to_owned()];
        assert_eq!(line("a;b", &frames), "a:b;main;do_read_[k]");
        assert_eq!(line("idle", &[]), "idle");
    }

    #[test]
    fn the_kernel_s_part_is_inside_the_user_s() {
        let user = Stack::Frames(vec![2, 1]);
        let names = vec!["inner".to_owned(), "outer;inlined".to_owned()];
        assert_eq!(named(&user, names, "", ""), ["outer;inlined", "inner"]);
        let kernel = Stack::Frames(vec![4, 3]);
        let names = vec!["pipe_read".to_owned(), "do_syscall_64".to_owned()];
        assert_eq!(named(&kernel, names, "", "_[k]"), ["do_syscall_64_[k]", "pipe_read_[k]"]);
    }

    #[test]
    fn a_lost_stack_is_not_an_empty_one() {
        assert_eq!(named(&Stack::Lost, Vec::new(), "[lost]", ""), ["[lost]"]);
        assert!(named(&Stack::None, Vec::new(), "[lost]", "").is_empty());
    }
}
