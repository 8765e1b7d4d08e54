//! A plan as a shell script that a careful person can read, run and undo, without this program.
//!
//! POSIX sh and the usual tools (`systemctl`, `ethtool`, `taskset`). Each change is one line,
//! `move KIND PLACE FROM TO`; the way back is the same line with FROM and TO exchanged. What a
//! script cannot do is said in a comment, never left out silently.

use std::collections::BTreeSet;
use std::fmt::Write;

use quietcore_sys::lease::{Form, Loader, Setting, Slot, Value};

use super::wrap;
use crate::knobs::{Item, State};
use crate::plan::{Plan, Step};

/// The part that is the same for every plan.
const FRAME: &str = include_str!("script.sh");

/// Width of a comment.
const WIDTH: usize = 96;

/// The plan as a script; `title` says of which profile, CPUs and host.
pub fn sh(plan: &Plan, title: &str) -> String {
    let lines = lines(plan);
    let moves: Vec<&Move> = lines.iter().filter_map(Line::as_move).collect();
    let mut script = String::from("#!/bin/sh\n");
    comment(&mut script, "", "", title);
    script.push_str(
        "#\n#     sh THIS-FILE apply     make the changes\n#     sh THIS-FILE undo      take them back\n#\n",
    );
    script.push_str(FRAME);
    if moves.iter().any(|change| change.optional) {
        script.push_str(TRY);
    }
    functions(&mut script, &moves);
    script.push_str("\nchanges() {\n    :\n");
    let mut rest = lines.iter();
    for step in &plan.steps {
        about(&mut script, step);
        for line in rest.by_ref().take(step.items.len()) {
            line.write(&mut script);
        }
    }
    script.push_str("}\n\nback() {\n    :\n");
    for change in moves.iter().rev() {
        let _ = writeln!(script, "    {}", change.undone());
    }
    script.push_str("}\n");
    boot_line(&mut script, plan);
    script.push_str(MAIN);
    script
}

const MAIN: &str = r#"
verb=${1:-}
case $verb in
    apply | undo) ;;
    *)
        echo "usage: sh $0 apply|undo" >&2
        exit 2
        ;;
esac
if [ "$(id -u)" -ne 0 ]; then
    echo "$0: this takes root" >&2
    exit 3
fi
if [ "$verb" = apply ]; then
    changes
    boot_line
else
    back
fi
exit "$missed"
"#;

/// What becomes of an item in a script.
enum Line {
    Move(Move),
    /// Nothing; why.
    Remark(String),
}

/// `move KIND PLACE FROM TO`.
struct Move {
    kind: Kind,
    place: String,
    from: String,
    to: String,
    optional: bool,
}

/// How a place is read and written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Word,
    List,
    Mask,
    Controllers,
    File,
    Folder,
    Unit,
    Enabled,
    Device { interface: String, setting: Setting },
    Affinity,
    Member,
    GrubEntry,
}

impl Line {
    fn as_move(&self) -> Option<&Move> {
        match self {
            Self::Move(change) => Some(change),
            Self::Remark(_) => None,
        }
    }

    fn write(&self, script: &mut String) {
        match self {
            Self::Move(change) => {
                let _ = writeln!(script, "    {}", change.done());
            }
            Self::Remark(text) => comment(script, "    ", "  ", text),
        }
    }
}

/// A line for every item, the changes among them in the order in which they must be made: some
/// stand in the place of another that follows them.
fn lines(plan: &Plan) -> Vec<Line> {
    let changes = plan.changes();
    let of = |slot: &Slot| plan.items().map(|(_, item)| item).find(|item| item.slot == *slot);
    let mut ordered = changes.iter().filter_map(|change| of(&change.slot));
    let in_turn = |item| if Item::is_change(item) { ordered.next().unwrap_or(item) } else { item };
    plan.items().map(|(_, item)| item).map(in_turn).map(line).collect()
}

fn line(item: &Item) -> Line {
    let slot = &item.slot;
    let remark = |text: String| Line::Remark(format!("{slot}: {text}"));
    match &item.state {
        State::Already => remark(format!("is {} already", item.after)),
        State::Absent(why) => remark(format!("not here: {why}")),
        State::Stuck(why) => remark(format!("cannot be changed: {why}")),
        State::Change(before) => match change(item, before) {
            Ok(change) => Line::Move(change),
            Err(why) => remark(format!("LEFT OUT, for {why}: {before} -> {}", item.after)),
        },
    }
}

