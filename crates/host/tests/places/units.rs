//! With a systemctl that keeps what it is told, on a host that looks as if systemd ran it.

use std::fs;

use crate::bench::{cores, inside, there_and_back};

/// In a mount namespace: `/run` and `/etc/systemd/system` are empty but for what systemd makes.
const SETUP: &str = r#"mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system /run/bin
mount -t tmpfs tmpfs /etc/systemd/system
cat > /run/bin/systemctl <<'END'
#!/bin/sh
[ "$1" = --quiet ] && shift
[ "$1" = show ] || echo "$*" >> /run/told
reads() { cat "/run/$1" 2>/dev/null || echo "$2"; }
case $1 in
show)
    while [ "$1" != -- ]; do shift; done
    shift
    for unit; do
        printf 'Id=%s\nLoadState=loaded\n' "$unit"
        printf 'ActiveState=%s\nUnitFileState=%s\n\n' "$(reads "$unit.runs" active)" "$(reads "$unit.file" disabled)"
    done ;;
stop)
    if [ "$2" = auditd.service ]; then
        echo "Failed to stop auditd.service: Operation refused, unit auditd.service may be requested by dependency only (it is configured to refuse manual start/stop)." >&2
        exit 1
    fi
    echo inactive > "/run/$2.runs" ;;
start) echo active > "/run/$2.runs" ;;
enable) echo enabled > "/run/$2.file" ;;
disable) echo disabled > "/run/$2.file" ;;
esac
END
chmod +x /run/bin/systemctl && export PATH="/run/bin:$PATH""#;

fn told() -> String {
    fs::read_to_string("/run/told").unwrap_or_default().replace('\n', "; ")
}

#[test]
fn root_the_service_comes_and_goes_and_systemd_is_told_of_its_file() {
    let name = "units::root_the_service_comes_and_goes_and_systemd_is_told_of_its_file";
    if !inside(name, SETUP) {
        return;
    }
    let there = || told() == "daemon-reload; enable quietcore.service; ";
    there_and_back("at-boot", "on", &cores("1", "0"), |_| true, |_| assert!(there(), "{}", told()));
    assert!(told().ends_with("disable quietcore.service; daemon-reload; "), "{}", told());
    assert!(!fs::exists("/etc/systemd/system/quietcore.service").unwrap());
}

#[test]
fn root_irqbalance_is_told_the_cpus_and_restarted_with_them_and_without() {
    let name = "units::root_irqbalance_is_told_the_cpus_and_restarted_with_them_and_without";
    if !inside(name, SETUP) {
        return;
    }
    let folder = "/etc/systemd/system/irqbalance.service.d";
    there_and_back(
        "irqbalance-banned",
        "isolated",
        &cores("1", "0"),
        |_| true,
        |_| {
            let environment = fs::read_to_string(format!("{folder}/quietcore.env")).unwrap();
            assert!(environment.contains("IRQBALANCE_BANNED_CPULIST=1\n"), "{environment}");
            let unit = fs::read_to_string(format!("{folder}/quietcore.conf")).unwrap();
            assert!(unit.contains(&format!("EnvironmentFile={folder}/quietcore.env")), "{unit}");
            assert!(told().ends_with("daemon-reload; try-restart irqbalance.service; "));
        },
    );
    assert!(told().ends_with("daemon-reload; try-restart irqbalance.service; "), "{}", told());
    assert!(!fs::exists(folder).unwrap());
}

#[test]
fn root_a_service_that_refuses_to_be_stopped_is_named_and_the_others_are_stopped() {
    let name =
        "units::root_a_service_that_refuses_to_be_stopped_is_named_and_the_others_are_stopped";
    if !inside(name, SETUP) {
        return;
    }
    let units = "auditd.service,irqbalance.service";
    there_and_back(
        "stop-services",
        units,
        &cores("1", "0"),
        |_| true,
        |made| {
            let why = made[0].refused.as_deref().unwrap();
            assert!(why.contains("service auditd stop"), "{why}");
            assert_eq!(made[1].refused, None);
            assert_eq!(fs::read_to_string("/run/irqbalance.service.runs").unwrap(), "inactive\n");
        },
    );
    assert_eq!(fs::read_to_string("/run/irqbalance.service.runs").unwrap(), "active\n");
}
