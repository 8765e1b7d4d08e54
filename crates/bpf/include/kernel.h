/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * What the programs need to know of the kernel, and no more. Every access is relocated against the
 * running kernel's own BTF when a program is loaded (CO-RE), so a field may lie anywhere; a flavour
 * (three underscores) is how another kernel spells the same thing. A whole vmlinux.h would be 2.8 MB
 * of one kernel's types, and those of 6.18 already lack what 6.1 has.
 */
#ifndef QUIETCORE_KERNEL_H
#define QUIETCORE_KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed int s32;
typedef signed long long s64;
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef s32 __s32;
typedef s64 __s64;
typedef signed short __s16;
typedef u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;
typedef u16 __sum16;
typedef _Bool bool;
enum { false, true };

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_F_NO_PREALLOC = 1, BPF_F_MMAPABLE = 1 << 10 };
enum { BPF_F_USER_STACK = 1 << 8 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };
enum { BPF_RB_NO_WAKEUP = 1 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
	unsigned long bp, ax, di, si, dx, orig_ax, ip, sp;
	u16 cs;
};

struct rq;

struct cfs_rq {
	struct rq *rq;
	int throttled;
	int throttle_count;
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
};

struct mm_struct;

struct thread_info {
	u32 cpu;
};

struct thread_struct {
	unsigned long sp;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	int prio;
	unsigned int policy;
	unsigned in_iowait : 1;
	int pid;
	int tgid;
	unsigned int flags;
	struct mm_struct *mm;
	void *stack;
	struct sched_entity se;
	struct thread_struct thread;
	char comm[16];
};

/* Before 5.16. */
struct task_struct___cpu {
	u32 cpu;
};

/* Before 5.14. */
struct task_struct___state {
	long state;
};

/* From 6.18 on a task is throttled by itself, when it leaves the kernel. */
struct task_struct___throttled {
	bool throttled;
};

struct irqaction {
	const char *name;
};

/* Under this name, for the real one embeds what this header does not know. */
struct timerqueue_node {
	s64 expires;
};
struct hrtimer_clock_base {
	s64 offset;
};
struct hrtimer___fn {
	struct timerqueue_node node;
	void (*function)(struct hrtimer___fn *);
	struct hrtimer_clock_base *base;
};
struct timer_list {
	void (*function)(struct timer_list *);
};
struct work_struct {
	void (*func)(struct work_struct *);
};

#pragma clang attribute pop

#endif
