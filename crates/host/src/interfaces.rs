//! What checks ask of network interfaces.

use quietcore_facts::Facts;
use quietcore_facts::nics::Nic;
use quietcore_measure::Reading;
use quietcore_sys::host::Ethtool;

use crate::Verdict;

/// The physical interfaces in use, or the verdict where there are none to judge.
pub(crate) fn in_use(facts: &Facts) -> Result<&[Nic], Verdict> {
    let nics = facts.nics();
    if nics.names.value().is_none() {
        return Err(Verdict::unread(&nics.names));
    }
    if let Some(why) = &nics.unread {
        return Err(Verdict::unknown(why));
    }
    match nics.up.is_empty() {
        true => Err(Verdict::not_applicable("no physical network interface is up")),
        false => Ok(&nics.up),
    }
}

/// What the drivers of these interfaces answer to one question; the verdict where none offers the
/// setting, or where one that was not asked could be the one that matters.
pub(crate) fn offered<'a, T>(
    facts: &'a Facts,
    setting: &str,
    ask: impl Fn(&Ethtool) -> Option<T>,
) -> Result<Vec<(&'a Nic, T)>, Verdict> {
    let nics = in_use(facts)?;
    if let Some(failed) = nics.iter().find(|nic| matches!(nic.ethtool, Reading::Failed(_))) {
        return Err(Verdict::unread(&failed.ethtool));
    }
    let answers = nics.iter().filter_map(|nic| Some((nic, ask(nic.ethtool.value()?)?)));
    let answers: Vec<(&Nic, T)> = answers.collect();
    match answers.is_empty() {
        true => {
            let drivers: Vec<&str> = nics.iter().map(Nic::driver).collect();
            let drivers = drivers.join(", ");
            Err(Verdict::not_applicable(format!("no driver offers {setting} ({drivers})")))
        }
        false => Ok(answers),
    }
}

/// The names of these interfaces.
pub(crate) fn names<'a>(nics: impl IntoIterator<Item = &'a Nic>) -> String {
    nics.into_iter().map(|nic| nic.name.as_str()).collect::<Vec<_>>().join(", ")
}