/// # Errors
/// Why a script cannot do it.
fn change(item: &Item, before: &Value) -> Result<Move, &'static str> {
    let (kind, place) = match &item.slot {
        Slot::Knob { path, form } => (of_form(*form), path.clone()),
        Slot::File { path } => (Kind::File, path.clone()),
        Slot::Folder { path } => (Kind::Folder, path.clone()),
        Slot::Unit { name } => (Kind::Unit, name.clone()),
        Slot::Enabled { name } => (Kind::Enabled, name.clone()),
        Slot::Device { interface, setting } => {
            let kind = Kind::Device { interface: interface.clone(), setting: *setting };
            (kind, format!("{interface} {setting}"))
        }
        // With its start time: a later thread of the same number is another one.
        Slot::Affinity { tid, started } => (Kind::Affinity, format!("{tid} {started}")),
        Slot::Member { pid, started, mount } => (Kind::Member, format!("{pid} {started} {mount}")),
        Slot::NextBoot { loader: Loader::Grub { environment } } => {
            (Kind::GrubEntry, environment.clone())
        }
        Slot::NextBoot { loader: Loader::SystemdBoot } => {
            return Err("bootctl cannot tell which entry is set for the next boot");
        }
    };
    let (from, to) = (text(before)?, text(&item.after)?);
    Ok(Move { kind, place, from, to, optional: item.optional })
}

fn of_form(form: Form) -> Kind {
    match form {
        Form::Word => Kind::Word,
        Form::CpuList => Kind::List,
        Form::CpuMask => Kind::Mask,
        Form::Controllers => Kind::Controllers,
    }
}

/// A value as the script's `look` prints it: of a file the mode and owner in a line before it.
fn text(value: &Value) -> Result<String, &'static str> {
    match value {
        Value::Absent => Ok("absent".to_owned()),
        Value::Text(text) => Ok(text.clone()),
        Value::File(content) => {
            let text = std::str::from_utf8(&content.bytes.0).map_err(|_| "it is no text")?;
            // $(…) takes the newlines off the end, so there must be exactly one to put back.
            let whole = text.strip_suffix('\n').filter(|text| !text.ends_with('\n'));
            let text = whole.ok_or("it does not end with its only last newline")?;
            Ok(format!("{:o} {}:{}\n{text}", content.mode, content.uid, content.gid))
        }
    }
}

impl Move {
    fn done(&self) -> String {
        self.line(&self.from, &self.to)
    }

    fn undone(&self) -> String {
        self.line(&self.to, &self.from)
    }

    fn line(&self, from: &str, to: &str) -> String {
        let verb = if self.optional { "try" } else { "move" };
        let words = [&self.place, from, to].map(quoted);
        format!("{verb} {} {}", self.kind.name(), words.join(" "))
    }
}

/// A word that the shell takes as it is.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._,:=+@%-".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

fn about(script: &mut String, step: &Step) {
    let knob = step.knob;
    script.push('\n');
    comment(script, "    ", "  ", &format!("{} = {}: {}", knob.id, step.value, knob.about));
    if !step.items.iter().any(Item::is_change) {
        return;
    }
    for (label, text) in [("Why", knob.why), ("Price", knob.price), ("Risk", knob.risk)] {
        if !text.is_empty() {
            comment(script, "    ", "  ", &format!("{label}: {text}"));
        }
    }
}

/// Comment lines: `indent # text`, further lines `hang` deeper. No text can end its comment.
fn comment(script: &mut String, indent: &str, hang: &str, text: &str) {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    for (number, line) in wrap(&text, WIDTH - indent.len()).iter().enumerate() {
        let hang = if number == 0 { "" } else { hang };
        let _ = writeln!(script, "{indent}# {hang}{line}");
    }
}

/// What a script does not do: it could not try a line once and fall back to the old one.
fn boot_line(script: &mut String, plan: &Plan) {
    script.push_str("\nboot_line() {\n    :\n");
    if let Some(boot) = plan.boot.as_ref().filter(|boot| !boot.is_in_force()) {
        let text = "The boot line: `quietcore apply` has the new line booted once, and the old one \
                    again if the host does not come back. A script cannot watch that; add these by \
                    hand, for GRUB in GRUB_CMDLINE_LINUX of /etc/default/grub and then update-grub.";
        comment(script, "    ", "  ", text);
        let line = quoted(&format!("NOT DONE the boot line, by hand: {boot}"));
        let _ = writeln!(script, "    echo {line}\n    missed=1");
    }
    script.push_str("}\n");
}

