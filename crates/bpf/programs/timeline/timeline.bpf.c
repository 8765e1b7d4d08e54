/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The flight recorder: what happened on every CPU of late, and which watched thread had to wait.
 *
 * Every CPU writes what happens into a ring of its own that user space has mapped; nobody is woken
 * for it and the oldest is overwritten. Only a wait over the threshold is sent, and what the rings
 * hold of its time explains it. So the cost per event is a time stamp and a copy of 48 bytes, and
 * user space works for spikes only.
 */
#include "kernel.h"
#include "wire.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "watch.h"
#include "recorder.h"
#include "sched.h"
#include "irq.h"
#include "detail.h"
#include "pause.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";
