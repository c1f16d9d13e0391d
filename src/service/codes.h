/* service/codes.h - the words that an answer's "code" may have: one table for the daemon, its tests and `veena help
 * codes`.
 *
 * Words are part of the contract: clients act on them, so none ever changes its meaning or is used for something else.
 * An answer whose word does not stand here is a fault of this program: it is logged, and tests fail.
 * Thread: any; the table is constant.
 */
#ifndef SERVICE_CODES_H
#define SERVICE_CODES_H

#include <stddef.h>

struct svc_code {
	int status; /* HTTP's */
	const char *word;
	const char *meaning; /* one line for people */
};

extern const struct svc_code svc_codes[]; /* by status */
extern const size_t svc_code_count;

const struct svc_code *svc_code_find(int status, const char *word); /* NULL: no such */

#endif /* SERVICE_CODES_H */
