/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The rings. */

/* Set before loading. */
const volatile u64 min_ns;             /* what is a spike */
const volatile bool all_switches;      /* record switches of every CPU, not only of watched threads */
const volatile u32 slots;              /* per CPU, a power of two */
const volatile bool has_fetch;         /* atomic fetch-and-add (5.12) */
const volatile bool has_current;       /* bpf_get_current_task_btf (5.11) */
const volatile bool has_task_stack;    /* bpf_get_task_stack for such programs (5.15) */
const volatile bool has_regs;          /* bpf_task_pt_regs (5.15) */

/* The sizes of both are set before loading: slots for each CPU, and the number of CPUs. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct event);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} spikes SEC(".maps");

/* What is counted. */
enum counter { SWITCHES, WAITS, SENT, DROPPED, UNSEEN_WAKES, VOLUNTARY_SLEEPS, COUNTERS };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, u32);
	__type(value, u64);
} counters SEC(".maps");

static __always_inline void count(u32 which)
{
	u64 *n = bpf_map_lookup_elem(&counters, &which);

	if (n)
		*n += 1;
}

static __always_inline struct cpu *this_cpu(u32 *number)
{
	*number = bpf_get_smp_processor_id();
	return bpf_map_lookup_elem(&cpus, number);
}

/* A slot of this CPU's ring; an interrupt that comes in between takes the next. */
static __always_inline struct event *slot(struct cpu *cpu, u32 number, u64 *seq)
{
	u64 n;
	u32 i;

	if (has_fetch) {
		n = __sync_fetch_and_add(&cpu->head, 1);
	} else {
		n = cpu->head;
		cpu->head = n + 1;
	}
	*seq = n + 1;
	i = number * slots + (n & (slots - 1));
	return bpf_map_lookup_elem(&events, &i);
}

static __always_inline void fill(struct cpu *cpu, u32 number, u64 ts, u16 kind, u32 a, u32 b, u64 c,
				 const void *name)
{
	u64 seq;
	struct event *e = slot(cpu, number, &seq);

	if (!e)
		return;
	e->seq = 0;
	barrier();
	e->ts = ts;
	e->kind = kind;
	e->flags = 0;
	e->a = a;
	e->b = b;
	e->c = c;
	if (name)
		__builtin_memcpy(e->name, name, COMM);
	barrier();
	e->seq = seq;
}

/* The next is 0 where there is no such thing. */
const volatile s64 steal_from_rq;      /* from a CPU's run queue to its struct steal */

/* KVM's host writes it for each CPU: nanoseconds in which it could have run and had to wait. */
struct steal {
	u64 ns;
	u32 version, flags;    /* odd while it writes; none is defined */
	u32 preempted, pad[11];
};

/* What a CPU waited for is of use from here on, and in less time it cannot have waited longer. */
#define ASK_AFTER 10000

/*
 * Finds it without the kernel's symbols, of which many kernels keep only the functions: it lies as far
 * from the run queue on every CPU, and every task knows that. What is there must look the part.
 */
static __noinline u64 find_steal(u64 now, u64 *stolen)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	u64 at = (u64)BPF_CORE_READ(task, se.cfs_rq, rq) + steal_from_rq;
	struct steal host;
	u32 odd;

	if (bpf_probe_read_kernel(&host, sizeof(host), (void *)at))
		return 1;
	odd = (host.version & 1) | host.flags | (host.preempted >> 8);
	for (int i = 0; i < 11; i++)
		odd |= host.pad[i];
	*stolen = host.ns;
	return host.version && !odd && host.ns < now ? at : 1;
}

/*
 * Asks what the hypervisor has taken of this CPU. It adds that up before it lets the CPU run on, so
 * what is new was taken since the last time that it was asked. An interrupt in between may have asked,
 * so what is known is looked at last.
 */
static __always_inline void ask_host(struct cpu *cpu, u32 number, u64 now)
{
	u64 since = cpu->asked_ts, before, stolen;

	if (!steal_from_rq || !bpf_core_field_exists(struct cfs_rq, rq) ||
	    (s64)(now - since) < ASK_AFTER)
		return;
	cpu->asked_ts = now;
	if (!cpu->steal_at) {
		cpu->steal_at = find_steal(now, &cpu->stolen);
		return;
	}
	if (cpu->steal_at == 1 ||
	    bpf_probe_read_kernel(&stolen, sizeof(stolen), (void *)cpu->steal_at))
		return;
	before = cpu->stolen;
	if (stolen > before) {
		cpu->stolen = stolen;
		stolen -= before;
		fill(cpu, number, now, STEAL, stolen, stolen >> 32, since, 0);
	}
}

static __always_inline void record(u64 ts, u16 kind, u32 a, u32 b, u64 c, const void *name)
{
	u32 number;
	struct cpu *cpu = this_cpu(&number);

	if (!cpu)
		return;
	ask_host(cpu, number, ts);
	fill(cpu, number, ts, kind, a, b, c, name);
}
