/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * How long a function of a process takes, every time.
 *
 * Every span is counted in a histogram. Sent are those over a threshold that user space moves with
 * the tail, and one in so many of all at random, to compare with. Nobody is woken for it.
 *
 * Of a thread that blocks in a span the user stack is copied, and that of whoever wakes it: most
 * code keeps no frame pointers, so that user space has to unwind them.
 */
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* What user space reads: src/function.rs. Times are CLOCK_MONOTONIC. */
struct span {
	u64 start, end;
	u32 tid, cpu;          /* cpu: where it ended */
	u32 sampled, spare;
};

/* Set before loading. */
const volatile u32 only_tgid;
const volatile u32 one_in;     /* sent whatever their length */
const volatile u32 bits;       /* of the histogram: every power of two has 2^bits buckets */

/* Moved while it runs. */
u64 threshold_ns = 0;

/* Of all CPUs: user space reads it as memory. */
#define BUCKETS 8192
u64 histogram[BUCKETS] = {};

struct open {
	u64 start, sp;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct open);
} running SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} spans SEC(".maps");

enum counter { SENT, DROPPED, ABANDONED, PATHS_DROPPED, COUNTERS };

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

static __always_inline void observe(u64 ns)
{
	u64 v = ns | 1ull << bits;
	u32 exponent = 0, shift, bucket;

	if (v >= 1ull << 32) { v >>= 32; exponent += 32; }
	if (v >= 1u << 16) { v >>= 16; exponent += 16; }
	if (v >= 1u << 8) { v >>= 8; exponent += 8; }
	if (v >= 1u << 4) { v >>= 4; exponent += 4; }
	if (v >= 1u << 2) { v >>= 2; exponent += 2; }
	if (v >= 1u << 1) exponent += 1;
	shift = exponent - bits;
	bucket = (shift << bits) + (u32)(ns >> (shift & 63));
	if (bucket < BUCKETS)
		__sync_fetch_and_add(&histogram[bucket], 1);
}

/*
 * The outermost call of a thread has the highest stack pointer. A call at or above that of one that
 * is still open proves that the latter never returned: it was left by longjmp or an exception.
 */
SEC("uprobe")
int enter(struct pt_regs *ctx)
{
	u64 id = bpf_get_current_pid_tgid();
	u32 tid = id;
	struct open now, *open;

	if (id >> 32 != only_tgid)
		return 0;
	now.sp = ctx->sp;
	open = bpf_map_lookup_elem(&running, &tid);
	if (open && open->start) {
		if (now.sp < open->sp)
			return 0;
		count(ABANDONED);
	}
	now.start = bpf_ktime_get_ns();
	if (open)
		*open = now;
	else
		bpf_map_update_elem(&running, &tid, &now, BPF_ANY);
	return 0;
}

SEC("uretprobe")
int leave(struct pt_regs *ctx)
{
	u64 end = bpf_ktime_get_ns(), id = bpf_get_current_pid_tgid(), start;
	u32 tid = id;
	bool sampled;
	struct open *open;
	struct span *span;

	if (id >> 32 != only_tgid)
		return 0;
	open = bpf_map_lookup_elem(&running, &tid);
	if (!open || !open->start || ctx->sp < open->sp)
		return 0;
	start = open->start;
	open->start = 0;
	observe(end - start);
	sampled = one_in && bpf_get_prandom_u32() % one_in == 0;
	if (end - start < threshold_ns && !sampled)
		return 0;
	span = bpf_ringbuf_reserve(&spans, sizeof(*span), 0);
	if (!span) {
		count(DROPPED);
		return 0;
	}
	span->start = start;
	span->end = end;
	span->tid = tid;
	span->cpu = bpf_get_smp_processor_id();
	span->sampled = sampled;
	span->spare = 0;
	bpf_ringbuf_submit(span, BPF_RB_NO_WAKEUP);
	count(SENT);
	return 0;
}

