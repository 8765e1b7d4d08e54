/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Where threads wait, and for how long: summed in the kernel by thread, kind of wait and stack.
 *
 * Nothing is walked when a thread leaves. When it comes back after a wait that is long enough, its
 * kernel stack is still the one it slept with, and its user stack stands still until its system
 * call returns: that is when the latter is walked. Only who was not in a system call, as a thread
 * that was preempted in its own code, is walked on leaving.
 */
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "watch.h"
#include "stacks.h"

/* Set before loading. */
const volatile u64 min_ns;             /* shorter waits do not count */
const volatile u32 kinds;              /* which do: a bit for each of enum kind */
const volatile bool want_kernel;
const volatile bool want_user;
const volatile bool by_hash;           /* there is no task storage (before 5.11) */
const volatile bool has_task_stack;    /* bpf_get_task_stack for such programs */
const volatile bool defer;             /* bpf_task_pt_regs (5.15) and sys_exit are there */

enum kind { PREEMPTED, BLOCKED, UNINTERRUPTIBLE, OTHER };

enum own_counter { LEFT = FIRST_OWN_COUNTER, CAME, LONG, WALKED };

/* Whose time it was, and where. */
struct key {
	u32 tid, tgid, kind, waker;
	u64 kernel, user, waker_kernel, waker_user;
};

struct sum {
	u64 count, ns, max;
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct key);
	__type(value, struct sum);
} sums SEC(".maps");

/* A thread's wait so far, and the one whose user stack is still to be walked. */
struct off {
	u64 out_ts, owed_ns;
	struct key key, owed;
	u8 is_off, is_deferred;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct off);
} offs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, u32);
	__type(value, struct off);
} offs_by_tid SEC(".maps");

/* Whether the thread that runs on this CPU owes a user stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} owing SEC(".maps");

/* By log2 of the microseconds: 0 holds what is shorter than one. */
#define BUCKETS 40
struct bucket {
	u64 count, ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, BUCKETS);
	__type(key, u32);
	__type(value, struct bucket);
} histogram SEC(".maps");

static __always_inline struct off *off_of(struct task_struct *p, bool create)
{
	u32 tid = p->pid;
	struct off *o, none = {};

	if (!by_hash)
		return bpf_task_storage_get(&offs, p, 0, create ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
	o = bpf_map_lookup_elem(&offs_by_tid, &tid);
	if (o || !create)
		return o;
	bpf_map_update_elem(&offs_by_tid, &tid, &none, BPF_ANY);
	return bpf_map_lookup_elem(&offs_by_tid, &tid);
}

static __always_inline u32 kind_of(bool preempt, u32 state)
{
	if (preempt || !(state & 0xff))
		return PREEMPTED;
	if (state & 1)
		return BLOCKED;
	/* An idle kernel thread is uninterruptible, too, and counts for no load (0x400). */
	return state & 2 && !(state & 0x400) ? UNINTERRUPTIBLE : OTHER;
}

static __always_inline void add(struct task_struct *p, struct key *key, u64 ns)
{
	struct sum *sum = bpf_map_lookup_elem(&sums, key), first = {};

	if (sum) {
		/* A thread is on one CPU at a time. */
		sum->count += 1;
		sum->ns += ns;
		if (ns > sum->max)
			sum->max = ns;
		return;
	}
	first.count = 1;
	first.ns = first.max = ns;
	__builtin_memcpy(first.comm, p->comm, sizeof(first.comm));
	if (bpf_map_update_elem(&sums, key, &first, BPF_ANY))
		count(LOST_SUMS);
}

static __always_inline void observe(u64 ns)
{
	u64 us = ns / 1000;
	u32 n = 0;
	struct bucket *bucket;

	if (us) {
		n = 1;
		if (us >= 1ull << 32) { us >>= 32; n += 32; }
		if (us >= 1u << 16) { us >>= 16; n += 16; }
		if (us >= 1u << 8) { us >>= 8; n += 8; }
		if (us >= 1u << 4) { us >>= 4; n += 4; }
		if (us >= 1u << 2) { us >>= 2; n += 2; }
		if (us >= 1u << 1) n += 1;
	}
	bucket = bpf_map_lookup_elem(&histogram, &n);
	if (bucket) {
		bucket->count += 1;
		bucket->ns += ns;
	}
}

/* In a system call a thread's user stack stands still. Interrupts and faults leave -1 there. */
static __always_inline bool in_syscall(struct task_struct *p)
{
#if defined(__TARGET_ARCH_x86)
	return defer && (s64)((struct pt_regs *)bpf_task_pt_regs(p))->orig_ax >= 0;
#else
	return false;
#endif
}

#define WORDS 256
#define KNOWN 32

/*
 * A kernel stack that was walked: where on it the return addresses lay. From the same place the
 * same addresses in the same places make the same walk, for each decides where the next one lies:
 * comparing them is many times cheaper than walking. The outermost is found from the other end,
 * since system calls begin at random depths (randomize_kstack_offset).
 */
struct walk {
	u64 number, outermost;
	u32 frames, words;
	u64 address[KNOWN];
	u16 at[KNOWN];
};

struct place {
	u32 tid, kind;
	u64 nr, ip;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct place);
	__type(value, struct walk);
} walks SEC(".maps");

