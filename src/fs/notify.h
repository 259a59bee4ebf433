/*
 * The notifier: the one thread that tells the kernel to drop names.  A handler
 * must never do it, since the kernel holds the directory's lock while it waits
 * for the handler.  Queueing is for any thread and never blocks on the kernel.
 *
 * Where the kernel can (7.44), one message makes it look up every name again
 * and takes no lock.  Elsewhere names are dropped one by one, for which the
 * kernel takes the directory's lock: if the server is killed while a lookup
 * there waits for it, that lookup keeps waiting until the connection is
 * aborted.
 */
#ifndef TASD_FS_NOTIFY_H
#define TASD_FS_NOTIFY_H

#include "inode.h"

struct tasd_notifier;

tasd_err tasd_notifier_new(struct tasd_fs *fs, struct tasd_notifier **ret);
/* Stops the thread; what is still queued is dropped. */
void tasd_notifier_free(struct tasd_notifier *notifier);

/* The kernel forgets what it knows of name in directory dir. */
void tasd_notifier_drop_name(struct tasd_notifier *notifier,
	struct tasd_inode *dir, const char *name, size_t len);

/* May one message drop all names? If not, it is said name by name. */
bool tasd_notifier_has_epoch(const struct tasd_notifier *notifier);

/* The kernel looks up again whatever name it is asked for next. */
void tasd_notifier_drop_all(struct tasd_notifier *notifier);

/* Memory was freed in quantity: give it back to the system, soon. */
void tasd_notifier_trim(struct tasd_notifier *notifier);

#endif
