/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* What is only recorded when asked for, because it taxes every task. */

static __always_inline void note_task(u16 kind, u64 c)
{
	u64 id = bpf_get_current_pid_tgid();

	if (watches(id, id >> 32, bpf_get_smp_processor_id()))
		record(bpf_ktime_get_ns(), kind, id, 0, c, 0);
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(fault_user, unsigned long address, struct pt_regs *regs, unsigned long error)
{
	note_task(FAULT, address);
	return 0;
}

/* The kernel counts a fault when it has dealt with it. */
SEC("perf_event")
int fault_end(void *ctx)
{
	note_task(FAULT_END, 0);
	return 0;
}

SEC("tp_btf/timer_expire_entry")
int BPF_PROG(timer, struct timer_list *timer, unsigned long base)
{
	record(bpf_ktime_get_ns(), TIMER, 0, 0, (u64)timer->function, 0);
	return 0;
}

SEC("tp_btf/workqueue_execute_start")
int BPF_PROG(work, struct work_struct *work)
{
	record(bpf_ktime_get_ns(), WORK, 0, 0, (u64)work->func, 0);
	return 0;
}

SEC("tp_btf/tick_stop")
int BPF_PROG(tick_stop, int success, int dependency)
{
	record(bpf_ktime_get_ns(), TICK_STOP, success, dependency, 0, 0);
	return 0;
}

SEC("tp_btf/ipi_send_cpu")
int BPF_PROG(ipi_one, unsigned int cpu, unsigned long callsite, void *callback)
{
	char name[COMM];

	bpf_get_current_comm(name, COMM);
	record(bpf_ktime_get_ns(), IPI_SENT, cpu, bpf_get_current_pid_tgid(), (u64)callback, name);
	return 0;
}

SEC("tp_btf/ipi_send_cpumask")
int BPF_PROG(ipi_many, void *cpumask, unsigned long callsite, void *callback)
{
	char name[COMM];

	bpf_get_current_comm(name, COMM);
	record(bpf_ktime_get_ns(), IPI_SENT, ~0u, bpf_get_current_pid_tgid(), (u64)callback, name);
	return 0;
}

/* The current task's own entry, where it is watched. */
static __always_inline struct wait *own_entry(bool begins)
{
	u64 id = bpf_get_current_pid_tgid();
	struct task_struct *p;

	if (!watches(id, id >> 32, bpf_get_smp_processor_id()))
		return 0;
	if (by_hash) {
		u32 tid = id;

		return begins ? new_wait_of_tid(tid) : bpf_map_lookup_elem(&waits_by_tid, &tid);
	}
	p = bpf_get_current_task_btf();
	return begins ? new_wait_of(p) : wait_of(p);
}

/* Writes what ends now, unless it took less than `least`. */
static __always_inline void passed(u16 kind, u32 b, u64 *since, u64 least)
{
	u64 now = bpf_ktime_get_ns();

	if (*since && now - *since >= least)
		record(now, kind, bpf_get_current_pid_tgid(), b, *since, 0);
	*since = 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(syscall_enter, struct pt_regs *regs, long id)
{
	struct wait *w = own_entry(true);

	if (w) {
		w->syscall_now = id;
		w->syscall_ts = bpf_ktime_get_ns();
	}
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(syscall_exit)
{
	struct wait *w = own_entry(false);

	if (w)
		passed(SYSCALL, w->syscall_now, &w->syscall_ts, 0);
	return 0;
}

#define STAY(name, begin, end, kind, since, least)                                \
	SEC("tp_btf/" #begin)                                                     \
	int BPF_PROG(name##_begin)                                                \
	{                                                                         \
		struct wait *w = own_entry(true);                                 \
		if (w)                                                            \
			w->since = bpf_ktime_get_ns();                            \
		return 0;                                                         \
	}                                                                         \
	SEC("tp_btf/" #end)                                                       \
	int BPF_PROG(name##_end)                                                  \
	{                                                                         \
		struct wait *w = own_entry(false);                                \
		if (w)                                                            \
			passed(kind, 0, &w->since, least);                        \
		return 0;                                                         \
	}

STAY(reclaim, mm_vmscan_direct_reclaim_begin, mm_vmscan_direct_reclaim_end, RECLAIM, reclaim_ts, 0)
STAY(group_reclaim, mm_vmscan_memcg_reclaim_begin, mm_vmscan_memcg_reclaim_end, RECLAIM, reclaim_ts, 0)
STAY(compaction, mm_compaction_begin, mm_compaction_end, COMPACTION, compaction_ts, 0)
/* Most of these locks are free, and taking them is no wait. */
STAY(mmap_lock, mmap_lock_start_locking, mmap_lock_acquire_returned, MMAP_LOCK, mmap_ts, 1000)
