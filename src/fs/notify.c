/*
 * A queue of names under one lock, and a thread that empties it.  Each item
 * holds a reference on its directory's node; the kernel answers ENOENT for what
 * it does not know, which is as good as done.
 */
#include "abi.h"
#include "fs.h"
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* More than this waiting means that the kernel does not keep up; the names
 * dropped here are found stale by OPEN all the same. */
#define QUEUE_MAX 65536

struct item {
	struct item *next;
	struct tasd_inode *dir; /* referenced */
	size_t len;
	char name[];
};

struct tasd_notifier {
	struct tasd_fs *fs;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct item *first, **last;
	size_t waiting;
	bool stop, trim, all;
	bool has_epoch; /* atomic: no try has been refused */
};

static void item_free(struct item *item)
{
	tasd_inode_put(item->dir);
	free(item);
}

static void send_epoch(struct tasd_notifier *n)
{
	struct tasd_fuse_out_header message = {
		.len = sizeof(message), .error = TASD_FUSE_NOTIFY_INC_EPOCH};

	if (write(fuse_session_fd(n->fs->session), &message, sizeof(message)) <
			0 &&
		errno == EINVAL)
		__atomic_store_n(&n->has_epoch, false, __ATOMIC_RELAXED);
	TASD_STAT_ADD(n->fs, notified, 1);
}

static void *notify_thread(void *arg)
{
	struct tasd_notifier *n = arg;

	pthread_mutex_lock(&n->lock);
	while (!n->stop) {
		struct item *item = n->first;
		bool trim = n->trim, all = n->all;

		if (!item && !trim && !all) {
			pthread_cond_wait(&n->wake, &n->lock);
			continue;
		}
		n->trim = n->all = false;
		if (item) {
			n->first = item->next;
			if (!n->first)
				n->last = &n->first;
			n->waiting--;
		}
		pthread_mutex_unlock(&n->lock);
		if (all)
			send_epoch(n);
		if (item) {
			fuse_lowlevel_notify_inval_entry(n->fs->session,
				tasd_inode_id(item->dir), item->name,
				item->len);
			TASD_STAT_ADD(n->fs, notified, 1);
			item_free(item);
		}
		if (trim)
			malloc_trim(0);
		pthread_mutex_lock(&n->lock);
	}
	pthread_mutex_unlock(&n->lock);
	return NULL;
}

tasd_err tasd_notifier_new(struct tasd_fs *fs, struct tasd_notifier **ret)
{
	struct tasd_notifier *n = calloc(1, sizeof(*n));
	sigset_t all, old;
	int err;

	if (!n)
		return -ENOMEM;
	n->fs = fs;
	n->last = &n->first;
	n->has_epoch = true;
	pthread_mutex_init(&n->lock, NULL);
	pthread_cond_init(&n->wake, NULL);
	/* Signals are for the main thread, which ends the session. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	err = pthread_create(&n->thread, NULL, notify_thread, n);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err) {
		free(n);
		return -err;
	}
	*ret = n;
	return 0;
}

void tasd_notifier_free(struct tasd_notifier *n)
{
	if (!n)
		return;
	pthread_mutex_lock(&n->lock);
	n->stop = true;
	pthread_cond_signal(&n->wake);
	pthread_mutex_unlock(&n->lock);
	pthread_join(n->thread, NULL);
	while (n->first) {
		struct item *item = n->first;

		n->first = item->next;
		item_free(item);
	}
	pthread_mutex_destroy(&n->lock);
	pthread_cond_destroy(&n->wake);
	free(n);
}

void tasd_notifier_drop_name(struct tasd_notifier *n, struct tasd_inode *dir,
	const char *name, size_t len)
{
	struct item *item = malloc(sizeof(*item) + len + 1);

	if (!item)
		return; /* OPEN finds it stale */
	item->next = NULL;
	item->dir = tasd_inode_get(dir);
	item->len = len;
	memcpy(item->name, name, len);
	item->name[len] = '\0';
	pthread_mutex_lock(&n->lock);
	if (n->waiting < QUEUE_MAX) {
		*n->last = item;
		n->last = &item->next;
		n->waiting++;
		pthread_cond_signal(&n->wake);
		item = NULL;
	}
	pthread_mutex_unlock(&n->lock);
	if (item)
		item_free(item);
}

bool tasd_notifier_has_epoch(const struct tasd_notifier *n)
{
	return __atomic_load_n(&n->has_epoch, __ATOMIC_RELAXED);
}

void tasd_notifier_drop_all(struct tasd_notifier *n)
{
	pthread_mutex_lock(&n->lock);
	n->all = true;
	pthread_cond_signal(&n->wake);
	pthread_mutex_unlock(&n->lock);
}

void tasd_notifier_trim(struct tasd_notifier *n)
{
	pthread_mutex_lock(&n->lock);
	n->trim = true;
	pthread_cond_signal(&n->wake);
	pthread_mutex_unlock(&n->lock);
}
