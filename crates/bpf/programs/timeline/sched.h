/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Who ran where, and how long each watched thread had to wait. */

/* A watched thread's wait so far. */
struct wait {
	u64 out_ts, waking_ts, wakeup_ts;
	u32 out_cpu, state, flags;
	s32 syscall;
	u32 waker, waker_tgid, waker_cpu, wakeup_cpu, next;
	s32 waker_kernel_size, waker_user_size;
	u32 off;
	u32 syscall_now;
	u64 syscall_ts, reclaim_ts, compaction_ts, mmap_ts;
	char waker_comm[COMM], next_comm[COMM];
	u64 waker_kernel[STACK], waker_user[STACK];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct wait);
} waits SEC(".maps");

/* The same for kernels without task storage (before 5.11). */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, u32);
	__type(value, struct wait);
} waits_by_tid SEC(".maps");

/* One wait's worth of zeroes, to begin an entry of the latter with. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct wait);
} blank SEC(".maps");

#define SYSCALLS 512

/* Sleeps that were asked for, by system call. */
struct sleeps {
	u64 count, ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SYSCALLS);
	__type(key, u32);
	__type(value, struct sleeps);
} sleeps SEC(".maps");

/* log2 with four steps each: bucket 4n+k holds [2^n (1+k/4), 2^n (1+(k+1)/4)) ns. */
#define BUCKETS 256
enum histogram { BLOCKED, RUN_QUEUE, WAIT_HISTOGRAMS };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WAIT_HISTOGRAMS * BUCKETS);
	__type(key, u32);
	__type(value, u64);
} histograms SEC(".maps");

/* The sum of what each histogram holds. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WAIT_HISTOGRAMS);
	__type(key, u32);
	__type(value, u64);
} histogram_sums SEC(".maps");

const volatile bool by_hash;                /* there is no task storage */
const volatile u64 voluntary[SYSCALLS / 64];   /* system calls in which a sleep is no spike */
const volatile u64 timed[SYSCALLS / 64];       /* nor one in these that an interrupt ended */
const volatile bool idle_kthreads;          /* nor is one of the kernel's own threads */

#define PF_KTHREAD 0x00200000
#define TASK_RUNNING_MASK 0xff
#define TASK_INTERRUPTIBLE 1

static __always_inline struct wait *new_wait_of_tid(u32 tid)
{
	struct wait *w = bpf_map_lookup_elem(&waits_by_tid, &tid), *none;
	u32 zero = 0;

	if (w)
		return w;
	none = bpf_map_lookup_elem(&blank, &zero);
	if (!none)
		return 0;
	bpf_map_update_elem(&waits_by_tid, &tid, none, BPF_ANY);
	return bpf_map_lookup_elem(&waits_by_tid, &tid);
}

static __always_inline struct wait *wait_of(struct task_struct *p)
{
	if (by_hash) {
		u32 tid = p->pid;

		return bpf_map_lookup_elem(&waits_by_tid, &tid);
	}
	return bpf_task_storage_get(&waits, p, 0, 0);
}