struct bench {
	u64 top;
	u32 next;
	u64 word[WORDS];
	struct walk walk;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct bench);
} benches SEC(".maps");

#if defined(__TARGET_ARCH_x86)
static __always_inline u64 recognise(struct bench *b, struct walk *w, u64 sp)
{
	u64 outermost = 0;
	u32 i, words = w->words;

	if (words > WORDS || words == 0 || bpf_probe_read_kernel(b->word, words * 8, (void *)sp) ||
	    bpf_probe_read_kernel(&outermost, 8, (void *)(b->top - 8)) || outermost != w->outermost)
		return 0;
	for (i = 0; i < KNOWN; i++) {
		if (i >= w->frames)
			break;
		if (b->word[w->at[i] & (WORDS - 1)] != w->address[i])
			return 0;
	}
	return w->number;
}

/* Not where an address lies twice: it could not be told which is the return address. */
static __always_inline void learn(struct bench *b, struct place *place, struct stack *s, u64 number,
				  u64 sp)
{
	struct walk *w = &b->walk;
	u32 inner = s->frames - 1, next, i;
	/* In memory, or else the verifier would follow every value on its own. */
	volatile u32 *found = &b->next;
	u64 word, bytes = b->top - sp;

	if (bytes > sizeof(b->word))
		bytes = sizeof(b->word);
	if (inner < 1 || inner > KNOWN || bpf_probe_read_kernel(b->word, bytes, (void *)sp) ||
	    bpf_probe_read_kernel(&w->outermost, 8, (void *)(b->top - 8)) ||
	    w->outermost != s->address[inner & 63])
		return;
	*found = 0;
	for (i = 0; i < WORDS; i++) {
		word = b->word[i];
		next = *found;
		if (next >= inner)
			break;
		if (word == s->address[next & 63]) {
			w->address[next & (KNOWN - 1)] = word;
			w->at[next & (KNOWN - 1)] = i;
			w->words = i + 1;
			*found = next + 1;
		} else if (next > 0 && word == s->address[(next - 1) & 63]) {
			return;
		}
	}
	if (*found != inner)
		return;
	w->frames = inner;
	w->number = number;
	bpf_map_update_elem(&walks, place, w, BPF_ANY);
}
#endif

static __always_inline u64 walk(struct task_struct *p, struct stack *s)
{
	count(WALKED);
	return keep(s, bpf_get_task_stack(p, s->address, sizeof(s->address), 0));
}

static __always_inline u64 kernel_stack(struct task_struct *p, u32 kind)
{
	u32 room = OF_SWITCH, zero = 0;
	struct stack *s = bpf_map_lookup_elem(&scratch, &room);

	if (!s)
		return NO_STACK;
#if defined(__TARGET_ARCH_x86)
	if (in_syscall(p) && bpf_core_field_exists(p->thread.sp)) {
		struct bench *b = bpf_map_lookup_elem(&benches, &zero);
		struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(p);
		struct place place = { p->pid, kind, regs->orig_ax, regs->ip };
		struct walk *known = bpf_map_lookup_elem(&walks, &place);
		u64 sp = p->thread.sp, number;

		if (!b)
			return NO_STACK;
		/* By way of memory a pointer becomes a number that can be reckoned with. */
		*(volatile u64 *)&b->top = (u64)regs;
		number = known ? recognise(b, known, sp) : 0;
		if (number)
			return number;
		number = walk(p, s);
		if (number >= FIRST_STACK)
			learn(b, &place, s, number, sp);
		return number;
	}
#endif
	return walk(p, s);
}

/* The running thread's user stack by frame pointers; our own walk costs a third of the kernel's. */
static __always_inline u64 user_stack(void *ctx, struct task_struct *p, u32 room)
{
#if defined(__TARGET_ARCH_x86)
	struct stack *s = bpf_map_lookup_elem(&scratch, &room);
	struct pt_regs *regs;
	u64 frame[2], bp, last;
	u32 i;

	if (!s || !p->mm)
		return NO_STACK;
	if (defer) {
		regs = (struct pt_regs *)bpf_task_pt_regs(p);
		s->address[0] = regs->ip;
		bp = regs->bp;
		last = regs->sp;
		for (i = 1; i < DEPTH; i++) {
			/* Callers lie further up, and within a stack's size. */
			if (bp & 7 || bp < last || bp - last > 8 << 20 ||
			    bpf_probe_read_user(frame, sizeof(frame), (void *)bp) || frame[1] < 4096)
				break;
			s->address[i] = frame[1];
			last = bp + sizeof(frame);
			bp = frame[0];
		}
		/* By way of memory, or else the verifier would follow every length on its own. */
		*(volatile u32 *)&s->frames = i;
		return keep(s, *(volatile u32 *)&s->frames * 8);
	}
#endif
	return own_stack(ctx, room, BPF_F_USER_STACK);
}

