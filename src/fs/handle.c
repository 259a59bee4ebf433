/*
 * A doubly linked ring through the mount's own head.
 */
#include "handle.h"
#include "fs.h"
#include "serve.h"

void tasd_handle_add(
	struct tasd_fs *fs, struct tasd_handle *handle, bool is_dir)
{
	struct tasd_handle *head = &fs->handles;

	handle->is_dir = is_dir;
	pthread_mutex_lock(&fs->serve_lock);
	handle->prev = head;
	handle->next = head->next;
	head->next->prev = handle;
	head->next = handle;
	pthread_mutex_unlock(&fs->serve_lock);
}

void tasd_handle_drop(struct tasd_fs *fs, struct tasd_handle *handle)
{
	pthread_mutex_lock(&fs->serve_lock);
	handle->prev->next = handle->next;
	handle->next->prev = handle->prev;
	pthread_mutex_unlock(&fs->serve_lock);
}

void tasd_handles_drain(struct tasd_fs *fs)
{
	struct tasd_handle *handle = fs->handles.next, *next;

	for (; handle != &fs->handles; handle = next) {
		next = handle->next;
		/* Backing ids went with the connection. */
		if (handle->is_dir)
			tasd_dir_free((struct tasd_dir *)handle);
		else
			tasd_open_free((struct tasd_open *)handle);
	}
}