static __always_inline struct wait *new_wait_of(struct task_struct *p)
{
	if (by_hash)
		return new_wait_of_tid(p->pid);
	return bpf_task_storage_get(&waits, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

static __always_inline void observe(u32 histogram, u64 ns)
{
	u32 n = 0, bucket;
	u64 v = ns, *slot, *sum = bpf_map_lookup_elem(&histogram_sums, &histogram);

	if (sum)
		*sum += ns;
	if (v >= 1ull << 32) { v >>= 32; n += 32; }
	if (v >= 1u << 16) { v >>= 16; n += 16; }
	if (v >= 1u << 8) { v >>= 8; n += 8; }
	if (v >= 1u << 4) { v >>= 4; n += 4; }
	if (v >= 1u << 2) { v >>= 2; n += 2; }
	if (v >= 1u << 1) n += 1;
	bucket = n < 2 ? n * 4 : n * 4 + ((ns >> (n - 2)) & 3);
	bucket = histogram * BUCKETS + (bucket & (BUCKETS - 1));
	slot = bpf_map_lookup_elem(&histograms, &bucket);
	if (slot)
		*slot += 1;
}

static __always_inline bool is_among(const volatile u64 *calls, s32 syscall)
{
	u32 nr = syscall;

	return nr < SYSCALLS && (calls[(nr >> 6) & 7] >> (nr & 63)) & 1;
}

#define KERNEL_STACK (4 * 4096)

/*
 * The system call that a task sleeps in. Interrupts and faults leave -1 where its number would be.
 * Kernels without a helper for it keep the registers at the end of a task's kernel stack.
 */
static __always_inline s32 syscall_of(struct task_struct *p)
{
#if defined(__TARGET_ARCH_x86)
	struct pt_regs *regs;
	s64 nr;

	if (p->flags & PF_KTHREAD)
		return -1;
	if (has_regs) {
		regs = (void *)bpf_task_pt_regs(p);
		nr = regs->orig_ax;
	} else {
		regs = p->stack + KERNEL_STACK - bpf_core_type_size(struct pt_regs);
		nr = BPF_CORE_READ(regs, orig_ax);
	}
	return nr >= 0 && nr < SYSCALLS ? nr : -1;
#endif
	return -2;
}

static __always_inline bool is_throttled(struct task_struct *p)
{
	struct task_struct___throttled *t = (void *)p;

	if (bpf_core_field_exists(t->throttled))
		return BPF_CORE_READ(t, throttled);
	if (bpf_core_field_exists(struct cfs_rq, throttle_count))
		return BPF_CORE_READ(p, se.cfs_rq, throttle_count) > 0;
	return false;
}

static __always_inline void leaves(struct wait *w, u64 now, u32 cpu, bool preempt,
				   struct task_struct *prev, struct task_struct *next, u32 state)
{
	w->out_ts = now;
	w->out_cpu = cpu;
	w->state = state;
	w->next = next->pid;
	__builtin_memcpy(w->next_comm, next->comm, COMM);
	w->flags = 0;
	w->waker_kernel_size = w->waker_user_size = 0;
	w->waker = w->waker_tgid = 0;
	w->syscall = syscall_of(prev);
	if (preempt || !(state & TASK_RUNNING_MASK)) {
		w->flags = PREEMPTED | (is_throttled(prev) ? THROTTLED : 0);
	} else {
		if (BPF_CORE_READ_BITFIELD(prev, in_iowait))
			w->flags |= IO_WAIT;
		if (is_among(voluntary, w->syscall) || (idle_kthreads && (prev->flags & PF_KTHREAD)))
			w->flags |= VOLUNTARY;
	}
	w->off = 1;
}

/* The kernel's stack of a task that is about to run is still the one it slept with. */
static __always_inline void send(struct wait *w, u64 now, u32 cpu, struct task_struct *next)
{
	struct spike *s = bpf_ringbuf_reserve(&spikes, sizeof(*s), 0);

	if (!s) {
		count(DROPPED);
		return;
	}
	s->out_ts = w->out_ts;
	s->waking_ts = w->waking_ts;
	s->wakeup_ts = w->wakeup_ts;
	s->in_ts = now;
	s->tid = next->pid;
	s->tgid = next->tgid;
	s->out_cpu = w->out_cpu;
	s->in_cpu = cpu;
	s->state = w->state;
	s->flags = w->flags;
	s->syscall = w->syscall;
	s->prio = next->prio;
	s->policy = next->policy;
	s->waker = w->waker;
	s->waker_tgid = w->waker_tgid;
	s->waker_cpu = w->waker_cpu;
	s->wakeup_cpu = w->wakeup_cpu;
	s->next = w->next;
	s->ip = s->sp = s->bp = 0;
#if defined(__TARGET_ARCH_x86)
	if (has_regs && !(next->flags & PF_KTHREAD)) {
		struct pt_regs *regs = (void *)bpf_task_pt_regs(next);

		s->ip = regs->ip;
		s->sp = regs->sp;
		s->bp = regs->bp;
	}
#endif
	__builtin_memcpy(s->comm, next->comm, COMM);
	__builtin_memcpy(s->waker_comm, w->waker_comm, COMM);
	__builtin_memcpy(s->next_comm, w->next_comm, COMM);
	s->waker_kernel_size = w->waker_kernel_size;
	s->waker_user_size = w->waker_user_size;
	__builtin_memcpy(s->waker_kernel, w->waker_kernel, sizeof(s->waker_kernel));
	__builtin_memcpy(s->waker_user, w->waker_user, sizeof(s->waker_user));
	s->kernel_size = has_task_stack ?
		bpf_get_task_stack(next, s->kernel, sizeof(s->kernel), 0) : 0;
	bpf_ringbuf_submit(s, BPF_RB_NO_WAKEUP);
	count(SENT);
}

static __always_inline void comes(struct wait *w, u64 now, u32 cpu, struct task_struct *next)
{
	u64 waking, wakeup, start = w->out_ts;

	w->off = 0;
	if (w->flags & PREEMPTED) {
		observe(RUN_QUEUE, now - start);
	} else if (!w->waking_ts && !w->wakeup_ts) {
		w->flags |= NO_WAKE;
		count(UNSEEN_WAKES);
	} else {
		/* A wake-up may begin while the sleeper is still on its way out. */
		waking = w->waking_ts < start ? start : w->waking_ts;
		wakeup = w->wakeup_ts < waking ? waking : w->wakeup_ts;
		if (w->flags & VOLUNTARY) {
			u32 nr = w->syscall;
			struct sleeps *asked = bpf_map_lookup_elem(&sleeps, &nr);

			if (asked) {
				asked->count += 1;
				asked->ns += waking - start;
			}
			count(VOLUNTARY_SLEEPS);
			start = w->out_ts = waking;
		} else {
			observe(BLOCKED, waking - start);
		}
		observe(RUN_QUEUE, now - wakeup);
		w->waking_ts = waking;
		w->wakeup_ts = wakeup;
	}
	count(WAITS);
	if (now - start >= min_ns)
		send(w, now, cpu, next);
	w->waking_ts = w->wakeup_ts = 0;
}

static __always_inline int on_switch(bool preempt, struct task_struct *prev, struct task_struct *next,
				     u32 state)
{
	u64 now = bpf_ktime_get_ns(), seq = 0;
	u32 number;
	bool out, in;
	struct cpu *cpu = this_cpu(&number);
	struct event *e;
	struct wait *w;

	if (!cpu)
		return 0;
	count(SWITCHES);
	ask_host(cpu, number, now);
	out = watches(prev->pid, prev->tgid, number);
	in = watches(next->pid, next->tgid, number);
	if (!all_switches && !out && !in)
		return 0;
	e = slot(cpu, number, &seq);
	if (e) {
		e->seq = 0;
		barrier();
		e->ts = now;
		e->kind = SWITCH;
		e->flags = preempt;
		e->a = prev->pid;
		e->b = next->pid;
		e->c = (state & 0xffff) | (u64)(next->prio & 0xffff) << 16 | (u64)next->tgid << 32;
		__builtin_memcpy(e->name, next->comm, COMM);
		barrier();
		e->seq = seq;
	}
	if (out) {
		w = new_wait_of(prev);
		if (w)
			leaves(w, now, number, preempt, prev, next, state);
	}
	if (in) {
		w = wait_of(next);
		if (w && w->off)
			comes(w, now, number, next);
	}
	return 0;
}

/* From 5.18 on the state is an argument, and some older kernels have it, too. */
SEC("tp_btf/sched_switch")
int BPF_PROG(switch4, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int state)
{
	return on_switch(preempt, prev, next, state);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switch3, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct task_struct___state *old = (void *)prev;
	u32 state = bpf_core_field_exists(prev->__state) ? prev->__state : BPF_CORE_READ(old, state);

	return on_switch(preempt, prev, next, state);
}

/* On the waker's CPU. */
SEC("tp_btf/sched_waking")
int BPF_PROG(waking, struct task_struct *p)
{
	struct task_struct *waker;
	u64 now, id;
	u32 number;
	struct cpu *cpu;
	struct wait *w;

	if (!watches(p->pid, p->tgid, ~0u) && !by_cpu)
		return 0;
	w = wait_of(p);
	if (!w || w->waking_ts > w->out_ts)
		return 0;
	cpu = this_cpu(&number);
	if (!cpu)
		return 0;
	now = bpf_ktime_get_ns();
	w->waking_ts = now;
	w->waker_cpu = number;
	if (has_current) {
		waker = bpf_get_current_task_btf();
		w->waker = waker->pid;
		w->waker_tgid = waker->tgid;
		__builtin_memcpy(w->waker_comm, waker->comm, COMM);
	} else {
		id = bpf_get_current_pid_tgid();
		w->waker = id;
		w->waker_tgid = id >> 32;
		bpf_get_current_comm(w->waker_comm, COMM);
	}
	w->flags |= cpu->irq_ts || cpu->vector_ts ? IN_IRQ : cpu->softirq_ts ? IN_SOFTIRQ : 0;
	/*
	 * Nobody releases a lock from an interrupt: its time was up, or a timer's signal came. For memory
	 * and pages of its own a task waits uninterruptibly. Softirqs do not count: where they are threads,
	 * whoever preempts one would look the same.
	 */
	if (w->flags & IN_IRQ && !(w->flags & PREEMPTED) && w->state & TASK_INTERRUPTIBLE &&
	    is_among(timed, w->syscall))
		w->flags |= VOLUNTARY;
	/* Whoever ends a long wait was what it waited for. */
	if (w->off && !(w->flags & (VOLUNTARY | IN_IRQ | IN_SOFTIRQ)) && now - w->out_ts >= min_ns) {
		w->waker_kernel_size = bpf_get_stack(ctx, w->waker_kernel, sizeof(w->waker_kernel), 0);
		w->waker_user_size = bpf_get_stack(ctx, w->waker_user, sizeof(w->waker_user),
						   BPF_F_USER_STACK);
	}
	return 0;
}

static __always_inline u32 cpu_of(struct task_struct *p)
{
	struct task_struct___cpu *old = (void *)p;

	if (bpf_core_field_exists(p->thread_info.cpu))
		return p->thread_info.cpu;
	return bpf_core_field_exists(old->cpu) ? BPF_CORE_READ(old, cpu) : bpf_get_smp_processor_id();
}

/*
 * On the CPU where it is going to run, or on the waker's. Reading the clock is the dearest thing here:
 * what stays on the waker's CPU takes no way, and the wake-up began just now.
 */
SEC("tp_btf/sched_wakeup")
int BPF_PROG(wakeup, struct task_struct *p)
{
	struct wait *w;

	if (!watches(p->pid, p->tgid, ~0u) && !by_cpu)
		return 0;
	w = wait_of(p);
	if (!w)
		return 0;
	w->wakeup_ts = w->waking_ts && w->waker_cpu == bpf_get_smp_processor_id() ?
		w->waking_ts : bpf_ktime_get_ns();
	w->wakeup_cpu = cpu_of(p);
	return 0;
}

SEC("tp_btf/cpu_idle")
int BPF_PROG(idle, unsigned int state, unsigned int cpu)
{
	record(bpf_ktime_get_ns(), IDLE, state, 0, 0, 0);
	return 0;
}

SEC("tp_btf/cpu_frequency")
int BPF_PROG(frequency, unsigned int khz, unsigned int of)
{
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &of);
	u64 before = 0;

	if (cpu) {
		before = cpu->khz;
		cpu->khz = khz;
	}
	record(bpf_ktime_get_ns(), FREQUENCY, of, khz, before, 0);
	return 0;
}
