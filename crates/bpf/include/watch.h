/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Who is watched. All but `watched` is set before loading. */
#ifndef QUIETCORE_WATCH_H
#define QUIETCORE_WATCH_H

const volatile u32 own_tgid;           /* quietcore's own tgid, which is never watched */
const volatile u32 only_tid;           /* watch this thread; 0: see the next */
const volatile u32 only_tgid;          /* watch this process; 0: see the next */
const volatile bool by_list;           /* watch the tids and tgids in `watched` */
const volatile bool by_cpu;            /* watch what runs on the CPUs in `watched` */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u8);
} watched SEC(".maps");

#define WATCH_THREAD 1
#define WATCH_PROCESS 2

static __always_inline bool listed(u32 number, u8 as)
{
	u8 *watch = bpf_map_lookup_elem(&watched, &number);

	return watch && (*watch & as);
}

static __always_inline bool watches(u32 tid, u32 tgid, u32 cpu)
{
	if (!tid || tgid == own_tgid)
		return false;
	if (only_tid)
		return tid == only_tid;
	if (only_tgid)
		return tgid == only_tgid;
	if (by_cpu)
		return bpf_map_lookup_elem(&watched, &cpu) != 0;
	if (by_list)
		return listed(tid, WATCH_THREAD) || listed(tgid, WATCH_PROCESS);
	return true;
}

#endif
