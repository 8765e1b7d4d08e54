/* Looks like a Go program to whoever looks at its sections. */
#include <stdio.h>
#include <unistd.h>

__attribute__((section(".go.buildinfo"), used)) static const char buildinfo[] = "go";

__attribute__((noinline)) void handle(void)
{
	usleep(1000);
}

int main(void)
{
	printf("ready\n");
	fflush(stdout);
	for (int i = 0; i < 120000; i++)
		handle();
	return 0;
}
