/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * What the programs hand to user space: the layouts that src/wire.rs reads. All times are
 * CLOCK_MONOTONIC in nanoseconds.
 */
#ifndef QUIETCORE_WIRE_H
#define QUIETCORE_WIRE_H

#define COMM 16
#define STACK 32

/* What an event of the recorder is. */
enum kind {
	SWITCH = 1,    /* a: tid that leaves, b: tid that comes, c: see switch_words, name: who comes */
	IRQ,           /* a: line; from c to ts; name: the action */
	SOFTIRQ,       /* a: which (0 HI, 1 TIMER, 2 NET_TX, 3 NET_RX, …); from c to ts */
	VECTOR,        /* a: enum vector; from c to ts */
	NMI,           /* c: nanoseconds it took until ts */
	IDLE,          /* a: state entered, or ~0 where idling ended */
	HRTIMER,       /* c: address of the function that is called; a, b: low and high half of when it
	                  was due, 0 where unknown */
	TIMER,         /* c: address of the function that is called */
	WORK,          /* c: address of the function that is called */
	TLB_FLUSH,     /* a: reason (1 = asked by another CPU), c: pages */
	IPI_SENT,      /* a: to CPU, or ~0 for several; b: by tid; c: address of the function; name: by */
	FAULT,         /* a: tid, b: 1 if the kernel faulted, c: address */
	SYSCALL,       /* a: tid, b: number; from c to ts */
	TICK_STOP,     /* a: 1 if it stopped, b: what it depends on (a bit mask) */
	RECLAIM,       /* a: tid; from c to ts */
	COMPACTION,    /* a: tid; from c to ts */
	MMAP_LOCK,     /* a: tid; from c to ts */
	FAULT_END,     /* a: tid */
	STEAL,         /* a, b: low and high half of how many nanoseconds the hypervisor took between c,
	                  when it was asked before, and ts */
	FREQUENCY,     /* a: of CPU, b: kHz, c: kHz before, 0 where unknown */
};

/* Vectors of the local APIC that no line of /proc/irq has. */
enum vector {
	LOCAL_TIMER = 1,
	RESCHEDULE,
	CALL_FUNCTION,
	CALL_FUNCTION_SINGLE,
	IRQ_WORK,
	THERMAL,
	PLATFORM_IPI,
	SPURIOUS,
	ERROR,
};

/* One thing that happened on one CPU. */
struct event {
	u64 ts;
	u32 seq;       /* its place in its CPU's recorder, from 1; written last */
	u16 kind;
	u16 flags;
	u32 a, b;
	u64 c;
	char name[COMM];
};

/* The head of one CPU's recorder and what is going on there. */
struct cpu {
	u64 head;              /* events ever written */
	u64 irq_ts, softirq_ts, vector_ts;
	u64 stolen;            /* what the hypervisor had taken when it was last asked */
	u64 asked_ts;          /* when that was */
	u64 steal_at;          /* where it writes that; 0: not looked for yet, 1: it does not */
	u64 khz;               /* its clock, 0 while that is not known */
};

/* How a wait began and ended. */
enum {
	PREEMPTED = 1,         /* it could have run on */
	IO_WAIT = 2,
	THROTTLED = 4,         /* its control group had used up its quota */
	NO_WAKE = 8,           /* the wake-up was not seen */
	VOLUNTARY = 16,        /* it had asked to sleep: out_ts is the wake-up */
	IN_IRQ = 32,           /* the waker was in a hard interrupt */
	IN_SOFTIRQ = 64,       /* the waker was in a softirq */
	STOLEN = 128,          /* no wait: one interrupt had its CPU all the while */
};

/* A watched thread was not running for longer than the threshold. */
struct spike {
	u64 out_ts, waking_ts, wakeup_ts, in_ts;
	u32 tid, tgid;
	u32 out_cpu, in_cpu;
	u32 state, flags;
	s32 syscall;           /* that it waited in, -1 if in none, -2 if it could not be told */
	u32 prio, policy;
	u32 waker, waker_tgid, waker_cpu;
	u32 wakeup_cpu;        /* whose run queue it was put on */
	u32 next;              /* who ran after it */
	s32 kernel_size, waker_kernel_size, waker_user_size;   /* in bytes, or an error below 0 */
	u32 spare;
	u64 ip, sp, bp;        /* of the thread in user space; 0 if not taken */
	char comm[COMM], waker_comm[COMM], next_comm[COMM];
	u64 kernel[STACK], waker_kernel[STACK], waker_user[STACK];
};

#endif
