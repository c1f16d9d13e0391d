/* veena's side of the interop tests: reads a bbolt file with src/bbolt and shows it as bolt.go does, or writes it anew.
 *
 *   mirror dump FILE        mirror copy FROM TO        mirror pages FROM (what the file says of itself)
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bbolt/bbolt.h"

static struct err why;

static void must(int rc)
{
	if (rc == 0)
		return;
	fprintf(stderr, "mirror: %s\n", why.msg);
	exit(1);
}

static void show(struct str s)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	for (size_t i = 0; i < s.len; i++) {
		h = (h ^ (uint8_t)s.p[i]) * UINT64_C(0x100000001b3);
		if (s.len <= 32)
			printf("%02x", (uint8_t)s.p[i]);
	}
	if (s.len > 32)
		printf("%zu:%016" PRIx64, s.len, h);
}

static void dump_item(const struct bbolt_item *it)
{
	printf("%u ", it->depth);
	show(it->key);
	if (it->event == BBOLT_RECORD) {
		printf(" = ");
		show(it->value);
	} else if (it->event == BBOLT_BUCKET) {
		printf(" { %" PRIu64, it->sequence);
	} else {
		printf("}");
	}
	printf("\n");
}

static void write_item(struct bbolt_writer *w, const struct bbolt_item *it)
{
	if (it->event == BBOLT_RECORD)
		must(bbolt_writer_put(w, it->key, it->value, &why));
	else if (it->event == BBOLT_BUCKET)
		must(bbolt_writer_begin_bucket(w, it->key, it->sequence, &why));
	else
		must(bbolt_writer_end_bucket(w, &why));
}

int main(int argc, char **argv)
{
	struct bbolt_file *f;
	struct bbolt_writer *w = NULL;
	struct bbolt_item it;
	int fd = -1;
	if (argc < 3)
		return 2;
	must(bbolt_open(argv[2], &f, &why));
	const struct bbolt_info *info = bbolt_get_info(f);
	if (strcmp(argv[1], "copy") == 0) {
		fd = open(argv[3], O_RDWR | O_CREAT | O_TRUNC, 0600);
		w = bbolt_writer_new(fd, argv[3], info->page_size, info->txn_id < 2 ? 2 : info->txn_id);
	}
	struct bbolt_walk *walk = bbolt_walk_new(f);
	for (;;) {
		must(bbolt_walk_next(walk, &it, &why));
		if (it.event == BBOLT_END)
			break;
		if (w)
			write_item(w, &it);
		else if (strcmp(argv[1], "dump") == 0)
			dump_item(&it);
	}
	if (w)
		must(bbolt_writer_finish(w, &why));
	if (strcmp(argv[1], "pages") == 0)
		printf("page size %" PRIu32 ", %" PRIu64 " pages, %" PRIu64 " free, %" PRIu64
		       " lost, transaction %" PRIu64 "\n",
		       info->page_size, info->page_count, info->free_pages, bbolt_walk_lost_pages(walk), info->txn_id);
	bbolt_writer_free(w);
	bbolt_walk_free(walk);
	bbolt_close(f);
	if (fd >= 0)
		close(fd);
	return 0;
}
