//! Memory: huge pages, swap, counters, and the settings that move pages about.

use quietcore_sys::host::Snapshot;

use super::{file, files, folder};

const NODES: &str = "/sys/devices/system/node";
const THP: &str = "/sys/kernel/mm/transparent_hugepage";

pub fn server(host: &mut Snapshot) {
    transparent(host, "always madvise [never]", "always defer defer+madvise [madvise] never", "0");
    node(host, 0, [4096, 1024], [90_000_000, 0]);
    node(host, 1, [0, 0], [40_000_000, 0]);
    file(host, "/proc/swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n");
    counters(host, 0);
    sysctls(
        host,
        &[
            ("compaction_proactiveness", "0"),
            ("min_free_kbytes", "1048576"),
            ("watermark_scale_factor", "50"),
            ("dirty_bytes", "1073741824"),
            ("dirty_ratio", "0"),
            ("swappiness", "10"),
        ],
    );
    file(host, "/proc/sys/kernel/numa_balancing", "0\n");
    files(host, "/sys/devices/system/edac/mc/mc0", &[("ce_count", "0"), ("ue_count", "0")]);
    folder(host, "/sys/devices/system/edac/mc", &["mc0", "power", "uevent"]);
    files(
        host,
        "/sys/devices/system/machinecheck/machinecheck2",
        &[("check_interval", "300"), ("ignore_ce", "1")],
    );
}

pub fn laptop(host: &mut Snapshot) {
    transparent(host, "[always] madvise never", "always defer defer+madvise [madvise] never", "1");
    node(host, 0, [0, 0], [5_000_000, 0]);
    file(
        host,
        "/proc/swaps",
        "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/dev/nvme0n1p3                         \
         partition\t16777212\t0\t\t-2\n",
    );
    counters(host, 37);
    sysctls(
        host,
        &[
            ("compaction_proactiveness", "20"),
            ("min_free_kbytes", "67584"),
            ("watermark_scale_factor", "10"),
            ("dirty_bytes", "0"),
            ("dirty_ratio", "20"),
            ("swappiness", "60"),
        ],
    );
    file(host, "/proc/sys/kernel/numa_balancing", "0\n");
    folder(host, "/sys/devices/system/edac/mc", &["power", "uevent"]);
}

fn transparent(host: &mut Snapshot, enabled: &str, defrag: &str, khugepaged: &str) {
    folder(
        host,
        THP,
        &["defrag", "enabled", "hpage_pmd_size", "khugepaged", "shmem_enabled", "use_zero_page"],
    );
    files(host, THP, &[("enabled", enabled), ("defrag", defrag)]);
    files(
        host,
        &format!("{THP}/khugepaged"),
        &[("defrag", khugepaged), ("pages_collapsed", "120")],
    );
    files(host, "/sys/kernel/mm/ksm", &[("run", "0"), ("pages_sharing", "0")]);
}

/// Huge pages of 2 MiB reserved and free; pages wanted and had, wanted and had elsewhere.
fn node(host: &mut Snapshot, node: usize, pages: [u32; 2], [hit, foreign]: [u64; 2]) {
    let pools = format!("{NODES}/node{node}/hugepages");
    folder(host, &pools, &["hugepages-1048576kB", "hugepages-2048kB"]);
    for (size, [total, free]) in [("1048576", [0, 0]), ("2048", pages)] {
        files(
            host,
            &format!("{pools}/hugepages-{size}kB"),
            &[("nr_hugepages", &total.to_string()), ("free_hugepages", &free.to_string())],
        );
    }
    file(
        host,
        &format!("{NODES}/node{node}/numastat"),
        format!(
            "numa_hit {hit}\nnuma_miss 0\nnuma_foreign {foreign}\ninterleave_hit 1200\nlocal_node \
             {hit}\nother_node 0\n"
        ),
    );
}

fn counters(host: &mut Snapshot, stalls: u32) {
    file(
        host,
        "/proc/vmstat",
        format!(
            "pswpin 0\npswpout 0\nallocstall_dma 0\nallocstall_dma32 0\nallocstall_normal {stalls}\nallocstall_movable 0\n\
             pgmajfault 4000\noom_kill 0\ncompact_stall 0\ncompact_fail 0\ncompact_success 0\n"
        ),
    );
    let calm = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 \
                avg300=0.00 total=0\n";
    file(host, "/proc/pressure/memory", calm);
    file(host, "/proc/pressure/io", calm.replacen("avg60=0.00", "avg60=0.35", 1));
}

fn sysctls(host: &mut Snapshot, values: &[(&str, &str)]) {
    files(host, "/proc/sys/vm", values);
    file(host, "/proc/sys/vm/zone_reclaim_mode", "0\n");
}
