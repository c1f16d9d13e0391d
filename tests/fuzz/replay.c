/* tests/fuzz/replay.c - runs a fuzzer's corpus once, without libFuzzer: what `make check` does under gcc's ASan.
 *
 * Each file of the folders named as arguments is one input; the empty input is always tried. A finding ends the
 * program through the sanitizer or an assert, so that reaching the last line means all passed.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Exactly as large as the input, so that ASan sees the first byte beyond it. */
static void run_file(const char *path)
{
	struct stat st;
	FILE *f = fopen(path, "rb");
	uint8_t *bytes;
	size_t len;

	if (!f || fstat(fileno(f), &st) != 0) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		exit(1);
	}
	len = (size_t)st.st_size;
	bytes = malloc(len ? len : 1);
	if (!bytes || fread(bytes, 1, len, f) != len) {
		fprintf(stderr, "%s: cannot read %zu bytes\n", path, len);
		exit(1);
	}
	fclose(f);
	(void)LLVMFuzzerTestOneInput(bytes, len);
	free(bytes);
}

static unsigned run_dir(const char *dir)
{
	struct dirent **names;
	unsigned ran = 0;
	int n = scandir(dir, &names, NULL, alphasort);

	if (n < 0) {
		fprintf(stderr, "%s: %s\n", dir, strerror(errno));
		exit(1);
	}
	for (int i = 0; i < n; i++) {
		char path[4096];

		if (names[i]->d_name[0] != '.') {
			snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
			run_file(path);
			ran++;
		}
		free(names[i]);
	}
	free(names);
	return ran;
}

int main(int argc, char **argv)
{
	static const uint8_t nothing[1];
	unsigned ran = 1;

	(void)LLVMFuzzerTestOneInput(nothing, 0);
	for (int i = 1; i < argc; i++)
		ran += run_dir(argv[i]);
	printf("%u passed, 0 failed\n", ran);
	return 0;
}
