//! systemd units: on the server nothing that starts by itself, on the laptop what a desktop brings.

use quietcore_facts::Services;
use quietcore_sys::host::Snapshot;
use serde_json::{Map, Value, json};

pub fn server(host: &mut Snapshot) {
    put(host, &["chrony.service"]);
    for file in
        ["/usr/lib/irqbalance/defaults.env", "/etc/default/irqbalance", "/etc/sysconfig/irqbalance"]
    {
        host.set(&format!("read {file}"), Value::Null);
    }
    host.set("config AUDIT", json!("y"));
}

pub fn laptop(host: &mut Snapshot) {
    put(
        host,
        &[
            "apt-daily.timer",
            "apt-daily-upgrade.timer",
            "e2scrub_all.timer",
            "fstrim.timer",
            "fwupd-refresh.timer",
            "logrotate.timer",
            "man-db.timer",
            "packagekit.service",
            "power-profiles-daemon.service",
            "systemd-timesyncd.service",
            "thermald.service",
        ],
    );
    host.set("config AUDIT", json!("y"));
}

fn put(host: &mut Snapshot, active: &[&str]) {
    let names = Services::units();
    let state = |unit: &&str| match active.contains(unit) {
        true => json!({"load": "loaded", "active": "active", "file": "enabled"}),
        false => json!({"load": "not-found", "active": "inactive", "file": ""}),
    };
    let states: Map<String, Value> = names.iter().map(|u| ((*u).to_owned(), state(u))).collect();
    host.set(&format!("units {}", names.join(" ")), Value::Object(states));
}