impl Kind {
    fn name(&self) -> &'static str {
        match self {
            Self::Word => "word",
            Self::List => "list",
            Self::Mask => "mask",
            Self::Controllers => "controllers",
            Self::File => "file",
            Self::Folder => "folder",
            Self::Unit => "unit",
            Self::Enabled => "enabled",
            Self::Device { .. } => "device",
            Self::Affinity => "affinity",
            Self::Member => "member",
            Self::GrubEntry => "grub-entry",
        }
    }

    /// Of `plain`, where a text may mean the same as another: what makes them equal.
    fn plain(&self) -> &'static str {
        match self {
            // The word in brackets is in force, where there is one.
            Self::Word => {
                r#"            case $1 in
                *\[*\[*) printf '%s' "$1" ;;
                *\[*\]*) printf '%s' "$1" | sed 's/.*\[\(.*\)\].*/\1/' ;;
                *) printf '%s' "$1" ;;
            esac
"#
            }
            Self::Mask => {
                r#"            printf '%s' "$1" | sed 's/,//g; s/^0*//'
"#
            }
            Self::Controllers => {
                r#"            printf '%s' "$1" | tr -s ' ' '\n' | sort
"#
            }
            _ => "",
        }
    }

    /// Of `look`: prints what $place holds, fails if there is no such place.
    fn look(&self) -> String {
        let fixed = match self {
            Self::Word | Self::List | Self::Mask | Self::Controllers => {
                r#"            sed 's/^[[:space:]]*//; s/[[:space:]]*$//' "$place"
"#
            }
            Self::File => {
                r#"            if [ ! -e "$place" ]; then
                echo absent
            else
                stat -c '%a %u:%g' "$place" && cat "$place"
            fi
"#
            }
            Self::Folder => {
                r#"            if [ -d "$place" ]; then echo folder; else echo absent; fi
"#
            }
            Self::Unit => {
                r#"            [ "$(systemctl show -p LoadState --value "$place")" != not-found ] || return 1
            file=$(systemctl show -p UnitFileState --value "$place")
            case $(systemctl show -p ActiveState --value "$place") in
                active | activating) echo "active $file" ;;
                *) echo "inactive $file" ;;
            esac
"#
            }
            Self::Enabled => {
                r#"            case $(systemctl show -p UnitFileState --value "$place") in
                enabled*) echo enabled ;;
                *) echo disabled ;;
            esac
"#
            }
            Self::Device { interface, setting } => return look_device(interface, *setting),
            Self::Affinity => {
                r#"            alive && sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/${place%% *}/status"
"#
            }
            Self::Member => {
                r#"            alive || return 1
            mount=${place##* }
            sed -n -e "s/^[0-9]*:[^:]*\<${mount##*/}\>[^:]*://p" -e 's/^0:://p' \
                "/proc/${place%% *}/cgroup" | head -n 1
"#
            }
            Self::GrubEntry => {
                r#"            entry=$("$editenv" "$place" list | sed -n 's/^next_entry=//p')
            echo "${entry:-absent}"
"#
            }
        };
        fixed.to_owned()
    }

    /// Of `give`: writes $to.
    fn give(&self, values: &BTreeSet<&str>) -> String {
        let fixed = match self {
            Self::Word => {
                r#"            plain "$to" >"$place"
"#
            }
            Self::List | Self::Mask => {
                r#"            printf '%s\n' "$to" >"$place"
"#
            }
            Self::Controllers => {
                r#"            for one in $to; do
                case " $now " in *" $one "*) ;; *) echo "+$one" >"$place" || return 1 ;; esac
            done
            for one in $now; do
                case " $to " in *" $one "*) ;; *) echo "-$one" >"$place" || return 1 ;; esac
            done
"#
            }
            Self::File => {
                r#"            beside=${place%/*}/.${place##*/}.new
            if [ "$to" = absent ]; then
                rm "$place"
            else
                about=${to%%"$newline"*}
                printf '%s\n' "${to#*"$newline"}" >"$beside" &&
                    chown "${about#* }" "$beside" && chmod "${about%% *}" "$beside" &&
                    mv "$beside" "$place"
            fi
"#
            }
            Self::Folder => {
                r#"            if [ "$to" = absent ]; then rmdir "$place"; else mkdir "$place"; fi
"#
            }
            Self::Unit => {
                r#"            if [ "${to%% *}" = inactive ]; then systemctl stop "$place" || return 1; fi
            if [ "${now#* }" != "${to#* }" ]; then
                if [ "${now#* }" = masked ]; then systemctl unmask "$place" || return 1; fi
                case ${to#* } in
                    enabled) systemctl enable "$place" || return 1 ;;
                    disabled) systemctl disable "$place" || return 1 ;;
                    masked) systemctl mask "$place" || return 1 ;;
                esac
            fi
            if [ "${to%% *}" = active ]; then systemctl start "$place" || return 1; fi
