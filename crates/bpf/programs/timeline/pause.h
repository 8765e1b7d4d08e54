/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Language runtimes that stop a whole process, mostly for their garbage collector. User space finds
 * where a runtime begins and ends a stop and attaches these two there.
 */

/* A process was stopped by its own runtime. */
struct pause {
	u64 start, end;
	u32 tgid, tid;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, u64);
} stopped SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 << 10);
} pauses SEC(".maps");

SEC("uprobe")
int pause_begin(void *ctx)
{
	u64 now = bpf_ktime_get_ns();
	u32 tgid = bpf_get_current_pid_tgid() >> 32;

	bpf_map_update_elem(&stopped, &tgid, &now, BPF_ANY);
	return 0;
}

SEC("uprobe")
int pause_end(void *ctx)
{
	u64 now = bpf_ktime_get_ns(), id = bpf_get_current_pid_tgid();
	u32 tgid = id >> 32;
	u64 *start = bpf_map_lookup_elem(&stopped, &tgid);
	struct pause *p;

	/* Runtimes that were in the middle of one when this was attached. */
	if (!start)
		return 0;
	p = bpf_ringbuf_reserve(&pauses, sizeof(*p), 0);
	if (!p) {
		count(DROPPED);
		return 0;
	}
	p->start = *start;
	p->end = now;
	p->tgid = tgid;
	p->tid = id;
	bpf_ringbuf_submit(p, BPF_RB_NO_WAKEUP);
	bpf_map_delete_elem(&stopped, &tgid);
	return 0;
}
