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
