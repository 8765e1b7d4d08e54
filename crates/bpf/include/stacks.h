/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Stacks, each kept once under a number made from its addresses. What does not fit is counted, and
 * so are two stacks that would share a number.
 */
#ifndef QUIETCORE_STACKS_H
#define QUIETCORE_STACKS_H

#define DEPTH 127

struct stack {
	u32 frames, check;
	u64 address[DEPTH];            /* innermost first */
};

/* Numbers that are no stack. */
enum { NO_STACK, LOST_STACK, FIRST_STACK };

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u64);
	__type(value, struct stack);
} stacks SEC(".maps");

/* Room to walk in, for each program: one may interrupt another. */
enum scratch { OF_SWITCH, OF_EXIT, OF_WAKER, SCRATCHES };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SCRATCHES);
	__type(key, u32);
	__type(value, struct stack);
} scratch SEC(".maps");

/* What is counted; a program's own counters follow. */
enum counter { LOST_STACKS, LOST_SUMS, COLLISIONS, CUT_STACKS, FIRST_OWN_COUNTER };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 16);
	__type(key, u32);
	__type(value, u64);
} counters SEC(".maps");

static __always_inline void count(u32 which)
{
	u64 *n = bpf_map_lookup_elem(&counters, &which);

	if (n)
		*n += 1;
}

/* The number of the stack of `size` bytes that was walked into `s`. */
static __always_inline u64 keep(struct stack *s, s64 size)
{
	u64 number = 0x9e3779b97f4a7c15ull;
	u32 check = 0, frames, i;
	struct stack *known;

	if (size < 8)
		return NO_STACK;
	frames = size / 8;
	if (frames >= DEPTH) {
		frames = DEPTH;
		count(CUT_STACKS);
	}
	for (i = 0; i < DEPTH; i++) {
		if (i >= frames)
			break;
		number = (number ^ s->address[i]) * 0xff51afd7ed558ccdull;
		number ^= number >> 32;
		check = check * 31 + (u32)s->address[i];
	}
	if (number < FIRST_STACK)
		number += FIRST_STACK;
	s->frames = frames;
	s->check = check;
	known = bpf_map_lookup_elem(&stacks, &number);
	if (known) {
		if (known->frames != frames || known->check != check)
			count(COLLISIONS);
		return number;
	}
	if (!bpf_map_update_elem(&stacks, &number, s, BPF_ANY))
		return number;
	count(LOST_STACKS);
	return LOST_STACK;
}

/* The running task's stack. */
static __always_inline u64 own_stack(void *ctx, u32 room, u64 flags)
{
	struct stack *s = bpf_map_lookup_elem(&scratch, &room);

	return s ? keep(s, bpf_get_stack(ctx, s->address, sizeof(s->address), flags)) : NO_STACK;
}

#endif
