/*
 * An engine whose rare error path allocates, beside a housekeeper that now and then holds the
 * allocator's lock for milliseconds. Ends by itself after the seconds given.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define KEPT 1024
#define BLOCK (64 << 10)

static volatile uint64_t book[1024], processed;

/* Written by the engine, emptied by the housekeeper. */
#define REPORTS 4096
static char *_Atomic reports[REPORTS];

/* Under a name, and before most of what else runs, where that is allowed: a busy machine must not
 * be what is seen. */
static void begin(const char *name)
{
	prctl(PR_SET_NAME, name);
	setpriority(PRIO_PROCESS, gettid(), -15);
}

/* Frees every other block of many, and has the allocator give their pages back: it walks all of
 * them with its lock held. */
static void give_memory_back(char **blocks)
{
	for (int i = 0; i < KEPT; i += 2)
		free(blocks[i]);
	for (int i = 0; i < REPORTS; i++)
		free(atomic_exchange(&reports[i], NULL));
	malloc_trim(0);
	for (int i = 0; i < KEPT; i += 2) {
		blocks[i] = malloc(BLOCK);
		memset(blocks[i], 1, BLOCK);
	}
}

static void *housekeeper(void *unused)
{
	static char *blocks[KEPT];

	(void)unused;
	begin("housekeeper");
	for (int i = 0; i < KEPT; i++) {
		blocks[i] = malloc(BLOCK);
		memset(blocks[i], 1, BLOCK);
	}
	for (;;) {
		give_memory_back(blocks);
		usleep(5000);
	}
	return NULL;
}

__attribute__((noinline)) static char *format_report(uint64_t packet)
{
	char *text = malloc(4096);

	snprintf(text, 4096, "packet %llu is out of sequence", (unsigned long long)packet);
	return text;
}

__attribute__((noinline)) static void reject_packet(uint64_t packet)
{
	static unsigned last;

	last = (last + 1) % REPORTS;
	if (!reports[last])
		reports[last] = format_report(packet);
}

__attribute__((noinline)) void process_packet(uint64_t packet)
{
	for (int i = 0; i < 100000; i++)
		book[(packet + i) & 1023] += i;
	if (packet % 200 == 199)
		reject_packet(packet);
	processed++;
}

int main(int argc, char **argv)
{
	time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 60);
	pthread_t thread;

	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	pthread_create(&thread, NULL, housekeeper, NULL);
	begin("engine");
	printf("ready\n");
	fflush(stdout);
	for (uint64_t packet = 0; time(NULL) < end; packet++) {
		process_packet(packet);
		usleep(50);
	}
	return 0;
}
