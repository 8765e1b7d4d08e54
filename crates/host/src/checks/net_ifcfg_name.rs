use quietcore_facts::Facts;
use quietcore_measure::Cause;
use quietcore_sys::host::Trouble;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "net.ifcfg-name",
    cause: Cause::Network,
    about: "Interface settings are written for interfaces that are there",
    why: "A setting in /etc/sysconfig/network-scripts/ifcfg-eth0 does nothing on a host whose \
          interface is called ens5: the value set by hand works until the next boot, and then the \
          benchmark compares 1,500 with 1,500. Only the names of the files are read. Files for \
          interfaces that appear later (a VLAN, a tunnel) look the same, hence a warning.",
    cost: Cost {
        us: 5.0,
        text: "whatever the setting was to gain, from the next boot on; ranked at a hundredth, for nothing is lost yet",
        origin: "article on AWS: MTU written for eth0, measured on ens5",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    const FOLDER: &str = "/etc/sysconfig/network-scripts";
    let files = match facts.host().list(FOLDER) {
        Ok(files) => files,
        Err(error) if error.trouble == Trouble::Missing => {
            return Verdict::not_applicable(format!("this distribution has no {FOLDER}"));
        }
        Err(error) => return Verdict::unanswered(&error),
    };
    let interfaces = &facts.nics().names;
    let Some(interfaces) = interfaces.value() else { return Verdict::unread(interfaces) };
    let named: Vec<&str> = files
        .iter()
        .filter_map(|file| file.strip_prefix("ifcfg-"))
        .filter(|name| *name != "lo" && !name.contains('~') && !name.contains(".bak"))
        .collect();
    if named.is_empty() {
        return Verdict::not_applicable(format!("{FOLDER} holds no settings"));
    }
    let is_there = |name: &&&str| interfaces.iter().any(|i| i.as_str() == **name);
    let absent: Vec<&str> = named.iter().filter(|name| !is_there(name)).copied().collect();
    let verdict = match absent.is_empty() {
        true => Verdict::pass("every settings file has its interface"),
        false => Verdict::warn(format!("settings for {} reach no interface", absent.join(", "))),
    };
    verdict.evidence(FOLDER, named.join(" ")).evidence("/sys/class/net", interfaces.join(" ")).fix(
        format!(
            "rename {FOLDER}/ifcfg-{} after the interface (DEVICE= in it as well)",
            absent.first().unwrap_or(&"")
        ),
    )
}