/* The running thread's user stack is that of the wait it owes. */
static __always_inline void settle(void *ctx, struct task_struct *p, struct off *o, u32 room)
{
	o->owed.user = user_stack(ctx, p, room);
	add(p, &o->owed, o->owed_ns);
	o->owed_ns = 0;
}

static __always_inline void leaves(void *ctx, struct task_struct *p, struct off *o, u32 kind)
{
	u32 zero = 0, *owes;

	if (o->owed_ns) {
		settle(ctx, p, o, OF_SWITCH);
		owes = bpf_map_lookup_elem(&owing, &zero);
		if (owes)
			*owes = 0;
	}
	count(LEFT);
	o->is_off = kinds >> kind & 1;
	if (!o->is_off)
		return;
	o->key.kind = kind;
	o->key.waker = 0;
	o->key.waker_kernel = o->key.waker_user = NO_STACK;
	o->key.kernel = want_kernel && !has_task_stack ? own_stack(ctx, OF_SWITCH, 0) : NO_STACK;
	o->is_deferred = want_user && in_syscall(p);
	o->key.user = want_user && !o->is_deferred ?
		user_stack(ctx, p, OF_SWITCH) : NO_STACK;
}

static __always_inline void comes(struct task_struct *p, struct off *o, u64 ns)
{
	u32 zero = 0, *owes;

	o->is_off = 0;
	count(CAME);
	if (ns < min_ns)
		return;
	count(LONG);
	observe(ns);
	o->key.tid = p->pid;
	o->key.tgid = p->tgid;
	if (want_kernel && has_task_stack)
		o->key.kernel = kernel_stack(p, o->key.kind);
	if (!o->is_deferred) {
		add(p, &o->key, ns);
		return;
	}
	o->owed = o->key;
	o->owed_ns = ns;
	owes = bpf_map_lookup_elem(&owing, &zero);
	if (owes)
		*owes = 1;
}

static __always_inline int on_switch(void *ctx, bool preempt, struct task_struct *prev,
				     struct task_struct *next, u32 state)
{
	u32 cpu = bpf_get_smp_processor_id();
	bool out = watches(prev->pid, prev->tgid, cpu), in = watches(next->pid, next->tgid, cpu);
	struct off *o;
	u64 now;

	if (!out && !in)
		return 0;
	now = bpf_ktime_get_ns();
	if (out) {
		o = off_of(prev, true);
		if (o) {
			leaves(ctx, prev, o, kind_of(preempt, state));
			o->out_ts = now;
		}
	}
	if (in) {
		o = off_of(next, false);
		if (o && o->is_off)
			comes(next, o, now - o->out_ts);
	}
	return 0;
}

/* From 5.18 on the state is an argument, and some older kernels have it, too. */
SEC("tp_btf/sched_switch")
int BPF_PROG(switch4, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int state)
{
	return on_switch(ctx, preempt, prev, next, state);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switch3, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct task_struct___state *old = (void *)prev;
	u32 state = bpf_core_field_exists(prev->__state) ? prev->__state : BPF_CORE_READ(old, state);

	return on_switch(ctx, preempt, prev, next, state);
}

SEC("tp_btf/sys_exit")
int BPF_PROG(syscall_exit, struct pt_regs *regs, long ret)
{
	u32 zero = 0, *owes = bpf_map_lookup_elem(&owing, &zero);
	struct task_struct *p;
	struct off *o;

	if (!owes || !*owes)
		return 0;
	*owes = 0;
	p = bpf_get_current_task_btf();
	o = off_of(p, false);
	if (o && o->owed_ns)
		settle(ctx, p, o, OF_EXIT);
	return 0;
}

/* Whoever ends a long wait was what it waited for. */
SEC("tp_btf/sched_waking")
int BPF_PROG(waking, struct task_struct *p)
{
	struct off *o;

	if (!watches(p->pid, p->tgid, ~0u) && !by_cpu)
		return 0;
	o = off_of(p, false);
	if (!o || !o->is_off || o->key.kind == PREEMPTED || bpf_ktime_get_ns() - o->out_ts < min_ns)
		return 0;
	o->key.waker = bpf_get_current_pid_tgid();
	if (want_kernel)
		o->key.waker_kernel = own_stack(ctx, OF_WAKER, 0);
	if (want_user)
		o->key.waker_user = own_stack(ctx, OF_WAKER, BPF_F_USER_STACK);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