#define STACK_BYTES 8192

/* Where a thread is in user space. */
struct path {
	u64 out_ts;            /* when the one that waits left its CPU */
	u64 ip, sp, bp;
	u32 tid;               /* who waits */
	u32 of_waker;
	u32 size, spare;       /* bytes of the stack that are there, from sp on */
	u8 stack[STACK_BYTES];
};

/* Of threads that are blocked now, by the last bits of their tid. */
#define BLOCKED_SLOTS 256
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BLOCKED_SLOTS);
	__type(key, u32);
	__type(value, struct path);
} blocked SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} paths SEC(".maps");

const volatile u64 min_wait_ns;

/* Shorter waits do not make the tail. */
static __always_inline bool is_long(u64 ns)
{
	return ns >= min_wait_ns && ns >= threshold_ns / 8;
}

/* Whoever is not in a system call only has to wait for a CPU. */
static __always_inline bool in_syscall(struct task_struct *p)
{
	return (s64)((struct pt_regs *)bpf_task_pt_regs(p))->orig_ax >= 0;
}

static __always_inline bool in_span(u32 tid)
{
	struct open *open = bpf_map_lookup_elem(&running, &tid);

	return open && open->start;
}

static __always_inline struct path *blocked_of(u32 tid)
{
	u32 i = tid & (BLOCKED_SLOTS - 1);

	return bpf_map_lookup_elem(&blocked, &i);
}

/* As much of the running task's stack as there is: near its end less. */
static __always_inline void walk(struct path *path, struct task_struct *p)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(p);
	u32 size = STACK_BYTES;
	int i;

	path->ip = regs->ip;
	path->sp = regs->sp;
	path->bp = regs->bp;
	path->size = 0;
	for (i = 0; i < 6; i++) {
		if (!bpf_probe_read_user(path->stack, size, (void *)path->sp)) {
			path->size = size;
			return;
		}
		size /= 2;
	}
}

SEC("tp_btf/sched_switch")
int BPF_PROG(blocks, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	u64 now;
	struct path *path, *sent;

	if (prev->tgid == only_tgid && !preempt && in_span(prev->pid) && in_syscall(prev)) {
		path = blocked_of(prev->pid);
		if (path) {
			path->out_ts = bpf_ktime_get_ns();
			path->tid = prev->pid;
			path->of_waker = 0;
			walk(path, prev);
		}
	}
	if (next->tgid != only_tgid || !in_span(next->pid))
		return 0;
	path = blocked_of(next->pid);
	if (!path || path->tid != next->pid)
		return 0;
	now = bpf_ktime_get_ns();
	if (is_long(now - path->out_ts)) {
		sent = bpf_ringbuf_reserve(&paths, sizeof(*sent), 0);
		if (sent) {
			__builtin_memcpy(sent, path, __builtin_offsetof(struct path, stack));
			bpf_probe_read_kernel(sent->stack, STACK_BYTES, path->stack);
			bpf_ringbuf_submit(sent, BPF_RB_NO_WAKEUP);
		} else {
			count(PATHS_DROPPED);
		}
	}
	path->tid = 0;
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(wakes, struct task_struct *p)
{
	struct path *path, *sent;

	if (p->tgid != only_tgid || bpf_get_current_pid_tgid() >> 32 != only_tgid)
		return 0;
	path = blocked_of(p->pid);
	if (!path || path->tid != p->pid || !is_long(bpf_ktime_get_ns() - path->out_ts))
		return 0;
	sent = bpf_ringbuf_reserve(&paths, sizeof(*sent), 0);
	if (!sent) {
		count(PATHS_DROPPED);
		return 0;
	}
	sent->out_ts = path->out_ts;
	sent->tid = path->tid;
	sent->of_waker = 1;
	walk(sent, bpf_get_current_task_btf());
	bpf_ringbuf_submit(sent, BPF_RB_NO_WAKEUP);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
