#include "store/mark.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* 36 characters of hex and dashes, and a newline. */
bool store_read_boot_id(char out[STORE_BOOT_ID_SIZE])
{
	char text[STORE_BOOT_ID_SIZE];
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n = read(fd, text, sizeof(text));
	close(fd);
	if (n != (ssize_t)sizeof(text) || text[STORE_BOOT_ID_SIZE - 1] != '\n')
		return false;
	text[STORE_BOOT_ID_SIZE - 1] = '\0';
	if (strspn(text, "0123456789abcdef-") != STORE_BOOT_ID_SIZE - 1)
		return false;
	memcpy(out, text, sizeof(text));
	return true;
}
