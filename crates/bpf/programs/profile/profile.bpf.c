/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Where threads run: samples, summed in the kernel by thread and stack. Each CPU's own event fires
 * here, so that a CPU without one is not touched.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

#include "watch.h"
#include "stacks.h"

/* Set before loading. */
const volatile bool want_kernel;
const volatile bool want_user;

enum own_counter { SAMPLES = FIRST_OWN_COUNTER, IDLE_SAMPLES, OTHERS };

/* Who was where. */
struct key {
	u32 tid, tgid;
	u64 kernel, user;
};

struct sum {
	u64 count;
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct key);
	__type(value, struct sum);
} sums SEC(".maps");

SEC("perf_event")
int sample(void *ctx)
{
	u64 id = bpf_get_current_pid_tgid();
	struct key key = { .tid = id, .tgid = id >> 32 };
	struct sum first = { .count = 1 }, *sum;

	if (!key.tid) {
		count(IDLE_SAMPLES);
		return 0;
	}
	if (!watches(key.tid, key.tgid, bpf_get_smp_processor_id())) {
		count(OTHERS);
		return 0;
	}
	count(SAMPLES);
	if (want_kernel)
		key.kernel = own_stack(ctx, OF_SWITCH, 0);
	if (want_user)
		key.user = own_stack(ctx, OF_EXIT, BPF_F_USER_STACK);
	sum = bpf_map_lookup_elem(&sums, &key);
	if (sum) {
		/* A thread is on one CPU at a time. */
		sum->count += 1;
		return 0;
	}
	bpf_get_current_comm(first.comm, sizeof(first.comm));
	if (bpf_map_update_elem(&sums, &key, &first, BPF_ANY))
		count(LOST_SUMS);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
