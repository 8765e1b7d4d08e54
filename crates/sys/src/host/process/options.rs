//! Which words of a command line tune a runtime.

/// Options of the `java` launcher whose value is the next word.
const WITH_VALUE: [&str; 12] = [
    "-cp",
    "-classpath",
    "--class-path",
    "-p",
    "--module-path",
    "--upgrade-module-path",
    "--add-modules",
    "--limit-modules",
    "--add-reads",
    "--add-exports",
    "--add-opens",
    "--describe-module",
];

/// The `-X…` options among a program's arguments, and `@` for every file of further options.
///
/// They end where the name of the class, `-jar` or a module begins: what follows belongs to the
/// program, and may look the same.
pub(in crate::host) fn runtime_options<'a>(
    arguments: impl Iterator<Item = &'a str>,
) -> Vec<String> {
    let mut options = Vec::new();
    let mut is_value = false;
    for word in arguments {
        match word {
            _ if is_value => is_value = false,
            "-jar" | "-m" | "--module" => break,
            _ if word.starts_with("-X") => options.extend(kept(word)),
            _ if word.starts_with('@') => options.push("@".to_owned()),
            _ if WITH_VALUE.contains(&word) => is_value = true,
            _ if word.starts_with('-') => {}
            _ => break,
        }
    }
    options
}

/// An option as it is kept: flags and sizes. A value that may be a path or a command is cut out,
/// and options that hold nothing else (`-Xlog:…`, `-Xrun…`) are left out.
pub(super) fn kept(option: &str) -> Option<String> {
    let sizes = ["-Xms", "-Xmx", "-Xmn", "-Xss", "-Xint"];
    if !option.starts_with("-XX:") && !sizes.iter().any(|start| option.starts_with(start)) {
        return None;
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '%' | '-');
    Some(match option.split_once('=') {
        Some((name, value)) if !value.chars().all(plain) => format!("{name}=…"),
        _ => option.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Vec<String> {
        runtime_options(line.split(' '))
    }

    #[test]
    fn options_end_where_the_program_begins() {
        assert_eq!(of("-Xms1g -cp a:b -Dx=y -Xmx1g Main -Xmx9g"), ["-Xms1g", "-Xmx1g"]);
        assert_eq!(of("-XX:+UseZGC -jar app.jar -Xmx9g"), ["-XX:+UseZGC"]);
        assert_eq!(
            of("--add-opens java.base/x=ALL @more -Xmx1g -m app/Main -Xss1m"),
            ["@", "-Xmx1g"]
        );
        assert!(of("").is_empty() && of("serve -Xmx1g").is_empty());
    }

    #[test]
    fn paths_and_commands_are_not_kept() {
        assert_eq!(
            of("-Xlog:gc:/home/jane/x -XX:OnError=curl?key=1 -XX:ParallelGCThreads=4 -Xss512k"),
            ["-XX:OnError=…", "-XX:ParallelGCThreads=4", "-Xss512k"]
        );
    }
}