"#
            }
            Self::Enabled => {
                r#"            if [ "$to" = enabled ]; then systemctl enable "$place"; else systemctl disable "$place"; fi
"#
            }
            Self::Device { interface, setting } => {
                return give_device(interface, *setting, values);
            }
            Self::Affinity => {
                r#"            taskset -pc "$to" "${place%% *}" >/dev/null
"#
            }
            Self::Member => {
                r#"            echo "${place%% *}" >"${place##* }/${to#/}/cgroup.procs"
"#
            }
            Self::GrubEntry => {
                r#"            if [ "$to" = absent ]; then
                "$editenv" "$place" unset next_entry
            else
                "$editenv" "$place" set "next_entry=$to"
            fi
"#
            }
        };
        fixed.to_owned()
    }
}

fn look_device(interface: &str, setting: Setting) -> String {
    let interface = quoted(interface);
    let (option, pattern) = match setting {
        Setting::RxUsecs => ("-c", "s/^rx-usecs:[[:space:]]*//p"),
        Setting::RxFrames => ("-c", "s/^rx-frames:[[:space:]]*//p"),
        Setting::TxUsecs => ("-c", "s/^tx-usecs:[[:space:]]*//p"),
        Setting::AdaptiveRx => ("-c", "s/^Adaptive RX: on.*/1/p; s/^Adaptive RX: off.*/0/p"),
        Setting::RxRing => ("-g", "/^Current/,$ s/^RX:[[:space:]]*//p"),
        Setting::TxRing => ("-g", "/^Current/,$ s/^TX:[[:space:]]*//p"),
        Setting::Gro => {
            ("-k", "s/^generic-receive-offload: on.*/1/p; s/^generic-receive-offload: off.*/0/p")
        }
        Setting::Eee => {
            ("--show-eee", "s/.*EEE status: enabled.*/1/p; s/.*EEE status: disabled.*/0/p")
        }
    };
    format!("            ethtool {option} {interface} | sed -n '{pattern}' | grep .\n")
}

fn give_device(interface: &str, setting: Setting, values: &BTreeSet<&str>) -> String {
    let mut arm = String::from("            case $to in\n");
    let interface = quoted(interface);
    for value in values {
        let command = setting.command(&interface, &quoted(value));
        let _ = writeln!(arm, "                {}) {command} ;;", quoted(value));
    }
    arm.push_str("            esac\n");
    arm
}

/// `plain`, `look` and `give`, with what this plan needs of them.
fn functions(script: &mut String, moves: &[&Move]) {
    let kinds: BTreeSet<&Kind> = moves.iter().map(|change| &change.kind).collect();
    script.push_str("\n# What a text means.\nplain() {\n    case $kind in\n");
    for kind in kinds.iter().filter(|kind| !kind.plain().is_empty()) {
        let _ = write!(script, "        {})\n{}            ;;\n", kind.name(), kind.plain());
    }
    script.push_str("        *) printf '%s' \"$1\" ;;\n    esac\n}\n");
    if kinds.iter().any(|kind| matches!(kind, Kind::Affinity | Kind::Member)) {
        script.push_str(ALIVE);
    }
    if kinds.contains(&Kind::GrubEntry) {
        script.push_str(EDITENV);
    }
    script.push_str("\nlook() {\n    case \"$kind $place\" in\n");
    for kind in &kinds {
        let _ = write!(script, "        {})\n{}            ;;\n", pattern(kind), kind.look());
    }
    script.push_str(
        "        *) return 1 ;;\n    esac\n}\n\ngive() {\n    case \"$kind $place\" in\n",
    );
    for kind in &kinds {
        let values = moves.iter().filter(|change| change.kind == **kind);
        let values = values.flat_map(|change| [change.from.as_str(), &change.to]).collect();
        let _ =
            write!(script, "        {})\n{}            ;;\n", pattern(kind), kind.give(&values));
    }
    script.push_str("        *) return 1 ;;\n    esac\n}\n");
}

/// Devices have an arm each: what ethtool is asked differs.
fn pattern(kind: &Kind) -> String {
    match kind {
        Kind::Device { interface, setting } => quoted(&format!("device {interface} {setting}")),
        kind => format!("{}\\ *", kind.name()),
    }
}

const TRY: &str = r#"
# A move that the kernel may refuse without harm to the rest.
try() {
    optional=yes
    move "$@"
    optional=no
}
"#;

const ALIVE: &str = r#"
# Whether the thread still is the one that was meant: field 22 of its stat is when it began.
alive() {
    rest=$(sed 's/.*) //' "/proc/${place%% *}/stat" 2>/dev/null) || return 1
    began=${place#* }
    # shellcheck disable=SC2086 # the fields are words
    set -- $rest
    [ "${20}" = "${began%% *}" ]
}
"#;

const EDITENV: &str = r#"
editenv=$(command -v grub-editenv || command -v grub2-editenv || echo grub-editenv)
"#;
