#include "fsm/users.h"

int fsm_get_user(struct store_txn *txn, struct str name, struct str *record)
{
	return store_get(txn, STORE_USERS, name, record);
}

int fsm_user_iter_open(struct fsm_user_iter *it, struct store_txn *txn)
{
	it->started = false;
	return store_cursor_open(txn, STORE_USERS, &it->cursor);
}

int fsm_user_iter_next(struct fsm_user_iter *it, struct str *name, struct str *record)
{
	if (it->started)
		return store_cursor_next(it->cursor, name, record);
	it->started = true;
	return store_cursor_seek(it->cursor, (struct str){ NULL, 0 }, name, record);
}

void fsm_user_iter_close(struct fsm_user_iter *it)
{
	store_cursor_close(it->cursor);
	it->cursor = NULL;
}
