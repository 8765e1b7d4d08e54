/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* What interrupts a CPU. Each is written when it ends, with both times. */

/* An interrupt that lasts longer than the threshold is a spike of the watched thread it hit. */
static __noinline int steal(u64 start, u64 now)
{
	u64 id = bpf_get_current_pid_tgid();
	u32 number = bpf_get_smp_processor_id();
	struct spike *s;

	if (!watches(id, id >> 32, number))
		return 0;
	s = bpf_ringbuf_reserve(&spikes, sizeof(*s), 0);
	if (!s) {
		count(DROPPED);
		return 0;
	}
	s->out_ts = start;
	s->waking_ts = s->wakeup_ts = 0;
	s->in_ts = now;
	s->tid = id;
	s->tgid = id >> 32;
	s->out_cpu = s->in_cpu = s->waker_cpu = s->wakeup_cpu = number;
	s->state = 0;
	s->flags = STOLEN;
	s->syscall = -1;
	s->prio = s->policy = 0;
	s->waker = s->waker_tgid = s->next = 0;
	s->kernel_size = s->waker_kernel_size = s->waker_user_size = 0;
	s->ip = s->sp = s->bp = 0;
	bpf_get_current_comm(s->comm, COMM);
	__builtin_memset(s->waker_comm, 0, COMM);
	__builtin_memset(s->next_comm, 0, COMM);
	bpf_ringbuf_submit(s, BPF_RB_NO_WAKEUP);
	count(SENT);
	return 0;
}

static __always_inline void ended(u16 kind, u32 a, u64 start, u64 now, const void *name)
{
	if (!start)
		return;
	record(now, kind, a, 0, start, name);
	if (now - start >= min_ns)
		steal(start, now);
}

/* An interrupt begins. */
static __always_inline void begins(struct cpu *cpu, u32 number, u64 *since)
{
	u64 now = bpf_ktime_get_ns();

	ask_host(cpu, number, now);
	*since = now;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(irq_entry, int irq, struct irqaction *action)
{
	u32 number;
	struct cpu *cpu = this_cpu(&number);

	if (cpu && !cpu->irq_ts)
		begins(cpu, number, &cpu->irq_ts);
	return 0;
}

/* A shared line calls several actions in a row: each is written from the last one's end. */
SEC("tp_btf/irq_handler_exit")
int BPF_PROG(irq_exit, int irq, struct irqaction *action)
{
	u32 number;
	struct cpu *cpu = this_cpu(&number);
	char name[COMM] = {};

	if (!cpu)
		return 0;
	bpf_probe_read_kernel_str(name, COMM, action->name);
	ended(IRQ, irq, cpu->irq_ts, bpf_ktime_get_ns(), name);
	cpu->irq_ts = 0;
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(softirq_entry, unsigned int vec)
{
	u32 number;
	struct cpu *cpu = this_cpu(&number);

	if (cpu)
		begins(cpu, number, &cpu->softirq_ts);
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(softirq_exit, unsigned int vec)
{
	u32 number;
	struct cpu *cpu = this_cpu(&number);

	if (!cpu)
		return 0;
	ended(SOFTIRQ, vec, cpu->softirq_ts, bpf_ktime_get_ns(), 0);
	cpu->softirq_ts = 0;
	return 0;
}

#define VECTOR_OF(name, id)                                                       \
	SEC("tp_btf/" #name "_entry")                                             \
	int BPF_PROG(name##_entry, int vector)                                    \
	{                                                                         \
		u32 number;                                                       \
		struct cpu *cpu = this_cpu(&number);                              \
		if (cpu)                                                          \
			begins(cpu, number, &cpu->vector_ts);                     \
		return 0;                                                         \
	}                                                                         \
	SEC("tp_btf/" #name "_exit")                                              \
	int BPF_PROG(name##_exit, int vector)                                     \
	{                                                                         \
		u32 number;                                                       \
		struct cpu *cpu = this_cpu(&number);                              \
		if (!cpu)                                                         \
			return 0;                                                 \
		ended(VECTOR, id, cpu->vector_ts, bpf_ktime_get_ns(), 0);         \
		cpu->vector_ts = 0;                                               \
		return 0;                                                         \
	}

VECTOR_OF(local_timer, LOCAL_TIMER)
VECTOR_OF(reschedule, RESCHEDULE)
VECTOR_OF(call_function, CALL_FUNCTION)
VECTOR_OF(call_function_single, CALL_FUNCTION_SINGLE)
VECTOR_OF(irq_work, IRQ_WORK)
VECTOR_OF(thermal_apic, THERMAL)
VECTOR_OF(x86_platform_ipi, PLATFORM_IPI)
VECTOR_OF(spurious_apic, SPURIOUS)
VECTOR_OF(error_apic, ERROR)

SEC("tp_btf/nmi_handler")
int BPF_PROG(nmi, void *handler, s64 delta, int handled)
{
	record(bpf_ktime_get_ns(), NMI, handled, 0, delta, 0);
	return 0;
}

/* When a timer was due. Its base says by how much its clock is ahead of CLOCK_MONOTONIC. */
static __always_inline u64 due(struct hrtimer___fn *timer)
{
	if (!bpf_core_field_exists(timer->node.expires) ||
	    !bpf_core_field_exists(struct hrtimer_clock_base, offset))
		return 0;
	return timer->node.expires - timer->base->offset;
}

/* What the local timer interrupt is for. */
SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(hrtimer, struct hrtimer___fn *timer, void *now)
{
	u64 at = due(timer);

	record(bpf_ktime_get_ns(), HRTIMER, at, at >> 32, (u64)timer->function, 0);
	return 0;
}

SEC("tp_btf/tlb_flush")
int BPF_PROG(tlb_flush, int reason, unsigned long pages)
{
	record(bpf_ktime_get_ns(), TLB_FLUSH, reason, 0, pages, 0);
	return 0;
}
